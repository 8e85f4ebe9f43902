"""``explain node`` and ``explain reservation`` in words, and the flags that stand where kubectl takes them."""

import json
import time

import pytest

from harness import builders as b
from rescheduler.kube.credentials import acting_as

from .conftest import NOW

CONFIG = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\npolicies: [{name: NodeTaints, after: 0s}]\n"


@pytest.fixture
def explain(command, dump, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)

    def run(kind, objects, *words):
        return command("explain", kind, *words, "--from", dump(objects), "--now", NOW, "--config", config)

    return run


def test_a_node_is_told_with_what_leaves_it_and_whether_it_could_be_drained(explain, untidy):
    done = explain("node", untidy, "n1", "-o", "json")
    assert done.exit_code == 0, done.output
    lines = json.loads(done.stdout)["lines"]
    said = {line["about"]: line["message"] for line in lines}
    assert {"state", "requested"} <= said.keys()
    assert ("drain" in said) != ("refuses a drain" in said)
    assert "node/n1" in explain("node", untidy, "node/n1").stdout


def test_a_pod_that_a_drain_would_evict_for_good_is_told_as_drain_tells_it(explain):
    objects = [b.node("n1").manifest(), b.node("n2").manifest(), b.pod("bare").on("n1").manifest()]
    said = explain("node", objects, "n1").stdout
    assert (
        "refuses a drain  default/bare: no controller would bring it back: evict it for good with --force"
        in said
    )
    assert "possible" not in said
    empty = explain("node", objects, "n2").stdout
    assert "drain      possible with --ignore-daemonsets: 0 pods would be moved" in empty


def test_a_node_that_is_not_there_is_a_mistake_of_the_caller(explain, untidy):
    done = explain("node", untidy, "n77")
    assert done.exit_code != 0
    assert "n77" in done.stderr
    assert done.stderr.startswith("error: ")


def test_a_reservation_is_told_with_phase_owner_and_end(command, cluster):
    _, kubeconfig = cluster
    made = command("reserve", "create", "--no-wait", "--name", "spare", "--cpu", "1", "--memory", "1Gi", "--owner-selector", "app=web",
                   "--kubeconfig", kubeconfig)  # fmt: skip
    assert made.exit_code == 0, made.output
    done = command("explain", "reservation/spare", "-o", "json", "--kubeconfig", kubeconfig)
    assert done.exit_code == 0, done.output
    said = {line["about"]: line["message"] for line in json.loads(done.stdout)["lines"]}
    assert said["wants"] == "cpu 1, memory 1Gi"
    assert said["for"] == "pods of namespace default and app=web"
    assert {"phase", "since", "ends"} <= said.keys()


@pytest.mark.parametrize(
    "words",
    [("-n", "shop", "history"), ("history", "-n", "shop"), ("-nshop", "history"), ("--namespace=shop", "history")],
)  # fmt: skip
def test_flags_count_before_the_command_as_behind_it(command, cluster, words):
    _, kubeconfig = cluster
    done = command("--kubeconfig", kubeconfig, *words, "-o", "yaml")
    assert done.exit_code == 0, done.output


def test_a_flag_of_no_command_before_it_is_refused(command):
    done = command("--no-such-flag", "history")
    assert done.exit_code == 2
    assert "no-such-flag" in done.stderr


def test_the_impersonated_user_is_told_to_the_api_server(command, cluster):
    assert acting_as("Jürgen") == (("Impersonate-User", "J\xc3\xbcrgen"),)
    _, kubeconfig = cluster
    forged = "jane\r\nImpersonate-Group: system:masters"
    done = command("history", "-n", "shop", "--as", forged, "--kubeconfig", kubeconfig)
    assert done.exit_code != 0
    assert "line break" in done.stderr
    assert command("history", "-n", "shop", "--as", "jane", "--kubeconfig", kubeconfig).exit_code == 0


def test_a_time_limit_that_is_none_is_refused(command, cluster):
    _, kubeconfig = cluster
    assert command("history", "--request-timeout", "fast", "--kubeconfig", kubeconfig).exit_code == 2
    assert command("history", "--request-timeout", "5", "--kubeconfig", kubeconfig).exit_code == 0
    refused = command("run", "--request-timeout", "5", "--kubeconfig", kubeconfig)
    assert (refused.exit_code, "not for run" in refused.stderr) == (2, True)


def test_only_what_is_about_the_namespace_is_shown_of_a_plan(command, dump, untidy, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    words = ("plan", "--from", dump(untidy), "--now", NOW, "--config", config, "-o", "json")
    every, none = command(*words), command(*words, "-n", "elsewhere")
    assert json.loads(every.stdout)["moves"]
    assert json.loads(none.stdout)["moves"] == []
    assert "shown: 0 of" in none.stderr
    assert command(*words, "-n", "shop", "-A").exit_code == 2


def test_reservations_that_ended_are_listed_only_if_asked_for(command, cluster):
    api, kubeconfig = cluster
    name = f"ended-{int(time.time())}"
    made = command(
        "reserve", "create", "--no-wait", "--name", name, "--cpu", "1", "--owner-selector", "app=web",
        "--kubeconfig", kubeconfig,
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    path = f"/apis/rescheduler.dev/v1alpha1/reservations/{name}"
    api.patch(f"{path}/status", {"status": {"phase": "Failed"}}).expect(200)
    listed = command("reserve", "list", "--kubeconfig", kubeconfig)
    assert name not in listed.stdout
    assert "--all shows" in listed.stderr
    assert name in command("reserve", "list", "--all", "--kubeconfig", kubeconfig).stdout


def test_a_window_is_deleted_and_no_other(command, cluster):
    _, kubeconfig = cluster

    def window(*words):
        return command("reserve", "window", *words, "--kubeconfig", kubeconfig)

    for name in ("nightly", "weekly"):
        made = window("create", name, "--cron", "0 3 * * *", "--duration", "1h", "--ago", "2h", "--pods", "1",
                      "--cpu", "1", "--owner-selector", "app=report", "-n", "night")  # fmt: skip
        assert made.exit_code == 0, made.output
    would = window("delete", "nightly", "--dry-run")
    assert would.stdout == "reservationwindow.rescheduler.dev/nightly would be deleted\n"
    assert window("delete", "nightly").stdout == "reservationwindow.rescheduler.dev/nightly deleted\n"
    assert window("list", "-o", "name").stdout == "reservationwindow.rescheduler.dev/weekly\n"
    assert window("delete", "nightly").exit_code == 2
