"""A controller that is down: a minute later nothing new is gated, and what a new leader relies on is in force again."""

import pytest
from scenes import NODE, Scene

from rescheduler.kube.gate import KEYS_LAST_S


@pytest.fixture
def scene():
    made = Scene({"n1": 8, "n2": 8}).workload(nodes=["n1"])
    made.start()
    return made


def held(scene):
    return [p for p in scene.pods() if p["spec"].get("schedulingGates")]


def test_new_pods_of_a_reserved_workload_are_held_only_while_somebody_leads(scene):
    scene.held_room(node="n2", cpu="1", ttl="1h")
    scene.program.frozen = True
    scene.scale(2)
    scene.advance(5.0)
    assert len(held(scene)) == 1, "a leader that is replaced within the minute finds its pod held"
    scene.advance(KEYS_LAST_S)
    scene.scale(5)
    scene.advance(10.0)
    assert len(scene.ready()) == 4
    assert len(held(scene)) == 1
    scene.program.frozen = False
    scene.until(lambda: not held(scene))
    scene.until(lambda: len(scene.ready()) == 5)


def test_keys_stay_in_force_for_hours_while_somebody_leads(scene):
    scene.held_room(node="n2", cpu="1", ttl="5h")
    scene.advance(3_600.0)
    scene.scale(2)
    scene.until(lambda: len(scene.ready()) == 2)
    assert scene.phase("room") == "Succeeded"
    assert len(scene.on("n2")) == 1


def test_a_move_after_a_long_absence_has_its_gate_renewed_before_the_proof(scene):
    assert scene.api.list(NODE)
    scene.program.frozen = True
    scene.advance(600.0)
    scene.program.frozen = False
    move = scene.move(scene.pods()[0], "n2", ttl="5m")
    scene.until(lambda: scene.over(move))
    assert scene.reason(move) == "Landed"


@pytest.mark.parametrize("away_s", [30.0, 90.0])
def test_a_replacement_that_waited_at_the_gate_meanwhile_gets_its_room(scene, away_s):
    move = scene.move(scene.pods()[0], "n2", ttl="5m")
    scene.until(lambda: scene.calls.of(lambda call: call.evicts))
    scene.program.frozen = True
    scene.advance(away_s)
    assert len(held(scene)) == 1
    scene.program.frozen = False
    scene.until(lambda: scene.over(move))
    assert scene.reason(move) == "Landed"
    assert not held(scene)


def test_a_pod_that_cannot_get_its_room_is_released_soon_after_the_absence(scene):
    scene.move(scene.pods()[0], "n2", ttl="5m")
    scene.until(lambda: scene.calls.of(lambda call: call.evicts))
    scene.program.frozen = True
    scene.advance(90.0)
    scene.cordon("n1", "n2")
    scene.advance(1.0)
    scene.program.frozen = False
    scene.advance(10.0)
    assert held(scene), "its node may come back"
    scene.advance(10.0)
    assert not held(scene)
