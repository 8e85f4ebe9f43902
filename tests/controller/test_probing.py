"""When a scheduler is asked whether it is up to date, what its answer is worth, and that nothing is left of the question."""

import json
import math
from types import SimpleNamespace

import pytest

from rescheduler.calls.call import Verb
from rescheduler.controller.call_pool import CallPool
from rescheduler.controller.dispatcher import Dispatcher
from rescheduler.controller.effects import NO_EFFECT
from rescheduler.controller.probing import LEAST_S, MOST_S, SchedulerProbes, rest_s
from rescheduler.controller.wakeups import matters
from rescheduler.coordination.memory import Memory
from rescheduler.kube.errors import ConflictError, ForbiddenError
from rescheduler.kube.reflector import End, EndKind, Gaps, Reflector
from rescheduler.kube.transport import TransportError
from rescheduler.model.cluster import RecordChange
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.records import PodSpec
from rescheduler.model.reservation import Reservation, ReservationStatus
from rescheduler.reservations.scheduler_probe import is_probe
from rescheduler.reservations.settings import ReservationSettings
from tests.records import pod_record

OUTAGE = [End(EndKind.BROKEN, "reset"), End(EndKind.BROKEN, "refused"), End(EndKind.DENIED, "403")]
ROOM = Reservation(name="room", uid="uid-of-room", status=ReservationStatus())
NAMESPACE = "rescheduler"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


# What a gap is ---------------------------------------------------------------------------------------


@pytest.fixture
def pods():
    machine = Reflector(Kind.POD, watch_list=False)
    machine.on_page([], "9", "", 0.0)
    return machine


def lose(machine, from_s, until_s):
    for index, end in enumerate(OUTAGE):
        machine.on_end(end, from_s + (until_s - from_s) * index / len(OUTAGE), 1.0)


def test_a_lost_line_is_a_gap_and_so_is_the_list_that_must_be_read_anew(pods):
    assert pods.gaps == Gaps(1, 0.0), "the first list: what was before is not known"
    lose(pods, 100.0, 108.0)
    assert pods.gaps == Gaps(2, 0.0), "one, however often it cannot be had back"
    pods.on_opened(108.0)
    pods.on_end(End(EndKind.EXPIRED, "too old"), 108.0, 1.0)
    pods.on_page([], "20", "", 109.0)
    assert pods.gaps == Gaps(3, 9.0)


def test_a_watch_that_goes_on_where_it_broke_is_one_gap_and_forgets_the_outage(pods):
    lose(pods, 100.0, 108.0)
    pods.on_opened(108.0)
    pods.on_bookmark("12", initial_end=False, now_s=108.5)
    assert pods.gaps == Gaps(2, 0.0)
    pods.on_end(End(EndKind.EXPIRED, "too old"), 300.0, 1.0)
    pods.on_page([], "20", "", 301.0)
    assert pods.gaps == Gaps(4, 1.0)


@pytest.mark.parametrize("kind", [EndKind.CLEAN, EndKind.SILENT])
def test_a_watch_that_ends_as_it_should_is_no_gap(pods, kind):
    pods.on_opened(100.0)
    pods.on_end(End(kind), 400.0, 1.0)
    assert pods.gaps == Gaps(1, 0.0)


@pytest.mark.parametrize(("away_s", "expected"), [(0.0, LEAST_S), (5.0, 20.0), (1_000.0, MOST_S)])
def test_who_cannot_be_asked_is_given_more_time_after_a_longer_outage(away_s, expected):
    assert rest_s(away_s) == expected


# Asking ----------------------------------------------------------------------------------------------


class Server:
    """Keeps pods that were created, as the cache would show them."""

    def __init__(self):
        self.pods, self.made, self.fails = {}, [], None

    def send(self, call):
        if self.fails:
            raise self.fails
        path = f"{PODS}/{call.key.name}" if call.verb is Verb.DELETE else PODS
        assert call.path == path
        if call.verb is Verb.CREATE:
            self.create(call.key, call.body)
        else:
            assert call.grace_s == 0
            assert self.pods.pop(call.key)["metadata"]["uid"] == call.uid
        return NO_EFFECT

    def create(self, key, body):
        wire = json.loads(body)
        wire["metadata"] |= {"uid": f"uid-{len(self.made)}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        self.made.append(wire["spec"]["schedulerName"])
        self.pods[key] = wire

    def judge(self):
        """The scheduler refuses them all."""
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
        for wire in self.pods.values():
            wire["status"] = {"conditions": [refused]}

    def snapshot(self):
        return SimpleNamespace(
            pods={key: self.record(wire) for key, wire in self.pods.items()}, migrations={}, reservations={}
        )

    def record(self, wire):
        return Decoder().record(Kind.POD, json.dumps(wire).encode())


@pytest.fixture
def server():
    return Server()


class Play:
    """Rounds in which rooms wait to be given up to pods of ``schedulers`` while these lag."""

    def __init__(self, server, *schedulers, process="a"):
        self.server, self.schedulers, self.gaps = server, schedulers, Gaps(1, 0.0)
        self.probes = SchedulerProbes(gaps=lambda: self.gaps, process=process)
        self.memory = Memory()
        self.calls = Dispatcher(
            sender=server,
            pool=CallPool(),
            memory=self.memory,
            recorder=None,
            crashed=None,
            wake=lambda at_s: None,
            clock=lambda: 0.0,
        )

    def round(self, now_s):
        """True if all rooms could be given up."""
        snapshot, settings = self.server.snapshot(), ReservationSettings()
        waiting = [
            pod_record(namespace="shop", name=name, uid=name, spec=PodSpec(scheduler_name=name))
            for name in self.schedulers
        ]
        lag = self.probes.lag(snapshot, self.memory, NAMESPACE, now_s)
        found = lag.awaited(waiting, now_s, limit_s=math.inf, held_s=60.0)
        awaited = dict.fromkeys(found.schedulers, ROOM) if found else {}
        for machine, call in self.probes.due(awaited, snapshot.pods.values(), settings):
            if self.memory.backoff.pausing(machine, now_s) is None:
                self.calls.begin(machine, (call,), snapshot, now_s)
        self.memory.forget(self.probes.machines)
        return found is None


def test_nothing_is_asked_while_nothing_waits(server):
    play = Play(server)
    assert all(play.round(now_s) for now_s in (1.0, 2.0, 3.0))
    assert not server.made


def test_rooms_wait_for_the_answer_of_each_scheduler_which_is_asked_once_and_leaves_nothing(server):
    play = Play(server, "one", "two")
    assert not play.round(1.0)
    assert not play.round(2.0)
    assert sorted(server.made) == ["one", "two"]
    server.judge()
    assert play.round(3.0)
    assert not server.pods
    assert play.round(1_000.0), "until the next gap"


def test_an_answer_from_before_a_gap_counts_for_nothing(server):
    play = Play(server, "one")
    play.round(1.0)
    server.judge()
    play.gaps = Gaps(2, 0.0)
    assert not play.round(2.0)
    assert server.made == ["one", "one"]
    assert len(server.pods) == 1, "the first one is gone"
    server.judge()
    assert play.round(3.0)
    play.gaps = Gaps(3, 5.0)
    assert not play.round(4.0)


def test_a_probe_of_a_former_process_is_deleted_and_not_believed(server):
    Play(server, "one", process="former").round(1.0)
    server.judge()
    idle = Play(server, process="later")
    idle.round(2.0)
    assert not server.pods
    Play(server, "one", process="former").round(3.0)
    server.judge()
    assert not Play(server, "one", process="later").round(4.0)
    assert server.made == ["one", "one", "one"]


def test_without_an_answer_rooms_are_given_up_after_a_while(server):
    play = Play(server, "one")
    play.round(0.0)
    play.round(1.0)
    assert not play.round(MOST_S)
    assert play.round(1.0 + MOST_S)
    assert not server.pods


def test_the_time_to_answer_begins_when_the_probe_is_there(server):
    server.fails = TransportError("connection refused")
    play = Play(server, "one")
    for at_s in (1.0, 10.0, 20.0):
        play.round(at_s)
    server.fails = None
    play.round(21.0)
    play.round(24.0)
    assert not play.round(1.0 + MOST_S)
    assert not play.round(23.9 + MOST_S)
    assert play.round(24.0 + MOST_S)


def test_who_may_not_be_asked_is_given_the_time_that_it_may_take(server):
    server.fails = ForbiddenError(403, "Forbidden", "exceeded quota")
    play = Play(server, "one")
    play.gaps = Gaps(2, 1.0)
    assert not play.round(1.0)
    assert not play.round(0.9 + rest_s(1.0))
    assert play.round(1.0 + rest_s(1.0))


def test_a_process_that_has_just_begun_does_not_know_how_long_an_outage_was(server):
    server.fails = ForbiddenError(403, "Forbidden", "exceeded quota")
    play = Play(server, "one")
    assert not play.round(1.0)
    assert not play.round(0.9 + MOST_S)
    assert play.round(1.0 + MOST_S)


def test_a_server_that_only_starts_is_asked_again_after_a_moment(server):
    server.fails = ForbiddenError(403, "Forbidden", "no roles yet")
    play = Play(server, "one")
    play.round(1.0)
    server.fails = None
    assert not play.round(1.1)
    assert not server.made
    play.round(2.0)
    server.judge()
    assert play.round(3.0)


@pytest.mark.parametrize("fails", [TransportError("reset"), ConflictError(409, "Conflict", "modified")])
def test_a_probe_whose_end_was_not_answered_or_is_refused_is_deleted_later(server, fails):
    play = Play(server, "one")
    play.round(1.0)
    server.judge()
    server.fails = fails
    assert play.round(3.0)
    assert server.pods
    server.fails = None
    play.round(4.0)
    assert not server.pods


def test_a_probe_whose_making_was_not_answered_counts_once_it_is_there(server):
    server.fails = TransportError("reset")
    play = Play(server, "one")
    play.round(1.0)
    ((_, lost),) = play.probes.due({"one": ROOM}, (), ReservationSettings())
    server.create(lost.key, lost.body)
    assert not play.round(3.0)
    server.fails = None
    server.judge()
    assert play.round(4.0)
    assert not server.pods
    assert server.made == ["one"]


def test_a_probe_that_is_made_after_all_when_nobody_waits_for_it_is_deleted(server):
    server.fails = TransportError("reset")
    play = Play(server, "one")
    play.round(1.0)
    ((_, lost),) = play.probes.due({"one": ROOM}, (), ReservationSettings())
    server.fails, play.schedulers, play.gaps = None, (), Gaps(2, 0.0)
    server.create(lost.key, lost.body)
    play.round(3.0)
    assert not server.pods


def test_a_probe_that_somebody_deletes_is_made_again(server):
    play = Play(server, "one")
    play.round(1.0)
    play.round(2.0)
    server.pods.clear()
    play.round(3.0)
    assert server.made == ["one", "one"]
    server.judge()
    assert play.round(4.0)


def test_the_refusal_of_a_probe_is_no_reason_to_decide_anew(server):
    play = Play(server, "one")
    play.round(1.0)
    before = next(iter(server.snapshot().pods.values()))
    server.judge()
    after = next(iter(server.snapshot().pods.values()))
    assert is_probe(after)
    assert not matters(Kind.POD, RecordChange(before, after))
