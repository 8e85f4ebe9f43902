"""Gauges of what is held: Reservations, windows and head-rooms; and no series about when a counter was created."""

from rescheduler.controller.metrics import Metrics
from rescheduler.model.reservation import ReservationPhase
from rescheduler.model.resources import Resources
from rescheduler.model.room_sets import HeadRoom, HeadRoomStatus, ReservationWindow, WindowPhase, WindowStatus
from rescheduler.model.snapshot import Snapshot
from tests import records


def room(name, phase, cpu_milli=0, used_milli=0):
    size = Resources(cpu_milli=cpu_milli, memory_bytes=1 << 30)
    return records.room(
        name, phase, node_name="n1", allocatable=size, allocated=Resources(cpu_milli=used_milli)
    )


def test_what_is_held_is_counted_and_what_has_ended_is_not():
    metrics = Metrics()
    rooms = (
        room("a", ReservationPhase.AVAILABLE, 4000, 1000),
        room("b", ReservationPhase.AVAILABLE, 500),
        room("c", ReservationPhase.SUCCEEDED, 9000),
    )
    metrics.held(
        Snapshot(
            taken_at_s=1.0,
            reservations={one.name: one for one in rooms},
            windows={"w": ReservationWindow(name="w", status=WindowStatus(phase=WindowPhase.OPEN))},
            head_rooms={"h": HeadRoom(name="h", status=HeadRoomStatus(wanted=3, standing=2))},
        )
    )
    text = metrics.render().decode()
    for line in (
        'rescheduler_reservations{phase="Available"} 2.0',
        'rescheduler_reservations{phase="Succeeded"} 1.0',
        'rescheduler_reservations{phase="Pending"} 0.0',
        "rescheduler_reserved_cpu_cores 3.5",
        "rescheduler_reserved_memory_bytes 2.147483648e+09",
        'rescheduler_windows{phase="Open"} 1.0',
        'rescheduler_head_room_reservations{state="wanted"} 3.0',
        'rescheduler_head_room_reservations{state="standing"} 2.0',
    ):
        assert line in text


def test_the_series_exist_from_the_start_and_none_says_when_a_counter_was_created():
    text = Metrics().render().decode()
    assert 'rescheduler_reservations{phase="Available"} 0.0' in text
    assert 'rescheduler_windows{phase="Gathering"} 0.0' in text
    assert "_created" not in text
