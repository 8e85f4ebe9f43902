"""The order in which room is handed over: placeholder, nominate, delete, wait, ungate."""

import pytest

from harness.controlplane.world import keys_on, node_of
from rescheduler.model.controller_key import controller_key
from rescheduler.model.names import GATE


def placeholder(world, name, node, cpu="2"):
    pod = world.pod(
        name,
        cpu,
        **world.like_placeholders(),
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
                    ]
                }
            }
        },
    )
    assert world.wait_bound(name) == node
    return pod


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_an_evicted_pod_lands_in_its_room_although_others_wait(world, kind):
    source = world.node("source", cpu="2")
    (pod,) = world.running(kind, "web", 1, cpu="2")
    target = world.node("target", cpu="2")
    held = placeholder(world, "held", target)
    for number in range(3):
        world.pod(f"rival{number}", cpu="2" if number else "1")
        world.wait_unschedulable(f"rival{number}")
    key = controller_key(world.namespace, pod["metadata"]["ownerReferences"][0]["uid"])
    gate_keys = "/api/v1/namespaces/rescheduler/configmaps/gate-keys"
    world.api.patch(gate_keys, keys_on({key: "room"})).expect(200)
    try:
        world.wait(lambda: _is_gated(world, pod))
        world.evict(pod).expect(201)
        replacement = world.wait(
            lambda: next(
                (p for p in world.pods("web") if p["metadata"]["uid"] != pod["metadata"]["uid"]), None
            )
        )
    finally:
        world.api.patch(gate_keys, {"data": {key: None}}).expect(200)
    world.nominate(replacement, target).expect(200)
    world.delete_pod(held).expect(200)
    world.wait_gone(held)
    world.ungate(replacement).expect(200)
    assert world.wait_bound(replacement["metadata"]["name"]) == target
    world.wait_ready("web", 1)
    assert world.wait(lambda: [p for p in world.pods() if node_of(p) == source])


def _is_gated(world, pod):
    probe = {
        "metadata": {"name": "probe", "ownerReferences": pod["metadata"]["ownerReferences"]},
        "spec": world.spec(),
    }
    made = world.api.create(world.path("pods"), probe, dryRun="All").expect(201).body
    return made["spec"].get("schedulingGates") == [{"name": GATE}]


def test_a_placeholder_waits_in_the_words_of_the_scheduler(world):
    node = world.node("a", cpu="1")
    world.pod("held", "2", **world.like_placeholders(), nodeSelector={"kubernetes.io/hostname": node})
    assert "Insufficient cpu" in world.wait_unschedulable("held")


def test_the_kubelet_rejects_what_a_running_placeholder_leaves_no_room_for(world):
    node = world.node("a", cpu="2")
    placeholder(world, "held", node)
    world.wait(lambda: world.get_pod("held")["status"].get("phase") == "Running")
    world.pod("direct", cpu="2", nodeName=node)
    status = world.wait(lambda: (s := world.get_pod("direct")["status"]).get("phase") == "Failed" and s)
    assert status["reason"] == "OutOfcpu"
