"""A guarded drain of a full cluster makes a node autoscaler add a node; on the real control plane, with a stand-in for the autoscaler.

The stand-in knows what cluster-autoscaler and Karpenter look for, and no more. The real Karpenter: ``tests/strangers``.
"""

import threading
from contextlib import contextmanager

import pytest

from harness.controlplane.world import node_of
from rescheduler.model.names import LABEL_PLACEHOLDER, NODE_REQUEST, NODE_REQUEST_SCHEDULER

from .evictions_of_others import DRAINED, OWN, drain, guarded_moves, guarding

pytestmark = pytest.mark.realcluster

PRESENT = {"reservations": {"nodeAutoscaler": "Present"}}
OURS = f"/api/v1/namespaces/{OWN}/pods"


def unschedulable(pod):
    said = (pod.get("status") or {}).get("conditions") or ()
    return not node_of(pod) and any(
        (c["type"], c["status"], c.get("reason")) == ("PodScheduled", "False", "Unschedulable") for c in said
    )


def requests(world):
    found = world.api.get(OURS, labelSelector=f"{LABEL_PLACEHOLDER}={NODE_REQUEST}").expect()
    return found.items


@contextmanager
def node_autoscaler(world, cpu):
    """Adds one node once pods have been pending for a moment; gives what it saw then."""
    stop, seen, faults = threading.Event(), [], []

    def work():
        try:
            while not stop.wait(1.0):
                seen.extend(filter(unschedulable, requests(world)))
                if seen:
                    world.node("added", cpu=cpu)
                    return
        except Exception as error:  # noqa: BLE001 - told below
            faults.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join(10.0)
    assert not faults


def test_a_guarded_drain_of_a_full_cluster_gets_a_node_and_lands_there(guarded_plane, world):
    with guarding(guarded_plane, world, sections=PRESENT):
        source = world.node("source", cpu="2")
        world.running("Deployment", "web", 2)
        with node_autoscaler(world, "2") as seen:
            done = drain(guarded_plane, source, timeout="100s")
        assert done.returncode == DRAINED, done.stderr
        assert {node_of(pod) for pod in world.wait_ready("web", 2)} == {f"{world.namespace}-added"}
        assert {pod["spec"]["schedulerName"] for pod in seen} == {NODE_REQUEST_SCHEDULER}
        world.wait(lambda: {m["status"]["phase"] for m in guarded_moves(world)} == {"Succeeded"})
        world.wait(lambda: not requests(world))


def test_the_controller_writes_conditions_of_no_other_pods(guarded_plane, world):
    """A stolen token makes no pod of others ask for nodes, and lets none look like one that does."""
    token = guarded_plane.account()
    said = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "x"}]
    for labels in ({}, {LABEL_PLACEHOLDER: NODE_REQUEST}):
        pod = world.pod(f"bystander-{len(labels)}", gates=("test/never",), labels=labels)
        path = world.path("pods", pod["metadata"]["name"], "status")
        answer = token.patch(path, {"status": {"conditions": said}})
        assert answer.status == 403, answer.body
