"""Pods of higher priority that only a placeholder keeps out: nobody is evicted, and nothing is handed over, for them to preempt."""

import pytest
from scenes import Scene

from harness.histories.clusters import lone_pod
from kube_sandbox.controllers.unstructured import POD, deleting, spec
from rescheduler.model.names import HOSTNAME


def arrives(scene, node, *, cpu="2", priority_class="high", **more):
    """A pod that may run on one node only, and finds no room there."""
    pod = lone_pod("waiter", cpu_milli=int(cpu) * 1000, priority_class=priority_class)
    pod["spec"]["nodeSelector"] = {HOSTNAME: node}
    pod["spec"].update(more)
    scene.api.create(pod)


def waiter(scene, node, **more):
    """The same, and its scheduler has refused it."""
    arrives(scene, node, **more)
    scene.advance(2.0)
    assert "nodeName" not in spec(scene.api.get(POD, "default", "waiter"))


def node_of(scene, name="waiter"):
    return spec(scene.api.get(POD, "default", name)).get("nodeName", "")


def lost(scene, app="web"):
    """Pods of the workload that were made away with from now on."""
    gone = []

    def hear(change):
        pod = change.object
        if pod["kind"] == "Pod" and pod["metadata"].get("labels", {}).get("app") == app and deleting(pod):
            gone.append(pod["metadata"]["name"])

    scene.api.subscribe(hear)
    return gone


def held(nodes=None, **more):
    """An Available Reservation of 4 CPUs on n2, for a workload without pods."""
    scene = Scene(nodes or {"n1": 6, "n2": 4}).workload(nodes=["n1"], cpu="4")
    scene.scale(0)
    scene.until(lambda: not scene.pods())
    scene.start()
    scene.held_room(node="n2", cpu="4", **more)
    return scene


@pytest.mark.parametrize("several", [False, True], ids=["for one pod", "for several"])
def test_a_reservation_is_given_up_before_its_owner_would_be_preempted(several):
    scene = held(**({"allocateOnce": False} if several else {}))
    waiter(scene, "n2")
    gone = lost(scene)
    scene.scale(1)
    scene.until(lambda: scene.phase("room") == "Failed", 20.0)
    assert scene.reason("room") == "HigherPriorityWaits"
    assert "default/waiter" in scene.state("room")["conditions"][-1]["message"]
    scene.until(lambda: len(scene.ready()) == 1 and node_of(scene) == "n2", 20.0)
    scene.advance(10.0)
    assert gone == []
    assert scene.leftovers() == []


def test_nobody_is_evicted_into_capacity_that_a_waiting_pod_would_take():
    scene = Scene({"n1": 4, "n2": 4}).workload(nodes=["n1"], cpu="3")
    scene.start()
    gone = lost(scene)
    move = scene.move(scene.pods()[0], "n2")
    scene.until(lambda: any(spec(pod).get("nodeName") for pod in scene.placeholders()), 20.0)
    arrives(scene, "n2")
    scene.until(lambda: scene.over(move), 60.0)
    assert (scene.phase(move), scene.reason(move)) == ("Failed", "HigherPriorityWaits")
    scene.advance(10.0)
    assert gone == []
    assert node_of(scene) == "n2"
    assert scene.leftovers() == []


def test_a_move_does_not_begin_towards_a_node_that_a_waiting_pod_is_about_to_take():
    scene = held({"n1": 6, "n2": 4, "n3": 6})
    waiter(scene, "n2")
    scene.workload(name="other", nodes=["n1"], cpu="1")
    move = scene.move(scene.pods("other")[0], "")
    scene.until(lambda: scene.over(move), 60.0)
    assert (scene.phase(move), scene.state(move)["nodeName"]) == ("Succeeded", "n3")


def test_an_owner_that_is_preempted_right_after_its_landing_is_a_failure_that_is_told():
    scene = held()
    gone, seen = lost(scene), []

    def hear(change):
        pod = change.object
        web = pod["kind"] == "Pod" and pod["metadata"]["labels"].get("app") == "web"
        if web and spec(pod).get("nodeName") == "n2" and not seen:
            seen.append(pod)
            arrives(scene, "n2")

    scene.api.subscribe(hear)
    scene.scale(1)
    scene.until(lambda: bool(seen) and node_of(scene) == "n2", 40.0)
    scene.advance(12.0)
    assert gone
    assert (scene.phase("room"), scene.reason("room")) == ("Failed", "ClaimantLost")
    assert [spec(pod)["nodeName"] for pod in scene.ready()] == ["n1"]
    assert scene.leftovers() == []
