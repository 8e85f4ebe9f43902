"""Pods that kube-scheduler cannot place start where others have stepped aside for them. On the sandbox, with the whole controller."""

from types import MappingProxyType

import pytest
from scenes import PENDING_PODS, Scene, full_nodes

from harness import documents
from harness.histories.user_requests import MOVE, ROOM
from kube_sandbox.controllers.unstructured import POD, status
from rescheduler.model.kinds import Kind
from rescheduler.model.names import ANNOTATION_MAKES_ROOM, ANNOTATION_PENDING_POD
from tests.seeds import parts


def apart_from(app):
    """Part of a pod spec: never on one node with pods of that workload."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def waits(scene, name="big", cpu="2", spec=MappingProxyType({})):
    """A pod of a Deployment that fits nowhere. ``spec``: more of its spec."""
    pod = documents.pod_spec(cpu, **spec)
    scene.api.create(documents.workload("Deployment", name, 1, pod, namespace="default"))
    scene.until(lambda: scene.pods(name) and status(scene.pods(name)[0]).get("conditions"))


def rooms(scene):
    return [
        r for r in scene.api.list(ROOM) if ANNOTATION_PENDING_POD in (r["metadata"].get("annotations") or {})
    ]


def landed(scene):
    return [p["spec"]["nodeName"] for app in ("big", "a", "b") for p in scene.ready(app)] == [
        "n0",
        "n1",
        "n2",
    ]


def check_end(scene):
    scene.until(lambda: landed(scene), 900.0)
    scene.advance(60.0)
    assert landed(scene)
    assert scene.leftovers() == []
    assert scene.faults == []


def test_the_room_stands_before_anybody_is_evicted_and_the_pod_lands_in_it():
    scene = full_nodes()
    waits(scene, cpu="4")
    name = scene.pods("big")[0]["metadata"]["name"]
    scene.start(document=PENDING_PODS)
    scene.until(lambda: scene.calls.of(lambda call: call.evicts), 300.0)
    (room,) = rooms(scene)
    assert room["metadata"]["annotations"][ANNOTATION_PENDING_POD] == f"default/{name}"
    assert (room["spec"]["preAllocation"], status(room)["phase"]) == (True, "Waiting")
    moves = scene.api.list(MOVE)
    assert {m["metadata"]["annotations"][ANNOTATION_MAKES_ROOM] for m in moves} == {room["metadata"]["name"]}
    check_end(scene)
    assert len(scene.calls.of(lambda call: call.evicts)) == 2
    assert scene.pods("big")[0]["metadata"]["name"] == name, "the very pod that waited"


@pytest.mark.parametrize("kind", [Kind.RESERVATION, Kind.POD_MIGRATION, Kind.POD])
def test_room_is_made_at_the_first_try_whichever_watch_is_behind(kind):
    """The moves may be seen before the Reservation that they make room for."""
    scene = full_nodes()
    waits(scene, cpu="4")
    scene.start(document=PENDING_PODS)
    scene.program.caches.lag(2.0, {kind})
    check_end(scene)
    assert {status(m)["phase"] for m in scene.api.list(MOVE)} == {"Succeeded"}


def test_others_that_wait_for_room_do_not_get_it():
    scene = full_nodes()
    waits(scene, cpu="4")
    scene.crowd(4, cpu_milli=3500)
    scene.start(document=PENDING_PODS)
    check_end(scene)


@pytest.mark.parametrize("size", [2100, 3000])
def test_what_one_pod_of_a_chain_leaves_is_kept_for_the_next_one(size):
    """b leaves n1 for n2, and what it leaves is large enough for pods that have waited for longer than a's room stands."""
    scene = full_nodes()
    waits(scene, cpu="4")
    scene.crowd(4, cpu_milli=size)
    scene.start(document=PENDING_PODS + b"  labelSelector: {matchLabels: {app: big}}\n")
    check_end(scene)
    assert len(scene.calls.of(lambda call: call.evicts)) == 2


def test_the_room_is_kept_though_a_pod_that_steps_aside_may_not_stand_beside_the_one_that_waits():
    scene = Scene({"n0": 4, "n1": 1}).workload("Deployment", "a", ["n0"])
    waits(scene, spec=apart_from("a"))
    scene.start(document=PENDING_PODS)
    scene.until(lambda: scene.ready("big"), 300.0)
    scene.advance(60.0)
    assert [p["spec"]["nodeName"] for app in ("big", "a") for p in scene.ready(app)] == ["n0", "n1"]
    assert (scene.leftovers(), scene.faults) == ([], [])


def test_if_a_move_fails_before_anybody_is_evicted_nothing_happens():
    """Two must leave n0; the eviction of one is refused by the API server for good while it is rehearsed."""
    scene = Scene({"n0": 2, "n1": 1, "n2": 1}).workload("Deployment", "a", ["n0"])
    scene.workload("Deployment", "b", ["n0"])
    waits(scene)
    scene.refuse(403, "Forbidden", lambda call: call.rehearses and "/pods/b-" in call.path)
    scene.refuse(403, "Forbidden", lambda call: call.evicts and "/pods/b-" in call.path)
    scene.start(document=PENDING_PODS)
    scene.until(lambda: rooms(scene), 120.0)
    scene.until(lambda: "RoomGivenUp" in {status(m).get("reason") for m in scene.api.list(MOVE)}, 300.0)
    assert scene.calls.of(lambda call: call.evicts) == []
    assert [p["spec"]["nodeName"] for app in "ab" for p in scene.ready(app)] == ["n0", "n0"]
    (told, *_) = [
        line for line in scene.program.events.told if line.startswith("RoomGivenUp: the room for pod")
    ]
    assert "nobody was evicted" in told


def partly_made():
    """Both must leave n0; once a has left, the eviction of b is refused for as long as the list that is given is not empty."""
    scene = Scene({"n0": 2, "n1": 1, "n2": 1}).workload("Deployment", "a", ["n0"])
    scene.workload("Deployment", "b", ["n0"])
    waits(scene)
    refused = [True]
    scene.refuse(403, "Forbidden", lambda call: refused and call.evicts and "/pods/b-" in call.path)
    scene.start(document=PENDING_PODS)
    told = scene.program.events.told
    scene.until(lambda: any(line.startswith("LooksForOthers: move ") for line in told), 900.0)
    return scene, refused


def test_if_a_pod_stays_after_another_has_left_the_rest_of_the_room_is_made_all_the_same():
    """When the eviction is allowed again, the next decision moves the pod, also one of another process."""
    scene, refused = partly_made()
    scene.program.kill()
    (room,) = rooms(scene)
    assert status(room)["nodeName"] == "n0"
    refused.clear()
    scene.until(lambda: scene.ready("big"), 1800.0)
    assert [p["spec"]["nodeName"] for p in scene.ready("big")] == ["n0"]
    scene.advance(60.0)
    assert (scene.leftovers(), scene.faults) == ([], [])


def test_if_nobody_else_steps_aside_in_three_minutes_the_rest_of_the_room_is_given_back():
    scene, _ = partly_made()
    scene.cordon("n1", "n2")
    (name,) = [room["metadata"]["name"] for room in rooms(scene)]
    began_s = scene.now_s
    scene.until(lambda: name not in [room["metadata"]["name"] for room in rooms(scene)], 1800.0)
    assert scene.now_s >= began_s + 170.0
    assert any("no other pods could step aside" in line for line in scene.program.events.told)


def test_the_room_is_given_back_once_the_pod_waits_no_more():
    scene = full_nodes()
    waits(scene, cpu="4")
    scene.budget("b", minAvailable=1)
    scene.start(document=PENDING_PODS)
    scene.advance(20.0)
    scene.api.delete(scene.api.get(POD, "default", scene.pods("big")[0]["metadata"]["name"]))
    scene.scale(0, name="big")
    scene.advance(120.0)
    assert rooms(scene) == []
    assert scene.leftovers() == []


@pytest.mark.parametrize("part", parts(16))
def test_a_controller_that_dies_in_the_middle_goes_on(part):
    """It dies at each sixteenth write, nightly at each, once in each cluster; the pod lands all the same."""
    scene = full_nodes()
    waits(scene, cpu="4")
    scene.start(document=PENDING_PODS)
    check_end(scene)
    total = len(scene.calls.of(lambda call: call.writes))
    for write in range(1 + part, total + 1, 16):
        scene = full_nodes()
        waits(scene, cpu="4")
        program = scene.start(document=PENDING_PODS)
        program.line.doom(write, after=False)
        check_end(scene)
        assert program.died <= 1


OF_DAEMON_PODS = [{"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect} for key, effect in (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)]  # fmt: skip
"""What the DaemonSet controller adds."""


def agents(scene, cpu="2"):
    """A DaemonSet: one pod for each node."""
    pod = documents.pod_spec(cpu, tolerations=OF_DAEMON_PODS)
    scene.api.create(documents.workload("DaemonSet", "agent", 0, pod, namespace="default"))


def test_a_pod_of_a_daemon_set_starts_on_its_one_node():
    """A new agent is larger than what is free on n0: the pod there moves, and others that wait do not take its place."""
    scene = Scene({"n0": 4, "n1": 5}).workload("Deployment", "a", ["n0"], cpu="3")
    agents(scene)
    scene.until(lambda: scene.ready("agent"))
    waiting = {p["metadata"]["name"] for p in scene.pods("agent") if not p["spec"].get("nodeName")}
    assert len(waiting) == 1
    scene.crowd(3, cpu_milli=3500)
    scene.start(document=PENDING_PODS + b"  labelSelector: {matchLabels: {app: agent}}\n")
    scene.until(lambda: len(scene.ready("agent")) == 2, 600.0)
    scene.advance(60.0)
    assert {p["spec"]["nodeName"] for p in scene.ready("agent")} == {"n0", "n1"}
    assert waiting < {p["metadata"]["name"] for p in scene.ready("agent")}, "the very pod that waited"
    assert [p["spec"]["nodeName"] for p in scene.ready("a")] == ["n1"]
    assert len(scene.calls.of(lambda call: call.evicts)) == 1
    assert scene.leftovers() == []
    assert scene.faults == []
