"""A stage over all objects crashes of one of them: that one and its namespace or node rest, and all others are served."""

import pytest
from scenes import TAINTS, Scene
from structlog.testing import capture_logs

from harness.histories.clusters import lone_pod
from rescheduler.coordination import index, kept_index, move_turns, observe_start_first
from rescheduler.coordination.earlier_moves import EarlierMoves
from rescheduler.coordination.room_assignment import RoomAssignment
from rescheduler.coordination.round_objects import Chooser
from rescheduler.model.names import GATE
from rescheduler.planning.protections import Protector
from rescheduler.sandbox.controllers.unstructured import POD, GroupKind
from rescheduler.scheduling.state import SharedSchedulingState

ROOM = GroupKind("rescheduler.dev", "Reservation")
GATED = [{"name": GATE}]
STAGES = {
    "pods without a node": (kept_index, "_unbound", lambda pod: pod),
    "ending placeholders": (kept_index, "_ending_placeholder", lambda pod: pod),
    "workloads": (kept_index, "_shape", lambda workload: workload),
    "unadopted replacements": (observe_start_first, "is_unadopted", lambda pod: pod),
    "choice of Reservations": (Chooser, "_holds", lambda _, __, room: room),
    "choice of moves": (move_turns, "_in_each_round", lambda move: move),
    "moves that others begin after": (EarlierMoves, "over", lambda _, move: move),
    "assignment": (RoomAssignment, "_young", lambda _, pod: pod),
    "gates": (index, "holds_gate", lambda pod: pod),
}


def crash(monkeypatch, stage, named):
    """The stage crashes of the objects whose name begins so."""
    owner, name, about = stage
    real = getattr(owner, name)

    def called(*arguments, **options):
        if about(*arguments).name.startswith(named):
            raise ValueError(about(*arguments).name)
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, called)


def crashes(program, step):
    return program.metrics.registry.get_sample_value("rescheduler_crashes_total", {"step": step}) or 0


@pytest.fixture
def scene():
    made = Scene({"n1": 4, "n2": 4, "n3": 4})
    made.workload(nodes=["n1"])
    made.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    return made


def broken_workload(scene, *, node=""):
    """A Deployment of another namespace with one pod."""
    pod = lone_pod("broken", cpu_milli=500)["spec"] | ({"nodeName": node} if node else {})
    labels = {"app": "broken"}
    scene.api.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "broken", "namespace": "other"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }
    )
    scene.until(lambda: len(scene.ready("broken")) == 1)


def gated_pod(scene):
    body = lone_pod("broken-gated", cpu_milli=100)
    body["metadata"]["namespace"] = "other"
    body["spec"]["schedulingGates"] = GATED
    scene.api.create(body)


def gates(scene):
    found = scene.api.get(POD, "other", "broken-gated")
    return found["spec"].get("schedulingGates")


def broken_room(scene):
    """A Reservation for the pods of another namespace, and a move there that waits."""
    move = {"podRef": {"name": scene.pods("broken")[0]["metadata"]["name"]}, "paused": True}
    scene._create("PodMigration", "broken-move", move, namespace="other")
    scene.room("broken-room", app="broken", node="n2")
    found = scene.api.get(ROOM, "", "broken-room")
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "broken", "namespace": "other"}
    scene.api.patch(found, {"spec": {"owners": [{"controller": owner}]}})


@pytest.mark.parametrize("stage", STAGES)
def test_the_others_are_served_and_what_rests_goes_on_once_it_is_mended(scene, monkeypatch, stage):
    broken_workload(scene)
    gated_pod(scene)
    crash(monkeypatch, STAGES[stage], "broken")
    begun_s = scene.now_s
    program = scene.start()
    broken_room(scene)
    with capture_logs() as lines:
        scene.room("sound", node="n3")
        scene.until(lambda: scene.phase("sound") == "Available")
        move = scene.move(scene.pods()[0], "n3")
        scene.until(lambda: scene.over(move))
    assert scene.phase(move) == "Succeeded"
    assert program.died == 0
    scene.until(lambda: not gates(scene), 90.0)
    assert scene.now_s - begun_s < 75.0, "no pod is held longer than the limit"
    if stage != "workloads":  # they are asked for after a change only
        assert crashes(program, "round") >= 1
        told = [line for line in lines if line.get("step") == "round"]
        assert any("other" in line["object"] or "broken" in line["object"] for line in told)
        assert any("in called" in line.get("exception", "") for line in told)
    monkeypatch.undo()
    scene.until(lambda: scene.phase("broken-room") == "Available")
    assert scene.faults == []


@pytest.mark.parametrize("stage", STAGES)
def test_what_it_holds_stays(scene, monkeypatch, stage):
    broken_workload(scene)
    program = scene.start()
    broken_room(scene)
    scene.until(lambda: scene.phase("broken-room") == "Available")
    crash(monkeypatch, STAGES[stage], "broken")
    gated_pod(scene)
    scene.crowd(12)
    scene.advance_busily(15.0)
    assert len(scene.placeholders()) == 1
    assert scene.phase("broken-room") == "Available"
    monkeypatch.undo()
    scene.advance_busily(40.0)
    assert scene.phase("broken-room") == "Available"
    assert scene.faults == []
    assert program.died == 0


def crash_state(monkeypatch, *, bare):
    """The scheduling state of the controller cannot be made with a pod of that name. ``bare``: not even with its stand-in."""
    real = SharedSchedulingState.at

    def called(self, snapshot, profile=None):
        for pod in snapshot.pods.values():
            if pod.name.startswith("broken") and (bare or pod.controller is not None):
                raise ValueError(pod.name)
        return real(self, snapshot, profile)

    monkeypatch.setattr(SharedSchedulingState, "at", called)


def crash_protections(monkeypatch, *, bare):
    del bare
    crash(monkeypatch, (Protector, "_judge", lambda _, pod: pod), "broken")


@pytest.fixture
def tainted(scene):
    """Pods of two namespaces have to leave a node."""
    scene.cordon("n2", "n3")
    broken_workload(scene)
    scene.uncordon("n2", "n3")
    scene.taint("n1")
    assert scene.on("n1", "broken")
    return scene


@pytest.mark.parametrize("bare", [False, True], ids=["a pod", "even its stand-in"])
@pytest.mark.parametrize("stage", [crash_state, crash_protections])
def test_a_decision_leaves_out_what_it_crashes_of(tainted, monkeypatch, stage, bare):
    stage(monkeypatch, bare=bare)
    program = tainted.start(document=TAINTS)
    tainted.until(lambda: not tainted.on("n1"), 300.0)
    assert crashes(program, "decision") >= 1
    assert tainted.on("n1", "broken"), "it rests"
    monkeypatch.undo()
    tainted.until(lambda: not tainted.on("n1", "broken"), 300.0)
    assert tainted.faults == []


def test_a_node_of_which_a_decision_crashes_is_no_target(scene, monkeypatch):
    real = SharedSchedulingState.at

    def called(self, snapshot, profile=None):
        for node in snapshot.nodes.values():
            if node.name == "n2":
                raise ValueError(node.name)
        return real(self, snapshot, profile)

    monkeypatch.setattr(SharedSchedulingState, "at", called)
    scene.taint("n1")
    program = scene.start(document=TAINTS)
    scene.until(lambda: scene.on("n3"), 300.0)
    assert crashes(program, "decision") >= 1


def test_moves_that_are_left_out_take_their_place_among_the_moves_at_once(tainted, monkeypatch):
    crash_state(monkeypatch, bare=True)
    program = tainted.start(document=TAINTS.replace(b"movesAtOnce: 5", b"movesAtOnce: 0"))
    tainted.advance_busily(10.0)
    assert crashes(program, "decision") >= 1
    assert tainted.on("n1")


@pytest.mark.parametrize("bare", [False, True], ids=["a pod", "even its stand-in"])
def test_steps_that_crash_of_a_pod_of_another_namespace_go_on_without_it(scene, monkeypatch, bare):
    broken_workload(scene)
    crash_state(monkeypatch, bare=bare)
    program = scene.start()
    scene.room("one")
    scene.room("two")
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "third"}
    scene.api.patch(scene.api.get(ROOM, "", "two"), {"spec": {"owners": [{"controller": owner}]}})
    scene.until(lambda: {scene.phase("one"), scene.phase("two")} == {"Available"})
    assert crashes(program, "round") >= 1
    assert program.died == 0
