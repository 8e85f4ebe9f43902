"""Moves under random interleavings, stale caches and crashes after every single action."""

from __future__ import annotations

import os

import msgspec
import pytest
from moving_records import NAMESPACE, Crash, conflict
from moving_run import SOFT, Run, full_cluster, landed, room_of_people, stepper
from moving_world import World

from rescheduler.migrations.actions import Evict, WriteAvoidHints
from rescheduler.model import names
from rescheduler.model.migration import MigrationPhase, MoveMode
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import ReservationPhase
from rescheduler.reservations import actions as rooms
from rescheduler.reservations.handover import HAND_OVER_TOLERATION

HISTORIES = int(os.environ.get("RESCHEDULER_HISTORIES", "0"))
FIRST = int(os.environ.get("RESCHEDULER_FIRST_SEED", "0"))


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
@pytest.mark.parametrize("seed", range(FIRST, FIRST + (HISTORIES or 20)))
def test_every_replacement_lands_on_its_room(kind, seed):
    world, keys = full_cluster(kind)
    Run(world, seed).go()
    targets = {key: world.migrations[key].target_node for key in keys}
    got = landed(world, keys)
    assert {k: (v[0], v[2]) for k, v in got.items()} == {
        k: (MigrationPhase.SUCCEEDED, targets[k]) for k in keys
    }, f"seed {seed}: {got}"
    assert world.leftovers() == [], f"seed {seed}"


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
@pytest.mark.parametrize("seed", range(FIRST, FIRST + (HISTORIES or 30)))
def test_crashes_at_random_moments_leave_nothing_behind(kind, seed):
    world, keys = full_cluster(kind)
    run = Run(world, seed, crash_every=3)
    run.go()
    assert run.crashes > 0 or seed >= 1000, "far out, one seed in a thousand happens to spare the controller"
    assert world.leftovers() == [], f"seed {seed}"
    got = landed(world, keys)
    assert all(v[0] is MigrationPhase.SUCCEEDED for v in got.values()), f"seed {seed}: {got}"


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_a_crash_after_every_single_action(kind):
    world, _ = full_cluster(kind)
    Run(world, 1, stale=False).go()
    total = len(world.actions)
    assert total > 20
    for at in range(total):
        world, keys = full_cluster(kind)
        world.crash_in = at
        run = Run(world, 1, stale=False)
        died = False
        for _ in range(3000):
            crash_in = world.crash_in
            actor = run.random.choice(run.actors())
            if actor == run.control:
                run.seen = world.look()
                try:
                    run.reconciler.round(run.seen, world.now_s)
                except Crash:
                    died = True
                    run.restart()
                    world.crash_in = None
            else:
                actor()
            assert crash_in is None or world.crash_in is None or world.crash_in <= crash_in
            world.check()
            world.now_s += 0.05
            if run.done():
                break
        world.crash_in = None
        run.settle(40)
        assert died or at >= len(world.actions), f"action {at}"
        assert world.leftovers() == [], f"crash before action {at}"
        assert all(v[0] is MigrationPhase.SUCCEEDED for v in landed(world, keys).values()), f"action {at}"


@pytest.mark.parametrize("seed", range(FIRST, FIRST + (HISTORIES or 15)))
def test_pods_of_higher_priority_are_kept_out_by_the_taint(seed):
    world, keys = full_cluster(contender_priority=100)
    Run(world, seed, crash_every=5 if seed % 2 else 0).go(steps=6000)
    targets = {key: world.migrations[key].target_node for key in keys}
    got = landed(world, keys)
    assert {k: (v[0], v[2]) for k, v in got.items()} == {
        k: (MigrationPhase.SUCCEEDED, targets[k]) for k in keys
    }, f"seed {seed}: {got}"
    assert world.leftovers() == [], f"seed {seed}"


@pytest.mark.parametrize("seed", range(FIRST, FIRST + (HISTORIES or 20)))
def test_rooms_that_people_reserve_are_used_by_a_scale_up(seed):
    """Two rooms for three new pods, one of them without a named node; the surplus pod is let go."""
    world = World()
    world.contender_priority = 0
    world.node("n1", 1)
    world.node("n2", 1)
    world.node("n3", 1)
    world.workload("ReplicaSet", "web", ["n1"])
    world.reserve("first", "uid-web", node="n2")
    world.reserve("second", "uid-web")
    run = Run(world, seed, crash_every=4 if seed % 2 else 0)
    for _ in range(4000):
        run.random.choice(run.actors())()
        world.now_s += 0.05
        phases = {r.status.phase for r in world.reservations.values()}
        if phases == {ReservationPhase.AVAILABLE}:
            workload = world.workloads["uid-web"]
            world.workloads["uid-web"] = msgspec.structs.replace(workload, replicas=4)
        if phases == {ReservationPhase.SUCCEEDED}:
            break
    run.settle()
    assert {r.status.phase for r in world.reservations.values()} == {ReservationPhase.SUCCEEDED}, (
        f"seed {seed}"
    )
    assert {p.node for p in world.pods.values()} == {"n1", "n2", "n3", ""}
    assert world.leftovers() == [], f"seed {seed}"


@pytest.mark.parametrize("seed", range(FIRST, FIRST + (HISTORIES or 20)))
def test_soft_moves_end_and_leave_nothing_behind(seed):
    """Nobody is held, nobody comes for the rooms; the old node is closed, so that the room is the only place."""
    world = World()
    world.contender_priority = 0
    world.node("n1", 2)
    world.node("n2", 1)
    pods = world.workload("ReplicaSet", "web", ["n1", "n1"], desired=1)
    world.nodes["n1"] = msgspec.structs.replace(world.nodes["n1"], unschedulable=True)
    world.now_s += 5.0  # the API server tells creation times in whole seconds
    key = world.migrate(pods[0], "n2", mode=MoveMode.SOFT)
    run = Run(world, seed, crash_every=4 if seed % 2 else 0)
    run.reconciler.settings = run.settings = SOFT
    run.go()
    status = world.migrations[key].status
    assert (status.phase, status.node_name) == (MigrationPhase.SUCCEEDED, "n2"), f"seed {seed}: {status}"
    assert not any(isinstance(action, rooms.Nominate | rooms.Ungate) for action in world.actions)
    assert world.leftovers() == [], f"seed {seed}"


@pytest.mark.parametrize("promised", [False, True])
def test_no_placeholder_is_made_on_a_node_while_a_room_there_is_handed_over(promised):
    """It outranks the claimant: should somebody else take the free room meanwhile, it would take the claimant's."""
    world = World()
    world.contender_priority = 0
    world.node("n1", 3)
    world.workload("ReplicaSet", "web", ["n1"])
    world.reserve("first", "uid-web", node="n1")
    run = Run(world, 1, stale=False)

    def until(reached):
        for _ in range(2000):
            run.random.choice(run.actors())()
            world.now_s += 0.05
            if reached():
                return
        raise AssertionError("not reached")

    def phase(name):
        return world.reservations[name].status.phase

    until(lambda: phase("first") is ReservationPhase.AVAILABLE)
    world.workloads["uid-web"] = msgspec.structs.replace(world.workloads["uid-web"], replicas=2)
    until(lambda: world.reservations["first"].status.current_owners)
    world.reserve("second", "uid-web", node="n1", pre_allocation=promised)
    for _ in range(3):
        run.control()
    assert sum(pod.namespace == NAMESPACE for pod in world.pods.values()) <= 1
    until(lambda: phase("first") is ReservationPhase.SUCCEEDED)
    until(lambda: phase("second") is ReservationPhase.AVAILABLE)


@pytest.mark.parametrize("promised", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_placeholder_that_was_refused_stands_back_for_a_hand_over_on_its_node(seed, promised):
    """It outranks the claimant and passes the taint: it would take the room in the moment that it is let go."""
    world = World()
    world.contender_priority = 0
    world.node("n1", 3)
    world.workload("ReplicaSet", "web", ["n1"])
    world.reserve("first", "uid-web", node="n1")
    run = Run(world, seed, stale=False)
    until = stepper(run)

    def phase(name):
        return world.reservations[name].status.phase

    def waiting():
        """The placeholder of the second Reservation, let in and not bound."""
        uid = world.reservations["second"].uid
        pods = [p for p in world.pods.values() if p.namespace == NAMESPACE and p.controller.uid == uid]
        return next((p for p in pods if not p.node and not p.spec.gates), None)

    until(lambda: phase("first") is ReservationPhase.AVAILABLE)
    world.reserve("second", "uid-other", node="n1" if promised else "", pre_allocation=promised)
    until(waiting, actors=[run.control])
    filler = world.pod("filler", "n1")
    holder = waiting()
    tolerant = msgspec.structs.replace(holder.spec, tolerations=(HAND_OVER_TOLERATION,))
    world.put(msgspec.structs.replace(holder, spec=tolerant))
    until(lambda: waiting().unschedulable_message, actors=[world.scheduler])
    world.workloads["uid-web"] = msgspec.structs.replace(world.workloads["uid-web"], replicas=2)
    until(lambda: phase("first") in (ReservationPhase.SUCCEEDED, ReservationPhase.FAILED))
    assert phase("first") is ReservationPhase.SUCCEEDED
    assert phase("second") in (ReservationPhase.PENDING, ReservationPhase.WAITING)
    del world.pods[filler.key]
    until(lambda: phase("second") is ReservationPhase.AVAILABLE)


@pytest.mark.parametrize("seed", range(6))
def test_of_two_moves_of_one_pod_the_second_waits_and_takes_no_room(seed):
    world, keys = full_cluster()
    key = keys[0]
    first = world.migrations[key]
    pod = world.pods[ObjectKey(first.namespace, first.pod_name)]
    second = msgspec.structs.replace(
        first, name="second-move", uid="second-move", target_node="n3", resource_version=world.version()
    )
    world.migrations[second.key] = second
    run = Run(world, seed, crash_every=4 if seed % 2 else 0)
    run.go(steps=6000)
    ended = {k: world.migrations[k].status for k in (key, second.key)}
    assert sorted(s.phase for s in ended.values()) == [MigrationPhase.FAILED, MigrationPhase.SUCCEEDED]
    failed = next(s for s in ended.values() if s.phase is MigrationPhase.FAILED)
    assert failed.reason in ("PodGone", "PodReplaced")
    assert (failed.reservation_name, failed.eviction_requested_at_s, failed.evicted_at_s) == ("", 0.0, 0.0)
    assert world.evictions.count(pod.key) == 1
    assert world.migrations[keys[1]].status.phase is MigrationPhase.SUCCEEDED
    assert world.leftovers() == []


def test_the_second_move_of_a_pod_goes_on_if_the_first_one_ends_without_moving_it():
    world, keys = full_cluster()
    first = world.migrations[keys[0]]
    second = msgspec.structs.replace(
        first, name="second-move", uid="second-move", resource_version=world.version()
    )
    world.migrations[second.key] = second
    run = Run(world, 1, stale=False)
    until = stepper(run)
    until(lambda: world.migrations[second.key].status.reason == "AnotherMove", actors=[run.control])
    del world.migrations[keys[0]]
    until(lambda: world.migrations[second.key].status.phase is MigrationPhase.SUCCEEDED)


def test_a_sibling_that_lands_on_a_room_of_its_own_is_no_stray():
    """A StatefulSet makes its pods one after the other: the second one comes when the first is Ready."""
    world, keys = full_cluster("StatefulSet")
    world.budgets.clear()
    run = Run(world, 1, stale=False)
    (workload,) = world.workloads.values()
    first, second = (ObjectKey("default", f"web-{i}") for i in range(2))
    all_at_once, patience_s = world.controllers, []

    def one_by_one():
        if second in world.pods or (patience_s and world.now_s >= patience_s[0]):
            return all_at_once()
        patience_s.append(world.now_s + 8.0)
        if first not in world.pods:
            world.replica(workload, 0)
            return True
        return False

    world.controllers = one_by_one
    run.go(steps=6000)
    assert {v[0] for v in landed(world, keys).values()} == {MigrationPhase.SUCCEEDED}, landed(world, keys)


@pytest.mark.parametrize("once", [True, False], ids=["one pod", "several"])
def test_a_sibling_waits_while_the_claim_of_a_pod_that_went_away_is_taken_back(once):
    """The room is free again in the next round: whoever is let go in between misses it."""
    world, run, until = room_of_people(allocate_once=once)
    (workload,) = world.workloads.values()
    first = world.replica(workload, 1)
    until(lambda: world.reservations["room"].status.current_owners, actors=[run.control])
    del world.pods[first.key]
    second = world.replica(workload, 2)
    world.workloads["uid-web"] = msgspec.structs.replace(workload, replicas=2)
    run.control()
    owners = world.reservations["room"].status.current_owners
    assert first.uid not in [owner.uid for owner in owners], "taken back"
    assert names.GATE in world.pods[second.key].spec.gates, "and nobody was let go meanwhile"
    until(lambda: world.pods[second.key].node)
    assert world.pods[second.key].node == "n2"


@pytest.mark.parametrize(
    "refused", [False, True], ids=["told in the same round", "its status cannot be written"]
)
def test_nobody_is_evicted_once_the_placeholder_is_deleted_by_hand(refused):
    world, keys = full_cluster()
    world.budgets.clear()
    run = Run(world, 1, stale=False)
    until = stepper(run)
    until(lambda: world.migrations[keys[0]].status.eviction_requested_at_s)
    for pod in [p for p in world.pods.values() if p.namespace == NAMESPACE]:
        world.put(msgspec.structs.replace(pod, deleting=True))
    if refused:
        world._WriteReservationStatus = lambda action: (_ for _ in ()).throw(conflict())
    run.world.actions.clear()
    for _ in range(30):
        run.control()
        world.now_s += 0.1
    assert not [action for action in world.actions if isinstance(action, Evict)]
    assert not any(world.migrations[key].status.eviction_requested_at_s for key in keys)


@pytest.mark.parametrize("written", [False, True], ids=["before the intent", "after it"])
def test_nobody_is_evicted_for_a_room_that_a_sibling_is_given_in_the_same_round(written):
    """The Reservation is people's and for any pod of the workload; one comes while the eviction is being prepared."""
    world, run, until = room_of_people()
    (old,) = (pod for pod in world.pods.values() if pod.namespace != NAMESPACE)
    key = world.migrate(old, "n2", reservation_ref="room")

    def begun():
        status = world.migrations[key].status
        return status.eviction_requested_at_s if written else status.phase is MigrationPhase.EVICTING

    until(begun, actors=[run.control])
    (workload,) = world.workloads.values()
    sibling = world.replica(workload, 1)
    world.workloads["uid-web"] = msgspec.structs.replace(workload, replicas=2)
    for _ in range(200):
        owners = world.reservations["room"].status.current_owners
        evicted = [action for action in world.actions if isinstance(action, Evict)]
        assert not (evicted and owners and owners[0].uid == sibling.uid), "the room was its"
        if evicted or owners:
            break
        run.control()
        world.now_s += 0.05
    assert bool(evicted) is written, (
        "the intent holds the room for the replacement; before it, the sibling has it"
    )


def test_hints_are_not_written_for_an_owner_that_is_deleted_in_the_middle():
    """They would be collected at once, and written again, without an end."""
    world, keys = full_cluster()
    run = Run(world, 1, stale=False)
    while world.migrations[keys[0]].status.phase is not MigrationPhase.HANDING_OVER:
        run.random.choice(run.actors())()
        world.now_s += 0.05
    world.workloads.clear()
    world.actions.clear()
    for _ in range(20):
        run.control()
    assert sum(isinstance(action, WriteAvoidHints) for action in world.actions) <= 1


def test_without_the_nomination_a_crowd_takes_the_rooms(monkeypatch):
    """The histories can fail: leave one step out and the promise is broken."""
    monkeypatch.setattr(
        World, "_Nominate", lambda self, action: self._Ungate(rooms.Ungate(action.pod, action.uid, ""))
    )
    broken = 0
    for seed in range(10):
        world, _ = full_cluster()
        try:
            Run(world, seed).go()
        except AssertionError:
            broken += 1
    assert broken > 0
