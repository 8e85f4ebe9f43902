"""Each guard that the documents promise, through the assembled controller: taken out, one of these tests fails."""

import dataclasses
import itertools
import queue
import threading
from types import SimpleNamespace

import pytest
from scenes import LEASE, Scene, refusal

from harness import builders as b
from harness.histories.program import Events, Program
from harness.histories.user_requests import MOVE
from kube_sandbox.controllers.unstructured import spec, status
from rescheduler.configuration.live import LiveConfiguration
from rescheduler.controller import loop as loop_module
from rescheduler.controller.assembly import assemble
from rescheduler.controller.loop import GATE_KEYS_CHANGED, Loop
from rescheduler.controller.ports import ClockPorts, GatePorts, LoopTimings, Ports, ReportPorts
from rescheduler.controller.sender import ApiSender
from rescheduler.kube.client import KubeApi
from rescheduler.kube.reflector import ChangeType, Gaps, InformerEvent
from rescheduler.kube.transport import TransportError
from rescheduler.model.kinds import Kind

TWO_POLICIES = b"""\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
interval: 2s
limits: {movesAtOnce: 1, movesPerHour: 600, workloadCooldown: 2s}
policies: [{name: NodeTaints, after: 0s}]
"""


def writes(call):
    return call.writes


@pytest.fixture
def scene():
    return Scene({"n1": 2, "n2": 2, "n3": 2}).workload(nodes=["n1"])


def mover(scene, **options):
    """A controller that was asked to move the pod to n2."""
    scene.start(**options)
    return scene.move(scene.pods()[0], "n2")


# Leadership -----------------------------------------------------------------------------------------


def test_who_does_not_lead_writes_nothing(scene):
    scene.take_lease()
    name = mover(scene)
    scene.advance(25.0)
    assert not scene.calls.of(writes)
    scene.succeed(name)


def test_leadership_that_is_lost_in_the_middle_of_a_turn_evicts_nothing(scene, monkeypatch):
    name = mover(scene)
    send = ApiSender.send

    def taken_before(sender, call):
        """The turn has begun as the leader's; then comes the eviction."""
        if call.does == "evict":
            monkeypatch.undo()
            scene.take_lease()
            scene.program.elector.attempt()
        return send(sender, call)

    monkeypatch.setattr(ApiSender, "send", taken_before)
    scene.until(lambda: scene.program.deposed)
    assert not scene.calls.of(lambda c: c.evicts)
    lost_s = scene.now_s
    scene.advance(20.0)
    assert not scene.calls.of(writes, since_s=lost_s + 0.001), (
        "the next process waits for the Lease of the other"
    )
    scene.until(lambda: scene.over(name))
    assert len(scene.calls.of(lambda c: c.evicts)) == 1


def test_nothing_is_evicted_in_the_last_seconds_of_a_lease(scene):
    """The call may take a while: it must be over before another may lead."""
    program = scene.start()
    scene.until(program.leads)
    program.elector.attempt()
    renewed_s = scene.now_s
    scene.program.line.away.append((renewed_s, renewed_s + 60.0))
    scene.advance(17.9)
    assert program.leads()
    scene.advance(0.2)
    assert not program.leads()
    assert program.elector.still_leader()


# Caches ---------------------------------------------------------------------------------------------


def test_stale_caches_decide_nothing(scene):
    program = scene.start()
    scene.until(lambda: program.loop.decision is not None)
    program.caches.stall(Kind.NODE, scene.now_s + 200.0)
    scene.advance(125.0)
    begun_s = scene.now_s
    name = scene.move(scene.pods()[0], "n2")
    scene.advance(70.0)
    assert not scene.calls.of(writes, since_s=begun_s)
    assert "has not been proven fresh" in program.loop.ready().reason
    scene.succeed(name)


@pytest.mark.parametrize("kind", [Kind.POD, Kind.POD_DISRUPTION_BUDGET, Kind.RESERVATION])
def test_nothing_is_done_before_every_kind_was_listed(scene, kind):
    program = scene.start()
    program.caches.refuse(kind, scene.now_s + 20.0)
    program.kill()
    begun_s = scene.now_s
    name = scene.move(scene.pods()[0], "n2")
    scene.advance(19.0)
    assert not scene.calls.of(writes, since_s=begun_s)
    assert f"not read yet: {kind}" in program.loop.ready().reason
    scene.succeed(name)


MOST_LOOKS = 10_000


class Queue(queue.SimpleQueue):
    """Time passes only while somebody waits for an event. A loop that never waits fails instead of turning for ever."""

    def __init__(self, stop_after=0):
        self.waits, self.left, self.now_s, self.stop = [], stop_after, 0.0, threading.Event()
        self.looks = 0

    def clock(self):
        self.looks += 1
        assert self.looks < MOST_LOOKS, "the loop turns without waiting"
        return self.now_s

    def get(self, block=True, timeout=None):  # noqa: FBT002 - the signature of the standard library
        self.looks = 0
        self.waits.append(timeout)
        self.now_s += timeout
        if len(self.waits) >= self.left:
            self.stop.set()
        return super().get(block, 0)


def assembled(scene, events, *, read=lambda: None, synced=lambda: True, **ports):
    """A loop with caches that are fresh, and complete unless ``synced`` says otherwise. ``read``: of its configuration."""
    caches = SimpleNamespace(
        events=events, synced=synced, stale_for_s=lambda: 0.0, gaps=lambda _: Gaps(), problems=dict,
        unknown=dict,
    )  # fmt: skip
    configuration = LiveConfiguration(SimpleNamespace(read=read))
    configuration.start()
    given = {
        "leads": lambda: True,
        "gate": GatePorts(ready=lambda: True),
        "reports": ReportPorts(events=Events()),
        "process": "test",
    }
    return assemble(configuration, Ports(api=KubeApi(scene.calls), informers=caches, **given | ports))


def test_first_lists_are_taken_in_before_anything_is_decided(scene, monkeypatch):
    """The lists are in the queue, and one turn takes only so many events: the rest of the pods is not known yet."""
    monkeypatch.setattr(loop_module, "_AT_A_TIME", 50)
    events = queue.SimpleQueue()
    for index in range(65):
        events.put(InformerEvent(Kind.NODE, ChangeType.ADDED, b.node(f"node-{index}").build()))
    loop = assembled(scene, events)
    loop.turn()
    assert loop.ready().reason == "the first lists are being taken in"
    assert loop.decision is None
    assert not scene.calls.sent
    loop.turn()
    assert loop.decision is not None
    assert len(loop.snapshot().nodes) == 65


def test_a_list_that_is_complete_while_a_turn_is_under_way_is_taken_in_before_anything_is_decided(scene):
    """It is complete between the look into the queue and the question whether all are: what it has would not exist."""
    events, reads = queue.SimpleQueue(), []

    def read():
        """The first time before the loop begins, the second time in the middle of its first turn."""
        reads.append(len(reads))
        if len(reads) == 2:
            events.put(InformerEvent(Kind.NODE, ChangeType.ADDED, b.node("node").build()))

    loop = assembled(scene, events, read=read, synced=lambda: len(reads) >= 2)
    loop.turn()
    assert len(reads) == 2
    assert loop.ready().reason == "the first lists are being taken in"
    assert loop.decision is None
    loop.turn()
    assert loop.ready().ok
    assert len(loop.decision.plan.before.nodes) == 1


def test_the_loop_waits_until_something_is_due_and_no_longer(scene):
    events = Queue(stop_after=20)
    loop = assembled(scene, events, clocks=ClockPorts(monotonic=events.clock, cpu=lambda: 0.0))
    loop.run(events.stop)
    assert events.waits[0] == pytest.approx(0.001), "everything is due at the start"
    assert events.waits[1:10] == pytest.approx([1.0] * 9), (
        "nothing is, for ten seconds: it looks for a newer configuration"
    )


def test_a_standby_looks_once_a_second(scene):
    events = Queue(stop_after=10)
    loop = assembled(
        scene, events, clocks=ClockPorts(monotonic=events.clock, cpu=lambda: 0.0), leads=lambda: False
    )
    loop.run(events.stop)
    assert events.waits[1:] == pytest.approx([1.0] * 9)
    assert loop.decision is None
    assert not scene.calls.sent


def test_rounds_take_no_more_than_half_of_the_time_however_fast_events_come(scene):
    class Busy(Queue):
        def get(self, block=True, timeout=None):  # noqa: FBT002 - the signature of the standard library
            self.put(GATE_KEYS_CHANGED)
            return super().get(block, min(timeout, 0.01))

    events, begun = Busy(stop_after=500), []

    def cpu():
        """Asked at the begin and at the end of a round: each takes a quarter of a second."""
        begun.append(events.now_s)
        return 0.25 * len(begun)

    loop = assembled(scene, events, clocks=ClockPorts(monotonic=events.clock, cpu=cpu))
    loop.run(events.stop)
    pauses = [later - earlier for earlier, later in itertools.pairwise(begun[::2])]
    assert len(pauses) > 10
    assert pauses == pytest.approx([0.25] * len(pauses), abs=0.02)


# Own writes -----------------------------------------------------------------------------------------


def test_the_next_decision_waits_until_the_moves_of_the_last_one_are_in_the_cache(scene):
    scene.workload(name="api", nodes=["n1"])
    program = scene.start(document=TWO_POLICIES)
    scene.until(lambda: program.loop.decision is not None)
    program.caches.stall(Kind.POD_MIGRATION, scene.now_s + 30.0)
    scene.taint("n1")
    begun = lambda: scene.calls.of(lambda c: c.method == "POST" and c.path.endswith("/podmigrations"))  # noqa: E731
    scene.until(begun)
    scene.advance_busily(4.5)
    assert len(begun()) == 1, "movesAtOnce is 1, and the cache does not show that one is under way"


def test_one_decision_ends_only_once_the_cache_shows_its_moves(scene, monkeypatch):
    """``run --once``: what the cache does not show yet would be taken for moves that have ended and were cleared away."""
    ports, turn, ended = Program._ports, Loop.turn, []
    monkeypatch.setattr(Program, "_ports", lambda self: dataclasses.replace(ports(self), once=True))
    monkeypatch.setattr(Loop, "turn", lambda self: turn(self) and not ended.append(scene.now_s))
    scene.taint("n1")
    program = scene.start(document=TWO_POLICIES, timings=LoopTimings(expectations_s=60.0))
    program.caches.stall(Kind.POD_MIGRATION, scene.now_s + 30.0)
    scene.until(lambda: scene.api.list(MOVE))
    scene.advance_busily(20.0)
    assert not ended
    scene.until(lambda: ended)
    assert [status(move)["phase"] for move in scene.api.list(MOVE)] == ["Succeeded"]


def test_a_placeholder_is_created_once_while_the_cache_does_not_show_it(scene):
    program = scene.start()
    scene.until(lambda: program.loop.decision is not None)
    program.caches.stall(Kind.POD, scene.now_s + 4.0)
    scene.room(node="n2")
    scene.advance(3.5)
    stored = lambda c: c.method == "POST" and c.path.endswith("/pods") and "dryRun" not in c.query  # noqa: E731
    assert len(scene.calls.of(stored)) == 1


# After a refusal ------------------------------------------------------------------------------------


def test_a_call_that_fails_is_tried_again_ever_more_rarely(scene):
    mover(scene)
    scene.calls.answer(
        lambda c: c.method == "POST" and c.path.endswith("/reservations"),
        lambda _: refusal(500, "InternalError"),
    )
    scene.advance_busily(30.0)
    tries = [c.at_s for c in scene.calls.of(lambda c: c.path.endswith("/reservations"))]
    pauses = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert 5 <= len(tries) <= 9
    assert pauses[0] < 1.0
    assert pauses[-1] > 8.0


def test_a_gate_that_cannot_be_read_is_asked_for_once_a_second(scene):
    events, asked = Queue(stop_after=20), []

    def ready():
        asked.append(events.now_s)
        raise TransportError("no answer")

    loop = assembled(
        scene, events, clocks=ClockPorts(monotonic=events.clock, cpu=lambda: 0.0), gate=GatePorts(ready=ready)
    )
    loop.run(events.stop)
    assert loop.decision is None
    assert len(asked) > 3
    assert min(later - earlier for earlier, later in itertools.pairwise(asked)) > 0.99


@pytest.mark.parametrize("said", [{}, {"retry-after": "0"}, {"details": {"retryAfterSeconds": -1}}])
def test_an_eviction_that_is_refused_waits_longer_each_time(scene, said):
    """Even though a dry run passes in between, as it does where another admission refuses real evictions only.

    Such an admission may ask for no wait at all, or for less than none.
    """
    mover(scene)
    scene.calls.answer(lambda c: c.evicts, lambda _: refusal(429, "TooManyRequests", **said))
    scene.until(lambda: scene.calls.of(lambda c: c.evicts))
    scene.advance(30.0)
    tries = [c.at_s for c in scene.calls.of(lambda c: c.evicts)]
    pauses = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert 3 <= len(tries) <= 7
    assert pauses == sorted(pauses)


def test_an_eviction_that_a_budget_refuses_names_the_budget_and_waits(scene):
    """The cache shows that it allows one; the server, which counts anew, does not."""
    scene.budget(maxUnavailable=1)
    scene.advance(2.0)
    name = mover(scene)
    cause = {"reason": "DisruptionBudget", "message": "The disruption budget web needs 1 healthy pods"}
    scene.calls.answer(
        lambda c: c.rehearses, lambda _: refusal(429, "TooManyRequests", details={"causes": [cause]})
    )
    scene.until(lambda: scene.reason(name) == "DisruptionBudget")
    assert "web" in scene.state(name)["message"]
    scene.advance(20.0)
    assert not scene.calls.of(lambda c: c.intends)
    scene.calls.answers.clear()
    scene.succeed(name)


def test_each_try_of_an_eviction_has_a_rehearsal_of_its_own_and_a_fresh_gate_proof(scene):
    """What was proven before a refusal says nothing about now: keys and budgets may have changed."""
    scene.budget(maxUnavailable=1)
    name = mover(scene)
    refused = []

    def once_more(call):
        refused.append(call)
        return refusal(429, "TooManyRequests", **{"retry-after": "10"}) if len(refused) < 3 else None

    scene.calls.answer(lambda c: c.evicts, once_more)
    scene.succeed(name)
    tries = scene.calls.of(lambda c: c.evicts)
    assert len(tries) == 3
    for since, each in itertools.pairwise([None, *tries]):
        since_s = since.at_s if since else 0.0
        before = [c for c in scene.calls.sent if since_s < c.at_s <= each.at_s]
        intent = next(c for c in before if c.intends)
        rehearsal = [c for c in before if c.rehearses and c.at_s <= intent.at_s][-1]
        proofs = [c.at_s for c in scene.calls.sent if c.proves_gate and c.at_s <= each.at_s]
        assert intent.at_s - rehearsal.at_s <= 5.0 + 0.1, "an answer that is older is asked for again"
        assert each.at_s - proofs[-1] <= 5.0 + 0.1, "an older proof is repeated"
        assert each.at_s - proofs[0] >= 0.9, "other API servers may be behind the one that proved it"


# Two processes --------------------------------------------------------------------------------------


def test_of_two_controllers_the_second_acts_only_when_the_first_has_lost_the_lease(scene):
    first = scene.start(identity="first")
    scene.until(first.leads)
    second = scene.start(identity="second")
    assert scene.program is first
    together = []
    scene.api.subscribe(lambda _: together.append(scene.now_s) if first.leads() and second.leads() else None)
    name = scene.move(scene.pods()[0], "n2")
    scene.until(lambda: scene.calls.of(lambda c: c.proves_gate))
    first.frozen = True
    frozen_s = scene.now_s
    assert not scene.calls.of(lambda c: c.evicts)
    scene.until(second.leads)
    assert 20.0 < scene.now_s - frozen_s < 45.0
    assert not first.leads(), "by its clock, although it has not looked at the Lease since"
    first.frozen = False
    scene.succeed(name)
    assert len(scene.calls.of(lambda c: c.evicts)) == 1
    assert (first.deposed, second.deposed) == (1, 0)
    assert not together
    assert spec(scene.api.get(LEASE, "rescheduler", "rescheduler"))["holderIdentity"] == "second"
