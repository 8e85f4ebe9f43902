"""One run of the controller in the cluster of records: who acts next, how old its cache is, when it dies. And the set-ups of its tests."""

from __future__ import annotations

import random

from moving_records import NAMESPACE, Crash
from moving_world import World

from rescheduler.controller.mirror import Mirror
from rescheduler.controller.reconcile import Reconciler, Settings
from rescheduler.migrations.observed import MigrationSettings
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import ReservationPhase
from rescheduler.reservations.observed import ReservationSettings

SETTINGS = Settings(
    reservations=ReservationSettings(namespace=NAMESPACE, taint_settle_s=0.2),
    migrations=MigrationSettings(gate_settle_s=0.0, first_backoff_s=0.2, last_backoff_s=1.0),
)


SOFT = Settings(
    reservations=SETTINGS.reservations,
    migrations=MigrationSettings(
        gate_settle_s=0.0, first_backoff_s=0.2, last_backoff_s=1.0, soft_allowed=True
    ),
)


def new_reconciler(world, settings=SETTINGS):
    return Reconciler(
        executor=world,
        gate=Mirror(switch=world, lenient=True),
        hints=Mirror(switch=world.hints),
        placement=world,
        settings=settings,
    )


def full_cluster(kind="ReplicaSet", *, contender_priority=0):
    """Three pods of a workload on n1; one room on n2 and one on n3; whoever waits would take any room."""
    world = World()
    world.node("n1", 3)
    world.node("n2", 2)
    world.node("n3", 2)
    pods = world.workload(kind, "web", ["n1", "n1", "n1"], desired=2)
    world.pod("old-2", "n2")
    world.pod("old-3", "n3")
    keys = [world.migrate(pods[0], "n2"), world.migrate(pods[1], "n3")]
    world.contender_priority = contender_priority
    return world, keys


class Run:
    """One history: a seed decides who acts next, how old the cache is, and when the controller dies."""

    def __init__(self, world, seed, *, crash_every=0, stale=True):
        self.world, self.random = world, random.Random(seed)  # noqa: S311  a history, not a secret
        self.settings = SETTINGS
        self.reconciler = new_reconciler(world)
        self.seen = world.look()
        self.stale = stale
        self.crash_every = crash_every
        self.crashes = 0
        self.contenders = 0

    def actors(self):
        world = self.world
        return [
            world.scheduler,
            world.kubelet,
            world.controllers,
            world.collector,
            self.control,
            self.control,
            self.crowd,
        ]

    def control(self):
        if not self.stale or self.random.random() < 0.7:
            self.seen = self.world.look()
        if self.crash_every and self.random.randrange(self.crash_every) == 0:
            self.world.crash_in = self.random.randrange(4)
        try:
            self.reconciler.round(self.seen, self.world.now_s)
        except Crash:
            self.restart()
        self.world.crash_in = None

    def restart(self):
        self.crashes += 1
        self.reconciler = new_reconciler(self.world, self.settings)
        self.seen = self.world.look()

    def crowd(self):
        """Competitors come once the rooms are held: nothing else on the cluster is free then."""
        held = [r for r in self.world.reservations.values() if r.status.phase is ReservationPhase.AVAILABLE]
        if self.world.contender_priority and any(r.status.current_owners for r in held):
            return  # of higher priority, and later than the hand-over: a race that stays (seed 10257)
        while len(held) == 2 and self.contenders < 6:
            self.contenders += 1
            self.world.pod(f"contender-{self.contenders}", priority=self.world.contender_priority)
            self.seen = self.world.look()

    def go(self, steps=3000):
        for _ in range(steps):
            self.random.choice(self.actors())()
            self.world.check()
            self.world.now_s += self.random.choice((0.0, 0.01, 0.1))
            if self.done():
                break
        self.settle()

    def done(self):
        return all(
            m.status.phase in (MigrationPhase.SUCCEEDED, MigrationPhase.FAILED)
            for m in self.world.migrations.values()
        )

    def settle(self, rounds=60):
        for _ in range(rounds):
            self.world.now_s += 0.5
            for actor in self.actors():
                actor()
            self.world.check()


def stepper(run):
    """Lets random actors act until something is reached."""

    def until(reached, actors=None):
        for _ in range(2000):
            run.random.choice(actors or run.actors())()
            run.world.check()
            run.world.now_s += 0.05
            if reached():
                return
        raise AssertionError("not reached")

    return until


def landed(world, keys):
    result = {}
    for key in keys:
        status = world.migrations[key].status
        pod = None
        if status.replacement is not None:
            pod = world.pods.get(ObjectKey(status.replacement.namespace, status.replacement.name))
        result[key] = (status.phase, status.reason, pod.node if pod else "")
    return result


def room_of_people(**fields):
    """A pod of ``web`` on n1; on n2 a room for any pod of it, Available."""
    world = World()
    world.contender_priority = 0
    world.node("n1", 1)
    world.node("n2", 1)
    world.workload("ReplicaSet", "web", ["n1"])
    world.reserve("room", "uid-web", node="n2", **fields)
    run = Run(world, 1, stale=False)
    until = stepper(run)
    until(lambda: world.reservations["room"].status.phase is ReservationPhase.AVAILABLE)
    return world, run, until
