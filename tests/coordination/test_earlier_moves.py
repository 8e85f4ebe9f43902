"""A move that begins after others waits for them and no longer, and is dropped if one of them fails or is gone."""

import msgspec
import pytest

from rescheduler.coordination.move_turns import MoveTurns
from rescheduler.coordination.waiting_room import WaitingRoom
from rescheduler.migrations.migration_machine import MigrationStep
from rescheduler.migrations.observed_migration import MigrationSettings
from rescheduler.model.migration import MigrationPhase, MigrationStatus
from rescheduler.model.names import CREATED_BY, LABEL_CREATED_BY
from rescheduler.model.records import ObjectKey
from rescheduler.model.selectors import NO_LABELS, LabelSet
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.limits import Limits
from tests import records

PHASE = MigrationPhase
PLANNED = LabelSet({LABEL_CREATED_BY: CREATED_BY})
UNDER_WAY = [PHASE.PENDING, PHASE.RESERVING, PHASE.EVICTING, PHASE.HANDING_OVER]


def move(name, phase=PHASE.PENDING, *, after=(), **fields):
    keys = tuple(ObjectKey("shop", other) for other in after)
    named = {"namespace": "shop", "labels": PLANNED, "pod_uid": name, "policy": "NodeAffinity"}
    return records.move(name, phase, after=keys, **named | fields)


def waiting_room(*moves):
    return WaitingRoom(Snapshot(taken_at_s=0.0, migrations={m.key: m for m in moves}))


def seen(mine, *others):
    return waiting_room(*others, mine).of_move(mine, {})


def test_who_names_nobody_waits_for_nobody():
    found = seen(move("a"), move("b"))
    assert (found.begins_after, found.in_vain) == ((), None)


@pytest.mark.parametrize("phase", UNDER_WAY)
def test_it_waits_for_each_that_is_under_way(phase):
    found = seen(move("c", after=("a", "b")), move("a", PHASE.SUCCEEDED), move("b", phase))
    assert (found.begins_after, found.in_vain) == ((ObjectKey("shop", "b"),), None)


def test_it_goes_on_once_all_have_succeeded():
    found = seen(move("c", after=("a", "b")), move("a", PHASE.SUCCEEDED), move("b", PHASE.SUCCEEDED))
    assert (found.begins_after, found.in_vain) == ((), None)


@pytest.mark.parametrize(("other", "words"), [
    (move("b", PHASE.FAILED, reason="Timeout"), "failed (Timeout)"),
    (move("b", PHASE.RESERVING, deleting=True), "was deleted"),
    (move("other"), "was deleted"),
], ids=["failed", "deleting", "gone"])  # fmt: skip
def test_it_is_dropped_at_once_if_one_cannot_succeed_any_more(other, words):
    found = seen(move("c", after=("a", "b")), move("a", PHASE.RESERVING), other)
    reason, why = found.in_vain
    assert (reason, "move shop/b" in why, words in why) == ("EarlierMoveFailed", True, True)


@pytest.mark.parametrize("fields", [{"labels": NO_LABELS}, {"policy": ""}])
def test_who_was_not_planned_names_nobody(fields):
    """Nothing is said of the moves that it names, which may be in other namespaces."""
    found = seen(move("c", after=("a",), **fields), move("a", PHASE.FAILED, reason="Secret"))
    assert "Secret" not in found.in_vain[1]
    assert "controller" in found.in_vain[1]
    assert not waiting_room(move("c", after=("a",), **fields)).awaited


def test_who_is_waited_for_is_kept_until_the_other_has_ended():
    a, waits = move("a", PHASE.SUCCEEDED), move("c", after=("a",))
    assert waiting_room(a, waits).awaited == {a.key}
    ended = move("c", PHASE.FAILED, after=("a",))
    assert not waiting_room(a, ended).awaited


def test_a_move_that_waits_costs_no_look_until_its_wait_is_over():
    turns, settings, limits = MoveTurns(), MigrationSettings(), Limits()
    a, c = move("a", PHASE.RESERVING), move("c", after=("a",))
    crowd = [move(f"z{number}") for number in range(40)]

    def looked_at(now_s, *moves):
        by_key = {m.key: m for m in moves}
        waits = waiting_room(*moves)
        found = turns.of(by_key, lambda _, m: waits.over(m), settings, limits, now_s).moves
        return {m.key for m in found}

    assert c.key in looked_at(0.0, a, c)
    said = msgspec.structs.replace(c.status, reason="EarlierMoves")
    turns.stepped(c, MigrationStep(status=said, wake_at_s=300.0), 0.0)
    c = msgspec.structs.replace(c, status=said)
    for second in range(1, 100):
        assert c.key not in looked_at(float(second), a, c, *crowd)
    a = msgspec.structs.replace(a, status=MigrationStatus(phase=PHASE.SUCCEEDED))
    assert c.key in looked_at(100.0, a, c, *crowd), "however many others wait for their turn"
