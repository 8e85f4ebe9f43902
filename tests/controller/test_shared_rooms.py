"""Rooms for several pods and promised rooms, under random interleavings, stale caches, crowds and crashes."""

from __future__ import annotations

import os

import msgspec
import pytest
from moving_records import NAMESPACE
from moving_run import Run
from moving_world import World

from rescheduler.model.reservation import ReservationPhase

SEEDS = int(os.environ.get("RESCHEDULER_HISTORIES", "15"))
FIRST = int(os.environ.get("RESCHEDULER_FIRST_SEED", "0"))
seeds = pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
replace = msgspec.structs.replace


class Shared(Run):
    """A crowd waits for every room from the moment that the room is held."""

    def crowd(self):
        held = [r for r in self.world.reservations.values() if r.status.phase is ReservationPhase.AVAILABLE]
        while held and self.contenders < 8:
            self.contenders += 1
            self.world.pod(f"contender-{self.contenders}", priority=self.world.contender_priority)

    def play(self, until, steps=6000):
        """Until the condition holds; then everything comes to rest."""
        for _ in range(steps):
            self.random.choice(self.actors())()
            self.world.check()
            self.world.now_s += self.random.choice((0.0, 0.01, 0.05))
            if until():
                return True
        return False


def on(world, node, prefix):
    return sorted(p.name for p in world.pods.values() if p.node == node and p.name.startswith(prefix))


def scale(world, count):
    world.workloads["uid-web"] = replace(world.workloads["uid-web"], replicas=count)


def pool(priority=0, **fields):
    """One pod of a workload on n1, which is full; room for four more on n2, held by one Reservation."""
    world = World()
    world.contender_priority = priority
    world.node("n1", 1)
    world.node("n2", 4)
    world.workload("ReplicaSet", "web", ["n1"])
    world.reserve("pool", "uid-web", node="n2", cpu=4000, allocate_once=False, **fields)
    return world


def crash_every(seed):
    return 4 if seed % 2 else 0


@seeds
@pytest.mark.parametrize("priority", [0, 100])
def test_parts_are_handed_out_and_the_rest_stays_held(seed, priority):
    world = pool(priority)
    run = Shared(world, seed, crash_every=crash_every(seed))
    status = lambda: world.reservations["pool"].status  # noqa: E731
    assert run.play(lambda: status().phase is ReservationPhase.AVAILABLE), f"seed {seed}"
    run.crowd()  # pods of higher priority that come after the old placeholder's deletion are a race that stays
    run.seen = world.look()
    scale(world, 4)
    assert run.play(lambda: len(on(world, "n2", "web")) == 3), f"seed {seed}: {world.reservations}"
    run.settle()
    assert status().phase is ReservationPhase.AVAILABLE
    assert (status().allocated.cpu_milli, status().allocatable.cpu_milli) == (3000, 4000)
    assert len(status().current_owners) == 3
    assert on(world, "n2", "contender") == []
    scale(world, 5)
    assert run.play(lambda: len(on(world, "n2", "web")) == 4), f"seed {seed}"
    run.settle()
    assert status().phase is ReservationPhase.SUCCEEDED
    assert world.leftovers() == [], f"seed {seed}"


@seeds
def test_more_pods_than_parts_and_owners_that_end(seed):
    world = pool()
    run = Shared(world, seed, crash_every=crash_every(seed))
    status = lambda: world.reservations["pool"].status  # noqa: E731
    assert run.play(lambda: status().phase is ReservationPhase.AVAILABLE)
    scale(world, 3)
    assert run.play(lambda: len(on(world, "n2", "web")) == 2), f"seed {seed}"
    run.settle(20)
    gone = next(p for p in world.pods.values() if p.node == "n2" and p.name.startswith("web"))
    scale(world, 2)
    world.put(replace(gone, deleting=True))
    run.settle(40)
    assert gone.uid not in {o.uid for o in status().current_owners}
    assert status().allocated.cpu_milli == 1000
    assert status().allocatable.cpu_milli - status().allocated.cpu_milli == 2000
    scale(world, 7)
    assert run.play(lambda: status().phase is ReservationPhase.SUCCEEDED), f"seed {seed}"
    run.settle()
    assert len(on(world, "n2", "web")) == 3, f"seed {seed}"
    assert world.leftovers() == [], f"seed {seed}"


def promised(second_node="n2"):
    """n2 is full of pods that run; a crowd of the same priority has waited for longer than the promise."""
    world = World()
    world.contender_priority = 0
    world.node("n1", 1)
    world.node("n2", 4)
    world.workload("ReplicaSet", "web", ["n1"])
    running = [world.pod(f"old-{index}", "n2") for index in range(4)]
    for index in range(8):
        world.pod(f"contender-{index}", cpu=500 if index % 2 else 1000)
    world.now_s += 5.0
    world.reserve("first", "uid-web", node="n2", cpu=2000, pre_allocation=True)
    world.now_s += 1.0
    world.reserve("second", "uid-web", node=second_node, cpu=2000, pre_allocation=True)
    return world, running


@seeds
def test_promised_rooms_become_available_piece_by_piece_and_disturb_nobody(seed):
    world, running = promised()
    run = Shared(world, seed, crash_every=crash_every(seed), stale=seed % 3 > 0)
    run.contenders = 8
    phase = lambda name: world.reservations[name].status.phase  # noqa: E731
    assert run.play(lambda: {phase("first"), phase("second")} == {ReservationPhase.WAITING}), f"seed {seed}"
    run.settle(10)
    assert on(world, "n2", "old") == [p.name for p in running]
    for index in run.random.sample(range(4), 2):
        run.play(lambda: False, steps=run.random.randrange(60))
        world.put(replace(world.pods[running[index].key], deleting=True))
    assert run.play(lambda: phase("first") is ReservationPhase.AVAILABLE), f"seed {seed}"
    assert phase("second") is ReservationPhase.WAITING
    run.settle(10)
    for pod in running:
        if pod.key in world.pods:
            world.put(replace(world.pods[pod.key], deleting=True))
            run.settle(3)
    assert run.play(lambda: phase("second") is ReservationPhase.AVAILABLE), f"seed {seed}"
    assert on(world, "n2", "contender") == [], f"seed {seed}"
    assert not world.evictions


@seeds
def test_a_promise_stands_back_while_another_room_on_its_node_is_handed_over(seed):
    world, _ = promised()
    del world.reservations["second"]
    world.nodes["n2"] = replace(
        world.nodes["n2"], allocatable=replace(world.nodes["n2"].allocatable, cpu_milli=5000)
    )
    for name in [n for n in world.pods if n.name.startswith("contender")]:
        del world.pods[name]
    promise = world.reservations.pop("first")
    world.reserve("room", "uid-web", node="n2", cpu=1000)
    run = Shared(world, seed, crash_every=crash_every(seed))
    phase = lambda name: world.reservations[name].status.phase  # noqa: E731
    assert run.play(lambda: phase("room") is ReservationPhase.AVAILABLE), f"seed {seed}"
    world.reservations["first"] = promise
    assert run.play(lambda: phase("first") is ReservationPhase.WAITING), f"seed {seed}"
    scale(world, 2)
    assert run.play(lambda: phase("room") is ReservationPhase.SUCCEEDED), f"seed {seed}"
    run.settle(20)
    assert len(on(world, "n2", "web")) == 1
    waiting = [p for p in world.pods.values() if p.namespace == NAMESPACE]
    assert [p.nominated_node for p in waiting] == ["n2"], "the promise is nominated again"


@seeds
def test_what_becomes_free_while_a_promise_stands_back_is_not_lost(seed):
    world, running = promised()
    del world.reservations["second"]
    world.nodes["n2"] = replace(
        world.nodes["n2"], allocatable=replace(world.nodes["n2"].allocatable, cpu_milli=5000)
    )
    crowd = {key: world.pods.pop(key) for key in list(world.pods) if key.name.startswith("contender")}
    promise = world.reservations.pop("first")
    world.reserve("room", "uid-web", node="n2", cpu=1000)
    run = Shared(world, seed, crash_every=crash_every(seed), stale=seed % 3 > 0)
    run.contenders = 8
    phase = lambda name: world.reservations[name].status.phase  # noqa: E731
    assert run.play(lambda: phase("room") is ReservationPhase.AVAILABLE), f"seed {seed}"
    world.pods.update(crowd)
    world.reservations["first"] = promise
    holder = lambda: next((p for p in world.pods.values() if p.namespace == NAMESPACE and not p.node), None)  # noqa: E731
    assert run.play(lambda: holder() is not None and holder().nominated_node == "n2"), f"seed {seed}"
    scale(world, 2)
    assert run.play(lambda: holder().nominated_node == ""), f"seed {seed}: it never stood back"
    for pod in running[:2]:
        world.put(replace(world.pods[pod.key], deleting=True))
    assert run.play(lambda: phase("first") is ReservationPhase.AVAILABLE), f"seed {seed}"
    run.settle(40)
    assert phase("room") is ReservationPhase.SUCCEEDED
    assert on(world, "n2", "contender") == [], f"seed {seed}"
    assert not any(node.taints for node in world.nodes.values()), f"seed {seed}: the node stays shut"


@seeds
def test_two_rooms_for_several_on_one_node_are_handed_out_together(seed):
    world = World()
    world.contender_priority = 0
    world.node("n1", 1)
    world.node("n2", 8)
    world.workload("ReplicaSet", "web", ["n1"])
    world.workload("ReplicaSet", "api", [])
    world.reserve("one", "uid-web", node="n2", cpu=4000, allocate_once=False)
    world.reserve("two", "uid-api", node="n2", cpu=4000, allocate_once=False)
    run = Shared(world, seed, crash_every=crash_every(seed))
    status = lambda name: world.reservations[name].status  # noqa: E731
    both = lambda wanted: {status("one").phase, status("two").phase} == {wanted}  # noqa: E731
    assert run.play(lambda: both(ReservationPhase.AVAILABLE)), f"seed {seed}"
    run.crowd()
    run.seen = world.look()
    scale(world, 3)
    world.workloads["uid-api"] = replace(world.workloads["uid-api"], replicas=3)
    landed = lambda: (len(on(world, "n2", "web")), len(on(world, "n2", "api")))  # noqa: E731
    assert run.play(lambda: landed() == (2, 3)), f"seed {seed}: {landed()} {world.reservations}"
    run.settle()
    assert both(ReservationPhase.AVAILABLE)
    assert (status("one").allocated.cpu_milli, status("two").allocated.cpu_milli) == (2000, 3000)
    assert on(world, "n2", "contender") == []
