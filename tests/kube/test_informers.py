"""All informers together: kinds that are missing or not allowed do not hold the others up."""

import threading

import pytest

from rescheduler.kube.connection import connect_to
from rescheduler.kube.informers import Informers
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import RESOURCES, Kind
from tests.kube.node_answers import node, node_list, quiet
from tests.waiting import until


@pytest.fixture
def two_kinds(fault_server):
    started = []

    def start(handler):
        resources = {kind: RESOURCES[kind] for kind in (Kind.NODE, Kind.RESERVATION)}
        informers = Informers(
            connect_to(fault_server(handler).url), Decoder(), resources=resources, watch_list=False
        )
        started.append(informers)
        informers.start()
        return informers

    yield start
    for informers in started:
        informers.stop()


def test_a_missing_optional_kind_does_not_hold_the_others_up(two_kinds):
    def handler(x):
        if x.call.path == "/apis":
            x.json(200, {"kind": "APIGroupList", "groups": []})
        elif x.call.path.startswith("/apis/rescheduler.dev"):
            x.answer(404, b"404 page not found")
        else:
            quiet(x) if "watch" in x.call.query else x.json(200, node_list(node("a")))

    informers = two_kinds(handler)
    assert until(informers.synced)
    assert informers.of(Kind.RESERVATION).absent
    assert informers.problems() == {}
    assert informers.stale_for_s() < 5
    assert informers.dead() == ()


@pytest.mark.parametrize("served", [
    {"kind": "APIGroupList", "groups": [{"versions": [{"groupVersion": "rescheduler.dev/v1alpha1"}]}]},
    {"groups": []},
    None,
])  # fmt: skip
def test_a_404_alone_does_not_prove_that_a_kind_is_not_served(two_kinds, served):
    def handler(x):
        if x.call.path == "/apis" and served is not None:
            x.json(200, served)
        elif x.call.path.startswith("/apis"):
            x.answer(404, b"404 page not found")
        else:
            quiet(x) if "watch" in x.call.query else x.json(200, node_list(node("a")))

    informers = two_kinds(handler)
    assert until(lambda: Kind.RESERVATION in informers.problems())
    assert until(lambda: informers.waiting_for() == (Kind.RESERVATION,))
    assert not informers.of(Kind.RESERVATION).absent


def test_missing_rights_are_named_and_nothing_is_synced(two_kinds):
    def handler(x):
        if "nodes" in x.call.path:
            x.status(403, "Forbidden", 'nodes is forbidden: User "x" cannot list resource "nodes"')
        elif x.call.path == "/apis":
            x.json(200, {"kind": "APIGroupList", "groups": []})
        else:
            x.answer(404, b"404 page not found")

    informers = two_kinds(handler)
    assert until(lambda: Kind.NODE in informers.problems())
    assert 'cannot list resource "nodes"' in informers.problems()[Kind.NODE]
    assert not informers.synced()
    assert until(lambda: informers.waiting_for() == (Kind.NODE,))


def test_informers_leave_no_thread_behind(two_kinds):
    informers = two_kinds(lambda x: quiet(x) if "watch" in x.call.query else x.json(200, node_list()))
    assert until(informers.synced)
    informers.stop()
    assert not [t for t in threading.enumerate() if t.name.startswith("informer-")]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_the_program_itself_is_seen_and_nothing_is_decided_any_more(two_kinds, monkeypatch):
    informers = two_kinds(lambda x: quiet(x) if "watch" in x.call.query else x.json(200, node_list()))
    assert until(informers.synced)
    informer = informers.of(Kind.NODE)
    assert until(lambda: informer._stream is not None)
    monkeypatch.setattr(informer, "_fill", None)
    informer._stream.close()
    assert until(lambda: informers.dead() == (Kind.NODE,))
    assert not informers.synced()
