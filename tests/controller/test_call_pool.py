"""Calls wait for their answers in a pool: in order for each object, fairly between namespaces, never in the core thread."""

import random
import threading
from dataclasses import dataclass, field

import pytest

from harness.histories.late_answers import LatePool
from rescheduler.controller.call_pool import OWN_LANE, CallPool, Lanes, ThreadPool, own_lane

LIMIT_S = 120.0


@dataclass
class Work:
    """Calls that wait until they are allowed to end."""

    lane: str = OWN_LANE
    calls: int = 1
    ends: threading.Event = field(default_factory=threading.Event)
    made: list = field(default_factory=list)
    landed: list = field(default_factory=list)
    defect: Exception | None = None

    def call(self):
        assert self.ends.wait(LIMIT_S)
        if self.defect is not None:
            raise self.defect
        self.made.append(len(self.made))
        return len(self.made) < self.calls

    def land(self, now_s):
        self.landed.append(threading.current_thread())


def over(**options):
    work = Work(**options)
    work.ends.set()
    return work


@pytest.fixture
def answers():
    """Released once for each work that was answered."""
    return threading.Semaphore(0)


@pytest.fixture
def pool(answers):
    made = ThreadPool(answered=answers.release)
    yield made
    made.stop(LIMIT_S)


def begin(pool, *works):
    for work in works:
        assert pool.accepts(work.lane)
        pool.begin(work, 0.0)


def test_an_inline_pool_makes_all_calls_and_lands_at_once():
    pool, work = CallPool(), over(calls=3)
    begin(pool, work)
    assert work.made == [0, 1, 2]
    assert work.landed
    assert not pool.answered
    assert not pool.land(0.0)


def test_nothing_waits_for_a_call_that_hangs(pool, answers):
    hangs, quick = Work(lane="team-a"), over(lane="team-b", calls=2)
    begin(pool, hangs, quick)
    assert answers.acquire(timeout=LIMIT_S)
    assert pool.answered
    assert pool.land(0.0)
    assert quick.made == [0, 1]
    assert quick.landed == [threading.current_thread()]
    assert not hangs.landed
    hangs.ends.set()
    assert answers.acquire(timeout=LIMIT_S)
    assert pool.land(0.0)
    assert hangs.landed == [threading.current_thread()]


def test_a_defect_in_a_call_is_raised_where_it_lands_and_the_others_go_on(pool, answers):
    begin(pool, over(defect=ZeroDivisionError("a defect")))
    assert answers.acquire(timeout=LIMIT_S)
    with pytest.raises(ZeroDivisionError):
        pool.land(0.0)
    after = over()
    begin(pool, after)
    assert answers.acquire(timeout=LIMIT_S)
    assert pool.land(0.0)
    assert after.landed


def test_a_pool_that_has_stopped_begins_no_further_call(answers):
    pool, work = ThreadPool(answered=answers.release), Work(calls=2)
    begin(pool, work)
    pool.stop(0.01)
    assert not pool.accepts("team-a")
    work.ends.set()
    assert answers.acquire(timeout=LIMIT_S)
    assert len(work.made) <= 1


def test_threads_are_used_again(pool, answers):
    for _ in range(20):
        begin(pool, over())
        assert answers.acquire(timeout=LIMIT_S)
        assert pool.land(0.0)
    assert threading.active_count() < 20


# Lanes ----------------------------------------------------------------------------------------------


def taken(lanes, lane, times):
    """How many works of a lane may begin, out of so many."""
    began = 0
    for _ in range(times):
        if lanes.accepts(lane):
            lanes.began(lane)
            began += 1
    return began


def test_a_namespace_whose_calls_hang_occupies_a_few_workers():
    lanes = Lanes(own=2, shared=8, each=3)
    assert taken(lanes, "hangs", 10) == 3
    assert taken(lanes, "other", 10) == 3
    assert taken(lanes, OWN_LANE, 10) == 2


def test_namespaces_that_hang_leave_the_controller_its_own_workers():
    lanes = Lanes(own=2, shared=8, each=3)
    for number in range(20):
        taken(lanes, f"hangs-{number}", 10)
    assert taken(lanes, OWN_LANE, 10) == 2


def test_a_namespace_that_was_turned_away_goes_before_one_that_has_workers():
    lanes = Lanes(own=1, shared=4, each=4)
    lanes.begin_round()
    assert taken(lanes, "first", 10) == 4
    assert taken(lanes, "second", 1) == 0
    assert taken(lanes, "third", 1) == 0
    lanes.begin_round()
    lanes.ended("first")
    assert taken(lanes, "first", 5) == 0, "the free worker is for the second"
    assert taken(lanes, "third", 1) == 0
    assert taken(lanes, "second", 1) == 1
    lanes.ended("first")
    assert taken(lanes, "first", 5) == 0
    assert taken(lanes, "third", 1) == 1


def test_a_namespace_with_thousands_of_rooms_leaves_workers_for_the_rooms_of_others():
    """Calls that wait for nobody's admission have workers of their own, and a namespace a part of them."""
    lanes = Lanes(own=4, shared=2, each=3)
    assert taken(lanes, own_lane("crowd"), 10) == 3
    assert taken(lanes, own_lane("other"), 10) == 1
    assert taken(lanes, own_lane("third"), 1) == 0
    lanes.begin_round()
    lanes.ended(own_lane("crowd"))
    assert taken(lanes, own_lane("crowd"), 1) == 0, "the free worker is for the third"
    assert taken(lanes, own_lane("third"), 1) == 1
    assert taken(lanes, "crowd", 10) == 2


def test_no_worker_is_kept_for_a_namespace_that_wants_none_any_more():
    lanes = Lanes(own=1, shared=2, each=2)
    assert taken(lanes, "first", 2) == 2
    assert taken(lanes, "second", 1) == 0
    lanes.begin_round()
    lanes.ended("first")
    assert taken(lanes, "first", 1) == 0
    lanes.begin_round()
    assert taken(lanes, "first", 1) == 1


def test_every_namespace_has_its_turn():
    """However many want more than there is: nobody waits for more than a round of all others."""
    rng, lanes, running, had = (
        random.Random(5),  # noqa: S311 - reproducible
        Lanes(own=1, shared=3, each=2),
        [],
        dict.fromkeys(range(12), 0),
    )
    for _ in range(120):
        lanes.begin_round()
        for lane in had:
            for _ in range(taken(lanes, str(lane), 3)):
                running.append(lane)
                had[lane] += 1
        rng.shuffle(running)
        lanes.ended(str(running.pop()))
    assert min(had.values()) >= 5


# In virtual time --------------------------------------------------------------------------------------


def test_a_late_pool_keeps_the_order_within_a_work_and_lands_every_work_once():
    now_s = [0.0]
    rng = random.Random(3)  # noqa: S311 - reproducible
    pool = LatePool(rng, clock=lambda: now_s[0], share=1.0)
    works, landed_early = [], 0
    for number in range(60):
        now_s[0] += 1.0
        pool.step(now_s[0])
        pool.land(now_s[0])
        pool.begin_round()
        work = over(lane=f"team-{number % 4}", calls=1 + number % 3)
        if pool.accepts(work.lane):
            pool.begin(work, now_s[0])
            works.append(work)
            landed_early += bool(work.landed)
    while (due_s := pool.next_due_s()) is not None:
        now_s[0] = max(due_s, now_s[0])
        pool.step(now_s[0])
        pool.land(now_s[0])
    assert len(works) > 20
    assert landed_early == 0
    assert all(w.made == list(range(w.calls)) and len(w.landed) == 1 for w in works)
