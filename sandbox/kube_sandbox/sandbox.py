"""The sandbox: API server, controllers, scheduler and kubelets in one process.

It runs in one of two ways. In real time ``start`` serves HTTP and drives all components from one thread. In virtual
time ``advance`` and ``run_until`` move a clock from one due time to the next; the same seed then gives the same
history. One sandbox uses only one of the two.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self

from kube_sandbox.apiserver import ApiServer, HttpServer, InProcessTransport, serve
from kube_sandbox.controllers.api import Api
from kube_sandbox.controllers.daemonset import DaemonSetController
from kube_sandbox.controllers.deployment import DeploymentController, ReplicaSetController
from kube_sandbox.controllers.disruption import DisruptionController
from kube_sandbox.controllers.garbage import GarbageCollector, NamespaceController, PodCollector
from kube_sandbox.controllers.job import JobController
from kube_sandbox.controllers.node_lifecycle import NodeLifecycleController, TaintEvictionController
from kube_sandbox.controllers.runtime import ControllerRuntime, ControlLoop
from kube_sandbox.controllers.statefulset import StatefulSetController
from kube_sandbox.controllers.volumes import VolumeBinder
from kube_sandbox.kubelet import KubeletSettings
from kube_sandbox.kubelet.sync_loop import KubeletStepper
from kube_sandbox.nodes import SandboxNode, node_object
from kube_sandbox.scheduler.scheduler import Scheduler
from rescheduler.errors import ReschedulerError
from rescheduler.scheduling.framework import Profile

_IDLE_S = 0.2
_POLL_S = 0.02
_MAX_STEPS = 100_000


class Stepper(Protocol):
    """A component that a sandbox drives beside its own, for example the program under test."""

    def step(self, now_s: float) -> int:
        """Do what is due; returns the number of things that were done."""
        ...

    def next_due_s(self, now_s: float) -> float | None:
        """When there is work to do again (epoch seconds); None: only after an event."""
        ...


class NotSettledError(ReschedulerError):
    """The components did not become idle, or a condition did not become true in time."""


class Sandbox:
    """One cluster. ``clock`` None: virtual time. ``interleave``: the components are stepped in a random order."""

    def __init__(
        self,
        nodes: Sequence[SandboxNode] = (),
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
        self.api = Api(self.server.store)
        self._interleave = interleave
        self.controllers = ControllerRuntime(self.api, _controllers())
        self.scheduler = Scheduler(self.api, rng=random.Random(self._rng.random()), profile=profile)  # noqa: S311 - as above
        self.kubelets = KubeletStepper(self.api, self.transport, kubelet)
        self._others: list[Stepper] = []
        self._scheduler_down = False
        self._outage: Outage | None = None
        self._loop: _Loop | None = None
        self._server: HttpServer | None = None
        for node in nodes:
            self.add_node(node)

    def add_node(self, node: SandboxNode) -> None:
        """Add a node."""
        self.api.create(node_object(node))

    def add(self, stepper: Stepper) -> None:
        """Drive this component together with the cluster's own."""
        self._others.append(stepper)

    def stop_scheduler(self) -> None:
        """Stop the scheduler: no pod is bound until ``restart_scheduler``."""
        self._scheduler_down = True

    def restart_scheduler(self, profile: Profile | None = None) -> None:
        """Start a new scheduler, which lists all objects; also after ``stop_scheduler``."""
        self._scheduler_down = False
        self.scheduler.close()
        self.scheduler = Scheduler(self.api, rng=random.Random(self._rng.random()), profile=profile)  # noqa: S311 - reproducible

    def lose_api_server(self, outage: Outage) -> None:
        """The components lose the API server, each until its own time; the scheduler then lists again."""
        self._outage = outage
        self.scheduler.disconnect(outage.scheduler_s, self.api.everything)

    @property
    def recovered_at_s(self) -> float:
        """When the last component reconnects after the last outage (epoch seconds); 0: there was no outage."""
        lost = self._outage
        return 0.0 if lost is None else max(lost.controllers_s, lost.kubelets_s, lost.scheduler_s)

    @property
    def scheduler_back_at_s(self) -> float:
        """When the scheduler lists again after the last outage (epoch seconds); 0: there was no outage."""
        return 0.0 if self._outage is None else self._outage.scheduler_s

    @property
    def scheduler_down(self) -> bool:
        """True between ``stop_scheduler`` and its restart."""
        return self._scheduler_down

    # virtual time

    def settle(self) -> None:
        """Step all components until nothing is due at the present time."""
        for _ in range(_MAX_STEPS):
            if not self.step():
                return
        raise NotSettledError("the components of the sandbox do not become idle")

    def advance(self, duration_s: float) -> None:
        """Let virtual time pass; everything that becomes due is done."""
        self._run(None, self.clock() + duration_s)

    def run_until(self, predicate: Callable[[], bool], limit_s: float) -> float:
        """Let virtual time pass until ``predicate`` holds; returns the seconds that this took.

        Raises:
            NotSettledError: it did not hold within ``limit_s``.
        """
        began_s = self.clock()
        if not self._run(predicate, began_s + limit_s):
            raise NotSettledError(f"the condition was not true within {limit_s} s of virtual time")
        return self.clock() - began_s

    def step(self) -> int:
        """Step each component once at the present time; returns the number of things that were done."""
        now_s = self.clock()
        if self._interleave:
            return self._step_at_random(now_s)
        done = self._step_controllers(now_s) + self._step_scheduler(now_s) + self._step_kubelets(now_s)
        return done + sum(other.step(now_s) for other in self._others)

    def next_due_s(self) -> float | None:
        """When something is due without an event (epoch seconds); None: nothing is."""
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
            lambda: self._step_controllers(now_s, self._rng.randint(1, 8)),
            lambda: self._step_scheduler(now_s, self._rng.randint(1, 3)),
            lambda: self._step_kubelets(now_s),
            *((lambda other=other: other.step(now_s)) for other in self._others),
        ]
        self._rng.shuffle(turns)
        return sum(turn() for turn in turns)

    def _step_controllers(self, now_s: float, limit: int = 10_000) -> int:
        away = self._outage is not None and now_s < self._outage.controllers_s
        return 0 if away else self.controllers.step(now_s, limit)

    def _step_kubelets(self, now_s: float) -> int:
        away = self._outage is not None and now_s < self._outage.kubelets_s
        return 0 if away else self.kubelets.step(now_s)

    def _step_scheduler(self, now_s: float, limit: int = 1_000) -> int:
        return 0 if self._scheduler_down else self.scheduler.step(now_s, limit)

    def _run(self, predicate: Callable[[], bool] | None, until_s: float) -> bool:
        if self._virtual is None:
            raise NotSettledError("this sandbox runs in real time; only wait_for can be used")
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

    # either time
    def wait_for(self, predicate: Callable[[], bool], limit_s: float) -> float:
        """Let virtual or real time pass until ``predicate`` holds; returns the seconds that this took.

        Raises:
            NotSettledError: it did not hold within ``limit_s``.
        """
        if self._virtual is not None:
            return self.run_until(predicate, limit_s)
        began_s = time.monotonic()
        while not predicate():
            if time.monotonic() - began_s > limit_s:
                raise NotSettledError(f"the condition was not true within {limit_s} s")
            time.sleep(_POLL_S)
        return time.monotonic() - began_s

    # real time

    def start(self, *, kubeconfig: Path | None = None, host: str = "127.0.0.1", port: int = 0) -> HttpServer:
        """Serve HTTP and drive all components from a thread. ``port`` 0: a free port."""
        server = serve(self.server, host=host, port=port)
        if kubeconfig is not None:
            kubeconfig.parent.mkdir(parents=True, exist_ok=True)
            kubeconfig.write_text(server.kubeconfig_text)
        self._server, self._loop = server, _Loop(self)
        return server

    def stop(self) -> None:
        """Stop the thread, the watches and the server."""
        if self._loop is not None:
            self._loop.stop()
            self._loop = None
        if self._server is not None:
            self._server.close()
            self._server = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Loop:
    """The thread that drives a sandbox in real time: it runs at every change, and when something is due."""

    def __init__(self, cluster: Sandbox) -> None:
        self._cluster = cluster
        self._ended = False
        self._woken = threading.Event()
        self._unsubscribe = cluster.api.subscribe(lambda _: self._woken.set())
        self._thread = threading.Thread(target=self._run, name="sandbox", daemon=True)
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


def _controllers() -> list[ControlLoop]:
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


_SCHEDULER_AT_LEAST_S: Final = 4.0
_SCHEDULER_AT_MOST_S: Final = 30.0
"""Longest pause of client-go's reflectors between two attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """An outage of the API server: when it is back, and when each component reconnects (epoch seconds)."""

    server_s: float
    controllers_s: float
    kubelets_s: float
    scheduler_s: float

    @classmethod
    def draw(cls, rng: random.Random, began_s: float, server_s: float) -> Self:
        """Random times of an outage that began at ``began_s`` and ends at ``server_s``.

        client-go doubles its pauses and adds jitter up to the same length: after an outage the next attempt may come
        as late as twice the time that has passed.
        """
        away_s = server_s - began_s
        lag_s = min(_SCHEDULER_AT_MOST_S, _SCHEDULER_AT_LEAST_S + 2.0 * away_s)
        return cls(
            server_s=server_s,
            controllers_s=server_s + rng.uniform(0.0, lag_s / 2),
            kubelets_s=server_s + rng.uniform(0.0, 2.0),
            scheduler_s=server_s + rng.uniform(0.0, lag_s),
        )


START_S = 1_790_000_000.0
"""A time in 2026: the default start of a virtual clock."""


class VirtualClock:
    """The clock of a sandbox in virtual time, callable like ``time.time``. It moves only by ``move_to``, never back."""

    def __init__(self) -> None:
        self._now_s = START_S

    def __call__(self) -> float:
        """The time now, in seconds since the epoch."""
        return self._now_s

    def move_to(self, moment_s: float) -> None:
        """Move forward to a time; an earlier time changes nothing."""
        self._now_s = max(self._now_s, moment_s)
