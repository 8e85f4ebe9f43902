"""Health is the loop's heart-beat and the life of every informer."""

from rescheduler.controller.run import health
from rescheduler.controller.server import Heartbeat
from rescheduler.model.kinds import Kind


def test_a_dead_informer_makes_the_process_unwell():
    alive = Heartbeat()
    assert health(alive, ()).ok
    report = health(alive, (Kind.POD, Kind.NODE))
    assert not report.ok
    assert report.reason == "the informers of Pod, Node died"


def test_a_loop_that_stands_still_makes_the_process_unwell():
    now_s = [0.0]
    stuck = Heartbeat(limit_s=120.0, clock=lambda: now_s[0])
    now_s[0] = 121.0
    assert health(stuck, ()).reason == "the loop has stood still for 121 s"
