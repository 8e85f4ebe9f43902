"""The embedded cluster: API server, controllers, scheduler and kubelets in one process.

Two ways to run it. In real time: ``start`` serves HTTP and drives everything from one thread. In virtual
time: ``advance`` and ``run_until`` move a clock that jumps from one thing that is due to the next; the same
seed then gives the same history. The two must not be mixed on one cluster.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from rescheduler.scheduling.framework import Profile
from rescheduler.sim.apiserver import ApiServer, InProcessTransport, Server, serve
from rescheduler.sim.clocks import VirtualClock
from rescheduler.sim.controllers.daemonset import DaemonSetController
from rescheduler.sim.controllers.deployment import DeploymentController
from rescheduler.sim.controllers.disruption import DisruptionController
from rescheduler.sim.controllers.garbage import GarbageCollector, PodCollector
from rescheduler.sim.controllers.job import JobController
from rescheduler.sim.controllers.namespaces import NamespaceController
from rescheduler.sim.controllers.nodelifecycle import NodeLifecycleController, TaintEvictionController
from rescheduler.sim.controllers.replicaset import ReplicaSetController
from rescheduler.sim.controllers.runtime import Controller, ControllerRuntime
from rescheduler.sim.controllers.statefulset import StatefulSetController
from rescheduler.sim.controllers.volumes import VolumeBinder
from rescheduler.sim.kubelet import KubeletSettings
from rescheduler.sim.kubelets import KubeletStepper
from rescheduler.sim.machines import MachineSpec, node_object
from rescheduler.sim.outage import Outage
from rescheduler.sim.scheduler.scheduler import Scheduler
from rescheduler.sim.storeapi import StoreApi

_IDLE_S = 0.2
_POLL_S = 0.02
_ROUNDS = 100_000


class Stepper(Protocol):
    """A component that a cluster drives beside its own, for example the program under test."""

    def step(self, now_s: float) -> int:
        """Do what is due; gives how much that was (0: nothing)."""
        ...

    def next_due_s(self, now_s: float) -> float | None:
        """When there is something to do again (epoch seconds); None: only after an event."""
        ...


class NotSettledError(Exception):
    """The components kept each other busy without an end, or a condition did not come true in time."""


class EmbeddedCluster:
    """One cluster. ``clock`` None: virtual time. ``interleave``: components take turns in a random order."""

    def __init__(
        self,
        nodes: Sequence[MachineSpec] = (),
        *,
        seed: int = 0,
        clock: Callable[[], float] | None = None,
        kubelet: KubeletSettings | None = None,
        profile: Profile | None = None,
        interleave: bool = False,
    ) -> None:
        self._rng = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self._virtual = VirtualClock() if clock is None else None
        self.clock: Callable[[], float] = clock or self._virtual or time.time
        self.server = ApiServer(clock=self.clock, rng=random.Random(self._rng.random()))  # noqa: S311 - as above
        self.transport = InProcessTransport(self.server)
        self.api = StoreApi(self.server.store)
        self._interleave = interleave
        existing = self.api.everything()
        self.controllers = ControllerRuntime(self.api, _controllers())
        self.scheduler = Scheduler(self.api, rng=random.Random(self._rng.random()), profile=profile)  # noqa: S311 - as above
        self.kubelets = KubeletStepper(self.api, self.transport, kubelet)
        for component in (self.controllers, self.scheduler, self.kubelets):
            component.prime(existing)
        self._others: list[Stepper] = []
        self._scheduler_down = False
        self._outage: Outage | None = None
        self._loop: _Loop | None = None
        self._server: Server | None = None
        for machine in nodes:
            self.add_node(machine)

    def add_node(self, machine: MachineSpec) -> None:
        """A machine joins the cluster."""
        self.api.create(node_object(machine))

    def add(self, stepper: Stepper) -> None:
        """Drive this component together with the cluster's own."""
        self._others.append(stepper)

    def stop_scheduler(self) -> None:
        """The scheduler dies: nothing is bound until it is started again."""
        self._scheduler_down = True

    def restart_scheduler(self, profile: Profile | None = None) -> None:
        """The scheduler loses its memory and begins anew from the objects; also after ``stop_scheduler``."""
        self._scheduler_down = False
        self.scheduler.close()
        self.scheduler = Scheduler(self.api, rng=random.Random(self._rng.random()), profile=profile)  # noqa: S311 - reproducible
        self.scheduler.prime(self.api.everything())

    def lose_api_server(self, outage: Outage) -> None:
        """The components lose the API server, each until its own moment; the scheduler then lists anew."""
        self._outage = outage
        self.scheduler.lose_watches(outage.scheduler_s, self.api.everything)

    @property
    def recovered_at_s(self) -> float:
        """When the last of the components is back after the last outage (epoch seconds); 0: there was none."""
        lost = self._outage
        return 0.0 if lost is None else max(lost.controllers_s, lost.kubelets_s, lost.scheduler_s)

    @property
    def scheduler_down(self) -> bool:
        """True between ``stop_scheduler`` and its restart."""
        return self._scheduler_down

    # virtual time

    def settle(self) -> None:
        """Do everything that can be done without time passing."""
        for _ in range(_ROUNDS):
            if not self.step():
                return
        raise NotSettledError("the components do not come to rest")

    def advance(self, duration_s: float) -> None:
        """Let virtual time pass, with everything that falls due in it."""
        self._run(None, self.clock() + duration_s)

    def run_until(self, predicate: Callable[[], bool], limit_s: float) -> float:
        """Let virtual time pass until ``predicate`` holds; gives the seconds that took.

        Raises:
            NotSettledError: it did not hold within ``limit_s``.
        """
        began_s = self.clock()
        if not self._run(predicate, began_s + limit_s):
            raise NotSettledError(f"not true within {limit_s} s of virtual time")
        return self.clock() - began_s

    def step(self) -> int:
        """One round of every component at the present moment; gives how much was done."""
        now_s = self.clock()
        if self._interleave:
            return self._step_at_random(now_s)
        done = self._control(now_s) + self._schedule(now_s) + self._keep(now_s)
        return done + sum(other.step(now_s) for other in self._others)

    def next_due_s(self) -> float | None:
        """When something is due without any event."""
        now_s = self.clock()
        lost = self._outage
        due = [
            _not_before(lost.controllers_s if lost else 0.0, self.controllers.next_due_s()),
            None if self._scheduler_down else self.scheduler.next_due_s(now_s),
            _not_before(lost.kubelets_s if lost else 0.0, self.kubelets.next_due_s()),
            *(other.next_due_s(now_s) for other in self._others),
        ]
        return min((d for d in due if d is not None), default=None)

    def _step_at_random(self, now_s: float) -> int:
        turns: list[Callable[[], int]] = [
            lambda: self._control(now_s, self._rng.randint(1, 8)),
            lambda: self._schedule(now_s, self._rng.randint(1, 3)),
            lambda: self._keep(now_s),
            *((lambda other=other: other.step(now_s)) for other in self._others),
        ]
        self._rng.shuffle(turns)
        return sum(turn() for turn in turns)

    def _control(self, now_s: float, limit: int = 10_000) -> int:
        away = self._outage is not None and now_s < self._outage.controllers_s
        return 0 if away else self.controllers.step(now_s, limit)

    def _keep(self, now_s: float) -> int:
        away = self._outage is not None and now_s < self._outage.kubelets_s
        return 0 if away else self.kubelets.step(now_s)

    def _schedule(self, now_s: float, limit: int = 1_000) -> int:
        return 0 if self._scheduler_down else self.scheduler.step(now_s, limit)

    def _run(self, predicate: Callable[[], bool] | None, until_s: float) -> bool:
        if self._virtual is None:
            raise NotSettledError("this cluster runs in real time")
        while True:
            self.settle()
            if predicate is not None and predicate():
                return True
            due_s = self.next_due_s()
            if due_s is None or due_s > until_s:
                self._virtual.move_to(until_s)
                self.settle()
                return predicate is not None and predicate()
            self._virtual.move_to(due_s)

    # either

    def wait_for(self, predicate: Callable[[], bool], limit_s: float) -> float:
        """Let virtual or real time pass until ``predicate`` holds; gives the seconds that took.

        Raises:
            NotSettledError: it did not hold within ``limit_s``.
        """
        if self._virtual is not None:
            return self.run_until(predicate, limit_s)
        began_s = time.monotonic()
        while not predicate():
            if time.monotonic() - began_s > limit_s:
                raise NotSettledError(f"not true within {limit_s} s")
            time.sleep(_POLL_S)
        return time.monotonic() - began_s

    # real time

    def start(self, *, kubeconfig: Path | None = None, host: str = "127.0.0.1", port: int = 0) -> Server:
        """Serve HTTP and drive everything from a thread; ``port`` 0 takes a free one."""
        server = serve(self.server, host=host, port=port)
        if kubeconfig is not None:
            kubeconfig.parent.mkdir(parents=True, exist_ok=True)
            kubeconfig.write_text(server.kubeconfig_text)
        self._server = server
        self.run_in_background()
        return server

    def run_in_background(self) -> None:
        """Drive everything from a thread, without HTTP."""
        if self._loop is None:
            self._loop = _Loop(self)

    def stop(self) -> None:
        """End the thread, the watches and the server."""
        if self._loop is not None:
            self._loop.stop()
            self._loop = None
        if self._server is not None:
            self._server.close()
            self._server = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Loop:
    """The thread that drives a cluster in real time: awake at every change and when something is due."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._ended = False
        self._woken = threading.Event()
        self._unsubscribe = cluster.api.subscribe(lambda _: self._woken.set())
        self._thread = threading.Thread(target=self._run, name="embedded-cluster", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended = True
        self._woken.set()
        self._thread.join(timeout=10)
        self._unsubscribe()

    def _run(self) -> None:
        while not self._ended:
            self._woken.clear()
            if self._cluster.step():
                continue
            due_s = self._cluster.next_due_s()
            wait_s = _IDLE_S if due_s is None else min(max(due_s - self._cluster.clock(), 0.001), _IDLE_S)
            self._woken.wait(wait_s)


def _not_before(moment_s: float, due_s: float | None) -> float | None:
    return None if due_s is None else max(moment_s, due_s)


def _controllers() -> list[Controller]:
    return [
        NamespaceController(),
        DeploymentController(),
        ReplicaSetController(),
        StatefulSetController(),
        DaemonSetController(),
        JobController(),
        DisruptionController(),
        VolumeBinder(),
        NodeLifecycleController(),
        TaintEvictionController(),
        PodCollector(),
        GarbageCollector(),
    ]
