"""The scheduling queue: order, back-off, wake-ups, gates."""

import pytest

from kube_sandbox.scheduler.queue import FLUSH_AFTER_S, ClusterEvent, QueuedPod, SchedulingQueue
from rescheduler.model.records import PodSpec
from tests.records import pod_record


def pod(name, *, priority=0, gates=()):
    return pod_record(namespace="d", name=name, uid=name, spec=PodSpec(priority=priority, gates=gates))


def popped(queue, now_s):
    entry = queue.pop(now_s)
    return entry.pod.name if entry else None


def test_priority_first_then_age():
    queue = SchedulingQueue()
    for name, priority in (("old", 0), ("young", 0), ("urgent", 5)):
        queue.add(pod(name, priority=priority), 1.0)
    assert [popped(queue, 2.0) for _ in range(4)] == ["urgent", "old", "young", None]


@pytest.mark.parametrize(
    ("event", "woken"),
    [(ClusterEvent.POD_DELETED, True), (ClusterEvent.NODE_ADDED, True), (ClusterEvent.POD_ASSIGNED, False)],
)
def test_only_an_event_that_may_help_wakes(event, woken):
    queue = SchedulingQueue()
    queue.add(pod("big"), 0.0)
    queue.pop(0.0)
    queue.add_unschedulable("big", {"NodeResourcesFit"})
    queue.move_to_active_or_backoff(event, 100.0)
    assert popped(queue, 100.0) == ("big" if woken else None)


def test_refused_pod_is_tried_again_in_the_end():
    queue = SchedulingQueue()
    queue.add(pod("big"), 0.0)
    queue.pop(0.0)
    queue.add_unschedulable("big", {"NodeResourcesFit"})
    assert queue.next_due_s(1.0) == FLUSH_AFTER_S
    assert popped(queue, FLUSH_AFTER_S - 1) is None
    assert popped(queue, FLUSH_AFTER_S) == "big"


def test_active_pods_go_before_those_that_back_off():
    queue = SchedulingQueue()
    queue.add(pod("unlucky", priority=9), 0.0)
    queue.pop(0.0)
    queue.add_unschedulable("unlucky", {"TaintToleration"})
    queue.move_to_active_or_backoff(ClusterEvent.NODE_UPDATED, 0.1)
    queue.add(pod("fresh"), 0.2)
    assert [popped(queue, 0.3) for _ in range(2)] == ["fresh", "unlucky"]


def test_gates_hold_and_may_come_off_and_on_again():
    queue = SchedulingQueue()
    held, free = pod("p", gates=("g",)), pod("p")
    for _ in range(3):
        queue.add(held, 0.0)
        assert popped(queue, 1.0) is None
        queue.add(free, 0.0)
    assert [popped(queue, 1.0) for _ in range(2)] == ["p", None]


def test_changed_spec_wakes_a_refused_pod_and_status_does_not():
    queue = SchedulingQueue()
    queue.add(pod("p"), 0.0)
    queue.pop(0.0)
    queue.add_unschedulable("p", {"NodeAffinity"})
    queue.add(pod("p").with_state(unschedulable_message="no"), 20.0)
    assert popped(queue, 20.0) is None
    queue.add(pod("p", priority=1), 20.0)
    assert popped(queue, 20.0) == "p"


def test_dropped_pod_is_never_given_out():
    queue = SchedulingQueue()
    queue.add(pod("p"), 0.0)
    queue.delete("p")
    assert popped(queue, 1.0) is None
    assert queue.next_due_s(1.0) is None


def test_the_backoff_stays_the_longest_however_often_a_pod_was_tried():
    tried = QueuedPod(pod("p"), 0.0, 1, attempts=5000, tried_at_s=100.0)
    assert tried.backoff_until_s == 110.0
