"""A thread that makes passes: woken, it makes one at once; those who wake it together share one; stopped, it ends."""

import threading

from rescheduler.kube.pass_thread import PassThread


class Passes:
    def __init__(self, **more):
        self.made = threading.Semaphore(0)
        self.number = 0
        self.thread = PassThread("test", self.step, **more)

    def step(self):
        self.number += 1
        self.made.release()
        return 3_600.0


def test_whoever_wakes_it_gets_a_pass_at_once_and_nobody_else():
    passes = Passes()
    passes.thread.start()
    assert passes.made.acquire(timeout=10)
    passes.thread.wake()
    assert passes.made.acquire(timeout=10)
    passes.thread.stop()
    assert (passes.number, passes.thread.stopping) == (2, True)


def test_those_who_wake_it_together_share_one_pass():
    passes = Passes(gathered_s=3_600.0)
    passes.thread.start()
    assert passes.made.acquire(timeout=10)
    for _ in range(100):
        passes.thread.wake()
    assert not passes.made.acquire(timeout=0.1)
    passes.thread.stop()
    assert passes.number == 1


def test_a_pass_that_raises_is_followed_by_the_next(monkeypatch):
    monkeypatch.setattr("rescheduler.kube.pass_thread.AFTER_A_CRASH_S", 0.0)
    passes = Passes()
    step = passes.step

    def broken_at_first():
        step()
        if passes.number == 1:
            raise LookupError

    passes.thread = PassThread("test", lambda: broken_at_first() or 3_600.0)
    passes.thread.start()
    assert all(passes.made.acquire(timeout=10) for _ in range(2))
    passes.thread.stop()


def test_one_that_was_never_started_is_stopped_like_any_other():
    passes = Passes()
    passes.thread.stop()
    assert passes.number == 0
