"""Words of a status wait for what others rely on, a second at most; what others rely on waits for nothing."""

import msgspec
import pytest

from rescheduler.calls.objects import write_status
from rescheduler.calls.pods import evict
from rescheduler.coordination.deferred_status import MOVE_TOLD_AFTER_S, DeferredStatus
from rescheduler.coordination.memory import Answers, Memory
from rescheduler.migrations.migration_lifecycle import (
    CONDITION_ADMITTED,
    CONDITION_START_FIRST,
    LASTING,
    MigrationReason,
)
from rescheduler.migrations.migration_machine import MigrationStep
from rescheduler.model.event import Event, ObjectReference
from rescheduler.model.migration import MigrationPhase, MigrationStatus, MoveMode, PodMigration
from rescheduler.model.outcomes import EvictionOutcome, EvictionResult
from rescheduler.model.own_objects import Condition
from rescheduler.model.records import PodSpec
from rescheduler.model.reservation import ObjectRef, Reservation, ReservationPhase, ReservationStatus
from rescheduler.reservations.placeholder import create_placeholder
from rescheduler.reservations.reservation_machine import ReservationStep
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.reservations.waits import TOLD_AFTER_S
from tests.records import pod_record

NOW = 1_000.0
PHASE = MigrationPhase
STORED = MigrationStatus(phase=PHASE.EVICTING, reason="Checking", message="m", reservation_name="rsv")
POD = pod_record(namespace="shop", name="web-0", uid="u", spec=PodSpec())
REHEARSAL = evict(POD, dry_run=True)
EVICTION = evict(POD)
EVENT = Event(ObjectReference("Pod", "web-0", "shop", "u"), "Rescheduled", "m")
WAITS = {"reason": str(MigrationReason.TOO_FEW_AVAILABLE), "message": "1 of 2"}


def move(stored):
    return PodMigration(namespace="shop", name="m", pod_name="web-0", status=stored)


class Moves:
    """One move whose steps are looked at."""

    def __init__(self, stored=STORED, *, evicted_at_s=0.0):
        answers = Answers()
        if evicted_at_s:
            answers.eviction(move(stored).key, EvictionResult(EvictionOutcome.EVICTED), evicted_at_s)
        self.stored, self.told = stored, DeferredStatus(Memory(answers=answers))

    def step(self, *actions, at_s=NOW, wake_at_s=None, **changes):
        status = msgspec.structs.replace(self.stored, **changes)
        write = write_status(move(self.stored), status)
        before = MigrationStep(status=status, calls=(write, *actions), wake_at_s=wake_at_s)
        return self.told.migration(move(self.stored), before, at_s)

    def writes(self, *actions, **changes):
        return any(a.does == "write_status" for a in self.step(*actions, **changes).calls)


def test_words_are_written_once_the_stored_ones_have_been_wrong_for_a_while():
    moves = Moves()
    first = moves.step(REHEARSAL, **WAITS)
    assert first.calls == (REHEARSAL,)
    assert first.wake_at_s == NOW + MOVE_TOLD_AFTER_S
    assert first.status.reason == WAITS["reason"]
    assert not moves.writes(at_s=NOW + 1.9, reason="PausedByAnother", message="other words")
    assert moves.writes(at_s=NOW + MOVE_TOLD_AFTER_S, **WAITS)


def test_an_earlier_look_stays():
    assert Moves().step(wake_at_s=NOW + 0.1, **WAITS).wake_at_s == NOW + 0.1


def test_words_that_are_right_again_in_between_begin_anew():
    moves = Moves()
    assert not moves.writes(**WAITS)
    moves.step(at_s=NOW + 0.5, eviction_requested_at_s=NOW)
    assert not moves.writes(at_s=NOW + 2.4, **WAITS)


@pytest.mark.parametrize("changes", [
    {"phase": PHASE.HANDING_OVER},
    {"eviction_requested_at_s": NOW},
    {"evicted_at_s": NOW},
    {"reserved_at_s": NOW},
    {"node_name": "n1"},
    {"reservation_uid": "r"},
    {"mode": MoveMode.SOFT},
    {"conditions": (Condition(CONDITION_START_FIRST, "False"),)},
    {"conditions": (Condition("Readable", "False"),)},
    {"phase": PHASE.FAILED, **WAITS},
], ids=str)  # fmt: skip
def test_what_others_rely_on_is_written_at_once(changes):
    assert Moves().writes(**changes)


@pytest.mark.parametrize("reason", sorted(LASTING))
def test_a_wait_that_will_last_is_told_at_once(reason):
    assert Moves(MigrationStatus()).writes(reason=str(reason), message="until tomorrow")


EVICTING = {"reason": "Evicting", "message": "pod web-0 is being evicted"}


@pytest.mark.parametrize("call", [EVICTION, EVENT], ids=["eviction", "event"])
def test_what_follows_from_the_status_is_not_sent_without_it(call):
    assert Moves().writes(call, **EVICTING)
    intended = msgspec.structs.replace(STORED, eviction_requested_at_s=NOW)
    assert Moves(intended).writes(call, **EVICTING), "however new the intent is"


EVICTED = {
    "phase": PHASE.HANDING_OVER,
    "evicted_at_s": NOW,
    "reason": "WaitingForReplacement",
    "source_avoided_until_s": NOW + 1_800,
}


def test_an_eviction_that_was_answered_is_told_with_the_end_of_a_quick_move():
    """After a crash the pod that is gone under the stored intent says so; its Event waits with the words."""
    intended = msgspec.structs.replace(STORED, phase=PHASE.EVICTING, eviction_requested_at_s=NOW - 1)
    assert Moves(intended).writes(EVENT, **EVICTED), "its answer was lost, or came to a former process"
    moves = Moves(intended, evicted_at_s=NOW - 0.5)
    assert moves.step(EVENT, REHEARSAL, **EVICTED).calls == (REHEARSAL,)
    late = moves.step(EVENT, at_s=NOW + MOVE_TOLD_AFTER_S, **EVICTED)
    assert [a.does for a in late.calls] == ["write_status", "record_event"]
    again = Moves(intended, evicted_at_s=NOW - 2)
    assert again.writes(EVENT, **EVICTED), "the answer to an earlier try"
    assert Moves(intended, evicted_at_s=NOW - 0.5).writes(**EVICTED | {"phase": PHASE.SUCCEEDED})


def test_that_room_is_held_is_written_with_what_follows():
    reserving = msgspec.structs.replace(STORED, phase=PHASE.RESERVING)
    held = {"phase": PHASE.EVICTING, "reserved_at_s": NOW, "reservation_uid": "r"}
    assert not Moves(reserving).writes(REHEARSAL, **held)
    assert Moves(reserving).writes(REHEARSAL, **held, node_name="another")
    assert Moves(reserving).writes(eviction_requested_at_s=NOW, **held)
    assert Moves(reserving).writes(reason="MakingRoom", **held), "other moves wait for it"


@pytest.mark.parametrize(("stored", "changes"), [
    (MigrationStatus(), {"observed_generation": 1, "mode": MoveMode.START_FIRST}),
    (MigrationStatus(), {"conditions": (Condition(CONDITION_ADMITTED, "True"),)}),
    (msgspec.structs.replace(STORED, phase=PHASE.HANDING_OVER), {"replacement": ObjectRef("shop", "web-1", "v")}),
])  # fmt: skip
def test_what_is_computed_again_in_each_step_may_wait(stored, changes):
    assert not Moves(stored).writes(**changes)


def test_in_mode_start_first_nothing_else_says_who_the_replacement_is():
    stored = MigrationStatus(phase=PHASE.RESERVING, mode=MoveMode.START_FIRST)
    assert Moves(stored).writes(replacement=ObjectRef("shop", "web-1", "v"))


def test_a_finished_move_is_written_at_once():
    assert Moves(MigrationStatus(phase=PHASE.SUCCEEDED)).writes(observed_generation=2)


# Reservations ---------------------------------------------------------------------------------------


def room_step(at_s=NOW, *, told=None, stored=ReservationStatus(), **changes):  # noqa: B008 - a frozen value
    room = Reservation(name="rsv", uid="r", status=stored)
    status = msgspec.structs.replace(stored, **changes)
    place = create_placeholder(room, "n1", ReservationSettings())
    step = ReservationStep(status=status, calls=(write_status(room, status), place))
    found = (told or DeferredStatus(Memory())).reservation(room, step, at_s)
    return [action.does for action in found.calls]


def test_what_is_computed_from_the_spec_of_a_reservation_waits_for_what_others_rely_on():
    told = DeferredStatus(Memory())
    assert room_step(told=told, observed_generation=1, expires_at_s=5.0) == ["create_placeholder"]
    both = ["write_status", "create_placeholder"]
    assert room_step(NOW + TOLD_AFTER_S, told=told, observed_generation=1, expires_at_s=5.0) == both


def test_that_a_wait_of_a_hand_over_is_over_is_written_with_what_follows():
    claimed = "claimed by shop/web-1"
    waits, goes_on = (
        (Condition("Ready", "True", "Claimed", message),)
        for message in (f"{claimed}; waiting: its placeholder has not terminated yet", claimed)
    )
    stored, told = (
        ReservationStatus(phase=ReservationPhase.AVAILABLE, conditions=waits),
        DeferredStatus(Memory()),
    )
    assert room_step(told=told, stored=stored, conditions=goes_on) == ["create_placeholder"]
    assert room_step(NOW + TOLD_AFTER_S, told=told, stored=stored, conditions=goes_on)[0] == "write_status"
    before = ReservationStatus(phase=ReservationPhase.AVAILABLE, conditions=goes_on)
    assert room_step(stored=before, conditions=waits)[0] == "write_status"
    assert room_step(stored=stored, conditions=goes_on, phase=ReservationPhase.WAITING)[0] == "write_status"


@pytest.mark.parametrize("changes", [
    {"phase": ReservationPhase.AVAILABLE},
    {"node_name": "n1"},
    {"current_owners": (ObjectRef("shop", "web-1", "v"),)},
    {"conditions": (Condition("Scheduled", "False"),)},
], ids=str)  # fmt: skip
def test_all_else_of_a_reservation_is_written_at_once(changes):
    assert room_step(**changes)[0] == "write_status"
