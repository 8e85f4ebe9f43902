"""A stage that looks at all objects crashes of one: that one rests, with those that depend on it, and the others are served."""

import pytest
from scenes import Scene

from rescheduler.controller import gathering, reconcile
from rescheduler.coordination import observe_reservations, room_assignment
from rescheduler.coordination.handover_order import HandoverOrder

STAGES = {
    "links": (observe_reservations, "key_of_move", lambda reservation: reservation.name),
    "hand-over order": (HandoverOrder, "_decided", lambda _, observed: observed.reservation.name),
    "assignment": (room_assignment, "room_of", lambda observed: observed.reservation.name),
}


@pytest.fixture
def scene():
    made = Scene({"n1": 2, "n2": 3, "n3": 3})
    made.workload(nodes=["n1"])
    return made


def crash(monkeypatch, stage, named):
    owner, name, about = STAGES[stage]
    real = getattr(owner, name)

    def called(*arguments):
        if about(*arguments).startswith(named):
            raise ValueError("no such thing")
        return real(*arguments)

    monkeypatch.setattr(owner, name, called)


def crashes(program, step):
    return program.metrics.registry.get_sample_value("rescheduler_crashes_total", {"step": step}) or 0


@pytest.mark.parametrize("stage", STAGES)
def test_the_others_are_served_and_it_goes_on_once_the_stage_is_mended(scene, monkeypatch, stage):
    crash(monkeypatch, stage, "broken")
    program = scene.start()
    scene.room("broken", node="n2")
    scene.room("sound", node="n3")
    scene.until(lambda: scene.phase("sound") == "Available")
    move = scene.move(scene.pods()[0], "n3")
    scene.until(lambda: scene.over(move))
    assert scene.phase(move) == "Succeeded"
    assert crashes(program, "round") == 0
    assert crashes(program, "Reservation") >= 1
    assert any(event.startswith("Damaged: ValueError") for event in program.events.told)
    monkeypatch.undo()
    scene.until(lambda: scene.phase("broken") == "Available")


@pytest.mark.parametrize("stage", STAGES)
def test_what_it_holds_stays_and_no_pod_is_held_longer_than_the_limit(scene, monkeypatch, stage):
    program = scene.start()
    scene.room("broken", node="n2")
    scene.until(lambda: scene.phase("broken") == "Available")
    crash(monkeypatch, stage, "broken")
    scene.until(lambda: crashes(program, "Reservation"))
    scene.crowd(6)
    scene.scale(2)
    scene.until(lambda: len(scene.pods()) == 2)
    begun_s = scene.now_s
    scene.advance(20.0)
    assert len(scene.placeholders()) == 1, "its room is held"
    assert any(pod["spec"].get("schedulingGates") for pod in scene.pods()), "its pod waits for it"
    scene.until(lambda: not any(pod["spec"].get("schedulingGates") for pod in scene.pods()), 90.0)
    assert scene.now_s - begun_s < 65.0
    assert program.died == 0


@pytest.mark.parametrize("stage", STAGES)
def test_a_move_in_the_middle_keeps_its_room(scene, monkeypatch, stage):
    program = scene.start()
    move = scene.move(scene.pods()[0], "n2")
    scene.until(lambda: scene.state(move).get("evictionRequestedAt"))
    crash(monkeypatch, stage, scene.state(move)["reservationName"])
    scene.until(lambda: crashes(program, "Reservation"))
    scene.crowd(6)
    scene.advance(5.0)
    monkeypatch.undo()
    scene.until(lambda: scene.over(move))
    assert scene.phase(move) == "Succeeded"
    assert [pod["spec"].get("nodeName") for pod in scene.pods()] == ["n2"]
    assert scene.faults == []


def test_what_crashes_of_no_object_is_a_crash_of_the_round(scene, monkeypatch):
    monkeypatch.setattr(gathering, "taint_switches", lambda *_: 1 // 0)
    program = scene.start()
    scene.room("sound", node="n3")
    scene.until(lambda: crashes(program, "round") >= 2)
    monkeypatch.undo()
    scene.until(lambda: scene.phase("sound") == "Available")


def test_more_than_are_found_one_by_one_do_not_stop_the_others(scene, monkeypatch):
    crash(monkeypatch, "links", "broken")
    program = scene.start()
    for number in range(12):
        scene.room(f"broken-{number:02}", node="n2")
    scene.room("sound", node="n3")
    scene.until(lambda: scene.phase("sound") == "Available", 300.0)
    move = scene.move(scene.pods()[0], "n3")
    scene.until(lambda: scene.over(move), 300.0)
    assert scene.phase(move) == "Succeeded"
    assert program.died == 0


@pytest.mark.parametrize("part", ["avoid_keys", "outdated_hints"])
def test_hints_that_cannot_be_cleaned_up_stop_nobody(scene, monkeypatch, part):
    def crashed(*_):
        raise ValueError("no such thing")

    monkeypatch.setattr(reconcile, part, crashed)
    program = scene.start()
    move = scene.move(scene.pods()[0], "n3")
    scene.until(lambda: scene.over(move))
    assert scene.phase(move) == "Succeeded"
    assert crashes(program, "round") == 0
    assert crashes(program, "Node") >= 1
