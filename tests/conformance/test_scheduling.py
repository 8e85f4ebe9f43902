"""The scheduler as clients see it: bindings, the words of refusals, priorities, preemption, nominations."""

import pytest

from harness.controlplane.nodes import cordon
from harness.controlplane.world import condition, node_of


@pytest.fixture(scope="module")
def high(backend):
    """A PriorityClass above the default."""
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": f"conformance-high-{backend.name}"},
        "value": 1000,
    }
    assert backend.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", body).status in (201, 409)
    return body["metadata"]["name"]


def test_a_pod_that_fits_is_bound(world):
    node = world.node("a")
    world.pod("p")
    assert world.wait_bound("p") == node
    assert condition(world.get_pod("p"), "PodScheduled")["status"] == "True"


def test_the_emptier_node_is_preferred(world):
    first, second = world.node("a"), world.node("b")
    world.pod("filler", cpu="2", nodeName=first)
    world.wait(lambda: world.get_pod("filler")["status"].get("phase") == "Running")
    world.pod("p")
    assert world.wait_bound("p") == second


def test_full_nodes_are_named_in_the_scheduler_s_words(world):
    world.node("a", cpu="1")
    world.node("b", cpu="1")
    world.pod("p", cpu="2")
    message = world.wait_unschedulable("p")
    assert "2 Insufficient cpu" in message
    assert message.startswith("0/")


@pytest.mark.parametrize(("spec", "words"), [
    ({"tolerations": []}, "had untolerated taint"),
    ({"nodeSelector": {"disk": "ssd"}}, "didn't match Pod's node affinity/selector"),
])  # fmt: skip
def test_refusals_are_the_scheduler_s_own_words(world, spec, words):
    world.node("a")
    world.pod("p", **spec)
    world.wait_unschedulable("p", words)


def test_a_cordoned_node_is_no_target(world):
    node = world.node("a")
    cordon(world.api, node).expect(200)
    world.pod("p")
    world.wait_unschedulable("p", "were unschedulable")
    cordon(world.api, node, unschedulable=False).expect(200)
    assert world.wait_bound("p") == node


def test_a_gated_pod_waits_and_then_goes(world):
    node = world.node("a")
    pod = world.pod("p", gates=["example.com/wait"])
    world.wait(lambda: condition(world.get_pod("p"), "PodScheduled").get("reason") == "SchedulingGated")
    assert node_of(world.get_pod("p")) == ""
    world.ungate(pod, "example.com/wait").expect(200)
    assert world.wait_bound("p") == node


def test_room_that_becomes_free_is_used(world):
    node = world.node("a", cpu="2")
    first = world.pod("first", cpu="2")
    world.wait_bound("first")
    world.pod("second", cpu="2")
    world.wait_unschedulable("second", "Insufficient cpu")
    world.delete_pod(first).expect(200)
    assert world.wait_bound("second") == node


def test_a_pod_of_higher_priority_preempts(world, high):
    node = world.node("a", cpu="2")
    victim = world.pod("victim", cpu="2")
    world.wait_bound("victim")
    world.pod("strong", cpu="2", priorityClassName=high)
    world.wait_gone(victim)
    assert world.wait_bound("strong") == node


def test_preemption_policy_never_waits(world, high):
    world.node("a", cpu="2")
    world.pod("weak", cpu="2")
    world.wait_bound("weak")
    world.pod("polite", cpu="2", **world.like_placeholders())
    message = world.wait_unschedulable("polite")
    assert "preemption" in message
    assert "deletionTimestamp" not in world.get_pod("weak")["metadata"]


def test_placeholders_are_not_preempted_by_workloads(world, high):
    world.node("a", cpu="2")
    world.pod("placeholder", cpu="2", **world.like_placeholders())
    world.wait_bound("placeholder")
    world.pod("strong", cpu="2", priorityClassName=high)
    world.wait_unschedulable("strong", "Insufficient cpu")
    assert "deletionTimestamp" not in world.get_pod("placeholder")["metadata"]


def test_a_soft_placeholder_gives_way_to_any_workload(world):
    node = world.node("a", cpu="2")
    soft = world.pod("soft", cpu="2", **world.like_placeholders(soft=True))
    world.wait_bound("soft")
    world.pod("work", cpu="2")
    world.wait_gone(soft)
    assert world.wait_bound("work") == node


def test_a_nomination_of_a_gated_pod_counts_against_its_equals(world, high):
    node = world.node("a", cpu="2")
    gated = world.pod("gated", cpu="2", gates=["example.com/wait"])
    world.nominate(gated, node).expect(200)
    world.pod("equal", cpu="2")
    world.wait_unschedulable("equal", "Insufficient cpu")
    world.pod("strong", cpu="2", priorityClassName=high)
    assert world.wait_bound("strong") == node


def test_topology_spread_is_kept(world):
    zones = {
        world.node("a", labels={"topology.kubernetes.io/zone": "za"}): "za",
        world.node("b", labels={"topology.kubernetes.io/zone": "zb"}): "zb",
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    for number in range(4):
        world.pod(f"p{number}", cpu="100m", labels={"app": "web"}, topologySpreadConstraints=[spread])
        world.wait_bound(f"p{number}")
    placed = [zones[node_of(pod)] for pod in world.pods("web")]
    assert sorted(placed) == ["za", "za", "zb", "zb"]


def test_anti_affinity_keeps_pods_apart(world):
    world.node("a")
    anti = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
            ]
        }
    }
    world.pod("one", labels={"app": "web"}, affinity=anti)
    world.wait_bound("one")
    world.pod("two", labels={"app": "web"}, affinity=anti)
    world.wait_unschedulable("two", "didn't match pod anti-affinity rules")
