"""Leadership: the rules without threads, then the threads against servers that are cut off."""

import json
import threading
import time
from dataclasses import dataclass, field

import msgspec
import pytest

from rescheduler.kube.election import CATCHES_UP_S, Election, LeaseAction, LeaseTiming, parse_lease
from rescheduler.kube.elector import Elector
from rescheduler.kube.transport import Request, Response, TransportError
from rescheduler.model.times import format_micros

TIMING = LeaseTiming(duration_s=30, renew_s=20, retry_s=4)
FAST = LeaseTiming(duration_s=3.5, renew_s=1.5, retry_s=0.2)


def lease(holder="other", renewed="1", transitions=3, duration=15):
    return parse_lease(
        json.dumps(
            {
                "metadata": {"name": "l", "resourceVersion": renewed, "labels": {"kept": "yes"}},
                "spec": {
                    "holderIdentity": holder,
                    "leaseDurationSeconds": duration,
                    "renewTime": renewed,
                    "acquireTime": "2026-01-01T00:00:00.000000Z",
                    "leaseTransitions": transitions,
                },
            }
        ).encode()
    )


@pytest.fixture
def election():
    return Election("me", TIMING)


def test_a_lease_that_nobody_has_is_made(election):
    assert election.look(None, 0.0) is LeaseAction.CREATE
    spec = election.desired(LeaseAction.CREATE, 0.0)
    assert (spec.holder_identity, spec.lease_transitions) == ("me", 0)
    assert spec.acquire_time == spec.renew_time == "1970-01-01T00:00:00.000000Z"


def test_anothers_lease_expires_when_we_saw_no_change_for_its_duration(election):
    assert election.look(lease(), 100.0) is LeaseAction.WAIT
    assert election.look(lease(), 114.9) is LeaseAction.WAIT
    assert election.look(lease(renewed="2"), 115.0) is LeaseAction.WAIT
    assert election.look(lease(renewed="2"), 129.9) is LeaseAction.WAIT
    assert election.look(lease(renewed="2"), 130.1) is LeaseAction.TAKE


def test_another_holder_that_renews_is_known_to_live(election):
    election.look(lease(), 100.0)
    assert election.rival == "", "it may have been left behind"
    election.look(lease(holder="third", renewed="2"), 101.0)
    assert election.rival == "", "it has taken the Lease, and not renewed it yet"
    election.look(lease(holder="third", renewed="3"), 105.0)
    assert election.rival == "third"
    election.look(lease(holder="", renewed="4"), 106.0)
    election.look(lease(holder="", renewed="5"), 107.0)
    assert election.rival == ""


@pytest.mark.parametrize(
    "renewed", ["1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z", "nonsense"]
)
def test_clocks_that_differ_change_nothing(election, renewed):
    assert election.look(lease(renewed=renewed), 0.0) is LeaseAction.WAIT
    assert election.look(lease(renewed=renewed), 15.1) is LeaseAction.TAKE


def test_a_released_lease_is_taken_at_once_and_the_change_is_counted(election):
    assert election.look(lease(holder=""), 0.0) is LeaseAction.TAKE
    spec = election.desired(LeaseAction.TAKE, 10.0)
    assert spec.lease_transitions == 4
    assert spec.acquire_time == spec.renew_time == format_micros(10.0)


@pytest.mark.parametrize(
    ("found", "waits_s"), [(None, 0.0), (lease(), 0.0), (lease(holder=""), CATCHES_UP_S)]
)
def test_only_who_is_handed_the_lease_waits_for_what_the_last_leader_wrote(election, found, waits_s):
    election.look(found, 100.0)
    election.written(lease(holder="me"), sent_at_s=200.0)
    assert election.leads(200.0)
    assert election.acts(200.0 + waits_s)
    assert not waits_s or not election.acts(199.9 + waits_s)
    election.look(lease(holder="me"), 204.0)
    election.written(lease(holder="me", renewed="2"), sent_at_s=204.0)
    assert election.acts(210.0), "renewing it begins no new wait"
    assert not election.acts(210.0, margin_s=14.0)


def test_renewing_keeps_the_term(election):
    assert election.look(lease(holder="me"), 0.0) is LeaseAction.RENEW
    spec = election.desired(LeaseAction.RENEW, 10.0)
    assert (spec.lease_transitions, spec.acquire_time) == (3, "2026-01-01T00:00:00.000000Z")
    assert spec.renew_time == "1970-01-01T00:00:10.000000Z"


def test_our_time_counts_from_before_the_write_and_ends_before_others_may_start(election):
    election.written(lease(holder="me"), sent_at_s=100.0)
    assert election.leads(119.9)
    assert not election.leads(120.0)
    assert not election.leads(116.0, margin_s=5.0)
    other = Election("other", TIMING)
    other.look(lease(holder="me", duration=30), 100.0)
    assert other.look(lease(holder="me", duration=30), 129.9) is LeaseAction.WAIT


def test_times_have_microseconds_even_on_whole_seconds():
    assert format_micros(0.0) == "1970-01-01T00:00:00.000000Z"
    assert format_micros(1.25) == "1970-01-01T00:00:01.250000Z"


@pytest.mark.parametrize("times", [(10, 20, 4), (30, 20, 20), (30, 20, 0)])
def test_timing_that_cannot_be_safe_is_refused(times):
    duration, renew, retry = times
    with pytest.raises(ValueError, match="lease"):
        LeaseTiming(duration_s=duration, renew_s=renew, retry_s=retry)


@dataclass
class LeaseServer:
    """One Lease with compare-and-swap, in memory."""

    stored: dict | None = None
    version: int = 0
    failure: Exception | None = None
    hang: threading.Event | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    writes: list = field(default_factory=list)

    def send(self, request: Request) -> Response:
        if self.hang is not None:
            self.hang.wait(10)
            raise TransportError("hung")
        if self.failure:
            raise self.failure
        with self.lock:
            return self.get() if request.method == "GET" else self.write(request)

    def get(self):
        if self.stored is None:
            return Response(404, b'{"kind":"Status","code":404,"details":{"name":"l","kind":"leases"}}')
        return Response(200, msgspec.json.encode(self.stored))

    def write(self, request):
        body = msgspec.json.decode(request.body)
        known = body["metadata"].get("resourceVersion")
        if (request.method == "POST") != (self.stored is None) or (
            self.stored and known != str(self.version)
        ):
            return Response(409, b'{"kind":"Status","code":409,"reason":"Conflict"}')
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.stored = body
        self.writes.append(body["spec"])
        return self.get()

    def steal(self, holder):
        with self.lock:
            self.version += 1
            self.stored["metadata"]["resourceVersion"] = str(self.version)
            self.stored["spec"]["holderIdentity"] = holder
            self.stored["spec"]["renewTime"] = "stolen"

    def stream(self, request):
        raise AssertionError


@pytest.fixture
def candidate():
    electors = []

    def make(server, identity="me", **options):
        lost = []
        elector = Elector(
            server, namespace="ns", name="l", identity=identity, on_lost=lost.append, timing=FAST, **options
        )
        electors.append(elector)
        elector.start()
        return elector, lost

    yield make
    for elector in electors:
        elector.stop(release=False)


def until(condition, timeout=15):
    ends = time.monotonic() + timeout
    while not condition() and time.monotonic() < ends:
        time.sleep(0.005)
    return condition()


def test_one_leads_and_the_next_one_takes_over_at_once_after_a_clean_stop(candidate):
    server = LeaseServer()
    first, first_lost = candidate(server, "a")
    assert until(first.still_leader, 5)
    second, _ = candidate(server, "b")
    assert not until(second.still_leader, 0.4)
    assert (first.still_leader(), second.still_leader(), second.holder) == (True, False, "a")
    first.stop()
    assert not first.still_leader()
    assert server.stored["spec"]["holderIdentity"] in {"", "b"}
    assert until(second.still_leader, 1.0)
    assert server.stored["spec"]["leaseTransitions"] == 1
    assert first_lost == []


def test_renewals_keep_leadership_and_jitter_between_the_tries(candidate):
    server = LeaseServer()
    elector, lost = candidate(server)
    assert until(elector.still_leader, 5)
    time.sleep(FAST.renew_s * 1.5)
    assert elector.still_leader()
    assert lost == []
    assert len(server.writes) > 5
    assert {w["leaseTransitions"] for w in server.writes} == {0}


@pytest.mark.parametrize(
    "failure", [TransportError("cut"), ValueError("a fault of ours"), OSError("no file")]
)
def test_a_leader_cut_off_stops_before_its_lease_ends_whatever_the_failure(candidate, failure):
    server = LeaseServer()
    elector, lost = candidate(server)
    assert until(elector.still_leader, 5)
    server.failure = failure
    cut_at = time.monotonic()
    assert until(lambda: lost)
    assert time.monotonic() - cut_at < FAST.duration_s
    assert not elector.still_leader()
    server.failure = None
    time.sleep(0.3)
    assert len(lost) == 1
    assert not elector.still_leader()


def test_a_renewal_that_hangs_does_not_outlive_the_deadline(candidate):
    server = LeaseServer()
    elector, lost = candidate(server)
    assert until(elector.still_leader, 5)
    server.hang = threading.Event()
    cut_at = time.monotonic()
    assert until(lambda: lost)
    assert time.monotonic() - cut_at < FAST.duration_s
    server.hang.set()


def test_a_short_outage_is_survived(candidate):
    server = LeaseServer()
    elector, lost = candidate(server)
    assert until(elector.still_leader, 5)
    server.failure = TransportError("restart")
    time.sleep(FAST.renew_s / 3)
    server.failure = None
    time.sleep(FAST.renew_s)
    assert elector.still_leader()
    assert lost == []


def test_a_stolen_lease_is_given_up_at_once(candidate):
    server = LeaseServer()
    elector, lost = candidate(server)
    assert until(elector.still_leader, 5)
    server.steal("thief")
    assert until(lambda: lost)
    assert "thief" in lost[0]
    assert not elector.still_leader()
    assert server.stored["spec"]["holderIdentity"] == "thief"


def test_the_last_metre_wants_a_margin(candidate):
    elector, _ = candidate(LeaseServer())
    assert until(elector.still_leader, 5)
    assert elector.still_leader(FAST.renew_s / 2)
    assert not elector.still_leader(FAST.renew_s + 1)


def test_a_clock_that_jumps_ahead_ends_leadership(candidate):
    jump = [0.0]
    server = LeaseServer()
    elector, _ = candidate(server, clock=lambda: time.monotonic() + jump[0])
    assert until(elector.still_leader, 5)
    jump[0] = 100.0
    assert not elector.still_leader()


def test_what_others_put_on_the_lease_stays(candidate):
    server = LeaseServer(stored=lease(holder="").raw, version=1)
    server.stored["spec"]["strategy"] = "OldestEmulationVersion"
    elector, _ = candidate(server)
    assert until(elector.still_leader, 5)
    assert server.stored["metadata"]["labels"] == {"kept": "yes"}
    assert server.stored["spec"]["strategy"] == "OldestEmulationVersion"
    assert server.stored["spec"]["leaseTransitions"] == 4


def test_two_candidates_never_lead_together(candidate):
    server = LeaseServer()
    both = [candidate(server, name)[0] for name in "ab"]
    assert until(lambda: any(e.still_leader() for e in both))
    leader = next(e for e in both if e.still_leader())
    other = next(e for e in both if e is not leader)
    ends = time.monotonic() + 3 * FAST.duration_s
    cut = [False]

    def cut_off(request):
        raise TransportError("cut")

    while time.monotonic() < ends:
        assert not (leader.still_leader() and other.still_leader())
        if not cut[0]:
            cut[0] = True
            leader._transport = type("Cut", (), {"send": staticmethod(cut_off)})()
        time.sleep(0.01)
    assert other.still_leader()
    assert server.stored["spec"]["leaseTransitions"] == 1
