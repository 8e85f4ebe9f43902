"""An API server that is away while rooms are reserved and given back: how long it takes, what people are told."""

import threading
import time
from http import HTTPStatus

import msgspec
import pytest

from harness import builders as b
from rescheduler.cli.ending import exit_code_of
from rescheduler.cli.errors import CommandError
from rescheduler.cli.following import AWAY_S, follow
from rescheduler.cli.reservation_client import (
    ReservationClient,
    manifests,
    release_summary,
    room_template,
    stem_of,
)
from rescheduler.cli.scale_up import ScaleUp
from rescheduler.cli.workload import FoundWorkload, parse_workload
from rescheduler.kube.client import KubeApi
from rescheduler.kube.election import LeaseTiming
from rescheduler.kube.errors import TryLaterError
from rescheduler.kube.transport import Response, TransportError
from rescheduler.model.kinds import Kind
from rescheduler.model.records import OwnerRef
from rescheduler.model.reservation import Reservation, ReservationOwner

NOT_FOUND = b'{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}'
TWENTY = {f"web-{i:02}": "" for i in range(20)}


class Server:
    """Holds names; ``away(request)`` says whether it is away now; ``hangs``: then it keeps callers waiting."""

    def __init__(self, names=(), *, away=lambda _: False, hangs=False):
        self.names = set(names)
        self.away = away
        self.hangs = hangs
        self._lock = threading.Lock()

    def send(self, request):
        if self.away(request):
            if self.hangs:
                time.sleep(request.timeout_s)
            raise TransportError("connection refused")
        with self._lock:
            if request.method == "POST":
                body = msgspec.json.decode(request.body)
                self.names.add(body["metadata"]["name"])
                return Response(HTTPStatus.CREATED, request.body)
            name = request.path.partition("?")[0].rpartition("/")[2]
            if request.method == "GET" and name == "reservations":
                items = [
                    {"metadata": {"name": found, "uid": found}, "spec": {"template": {}}}
                    for found in self.names
                ]
                return Response(
                    HTTPStatus.OK,
                    msgspec.json.encode(
                        {"kind": "ReservationList", "metadata": {"resourceVersion": "1"}, "items": items}
                    ),
                )
            if request.method == "DELETE" and name in self.names:
                self.names.remove(name)
                return Response(HTTPStatus.OK, b"{}")
        return Response(HTTPStatus.NOT_FOUND, NOT_FOUND)


def rooms_of(server, patience_s):
    return ReservationClient(KubeApi(server), patience_s)


@pytest.mark.parametrize("hangs", [False, True])
def test_giving_back_twenty_rooms_takes_no_longer_than_one_limit(hangs):
    server = Server(TWENTY, away=lambda _: True, hangs=hangs)
    began_s = time.monotonic()
    left = rooms_of(server, 1.5).release(TWENTY)
    assert time.monotonic() - began_s < 4
    assert set(left) == set(TWENTY)
    assert set(left.values()) == {"no answer from the API server"}


def test_a_server_that_comes_back_in_time_loses_nothing():
    back_s = time.monotonic() + 0.5
    server = Server(TWENTY, away=lambda _: time.monotonic() < back_s)
    assert rooms_of(server, 20.0).release(TWENTY) == {}
    assert server.names == set()


def test_what_is_left_is_named_with_the_command_that_removes_it():
    left = {"web-01": "connection refused", "web-07": "connection refused"}
    assert release_summary(left).startswith("Not released (connection refused): web-01, web-07.")
    assert release_summary(left).endswith("rescheduler reserve release web-01 web-07")
    assert release_summary(left, "x").endswith("rescheduler reserve release -l rescheduler.dev/group=x")
    assert release_summary({}) == "Everything was released."


@pytest.mark.parametrize("name", ["", "mine"])
def test_a_room_whose_making_got_no_answer_goes_with_the_others(name):
    room = Reservation(
        name=name or stem_of("web", "x"),
        template_raw=room_template(b'{"spec":{}}', "shop"),
        owners=(ReservationOwner(),),
    )
    server = Server()

    class Deaf(KubeApi):
        """The third is made, and its answer lost."""

        def create(self, path, body, *, dry_run=False, strict=False):
            answer = super().create(path, body, dry_run=dry_run, strict=strict)
            if body["metadata"]["name"].endswith("-3"):
                raise TransportError("reset")
            return answer

    with pytest.raises(TransportError) as lost:
        ReservationClient(Deaf(server)).create(manifests(room, 3, "x"))
    assert server.names == set()
    assert not getattr(lost.value, "__notes__", ()), "nothing is left"


class Time:
    """A clock that others set forward."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s

    def pause(self):
        self.now_s += 0.2


class Looks:
    """Stands for ``ReservationClient``: nobody acts; the look at ``at_s`` is answered only after ``away_s``."""

    def __init__(self, clock, *, at_s=1.0, away_s=0.0, acts_s=float("inf"), left=()):
        self.clock, self.at_s, self.away_s, self.acts_s = clock, at_s, away_s, acts_s
        self.left = dict.fromkeys(left, "connection refused")
        self.names = []

    def create(self, wanted):
        self.names = [body["metadata"]["name"] for body in wanted]

    def group(self, _group):
        if self.away_s and self.clock() >= self.at_s:
            self.clock.now_s += self.away_s
            self.away_s = 0.0
        status = {"phase": "Failed", "observedGeneration": 1} if self.clock() >= self.acts_s else {}
        return tuple(
            b.object_of(Kind.RESERVATION, n, spec={"template": {}}, status=status).build() for n in self.names
        )

    def again(self, names, group=""):
        return self.group(group) if names else ()

    def release(self, uids):
        return {name: self.left[name] for name in uids if name in self.left}


def scale_up(rooms, clock):
    found = FoundWorkload(
        name=parse_workload("deployment/web", "shop"),
        replicas=1,
        owner=OwnerRef("apps/v1", "ReplicaSet", "web-1", "u"),
        template=b'{"spec":{"containers":[]}}',
    )
    return ScaleUp(
        rooms=rooms, workload=found, replicas=3, group="g", timeout_s=120.0, clock=clock, pause=clock.pause
    )


def test_nobody_acts_is_said_after_a_standby_would_have_taken_over():
    clock = Time()
    with pytest.raises(CommandError, match="is the controller running") as said:
        scale_up(Looks(clock), clock).reserve()
    assert LeaseTiming().duration_s + 15 <= clock() < 46
    assert said.value.__notes__ == ["Nothing was scaled. Everything was released."]


def test_time_in_which_the_server_did_not_answer_is_no_time_in_which_somebody_could_act():
    clock = Time()
    with pytest.raises(CommandError, match="room for 0 of 2"):
        scale_up(Looks(clock, away_s=50.0, acts_s=60.0), clock).reserve()
    clock = Time()
    with pytest.raises(CommandError, match="is the controller running"):
        scale_up(Looks(clock, away_s=50.0), clock).reserve()
    assert 95 <= clock() < 98


def test_a_scale_up_that_gives_up_says_which_rooms_it_could_not_give_back():
    clock = Time()
    with pytest.raises(CommandError) as said:
        scale_up(Looks(clock, left=["web-g-2"]), clock).reserve()
    (note,) = said.value.__notes__
    assert note.startswith("Nothing was scaled. Not released (connection refused): web-g-2.")


def test_a_wait_ends_at_its_limit_though_the_server_was_away():
    clock = Time()
    looks = Looks(clock, away_s=50.0)
    follow(
        lambda: looks.group(""), lambda *_: False, ends_s=10.0, clock=clock, pause=clock.pause,
        show=lambda _: None,
    )  # fmt: skip
    assert 51 <= clock() < 52


def away(looks, clock, error, *, first_s, until_s):
    """``looks``, but no answer in that time."""

    def look():
        if first_s <= clock() < until_s:
            raise error
        return looks.group("")

    return look


@pytest.mark.parametrize("error", [TransportError("refused"), TryLaterError(503, "", "starting")])
def test_a_server_that_is_started_again_is_waited_for_and_only_its_client_says_so(capsys, error):
    clock = Time()
    looks = Looks(clock, acts_s=40.0)
    looks.names = ["web-1"]
    answered = []

    def done(found, answered_s):
        answered.append((clock(), answered_s))
        return all(room.status.phase == "Failed" for room in found)

    follow(
        away(looks, clock, error, first_s=5.0, until_s=30.0),
        done,
        ends_s=100.0,
        clock=clock,
        pause=clock.pause,
    )
    assert 40 <= clock() < 42
    assert capsys.readouterr().err == ""
    assert answered[-1][1] < 12, "meanwhile no controller could act"


@pytest.mark.parametrize(("first_s", "ends_s", "after_s"), [
    (0.0, 1000.0, 0.0), (5.0, 1000.0, 5.0 + AWAY_S), (5.0, 20.0, 20.0),
], ids=["it was never there", "it does not come back", "the time is over"])  # fmt: skip
def test_a_server_is_not_waited_for_without_end(first_s, ends_s, after_s):
    clock = Time()
    look = away(Looks(clock), clock, TransportError("refused"), first_s=first_s, until_s=5000.0)
    with pytest.raises(TransportError):
        follow(look, lambda *_: False, ends_s=ends_s, clock=clock, pause=clock.pause)
    assert after_s - 2 <= clock() <= after_s + 2


@pytest.mark.parametrize(("error", "code", "first"), [
    (CommandError("no room"), 1, "error: no room"),
    (TransportError("refused"), 1, "error: no answer from the API server: refused"),
    (TryLaterError(503, "", "busy"), 1, "error: the API server rejected the request: 503 : busy"),
    (KeyboardInterrupt(), 130, "interrupted"),
])  # fmt: skip
def test_notes_follow_the_message_of_every_error(error, code, first, capsys):
    error.add_note("Everything was released.")

    def command():
        raise error

    assert exit_code_of(command) == code
    assert capsys.readouterr().err.splitlines() == [first, "Everything was released."]
