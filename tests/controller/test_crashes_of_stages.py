"""A stage over all objects crashes: it ends the round or the decision, which is tried again, and nothing is lost meanwhile.

That nothing that anybody writes makes a stage crash is what ``test_generated_objects`` shows; here is what a defect that it does
not find may do at most.
"""

import pytest
from scenes import TAINTS, Scene
from structlog.testing import capture_logs

from harness.histories.clusters import lone_pod
from kube_sandbox.controllers.unstructured import POD
from rescheduler.controller import reconcile
from rescheduler.coordination import kept_index, node_hints, observe_reservations, room_assignment
from rescheduler.coordination.handover_order import HandoverOrder
from rescheduler.model.names import GATE
from rescheduler.planning.protections import Protector
from rescheduler.scheduling.state import SharedSchedulingState

STAGES = {
    "pods without a node": (kept_index, "_unbound"),
    "links": (observe_reservations, "key_of_move"),
    "hand-over order": (HandoverOrder, "_decided"),
    "assignment": (room_assignment, "room_of"),
    "leftovers": (reconcile, "leftovers"),
}
"""Of each part of a round one: whatever raises in it ends it by the same rule."""
LAST = "leftovers"
"""The one that comes after the moves."""


@pytest.fixture
def scene():
    return Scene({"n1": 2, "n2": 3, "n3": 3}).workload(nodes=["n1"])


def crash(monkeypatch, owner, name):
    """It crashes from now on, whatever it looks at."""

    def crashed(*_, **__):
        raise ValueError("no such thing")

    monkeypatch.setattr(owner, name, crashed)


def crashes(program, step):
    return program.metrics.registry.get_sample_value("rescheduler_crashes_total", {"step": step}) or 0


def gated_pod(scene):
    """One that nobody has a room for."""
    body = lone_pod("gated", cpu_milli=100)
    body["spec"]["schedulingGates"] = [{"name": GATE}]
    scene.api.create(body)


def gates(scene):
    return scene.api.get(POD, "default", "gated")["spec"].get("schedulingGates")


@pytest.mark.parametrize("stage", STAGES)
def test_the_round_is_tried_again_and_goes_on_once_it_is_mended(scene, monkeypatch, stage):
    program = scene.start()
    crash(monkeypatch, *STAGES[stage])
    with capture_logs() as lines:
        scene.room("room", node="n3")
        move = scene.move(scene.pods()[0], "n2")
        gated_pod(scene)
        begun_s = scene.now_s
        scene.advance_busily(20.0)
    assert 2 <= crashes(program, "round") <= 8, "ever more rarely"
    told = [line for line in lines if line.get("step") == "round"]
    assert any("in crashed" in line.get("exception", "") for line in told)
    if stage != LAST:
        assert not scene.calls.of(lambda call: call.evicts)
    scene.until(lambda: not gates(scene), 90.0)
    assert scene.now_s - begun_s < 65.0, "no pod is held longer than the limit"
    monkeypatch.undo()
    scene.until(lambda: scene.phase("room") == "Available")
    scene.succeed(move)
    assert scene.faults == []
    assert program.died == 0


@pytest.mark.parametrize("stage", ["links", LAST])
def test_what_is_held_stays(scene, monkeypatch, stage):
    program = scene.start()
    scene.held_room("room", node="n2")
    crash(monkeypatch, *STAGES[stage])
    scene.move(scene.pods()[0], "n3")
    gated_pod(scene)
    scene.crowd(6)
    scene.advance_busily(15.0)
    assert crashes(program, "round") >= 1
    assert "placeholder" in str(scene.leftovers())
    monkeypatch.undo()
    scene.advance_busily(40.0)
    assert scene.phase("room") == "Available"
    assert scene.faults == []
    assert program.died == 0


@pytest.mark.parametrize("stage", ["links", LAST])
def test_a_move_in_the_middle_keeps_its_room(scene, monkeypatch, stage):
    program = scene.start()
    move = scene.move(scene.pods()[0], "n2")
    scene.until(lambda: scene.state(move).get("evictionRequestedAt"))
    crash(monkeypatch, *STAGES[stage])
    scene.until(lambda: crashes(program, "round"))
    scene.crowd(6)
    scene.advance(5.0)
    monkeypatch.undo()
    scene.succeed(move)
    assert [pod["spec"].get("nodeName") for pod in scene.pods()] == ["n2"]
    assert scene.faults == []


@pytest.mark.parametrize(
    "stage", [(SharedSchedulingState, "at"), (Protector, "_judge")], ids=["state", "judge"]
)
def test_a_decision_is_made_again_once_its_stage_is_mended(scene, monkeypatch, stage):
    scene.taint("n1")
    crash(monkeypatch, *stage)
    program = scene.start(document=TAINTS)
    scene.until(lambda: crashes(program, "decision") >= 2)
    assert scene.on("n1")
    monkeypatch.undo()
    scene.until(lambda: not scene.on("n1"), 300.0)
    assert program.died == 0
    assert scene.faults == []


def test_steps_that_need_what_crashes_rest_and_go_on_once_it_is_mended(scene, monkeypatch):
    crash(monkeypatch, SharedSchedulingState, "at")
    program = scene.start()
    scene.room("one")
    scene.room("two")
    scene.until(lambda: crashes(program, "Reservation") >= 4)
    assert crashes(program, "round") == 0
    assert any(event.startswith("Damaged: ValueError") for event in program.events.told)
    monkeypatch.undo()
    scene.until(lambda: {scene.phase("one"), scene.phase("two")} == {"Available"})
    assert program.died == 0


@pytest.mark.parametrize(("module", "part"), [(reconcile, "avoid_keys"), (node_hints, "collected")])
def test_hints_that_cannot_be_written_stop_nobody(scene, monkeypatch, module, part):
    crash(monkeypatch, module, part)
    program = scene.start()
    move = scene.move(scene.pods()[0], "n3")
    scene.succeed(move)
    assert crashes(program, "round") == 0
    assert crashes(program, "Node") >= 1
