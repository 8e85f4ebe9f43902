"""``rescheduler explain pod`` says whether the controller moves a pod, and everything that keeps it."""

import json
import time

import pytest

from harness.builders import node, pod
from rescheduler.model.past_moves import PastMove, encode_past_move
from rescheduler.model.times import parse_timestamp

from .conftest import NOW

NOW_S = parse_timestamp(NOW)
CONFIG = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\npolicies: [{name: NodeTaints, after: 0s}]\n"


@pytest.fixture
def explain(command, dump, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)

    def run(objects, *words):
        done = command("explain", "pod", *words, "--from", dump(objects), "--now", NOW, "--config", config)
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


def test_a_pod_that_would_be_moved_and_why(explain, untidy):
    text = explain(untidy, "shop/web-1")
    assert "would be moved to n" in text
    assert "NodeTaints" in text
    document = json.loads(explain(untidy, "shop/web-1", "-o", "json"))
    assert document["move"]["policy"] == "NodeTaints"


def test_a_pod_is_named_as_kubectl_names_it_and_a_mistyped_name_gets_a_suggestion(
    explain, command, dump, untidy
):
    text = explain(untidy, "shop/web-1")
    assert explain(untidy, "-n", "shop", "web-1") == text
    assert explain(untidy, "-n", "shop", "pod/web-1") == text
    kubectls = command("explain", "pod/web-1", "-n", "shop", "--from", dump(untidy), "--now", NOW)
    assert kubectls.stdout == text
    done = command("explain", "pod", "shop/web-11", "--from", dump(untidy), "--now", NOW)
    assert done.exit_code == 2
    assert "there is no pod shop/web-11; did you mean web-1" in done.stderr
    elsewhere = command("explain", "pod", "other/web-1", "--from", dump(untidy), "--now", NOW)
    assert elsewhere.stderr.startswith("error: there is no pod other/web-1; did you mean shop/web-1?")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_explained_although_it_stands_nowhere(explain, phase):
    """As the pods of Jobs that are done, and those that a kubelet has evicted."""
    ended = pod("ended").cpu("1").on("n1").set("status.phase", phase)
    text = explain([one.manifest() for one in (node("n1").cpu("2"), node("n2").cpu("1"), ended)], "ended")
    assert f"default/ended ({phase}, it holds nothing any more): 2 of 2 nodes would take it" in text
    assert f"protected: has ended ({phase})" in text


def test_a_budget_is_named_with_its_namespace(explain, untidy):
    text = explain(untidy, "shop/api-1")
    assert "is not moved: NodeTaints proposes it: DisruptionBudget" in text
    assert "budget shop/api: allows 0 disruptions" in text
    document = json.loads(explain(untidy, "shop/api-1", "-o", "json"))
    assert document["move"]["budgets"] == [{"namespace": "shop", "name": "api", "disruptionsAllowed": 0}]
    assert [s["reason"] for s in document["move"]["skipped"]] == ["DisruptionBudget"]


def test_what_no_policy_proposes_and_what_is_protected_besides(explain, untidy):
    for each in untidy:
        if each["metadata"]["name"] == "web-2":
            each["spec"]["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    text = explain(untidy, "shop/web-2")
    assert "is not moved: no policy finds it badly placed (NodeTaints)" in text
    assert "protected: has data on its node" in text


def test_a_cool_down_is_told_with_its_end(explain, untidy):
    for each in untidy:
        if each["kind"] == "ReplicaSet" and each["metadata"]["name"] == "web":
            uid = each["metadata"]["uid"]
    moved = PastMove(begun_s=NOW_S - 60, evicting_s=NOW_S - 60, ended_s=NOW_S - 60, workload_uid=uid)
    history = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "move-history", "namespace": "rescheduler"},
        "data": {"m": encode_past_move(moved)},
    }
    text = explain([*untidy, history], "shop/web-1")
    assert "is not moved: NodeTaints proposes it: WorkloadCooldown" in text
    assert "cool-down: its workload was moved lately and rests until 2026-11-21T10:2" in text


def test_no_line_is_longer_than_100_columns(explain, untidy):
    for each in untidy:
        if each["kind"] == "Node":
            each["metadata"]["name"] += "-" + "very-long-name-" * 4 + "x"
        if each["kind"] == "Pod":
            each["spec"]["nodeName"] += "-" + "very-long-name-" * 4 + "x"
    text = explain(untidy, "shop/web-1", "shop/api-1")
    assert max(map(len, text.splitlines())) <= 100


def test_on_a_live_cluster_it_goes_by_the_configuration_of_the_controller(work, command):
    (pod,) = work.deploy("web", 1, node="n1")
    path = "/api/v1/namespaces/rescheduler/configmaps/rescheduler"
    before = work.api.get(path).body["data"]["config.yaml"]
    document = {**json.loads(before), "interval": "1h", "policies": [{"name": "NodeAffinity"}]}
    work.api.patch(path, {"data": {"config.yaml": json.dumps(document)}}).expect()
    time.sleep(0.5)
    done = command("explain", "pod", pod, "-n", "default", "--kubeconfig", work.kubeconfig)
    work.api.patch(path, {"data": {"config.yaml": before}}).expect()
    assert "no policy finds it badly placed (NodeAffinity)" in done.stdout
    work.remove("Deployment", "web")
