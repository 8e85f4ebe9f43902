"""When a scheduler is asked whether it is up to date, what its answer is worth, and that nothing is left of the question."""

import json
import math
from types import SimpleNamespace

import pytest

from rescheduler.controller.probing import AGAIN_S, LEAST_S, MOST_S, ProbingReconciler, rest_s
from rescheduler.controller.settings import Settings
from rescheduler.controller.wakeups import matters
from rescheduler.coordination.handover_order import NO_LAG
from rescheduler.kube.errors import ConflictError, ForbiddenError, NotFoundError
from rescheduler.kube.reflector import End, EndKind, Gaps, Reflector
from rescheduler.kube.transport import TransportError
from rescheduler.model.cluster import RecordChange
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey, Pod, PodSpec
from rescheduler.model.reservation import Reservation, ReservationStatus
from rescheduler.reservations.scheduler_probe import is_probe, probe_manifest

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

    def create(self, path, body):
        if self.fails:
            raise self.fails
        assert path == PODS
        wire = json.loads(body)
        wire["metadata"] |= {"uid": f"uid-{len(self.made)}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        self.made.append(wire["spec"]["schedulerName"])
        self.pods[ObjectKey(NAMESPACE, wire["metadata"]["name"])] = wire
        return json.dumps(wire).encode()

    def delete(self, path, *, uid="", grace_s=None):
        if isinstance(self.fails, TransportError | ConflictError):
            raise self.fails
        assert grace_s == 0
        key = ObjectKey(NAMESPACE, path.rsplit("/", 1)[1])
        if key not in self.pods:
            raise NotFoundError(404, "NotFound", key.name)
        assert uid in ("", self.pods[key]["metadata"]["uid"])
        del self.pods[key]

    def judge(self):
        """The scheduler refuses them all."""
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
        for wire in self.pods.values():
            wire["status"] = {"conditions": [refused]}

    def snapshot(self):
        return SimpleNamespace(pods={key: self.record(wire) for key, wire in self.pods.items()})

    def record(self, wire):
        return Decoder().record(Kind.POD, json.dumps(wire).encode())


class Rooms:
    """A reconciler in which a room waits to be given up to pods of ``schedulers`` while they lag."""

    def __init__(self, *schedulers):
        self.settings, self.awaited, self.schedulers, self.told = Settings(), {}, schedulers, []
        self.lag = NO_LAG
        self.pods = ()

    def probes(self):
        return self.pods

    def reconcile(self, snapshot, now_s):
        self.pods = tuple(snapshot.pods.values())
        waiting = [
            Pod(namespace="shop", name=name, uid=name, spec=PodSpec(scheduler_name=name))
            for name in self.schedulers
        ]
        found = self.lag.awaited(waiting, now_s, limit_s=math.inf, held_s=60.0)
        self.awaited = dict.fromkeys(found.schedulers, ROOM) if found else {}
        self.told.append(found is None)


@pytest.fixture
def server():
    return Server()


class Play:
    """Rounds, and what they see."""

    def __init__(self, server, *schedulers, process="a"):
        self.server, self.rooms, self.gaps = server, Rooms(*schedulers), Gaps(1, 0.0)
        self.rounds = ProbingReconciler(self.rooms, lambda: self.gaps, server, process=process)

    def round(self, now_s):
        """True if all rooms could be given up; and when to look again."""
        wake_s = self.rounds.reconcile(self.server.snapshot(), now_s)
        return self.rooms.told[-1], wake_s


def test_nothing_is_asked_while_nothing_waits(server):
    play = Play(server)
    assert [play.round(now_s) for now_s in (1.0, 2.0, 3.0)] == [(True, None)] * 3
    assert not server.made


def test_rooms_wait_for_the_answer_of_each_scheduler_which_is_asked_once_and_leaves_nothing(server):
    play = Play(server, "one", "two")
    assert play.round(1.0) == (False, 1.0 + MOST_S)
    assert play.round(2.0) == (False, 2.0 + MOST_S)
    assert sorted(server.made) == ["one", "two"]
    server.judge()
    assert play.round(3.0) == (True, None)
    assert not server.pods
    assert play.round(1_000.0) == (True, None), "until the next gap"


def test_an_answer_from_before_a_gap_counts_for_nothing(server):
    play = Play(server, "one")
    play.round(1.0)
    server.judge()
    play.gaps = Gaps(2, 0.0)
    assert not play.round(2.0)[0]
    assert server.made == ["one", "one"]
    assert len(server.pods) == 1, "the first one is gone"
    server.judge()
    assert play.round(3.0)[0]
    play.gaps = Gaps(3, 5.0)
    assert not play.round(4.0)[0]


def test_a_probe_of_a_former_process_is_deleted_and_not_believed(server):
    Play(server, "one", process="former").round(1.0)
    server.judge()
    idle = Play(server, process="later")
    idle.round(2.0)
    assert not server.pods
    Play(server, "one", process="former").round(3.0)
    server.judge()
    assert not Play(server, "one", process="later").round(4.0)[0]
    assert server.made == ["one", "one", "one"]


def test_without_an_answer_rooms_are_given_up_after_a_while(server):
    play = Play(server, "one")
    play.round(0.0)
    play.round(1.0)
    assert not play.round(MOST_S)[0]
    assert play.round(1.0 + MOST_S) == (True, None)
    assert not server.pods


def test_the_time_to_answer_begins_when_the_api_server_answers(server):
    server.fails = TransportError("connection refused")
    play = Play(server, "one")
    for at_s in (1.0, 10.0, 20.0):
        play.round(at_s)
    server.fails = None
    play.round(21.0)
    play.round(24.0)  # the creation was repeated until then
    assert not play.round(1.0 + MOST_S)[0]
    assert not play.round(23.9 + MOST_S)[0]
    assert play.round(24.0 + MOST_S)[0]


def test_who_may_not_be_asked_is_given_the_time_that_it_may_take(server):
    server.fails = ForbiddenError(403, "Forbidden", "exceeded quota")
    play = Play(server, "one")
    play.gaps = Gaps(2, 1.0)
    assert play.round(1.0) == (False, 1.0 + AGAIN_S)
    assert not play.round(0.9 + rest_s(1.0))[0]
    assert play.round(1.0 + rest_s(1.0))[0]


def test_a_process_that_has_just_begun_does_not_know_how_long_an_outage_was(server):
    server.fails = ForbiddenError(403, "Forbidden", "exceeded quota")
    play = Play(server, "one")
    assert not play.round(1.0)[0]
    assert not play.round(0.9 + MOST_S)[0]
    assert play.round(1.0 + MOST_S)[0]


def test_a_server_that_only_starts_is_asked_again(server):
    server.fails = ForbiddenError(403, "Forbidden", "no roles yet")
    play = Play(server, "one")
    play.round(1.0)
    server.fails = None
    assert play.round(1.1) == (False, 1.0 + AGAIN_S)
    assert not server.made
    play.round(1.0 + AGAIN_S)
    server.judge()
    assert play.round(3.0)[0]


def asked_in_vain(server):
    """A probe whose making was not answered, and what makes it after all."""
    server.fails = TransportError("reset")
    play = Play(server, "one")
    play.round(1.0)
    lost = next(iter(play.rounds._left))
    server.fails = None
    manifest = probe_manifest(lost.name, namespace=NAMESPACE, scheduler="one", image="", asks_for=ROOM)
    return play, lost, lambda: server.create(PODS, manifest)


def test_a_probe_whose_making_or_end_was_not_answered_is_deleted_later(server):
    play, lost, make = asked_in_vain(server)
    make()
    play.round(1.0 + AGAIN_S)
    assert lost not in server.pods
    server.judge()
    server.fails = TransportError("reset")
    assert play.round(3.0) == (True, 3.0 + AGAIN_S)
    server.fails = None
    play.round(4.0)
    assert not server.pods


def test_a_probe_that_is_made_after_all_or_whose_deletion_is_refused_is_deleted_in_the_end(server):
    play, lost, make = asked_in_vain(server)
    play.round(1.0 + AGAIN_S)
    assert not play.rounds._left, "the server knows none"
    make()
    server.fails = ConflictError(409, "Conflict", "the object has been modified")
    assert play.round(3.0)[1] == 3.0 + AGAIN_S
    assert lost in server.pods
    server.fails = None
    play.round(3.0 + AGAIN_S)
    assert lost not in server.pods


def test_a_probe_that_somebody_deletes_is_made_again(server):
    play = Play(server, "one")
    play.round(1.0)
    play.round(2.0)
    server.pods.clear()
    play.round(3.0)
    assert server.made == ["one", "one"]
    server.judge()
    assert play.round(4.0)[0]


def test_a_new_configuration_does_not_end_the_wait(server):
    play = Play(server, "one")
    play.round(1.0)
    play.rooms.settings = Settings()
    assert not play.round(2.0)[0]


def test_the_refusal_of_a_probe_is_no_reason_to_decide_anew(server):
    play = Play(server, "one")
    play.round(1.0)
    before = next(iter(server.snapshot().pods.values()))
    server.judge()
    after = next(iter(server.snapshot().pods.values()))
    assert is_probe(after)
    assert not matters(Kind.POD, RecordChange(before, after))
