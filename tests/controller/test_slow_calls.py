"""One slow answer holds up what waits for it, and nothing else: through the assembled controller, in virtual time."""

import itertools

import pytest
from scenes import Scene, refusal

from rescheduler.controller.call_pool import OneCall
from rescheduler.controller.decision_inputs import USAGE
from rescheduler.controller.dispatcher import FRESH_S, SentStep
from rescheduler.controller.issuing import Creations

HANGS_S = 8.0
"""A webhook that answers shortly before its own limit."""


@pytest.fixture
def scene():
    return Scene({"n1": 4, "n2": 2, "n3": 2, "n4": 2})


def carries(*kinds):
    """Works that are steps with such an action."""
    return lambda work: isinstance(work, SentStep) and any(a.does in kinds for a in work.calls)


def asks(work, what):
    """True if the work is a call of that kind."""
    return isinstance(work, OneCall) and work.what == what


def slow(program, chosen, seconds=HANGS_S):
    program.pool.slow = lambda work: seconds if chosen(work) else 0.0


def moved(scene, name):
    """Seconds from the creation of a move to its end on the target."""
    began_s = scene.now_s
    scene.succeed(name)
    return scene.now_s - began_s


def test_a_dry_run_creation_that_is_answered_late_holds_up_its_own_move_only(scene):
    scene.workload(nodes=["n1"])
    scene.workload(name="api", nodes=["n1"])
    program = scene.start()
    late_s = 4.0  # less than the age at which an answer is too old to evict for
    slow(program, lambda work: carries("try_creation")(work) and "web" in str(work.machine), late_s)
    late = scene.move(scene.pods("web")[0], "n2")
    moved(scene, scene.move(scene.pods("api")[0], "n3"))
    assert not scene.over(late)
    scene.until(lambda: scene.over(late), 300.0)


def test_moves_of_one_workload_ask_for_one_dry_run_creation_together(scene):
    scene.workload(nodes=["n1", "n1", "n1"])
    program = scene.start()
    slow(program, carries("try_creation"), 3.0)
    for pod, node in zip(scene.pods(), ("n2", "n3", "n4"), strict=True):
        scene.move(pod, node)
    scene.until(lambda: scene.calls.of(lambda call: call.tries_creation))
    scene.advance(2.5)
    assert len(scene.calls.of(lambda call: call.tries_creation)) == 1


def test_usage_that_nobody_answers_delays_no_move(scene):
    scene.workload(nodes=["n1"])
    program = scene.start()
    asked = []

    def asks_for_usage(work):
        if found := asks(work, USAGE):
            asked.append(work)
        return found

    slow(program, asks_for_usage, 10_000.0)
    assert moved(scene, scene.move(scene.pods()[0], "n2")) < HANGS_S
    assert asked


@pytest.mark.parametrize("what", ["gate-keys", "move-history", "avoid-nodes"])
def test_a_config_map_that_is_answered_late_holds_up_only_what_relies_on_it(scene, what):
    scene.workload(nodes=["n1"])
    program = scene.start()
    slow(program, lambda work: asks(work, f"ConfigMap {what}"))
    name = scene.move(scene.pods()[0], "n2")
    began_s = scene.now_s
    scene.succeed(name)
    (evicted,) = scene.calls.of(lambda call: call.evicts)
    assert (evicted.at_s - began_s >= HANGS_S) == (what != "avoid-nodes")
    scene.advance(60.0)
    assert not scene.faults
    assert not scene.leftovers()


def test_the_gate_is_proven_only_while_no_write_of_its_keys_is_under_way(scene):
    """A write that was computed before the intent could still take the key away that was just proven."""
    scene.workload(nodes=["n1"])
    program = scene.start()
    slow(program, lambda work: asks(work, "ConfigMap gate-keys"), 5.0)
    name = scene.move(scene.pods()[0], "n2")
    scene.until(lambda: scene.over(name))
    written = scene.calls.of(lambda c: c.path.endswith("/gate-keys") and c.method == "PATCH")
    proofs = scene.calls.of(lambda c: c.proves_gate)
    assert proofs
    for proof in proofs:
        assert not any(write.at_s <= proof.at_s < write.at_s + 5.0 for write in written)


def test_no_room_is_available_before_its_gate_key_is_stored(scene):
    scene.workload(nodes=["n1"])
    program = scene.start()
    slow(program, lambda work: asks(work, "ConfigMap gate-keys"))
    began_s = scene.now_s
    scene.held_room(node="n2")
    assert scene.now_s - began_s >= HANGS_S


TAINTS = b"{apiVersion: rescheduler.dev/v1alpha1, kind: ReschedulerConfiguration, policies: [{name: NodeTaints, after: 0s}]}"


def test_moves_of_a_decision_that_begin_late_are_counted_before_the_next_one(scene):
    scene.workload(nodes=["n1"])
    scene.workload(name="api", nodes=["n1"])
    program = scene.start(document=TAINTS)
    slow(program, lambda work: isinstance(work, Creations), 6.0)
    scene.until(lambda: program.loop.decision is not None)
    other = scene.move(scene.pods("api")[0], "n4")
    scene.advance(1.0)
    scene.taint("n1")
    scene.until(lambda: scene.over(other))
    scene.until(lambda: not scene.on("n1"), 300.0)
    created = [c.at_s for c in scene.calls.of(lambda c: c.method == "POST" and "podmigrations" in c.path)]
    assert all(later - earlier >= 6.0 for earlier, later in itertools.pairwise(created))
    scene.advance(60.0)
    assert not scene.faults
    assert not scene.leftovers()


def test_a_decision_whose_moves_cannot_begin_is_made_again(scene):
    scene.workload(nodes=["n1"])
    scene.start(document=TAINTS)
    refusals = iter([refusal(503, "ServiceUnavailable")] * 2)
    scene.calls.answer(
        lambda c: c.method == "POST" and c.path.endswith("/podmigrations"), lambda _: next(refusals, None)
    )
    scene.advance(5.0)
    scene.taint("n1")
    scene.until(lambda: not scene.on("n1"), 60.0)


def test_nothing_is_evicted_on_a_decision_that_has_grown_old(scene):
    """The status before the eviction is answered late: all checks are made again."""
    scene.workload(nodes=["n1"])
    program = scene.start()
    slow(program, carries("evict"), 3 * FRESH_S)
    name = scene.move(scene.pods()[0], "n2")
    scene.until(lambda: "is being evicted" in scene.state(name).get("message", ""))
    told_s = scene.now_s
    scene.advance(2 * FRESH_S)
    assert not scene.calls.of(lambda call: call.evicts)
    scene.succeed(name)
    assert scene.calls.of(lambda call: call.evicts)[0].at_s >= told_s + 3 * FRESH_S


def test_a_claim_that_is_being_written_gives_the_pod_no_second_room(scene):
    """What is sent counts at once: the answers come late, and other rooms are open meanwhile."""
    scene.workload(nodes=["n1", "n1"])
    program = scene.start()
    for name, node in (("room-1", "n2"), ("room-2", "n3"), ("room-3", "n4")):
        scene.room(name, node=node)
    scene.until(lambda: all(scene.phase(f"room-{n}") == "Available" for n in (1, 2, 3)))
    slow(program, carries(), 0.0)
    program.pool.slow = lambda work: 2.0 if isinstance(work, SentStep) and not work.machine.namespace else 0.0
    scene.scale(4)
    scene.until(lambda: len(scene.ready()) == 4)
    owners = [o["uid"] for n in (1, 2, 3) for o in scene.state(f"room-{n}").get("currentOwners") or ()]
    assert len(owners) == len(set(owners)) == 2
    assert not scene.faults
