"""No move takes longer than is configured, whatever ttl it asks for, and none holds room while it is paused for long."""

import msgspec
import pytest

from rescheduler.migrations.draft import Draft
from rescheduler.migrations.migration_machine import step
from rescheduler.migrations.observed_migration import MigrationSettings, ObservedMigration, ObservedStartFirst
from rescheduler.model.migration import MigrationPhase, MoveMode
from rescheduler.model.records import Node, PodPhase, PodSpec
from rescheduler.model.reservation import ReservationPhase
from rescheduler.reservations.settings import ReservationSettings
from tests import records
from tests.records import pod_record

NOW = 1_000_000.0
DAY_S = 86_400.0
PHASE = MigrationPhase
SETTINGS = MigrationSettings(reservations=ReservationSettings(ttl_s=300.0, max_ttl_s=DAY_S))
POD = pod_record(
    namespace="shop", name="web-0", uid="u", node="n1", spec=PodSpec(), phase=PodPhase.RUNNING, ready=True
)
HELD = records.room("r", ReservationPhase.AVAILABLE, node_name="n2")


def move(phase=PHASE.PENDING, mode=MoveMode.RESERVE_FIRST, **fields):
    named = {
        "namespace": "shop", "pod_name": "web-0", "pod_uid": "u", "target_node": "n2", "created_at_s": NOW,
    }  # fmt: skip
    return records.move("m", phase, mode=mode, reservation_name="r", node_name="n2", **named | fields)


def seen(migration):
    return ObservedMigration(
        migration=migration,
        reservation_name="r",
        pod=POD,
        target="n2",
        target_node=Node(name="n2"),
        reservation=HELD,
        start_first=ObservedStartFirst(declared=True)
        if migration.status.mode is MoveMode.START_FIRST
        else None,
    )


def look(migration, now_s):
    return step(seen(migration), now_s, SETTINGS)


@pytest.mark.parametrize(
    ("ttl_s", "longest_s"),
    [(None, 300.0), (60.0, 60.0), (0.0, DAY_S), (2e6 * 3600, DAY_S), (9e9 * 3600, DAY_S)],
)
def test_each_move_ends(ttl_s, longest_s):
    m = move(ttl_s=ttl_s)
    draft = Draft(observed=seen(m), now_s=NOW, settings=SETTINGS, status=m.status)
    assert draft.end_s == NOW + longest_s
    assert look(m, NOW + longest_s).status.reason == "Timeout"


@pytest.mark.parametrize("phase", [PHASE.RESERVING, PHASE.EVICTING])
def test_a_paused_move_gives_its_room_back(phase):
    m = move(phase, ttl_s=DAY_S, paused=True)
    first = look(m, NOW + 100)
    assert (first.status.reason, first.wake_at_s) == ("Paused", NOW + 400)
    paused = msgspec.structs.replace(m, status=first.status)
    assert look(paused, NOW + 399).status == first.status
    ended = look(paused, NOW + 400)
    assert (ended.status.phase, ended.status.reason) == (PHASE.FAILED, "Timeout")
    assert "paused for 5m0s" in ended.status.message
    assert "delete_reservation" in [a.does for a in ended.calls]


@pytest.mark.parametrize("fields", [{}, {"reservation_ref": "r"}], ids=["not begun", "room of others"])
def test_a_paused_move_without_room_of_its_own_waits_as_long_as_it_may(fields):
    phase = PHASE.RESERVING if fields else PHASE.PENDING
    m = move(phase, ttl_s=DAY_S, paused=True, **fields)
    paused = msgspec.structs.replace(m, status=look(m, NOW).status)
    assert look(paused, NOW + DAY_S - 1).status.reason == "Paused"
    assert look(paused, NOW + DAY_S).status.reason == "Timeout"


def test_a_paused_replacement_that_was_started_first_gives_its_room_back_too():
    m = move(PHASE.RESERVING, MoveMode.START_FIRST, ttl_s=DAY_S, paused=True)
    paused = msgspec.structs.replace(m, status=look(m, NOW).status)
    assert look(paused, NOW + 300).status.reason == "Timeout"
