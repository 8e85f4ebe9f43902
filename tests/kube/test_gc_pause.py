"""What is collected when lists are complete, after decisions, and once in a while."""

import gc
import weakref

import pytest

from rescheduler.kube.gc_pause import EVERYTHING_EVERY_S, GarbagePause


class Knot:
    """Refers to itself: only the garbage collector frees it."""

    def __init__(self):
        self.itself = self


@pytest.fixture(autouse=True)
def own_generations():
    gc.collect()
    gc.freeze()
    yield
    gc.enable()


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def pause(clock):
    return GarbagePause(lambda: clock[0])


def test_the_collector_is_off_until_the_last_one_is_out(pause):
    with pause.during():
        with pause.during():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_complete_list_is_looked_through_once_and_frozen(pause):
    frozen = gc.get_freeze_count()
    with pause.during():
        pause.settle()
        kept, ended = [object() for _ in range(3)], weakref.ref(Knot())
    assert ended() is None
    assert gc.get_freeze_count() > frozen
    assert kept


def test_a_decision_is_frozen_without_a_look(pause):
    before = weakref.ref(Knot())
    with pause.during():
        pause.keep()
        left = [[] for _ in range(1_000)]
        frozen = gc.get_freeze_count()
        assert before() is None
    assert gc.get_freeze_count() >= frozen + 1_000
    del left[:]
    assert gc.get_freeze_count() < frozen + 1_000


def test_knots_of_long_ago_are_found_in_the_end(pause, clock):
    def decide():
        with pause.during():
            pause.keep()
            return weakref.ref(Knot())

    ended = decide()
    clock[0] = EVERYTHING_EVERY_S - 1
    decide()
    assert ended() is not None
    clock[0] = EVERYTHING_EVERY_S
    decide()
    assert ended() is None
    frozen = gc.get_freeze_count()
    assert frozen > 1_000
