"""Events: what is said once in a while only, in which order they stand, and what a fault of one of them costs the others."""

import json
import time

import pytest

from rescheduler.kube.client import KubeApi
from rescheduler.kube.event_correlator import (
    WINDOW_S,
    EventCorrelator,
    EventFate,
)
from rescheduler.kube.events import EventRecorder
from rescheduler.kube.retry import NO_RETRY
from rescheduler.model.event import Event, ObjectReference

POD = ObjectReference("Pod", "web-1", "apps", "u1")

LIMIT_S = 120.0
"""A loaded machine may need long to write a traceback."""


def said(note="n", reason="Evicted", regarding=POD):
    return Event(regarding, reason, note)


def test_the_same_thing_again_is_written_once_in_a_while():
    correlator = EventCorrelator()
    assert correlator.fate(said(), 0.0) is EventFate.WRITTEN
    assert correlator.fate(said(), 10.0) is EventFate.SAID
    assert correlator.fate(said(), WINDOW_S) is EventFate.SAID
    assert correlator.fate(said(), WINDOW_S + 1.0) is EventFate.WRITTEN


def test_another_note_reason_or_object_is_another_event():
    correlator = EventCorrelator()
    correlator.fate(said("Pod web-1 was evicted"), 0.0)
    other = ObjectReference("Pod", "web-2", "apps", "u2")
    for one in (said("Pod web-2 was evicted"), said(reason="Landed"), said(regarding=other)):
        assert correlator.fate(one, 0.0) is EventFate.WRITTEN


def test_a_storm_is_cut_to_the_rate():
    correlator = EventCorrelator(per_second=5, burst=50)
    fates = [
        correlator.fate(said(regarding=ObjectReference("Pod", f"p{n}", "apps")), n / 1000)
        for n in range(1000)
    ]
    assert 50 <= fates.count(EventFate.WRITTEN) <= 56
    assert fates.count(EventFate.DROPPED) >= 900


@pytest.fixture
def recorder(fake_transport):
    made = []

    def make(answer=lambda _: {}, **options):
        transport = fake_transport(answer)
        made.append(EventRecorder(KubeApi(transport, NO_RETRY), instance="me", wall=lambda: 1.5, **options))
        made[-1].start()
        return made[-1], transport.sent

    yield make
    for one in made:
        one.stop()


def test_an_event_on_the_wire(recorder):
    events, sent = recorder()
    node = ObjectReference("Node", "n1")
    events.record(Event(POD, "Evicted", "é" * 2_000, action="Move", related=node, warning=True))
    events.stop(LIMIT_S)
    (request,) = sent
    assert request.path == "/apis/events.k8s.io/v1/namespaces/apps/events"
    body = json.loads(request.body)
    assert body["metadata"]["name"].startswith("web-1.")
    assert body["eventTime"] == "1970-01-01T00:00:01.500000Z"
    assert (body["type"], body["reason"], body["action"]) == ("Warning", "Evicted", "Move")
    assert body["reportingController"] == "rescheduler.dev/controller"
    assert len(body["note"].encode()) <= 1024
    assert body["regarding"] == {
        "apiVersion": "v1", "kind": "Pod", "namespace": "apps", "name": "web-1", "uid": "u1",
    }  # fmt: skip
    assert body["related"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


def test_events_of_cluster_scoped_objects_go_to_the_default_namespace(recorder):
    events, sent = recorder()
    events.record(
        Event(ObjectReference("Reservation", "r", api_version="rescheduler.dev/v1alpha1"), "A", "n")
    )
    events.stop(LIMIT_S)
    assert sent[0].path == "/apis/events.k8s.io/v1/namespaces/default/events"


def test_a_server_that_refuses_events_disturbs_nobody(recorder, refusal):
    events, sent = recorder(lambda _: refusal(403, "Forbidden"))
    for n in range(3):
        events.record(said(reason=f"R{n}"))
    events.stop(LIMIT_S)
    assert (len(sent), events.dropped, events.written) == (3, 3, 0)


def test_recording_never_blocks(fake_transport):
    events = EventRecorder(KubeApi(fake_transport(lambda _: {}), NO_RETRY), instance="me", capacity=2)
    started = time.monotonic()
    for n in range(5):
        events.record(said(reason=f"R{n}"))
    assert events.dropped == 3
    assert time.monotonic() - started < 1


class Clock:
    """A wall clock that a test turns back."""

    def __init__(self):
        self.now_s = 1_764_000_000.0

    def __call__(self):
        return self.now_s


def test_names_and_times_stand_in_the_order_in_which_they_were_recorded(fake_transport):
    clock = Clock()
    transport = fake_transport(lambda _: {})
    events = EventRecorder(KubeApi(transport, NO_RETRY), instance="me", wall=clock)
    for n in range(20):
        events.record(said(note=f"step {n}"))
        clock.now_s -= 0.3  # time servers set clocks back
    events.start()
    events.stop(LIMIT_S)
    bodies = [json.loads(request.body) for request in transport.sent]
    assert [body["note"] for body in bodies] == [f"step {n}" for n in range(20)]
    for key in (lambda body: body["metadata"]["name"], lambda body: body["eventTime"]):
        assert sorted(bodies, key=key) == bodies
        assert len({key(body) for body in bodies}) == 20


@pytest.mark.parametrize("error", [RuntimeError, ValueError, KeyError, OSError, AttributeError])
def test_no_error_of_one_event_ends_the_thread(recorder, error):
    def answer(request):
        if b"bad" in request.body:
            raise error("a defect")
        return {}

    events, sent = recorder(answer)
    for note in ("bad 1", "good", "bad 2", "better"):
        events.record(said(note=note))
    events.stop(LIMIT_S)
    assert (len(sent), events.written, events.dropped) == (4, 2, 2)


def test_a_note_that_cannot_be_sent_costs_only_itself(recorder):
    events, _ = recorder()
    events.record(said(note="\ud800"))  # no UTF-8
    events.record(said(note="good"))
    events.stop(LIMIT_S)
    assert (events.written, events.dropped) == (1, 1)
