"""What may be changed on a gated pod, and what nominations look like."""

import pytest

from harness.controlplane.api import STRATEGIC
from harness.controlplane.world import condition, gates_of

ONE, TWO = "example.com/one", "example.com/two"


def required(*values):
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(values)}]}
    return {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        }
    }


@pytest.fixture
def gated(world):
    world.node("a")
    return world.pod("p", gates=[ONE])


def patch(world, spec, kind="application/merge-patch+json"):
    return world.api.patch(world.path("pods", "p"), {"spec": spec}, kind)


def test_a_gated_pod_says_so(world, gated):
    found = world.wait(lambda: condition(world.get_pod("p"), "PodScheduled"))
    assert (found["status"], found["reason"]) == ("False", "SchedulingGated")
    assert found.get("message", "") in ("", "Scheduling is blocked due to non-empty scheduling gates")


def test_gates_cannot_be_added_later(world, gated):
    answer = patch(world, {"schedulingGates": [{"name": ONE}, {"name": TWO}]})
    assert answer.status == 422
    assert gates_of(world.get_pod("p")) == [ONE]


def test_a_gated_pod_may_not_have_a_node(world):
    node = world.node("b")
    body = {"metadata": {"name": "x"}, "spec": world.spec(gates=[ONE], nodeName=node)}
    assert world.api.create(world.path("pods"), body).status == 422


def test_the_node_selector_of_a_gated_pod_may_grow(world, gated):
    assert patch(world, {"nodeSelector": {"disk": "ssd"}}).status == 200
    assert patch(world, {"nodeSelector": {"disk": None}}).status == 422
    assert patch(world, {"nodeSelector": {"disk": "hdd"}}).status == 422


def test_node_affinity_of_a_gated_pod_is_set_and_tightened(world, gated):
    assert patch(world, required("n1", "n2")).status == 200
    loosened = required("n1", "n2", "n3")
    assert patch(world, loosened).status == 422
    tightened = required("n1", "n2")
    terms = tightened["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    terms[0]["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    assert patch(world, tightened).status == 200


def test_one_patch_tightens_and_ungates(world, gated):
    node = f"{world.namespace}-a"
    body = {"schedulingGates": [{"name": ONE, "$patch": "delete"}], **required(node)}
    assert patch(world, body, STRATEGIC).status == 200
    assert world.wait_bound("p") == node


def test_constraints_of_an_ungated_pod_stay(world, gated):
    world.ungate(gated, ONE).expect(200)
    assert patch(world, required("n1")).status == 422
    assert patch(world, {"nodeSelector": {"disk": "ssd"}}).status == 422
    tolerations = [
        {"key": "test.rescheduler.dev/world", "operator": "Exists"},
        {"key": "x", "operator": "Exists"},
    ]
    more = [*world.get_pod("p")["spec"]["tolerations"], {"key": "x", "operator": "Exists"}]
    assert patch(world, {"tolerations": more}).status == 200
    assert tolerations[1] in world.get_pod("p")["spec"]["tolerations"]


def test_other_gates_stay(world):
    world.node("a")
    pod = world.pod("two", gates=[ONE, TWO])
    world.ungate(pod, ONE).expect(200)
    assert gates_of(world.get_pod("two")) == [TWO]


def test_a_nomination_is_written_and_read(world, gated):
    assert world.nominate(gated, f"{world.namespace}-a").status == 200
    assert world.get_pod("p")["status"]["nominatedNodeName"] == f"{world.namespace}-a"


def test_a_nomination_may_name_a_node_that_does_not_exist(world, gated):
    assert world.nominate(gated, "no-such-node").status == 200


def test_requests_of_a_pod_cannot_be_changed_by_a_plain_patch(world, gated):
    containers = [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]
    assert patch(world, {"containers": containers}, STRATEGIC).status == 422
