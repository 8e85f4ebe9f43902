"""``rescheduler reserve window`` against the embedded API server: what is made, shown, rehearsed, refused."""

import time

import pytest

from harness.controlplane import manifests
from harness.controlplane.api import Api, HttpTransport
from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Sandbox
from rescheduler.model.names import MAXIMUM_RUNTIME

WINDOWS = "/apis/rescheduler.dev/v1alpha1/reservationwindows"
PODS = "/api/v1/namespaces/default/pods"
NIGHTLY = ("create", "nightly", "--cron", "0 3 * * *", "--duration", "1h", "--ago", "2h", "--pods", "5")
OWNERS = ("--owner-selector", "app=report", "-n", "night")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    kubeconfig = tmp_path_factory.mktemp("windows") / "kubeconfig"
    with Sandbox([SandboxNode(name=f"n{n}", cpu="8500m") for n in range(2)], clock=time.time) as cluster:
        api = Api(HttpTransport(cluster.start(kubeconfig=kubeconfig).url))
        manifests.apply(api, manifests.load())
        yield cluster, api, str(kubeconfig)


@pytest.fixture
def window(served, command):
    _, api, kubeconfig = served
    yield lambda *words: command("reserve", "window", *words, "--kubeconfig", kubeconfig)
    for found in api.get(WINDOWS).items:
        api.delete(f"{WINDOWS}/{found['metadata']['name']}")


def test_one_by_flags_is_made_and_listed(served, window):
    made = window(*NIGHTLY, "--cpu", "2", "--time-zone", "Europe/Berlin", *OWNERS)
    assert (made.exit_code, made.stdout) == (0, "reservationwindow.rescheduler.dev/nightly created\n")
    (found,) = served[1].get(WINDOWS).items
    spec = found["spec"]
    assert (spec["cron"], spec["timeZone"], spec["podNumToReserve"]) == ("0 3 * * *", "Europe/Berlin", 5)
    assert spec["owners"] == [
        {"object": {"namespace": "night"}, "labelSelector": {"matchLabels": {"app": "report"}}}
    ]
    listed = window("list").output
    assert "nightly" in listed
    assert "no controller has looked at it" in listed
    assert window("list", "other").exit_code == 2


def test_a_sum_and_a_dry_run(served, window):
    made = window(*NIGHTLY, "--sum", "--cpu", "32", "--memory", "64Gi", *OWNERS, "--dry-run")
    assert made.stdout == "reservationwindow.rescheduler.dev/nightly would be created\n"
    assert served[1].get(WINDOWS).items == []
    assert window(*NIGHTLY, "--sum", "--cpu", "32", *OWNERS).exit_code == 0
    assert served[1].get(WINDOWS).items[0]["spec"]["resources"] == {"cpu": "32"}


@pytest.mark.crossed
@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)], ids=["create", "dry-run"])
@pytest.mark.parametrize(("wrong", "words"), [
    (("every day", "Etc/UTC"), "five fields"),
    (("61 3 * * *", "Etc/UTC"), "Bad minute"),
    (("0 3 31 2 *", "Etc/UTC"), "Bad day-of-month"),
    (("0 3 * * *", "Europe/Berln"), "did you mean Europe/Berlin?"),
    (("0 3 * * *", "Mars/Olympus"), "not in the IANA data base"),
])  # fmt: skip
def test_a_schedule_that_no_controller_can_read_is_refused(served, window, wrong, words, dry_run):
    cron, zone = wrong
    given = [word.replace("0 3 * * *", cron) for word in NIGHTLY]
    refused = window(*given, "--cpu", "2", "--time-zone", zone, *OWNERS, *dry_run)
    assert refused.exit_code == 2
    assert words in refused.stderr
    assert served[1].get(WINDOWS).items == []


def test_a_rehearsal_says_what_there_would_be_now_and_by_when_the_rest(served, window):
    cluster, api, _ = served
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "6"}}}
    for name, runs in (("ends", "90m"), ("silent", "")):
        notes = {MAXIMUM_RUNTIME: runs} if runs else {}
        meta = {"name": name, "annotations": notes}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}
        api.create(PODS, body).expect()
    cluster.wait_for(lambda: all(p["spec"].get("nodeName") for p in api.get(PODS).items), 30)
    in_twelve_hours = f"0 {(time.gmtime().tm_hour + 12) % 24} * * *"  # whenever the test runs, none is open
    nightly = [in_twelve_hours if word == "0 3 * * *" else word for word in NIGHTLY]
    assert in_twelve_hours in nightly
    window(*nightly, "--cpu", "2", *OWNERS)
    said = window("rehearse", "nightly")
    assert said.exit_code == 0
    first, *where, last = said.output.splitlines()
    assert first.startswith("if it began now: 2 nodes, 2 of 5 rooms, 4 of 10 CPUs, the rest by ")
    assert where == ["  n0: 1 room", "  n1: 1 room"]
    assert last.startswith("the next window: ")
    served[1].delete(f"{WINDOWS}/nightly")
    window(*[word if word != "5" else "9" for word in nightly], "--cpu", "2", *OWNERS)
    said = window("rehearse", "nightly")
    assert said.exit_code == 3
    assert "5 of 9 rooms are foreseen; the rest is gathered from what becomes free" in said.output
    assert window("rehearse", "other").exit_code == 2
