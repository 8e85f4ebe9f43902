"""What the kubelets of many fake nodes do: admit, run, report ready, stop, remove. Pure but for its own memory.

Told of nodes and pods as they change and of the time; answers with the requests that are due. Admission is the
real kubelet's: terminating and force-deleted pods count until their containers have really ended, and what does
not fit is rejected for good (OutOfcpu, OutOfpods). A silent node (Ready Unknown) does nothing until it is back.
"""

from __future__ import annotations

import enum
import heapq
import itertools
import math
from dataclasses import dataclass, field

from rescheduler.kube.transport import Request
from rescheduler.model.resources import NO_RESOURCES, Resources
from rescheduler.sim.kubelet import status
from rescheduler.sim.kubelet.objects import (
    ANNOTATION_READY_AFTER,
    ANNOTATION_RUN_FOR,
    ANNOTATION_STOP_AFTER,
    Machine,
    PodOnNode,
    WirePod,
)

RETRY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSettings:
    """Times of pods that do not say otherwise by annotation, in seconds."""

    start_s: float = 0.02
    ready_s: float = 0.05
    stop_s: float = 0.1


class Step(enum.Enum):
    """What is to be done for a pod at its time."""

    REJECT = enum.auto()
    START = enum.auto()
    READY = enum.auto()
    END = enum.auto()
    STOP = enum.auto()
    REMOVE = enum.auto()
    FORGET = enum.auto()


@dataclass(frozen=True, slots=True)
class Action:
    """Requests to send in order for one step; ``Kubelet.failed`` takes it back if the API server is away."""

    uid: str
    step: Step
    requests: tuple[Request, ...]


@dataclass(slots=True)
class _Running:
    """A pod that holds resources of its node, or waits for its rejection to be written."""

    pod: PodOnNode
    address: str
    holds: Resources
    started_s: float = math.nan
    stopping: bool = False
    ended: bool = False
    refusal: tuple[str, str] | None = None
    appointments: dict[Step, float] = field(default_factory=dict)


class Kubelet:
    """The kubelets of all nodes that it has been told of. Not thread-safe: one owner."""

    def __init__(self, settings: KubeletSettings | None = None) -> None:
        self.settings = settings or KubeletSettings()
        self._nodes: dict[str, Machine] = {}
        self._used: dict[str, Resources] = {}
        self._pods: dict[str, _Running] = {}
        self._parked: dict[str, list[tuple[str, Step]]] = {}
        self._unplaced: dict[str, dict[str, PodOnNode]] = {}
        self._timers: list[tuple[float, int, str, Step]] = []
        self._order = itertools.count()

    def node_changed(self, node: Machine, now_s: float) -> None:
        """A node is there or has changed."""
        name = node.wire.metadata.name
        self._nodes[name] = node
        for pod in self._unplaced.pop(name, {}).values():
            self.pod_changed(pod, now_s)
        if not node.wire.silent:
            for uid, step in self._parked.pop(name, ()):
                self._at(now_s, uid, step)

    def node_deleted(self, name: str) -> None:
        """The machine is gone, and with it all that ran there; one of the same name finds its pods bound to it."""
        self._nodes.pop(name, None)
        self._parked.pop(name, None)
        self._used.pop(name, None)
        for uid in [uid for uid, run in self._pods.items() if run.pod.wire.spec.node_name == name]:
            self._unplaced.setdefault(name, {})[uid] = self._pods.pop(uid).pod

    def pod_changed(self, pod: PodOnNode, now_s: float) -> None:
        """A pod was added or modified. Pods without a node are ignored."""
        node, uid = pod.wire.spec.node_name, pod.wire.metadata.uid
        if not node:
            return
        if node not in self._nodes:
            self._unplaced.setdefault(node, {})[uid] = pod
            return
        run = self._pods.get(uid)
        if run is None:
            run = self._take_over(pod, now_s)
        run.pod = pod
        if pod.wire.terminal:
            self._ended(run)
        if pod.wire.deleting:
            self._stop(run, now_s)

    def pod_deleted(self, uid: str, now_s: float) -> None:
        """The object is gone. Without our own removal its containers run on until they have stopped."""
        for waiting in self._unplaced.values():
            waiting.pop(uid, None)
        run = self._pods.get(uid)
        if run is None:
            return
        if run.ended or run.refusal is not None:
            self._forget(uid)
        elif not run.stopping:
            run.stopping = True
            self._at(now_s + self._stop_seconds(run.pod.wire), uid, Step.FORGET)

    def node_names(self) -> frozenset[str]:
        """Names of the nodes that it knows."""
        return frozenset(self._nodes)

    def pod_uids(self) -> frozenset[str]:
        """Uids of the pods that it knows; a re-list deletes those that are missing from it."""
        return frozenset(self._pods) | {uid for waiting in self._unplaced.values() for uid in waiting}

    def used(self, node: str) -> Resources:
        """What the node's pods hold now; ``pods`` is their number."""
        return self._used.get(node, NO_RESOURCES)

    def next_due_s(self) -> float | None:
        """When the next step is due; None for never."""
        return self._timers[0][0] if self._timers else None

    def due(self, now_s: float) -> list[Action]:
        """The steps whose time has come."""
        actions: list[Action] = []
        while self._timers and self._timers[0][0] <= now_s:
            due_s, _, uid, step = heapq.heappop(self._timers)
            run = self._pods.get(uid)
            if run is None or run.appointments.get(step) != due_s:
                continue
            del run.appointments[step]
            node = run.pod.wire.spec.node_name
            if self._nodes[node].wire.silent:
                self._parked.setdefault(node, []).append((uid, step))
                continue
            requests = self._do(run, uid, step, now_s)
            if requests:
                actions.append(Action(uid, step, requests))
        return actions

    def failed(self, action: Action, now_s: float) -> None:
        """The API server did not take the action: it is due again after a moment."""
        if action.uid in self._pods:
            self._at(now_s + RETRY_S, action.uid, action.step)

    def _take_over(self, pod: PodOnNode, now_s: float) -> _Running:
        """Admission of a pod that was not known; one that runs already is taken as it is."""
        wire, uid = pod.wire, pod.wire.metadata.uid
        number = next(self._order)
        address = f"10.{64 + (number >> 16) % 64}.{(number >> 8) % 256}.{number % 256}"
        run = _Running(pod, address, NO_RESOURCES)
        self._pods[uid] = run
        if wire.terminal:
            run.ended = True
            return run
        started = wire.status.phase == "Running"
        run.refusal = None if started else self._refusal(pod)
        if run.refusal is not None:
            self._at(now_s, uid, Step.REJECT)
            return run
        run.holds = _with_pod(pod.requests)
        self._used[wire.spec.node_name] = self.used(wire.spec.node_name) + run.holds
        if started:
            run.started_s = now_s
            self._plan_life(run, uid, now_s)
        elif not wire.deleting:
            self._at(now_s + self.settings.start_s, uid, Step.START)
        return run

    def _refusal(self, pod: PodOnNode) -> tuple[str, str] | None:
        """Reason and message if the node has too little for the pod."""
        node = pod.wire.spec.node_name
        capacity, used = self._nodes[node].allocatable, dict(self.used(node).items())
        for name, room in _checked(capacity):
            asked, taken = dict(_with_pod(pod.requests).items()).get(name, 0), used.get(name, 0)
            if asked > 0 and taken + asked > room:
                text = f"Node didn't have enough resource: {name}, requested: {asked}, used: {taken}, capacity: {room}"
                return f"OutOf{name}", text
        return None

    def _do(self, run: _Running, uid: str, step: Step, now_s: float) -> tuple[Request, ...]:
        """Carries out one step: its effect on the node, and the requests that tell the API server."""
        wire = run.pod.wire
        match step:
            case Step.REJECT if run.refusal is not None:
                reason, message = run.refusal
                return (status.rejected(wire, reason=reason, message=message, now_s=now_s),)
            case Step.START:
                run.started_s = now_s
                self._plan_life(run, uid, now_s)
                return (self._running(run, ready=self._ready_seconds(wire) <= 0, now_s=now_s),)
            case Step.READY if not run.stopping and not run.ended:
                return (self._running(run, ready=True, now_s=now_s),)
            case Step.END if not run.stopping:
                self._ended(run)
                return (status.ended(wire, exit_code=status.own_exit_code(wire), now_s=now_s),)
            case Step.STOP:
                self._ended(run)
                self._at(now_s, uid, Step.REMOVE)
                return (status.ended(wire, exit_code=status.STOPPED_EXIT_CODE, now_s=now_s),)
            case Step.REMOVE:
                return (status.final_delete(wire),)
            case Step.FORGET:
                self._forget(uid)
        return ()

    def _running(self, run: _Running, *, ready: bool, now_s: float) -> Request:
        return status.running(
            run.pod.wire, ready=ready, address=run.address, started_s=run.started_s, now_s=now_s
        )

    def _plan_life(self, run: _Running, uid: str, now_s: float) -> None:
        """Readiness, and the end of a pod that is not restarted."""
        wire = run.pod.wire
        ready = self._ready_seconds(wire)
        if 0 < ready < math.inf:
            self._at(now_s + ready, uid, Step.READY)
        length = wire.seconds(ANNOTATION_RUN_FOR, math.inf)
        if wire.spec.restart_policy != "Always" and length < math.inf:
            self._at(now_s + length, uid, Step.END)

    def _stop(self, run: _Running, now_s: float) -> None:
        """A deletion was asked for: ends the containers within the grace, then removes the object."""
        uid = run.pod.wire.metadata.uid
        if run.ended or run.refusal is not None:
            if Step.REMOVE not in run.appointments:
                self._at(now_s, uid, Step.REMOVE)
            return
        due_s = now_s + self._stop_seconds(run.pod.wire)
        if not run.stopping or due_s < run.appointments.get(Step.STOP, -math.inf):
            run.stopping = True
            run.appointments.pop(Step.START, None)
            self._at(due_s, uid, Step.STOP)

    def _ended(self, run: _Running) -> None:
        """Its containers have ended: the node has its resources back."""
        if not run.ended:
            run.ended = True
            node = run.pod.wire.spec.node_name
            self._used[node] = self.used(node) - run.holds
            run.holds = NO_RESOURCES

    def _forget(self, uid: str) -> None:
        self._ended(self._pods[uid])
        del self._pods[uid]

    def _ready_seconds(self, pod: WirePod) -> float:
        return pod.seconds(ANNOTATION_READY_AFTER, self.settings.ready_s)

    def _stop_seconds(self, pod: WirePod) -> float:
        grace = pod.metadata.deletion_grace_period_seconds
        stop = pod.seconds(ANNOTATION_STOP_AFTER, self.settings.stop_s)
        return stop if grace is None else min(stop, grace)

    def _at(self, due_s: float, uid: str, step: Step) -> None:
        """An appointment; an older one for the same step of the same pod is void."""
        if uid in self._pods:
            self._pods[uid].appointments[step] = due_s
            heapq.heappush(self._timers, (due_s, next(self._order), uid, step))


def _with_pod(requests: Resources) -> Resources:
    """The requests and one place of the node's pod count."""
    return requests + Resources(pods=1)


def _checked(capacity: Resources) -> list[tuple[str, int]]:
    """Capacities in the order in which the real kubelet checks; extended resources that a node lacks are no matter."""
    return sorted(capacity.items(), key=lambda amount: amount[0] != "pods")
