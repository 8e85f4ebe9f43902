"""Without a dry-run creation one pod of a controller is evicted first, until its replacement shows what admission adds."""

import msgspec
import pytest

from harness import builders as b
from rescheduler.coordination.move_order import evicts_first
from rescheduler.model.migration import MigrationPhase, MoveMode
from tests import records

NOW = 1_000.0
EVICTING = MigrationPhase.EVICTING


def move(name, phase=EVICTING, **fields):
    return records.move(name, phase, namespace="shop", created_at_s=1.0, **{"reason": "Checking", **fields})


def sibling(age_s):
    return msgspec.structs.replace(b.replicaset("web").pod("web-0").build(), created_at_s=NOW - age_s)


def first(other, *, mine=None, age_s=3_600.0):
    mine = mine or move("m")
    return evicts_first(mine, [mine, other], [sibling(age_s)], NOW)


@pytest.mark.parametrize("phase", [EVICTING, MigrationPhase.HANDING_OVER])
def test_a_move_that_has_written_its_intent_goes_first(phase):
    assert first(move("z", phase, eviction_requested_at_s=NOW - 1)) == "shop/z"


@pytest.mark.parametrize(("age_s", "waits"), [(59.0, False), (61.0, True)])
def test_a_new_pod_shows_what_admission_adds(age_s, waits):
    assert bool(first(move("z", eviction_requested_at_s=NOW - 1), age_s=age_s)) is waits


def test_of_two_that_are_about_to_evict_the_older_goes_first():
    assert first(move("a")) == "shop/a"
    assert first(move("z")) == ""


@pytest.mark.parametrize("other", [
    move("a", reason="DisruptionBudget"),
    move("a", paused=True),
    move("a", MigrationPhase.RESERVING, reason="Reserving"),
    move("a", MigrationPhase.SUCCEEDED, eviction_requested_at_s=NOW - 1),
    move("a", eviction_requested_at_s=NOW - 1, mode=MoveMode.START_FIRST),
    move("a", eviction_requested_at_s=NOW - 1, deleting=True),
], ids=["waits", "paused", "reserves", "ended", "starts first", "deleted"])  # fmt: skip
def test_nobody_waits_for_one_that_evicts_nothing_now(other):
    assert first(other) == ""
