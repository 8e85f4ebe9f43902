"""A defect of this program stops the step in which it shows, never the controller: the others are served meanwhile."""

import itertools

import pytest
from scenes import NODE, TAINTS, Scene
from structlog.testing import capture_logs

from rescheduler.controller import gathering
from rescheduler.controller.crashes import MOST_LINES, CrashReports, Step
from rescheduler.controller.cycle import Cycle
from rescheduler.coordination.observe_reservations import ReservationObserver
from rescheduler.migrations import migration_machine
from rescheduler.model.cluster import ClusterState
from rescheduler.model.kinds import Kind
from rescheduler.model.records import Node, ObjectKey
from rescheduler.reservations import reservation_machine

DEFECTS = [
    ValueError("no such thing"), RecursionError("too deep"), MemoryError(), AssertionError("never"),
    ZeroDivisionError(),
]  # fmt: skip


@pytest.fixture
def scene():
    return Scene({"n1": 2, "n2": 3, "n3": 3}).workload(nodes=["n1"])


def crashing(monkeypatch, owner, name, error, *, when):
    """Calls of ``owner.name`` whose arguments ``when`` holds for raise ``error``."""
    real = getattr(owner, name)

    def called(*arguments, **options):
        if when(*arguments):
            raise error
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, called)


def crashes(program, step):
    return program.metrics.registry.get_sample_value("rescheduler_crashes_total", {"step": step})


def cycles(program, result):
    return program.metrics.registry.get_sample_value("rescheduler_cycles_total", {"result": result})


@pytest.mark.parametrize("error", DEFECTS, ids=lambda error: type(error).__name__)
def test_a_crash_in_the_step_of_one_reservation_rests_that_one_alone(scene, monkeypatch, error):
    broken = lambda observed, *_: observed.reservation.name == "broken"  # noqa: E731
    crashing(monkeypatch, reservation_machine, "step", error, when=broken)
    program = scene.start()
    scene.room("broken", node="n2")
    scene.room("sound", node="n3")
    with capture_logs() as logs:
        scene.until(lambda: scene.phase("sound") == "Available")
        scene.advance_busily(20.0)
    assert program.died == 0
    assert crashes(program, "Reservation") >= 2
    told = [line for line in logs if line.get("object", "").endswith("broken")]
    assert any("in called" in line.get("exception", "") for line in told), "the first one has its traceback"
    assert len(told) < 20, "ever more rarely"
    assert any(event.startswith(f"Damaged: {type(error).__name__}") for event in program.events.told)
    monkeypatch.undo()
    scene.until(lambda: scene.phase("broken") == "Available")


def test_a_crash_in_the_observation_of_one_reservation_rests_that_one_alone(scene, monkeypatch):
    broken = lambda _, reservation: reservation.name == "broken"  # noqa: E731
    crashing(monkeypatch, ReservationObserver, "_one", KeyError("broken"), when=broken)
    program = scene.start()
    scene.room("broken", node="n2")
    scene.held_room("sound", node="n3")
    assert crashes(program, "Reservation") >= 1
    monkeypatch.undo()
    scene.until(lambda: scene.phase("broken") == "Available")


def test_a_crash_in_the_step_of_one_move_rests_that_one_alone(scene, monkeypatch):
    scene.workload(name="api", nodes=["n1"])
    broken = lambda observed, *_: observed.migration.name == "broken"  # noqa: E731
    crashing(monkeypatch, migration_machine, "step", TypeError("no"), when=broken)
    program = scene.start()
    scene.move(scene.pods("api")[0], "n2", name="broken")
    sound = scene.move(scene.pods("web")[0], "n3", name="sound")
    scene.succeed(sound)
    assert crashes(program, "PodMigration") >= 1
    monkeypatch.undo()
    scene.succeed("broken")


def test_the_claimant_of_a_reservation_that_rests_is_let_go_in_time(scene, monkeypatch):
    program = scene.start()
    scene.held_room(node="n2")
    crashing(monkeypatch, reservation_machine, "step", ValueError("no"), when=lambda o, *_: bool(o.owners))
    scene.scale(2)
    scene.until(lambda: scene.state("room").get("currentOwners"))
    scene.until(lambda: crashes(program, "Reservation"))
    begun_s = scene.now_s
    scene.until(lambda: not any(pod["spec"].get("schedulingGates") for pod in scene.pods()), 90.0)
    assert scene.now_s - begun_s < 65.0


def test_a_round_that_crashes_is_tried_again_and_decisions_go_on(scene, monkeypatch):
    crashing(monkeypatch, gathering, "taint_switches", ValueError("no"), when=lambda *_: True)
    program = scene.start(document=TAINTS)
    scene.taint("n1")
    scene.until(lambda: crashes(program, "round") >= 3)
    scene.until(lambda: cycles(program, "decided") >= 3)
    assert program.died == 0
    monkeypatch.undo()
    scene.until(lambda: not scene.on("n1"), 300.0)


def test_a_decision_that_crashes_is_tried_again_and_rounds_go_on(scene, monkeypatch):
    crashing(monkeypatch, Cycle, "run", ValueError("no"), when=lambda *_: True)
    program = scene.start(document=TAINTS)
    scene.until(lambda: crashes(program, "decision") >= 2)
    name = scene.move(scene.pods()[0], "n2")
    scene.succeed(name)
    monkeypatch.undo()
    scene.until(lambda: program.loop.decision is not None)


def test_a_watch_event_that_crashes_keeps_no_other_out(scene, monkeypatch):
    broken = lambda _, kind, record: kind is Kind.NODE and isinstance(record, Node) and record.name == "n3"  # noqa: E731
    crashing(monkeypatch, ClusterState, "apply", ValueError("no"), when=broken)
    program = scene.start()
    name = scene.move(scene.pods()[0], "n2")
    scene.succeed(name)
    assert crashes(program, "watch event") >= 1
    assert scene.api.get(NODE, "", "n3")


def test_crashes_in_a_row_come_ever_more_rarely(scene, monkeypatch):
    moments = []

    def always(*_):
        moments.append(scene.now_s)
        return True

    crashing(monkeypatch, reservation_machine, "step", ValueError("no"), when=always)
    scene.start()
    scene.room("broken", node="n2")
    scene.advance_busily(60.0)
    pauses = [later - earlier for earlier, later in itertools.pairwise(moments)]
    assert len(moments) <= 12
    assert pauses[-1] > 10.0


def test_many_objects_that_crash_in_one_place_do_not_fill_the_log():
    counted = []
    reports = CrashReports(count=counted.append)
    with capture_logs() as logs:
        for number in range(4 * MOST_LINES):
            try:
                int("no number")
            except ValueError as error:
                reports.tell(Step.RESERVATION, ObjectKey("", f"r{number}"), error)
        reports.tell(Step.RESERVATION, ObjectKey("", "another"), KeyError("elsewhere"))
    assert len(counted) == 4 * MOST_LINES + 1
    assert MOST_LINES < len(logs) <= MOST_LINES + 3
    assert logs[-1]["object"].endswith("another")
