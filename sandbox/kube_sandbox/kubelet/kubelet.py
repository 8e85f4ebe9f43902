"""The kubelets of many fake nodes: admit pods, run them, report them ready, stop them, remove them. No I/O, no clock.

The caller passes in changed nodes and pods and the time; the answer is the requests that are due. Admission is that
of the real kubelet: terminating and force-deleted pods count until their containers have ended, and a pod that does
not fit is rejected for good (OutOfcpu, OutOfpods). A node with Ready=Unknown does nothing until it is Ready again.
"""

from __future__ import annotations

import enum
import heapq
import itertools
import math
from dataclasses import dataclass, field

from kube_sandbox.controllers.unstructured import deleting, meta, spec, status, terminal
from kube_sandbox.controllers.unstructured import uid as uid_of
from kube_sandbox.kubelet import objects as written
from kube_sandbox.kubelet.objects import (
    ANNOTATION_READY_AFTER,
    ANNOTATION_RUN_FOR,
    ANNOTATION_STOP_AFTER,
    KubeletNode,
    PodOnNode,
)
from rescheduler.kube.transport import Request
from rescheduler.model.resources import NO_RESOURCES, Resources

RETRY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSettings:
    """Times of pods without the annotations of ``objects``."""

    start_s: float = 0.02
    """From admission until the containers worker."""
    ready_s: float = 0.05
    """From the start until the pod is Ready."""
    stop_s: float = 0.1
    """From the deletion until the containers have ended."""
    reject_s: float = 1.0
    """Until the rejection of a pod that does not fit is written. Its ReplicaSet creates another one at once: where the
    template names a full node, time passes only because of this."""


class PodStep(enum.Enum):
    """The steps in the life of a pod."""

    REJECT = enum.auto()
    START = enum.auto()
    READY = enum.auto()
    END = enum.auto()
    STOP = enum.auto()
    REMOVE = enum.auto()
    FORGET = enum.auto()


@dataclass(frozen=True, slots=True)
class KubeletAction:
    """The request of one step. If the API server is away, the caller reports it by ``Kubelet.failed``."""

    uid: str
    step: PodStep
    request: Request


@dataclass(slots=True)
class _PodWorker:
    """A pod that occupies resources of its node, or whose rejection is not written yet."""

    pod: PodOnNode
    address: str
    held: Resources
    started_s: float = math.nan
    stopping: bool = False
    ended: bool = False
    rejection: tuple[str, str] | None = None
    due: dict[PodStep, float] = field(default_factory=dict)
    """Time of each step that is planned."""


class Kubelet:
    """The kubelets of all nodes that were passed in. For one thread."""

    def __init__(self, settings: KubeletSettings | None = None) -> None:
        self.settings = settings or KubeletSettings()
        self._nodes: dict[str, KubeletNode] = {}
        self._used: dict[str, Resources] = {}
        self._pods: dict[str, _PodWorker] = {}
        self._deferred: dict[str, list[tuple[str, PodStep]]] = {}
        self._without_node: dict[str, dict[str, PodOnNode]] = {}
        self._timers: list[tuple[float, int, str, PodStep]] = []
        self._order = itertools.count()

    def node_changed(self, node: KubeletNode, now_s: float) -> None:
        """A node was added or updated."""
        name = node.name
        self._nodes[name] = node
        for pod in self._without_node.pop(name, {}).values():
            self.pod_changed(pod, now_s)
        if not node.unreachable:
            for uid, step in self._deferred.pop(name, ()):
                self._plan(now_s, uid, step)

    def node_deleted(self, name: str) -> None:
        """A node was deleted: its pods end. A new node of that name starts the pods that are still bound to it."""
        self._nodes.pop(name, None)
        self._deferred.pop(name, None)
        self._used.pop(name, None)
        for uid in [uid for uid, worker in self._pods.items() if worker.pod.node == name]:
            self._without_node.setdefault(name, {})[uid] = self._pods.pop(uid).pod

    def pod_changed(self, pod: PodOnNode, now_s: float) -> None:
        """A pod was added or updated. Pods without a node are ignored."""
        node, uid = pod.node, uid_of(pod.obj)
        if not node:
            return
        if node not in self._nodes:
            self._without_node.setdefault(node, {})[uid] = pod
            return
        worker = self._pods.get(uid)
        if worker is None:
            worker = self._admit(pod, now_s)
        worker.pod = pod
        if terminal(pod.obj):
            self._ended(worker)
        if deleting(pod.obj):
            self._stop(worker, now_s)

    def pod_deleted(self, uid: str, now_s: float) -> None:
        """A pod was deleted. If it was force-deleted, its containers still need their time to stop."""
        for waiting in self._without_node.values():
            waiting.pop(uid, None)
        worker = self._pods.get(uid)
        if worker is None:
            return
        if worker.ended or worker.rejection is not None:
            self._forget(uid)
        elif not worker.stopping:
            worker.stopping = True
            self._plan(now_s + self._stop_seconds(worker.pod), uid, PodStep.FORGET)

    def node_names(self) -> frozenset[str]:
        """Names of all nodes."""
        return frozenset(self._nodes)

    def pod_uids(self) -> frozenset[str]:
        """Uids of all pods; after a list the caller deletes those that are missing from it."""
        return frozenset(self._pods) | {uid for waiting in self._without_node.values() for uid in waiting}

    def used(self, node: str) -> Resources:
        """Resources that the node's pods occupy now; ``pods`` is their number."""
        return self._used.get(node, NO_RESOURCES)

    def next_due_s(self) -> float | None:
        """When the next step is due (epoch seconds); None: never."""
        return self._timers[0][0] if self._timers else None

    def due(self, now_s: float) -> list[KubeletAction]:
        """The actions that are due."""
        actions: list[KubeletAction] = []
        while self._timers and self._timers[0][0] <= now_s:
            due_s, _, uid, step = heapq.heappop(self._timers)
            worker = self._pods.get(uid)
            if worker is None or worker.due.get(step) != due_s:
                continue  # the pod is gone, or the step was planned again for another time
            del worker.due[step]
            node = worker.pod.node
            if self._nodes[node].unreachable:
                self._deferred.setdefault(node, []).append((uid, step))
                continue
            request = self._do(worker, uid, step, now_s)
            if request is not None:
                actions.append(KubeletAction(uid, step, request))
        return actions

    def failed(self, action: KubeletAction, now_s: float) -> None:
        """The API server did not take the action: retry it after a pause."""
        if action.uid in self._pods:
            self._plan(now_s + RETRY_S, action.uid, action.step)

    def _admit(self, pod: PodOnNode, now_s: float) -> _PodWorker:
        """Admission of a new pod. A pod that runs already is not checked."""
        uid = uid_of(pod.obj)
        number = next(self._order)
        address = f"10.{64 + (number >> 16) % 64}.{(number >> 8) % 256}.{number % 256}"
        worker = _PodWorker(pod, address, NO_RESOURCES)
        self._pods[uid] = worker
        if terminal(pod.obj):
            worker.ended = True
            return worker
        started = status(pod.obj).get("phase") == "Running"
        worker.rejection = None if started else self._rejection(pod)
        if worker.rejection is not None:
            self._plan(now_s + self.settings.reject_s, uid, PodStep.REJECT)
            return worker
        worker.held = _with_pod(pod.requests)
        self._used[pod.node] = self.used(pod.node) + worker.held
        if started:
            worker.started_s = now_s
            self._plan_steps(worker, uid, now_s)
        elif not deleting(pod.obj):
            self._plan(now_s + self.settings.start_s, uid, PodStep.START)
        return worker

    def _rejection(self, pod: PodOnNode) -> tuple[str, str] | None:
        """Reason and message if the pod does not fit on the node."""
        node = pod.node
        capacity, used = self._nodes[node].allocatable, dict(self.used(node).items())
        for name, limit in _checked(capacity):
            asked, taken = dict(_with_pod(pod.requests).items()).get(name, 0), used.get(name, 0)
            if asked > 0 and taken + asked > limit:
                text = f"Node didn't have enough resource: {name}, requested: {asked}, used: {taken}, capacity: {limit}"
                return f"OutOf{name}", text
        return None

    def _do(self, worker: _PodWorker, uid: str, step: PodStep, now_s: float) -> Request | None:
        """Do one step: its effect on the node, and the request for the API server."""
        pod, obj = worker.pod, worker.pod.obj
        match step:
            case PodStep.REJECT if worker.rejection is not None:
                reason, message = worker.rejection
                return written.rejected(obj, reason=reason, message=message, now_s=now_s)
            case PodStep.START if not worker.ended:
                worker.started_s = now_s
                self._plan_steps(worker, uid, now_s)
                return self._running(worker, ready=self._ready_seconds(pod) <= 0, now_s=now_s)
            case PodStep.READY if not worker.stopping and not worker.ended:
                return self._running(worker, ready=True, now_s=now_s)
            case PodStep.END if not worker.stopping:
                self._ended(worker)
                return written.ended(obj, exit_code=written.own_exit_code(obj), now_s=now_s)
            case PodStep.STOP:
                # The resources are free now, not when the object is deleted: as on a real node, whose admission
                # counts running containers.
                self._ended(worker)
                self._plan(now_s, uid, PodStep.REMOVE)
                return written.ended(obj, exit_code=written.STOPPED_EXIT_CODE, now_s=now_s)
            case PodStep.REMOVE:
                return written.final_delete(obj)
            case PodStep.FORGET:
                self._forget(uid)
        return None

    def _running(self, worker: _PodWorker, *, ready: bool, now_s: float) -> Request:
        return written.running(
            worker.pod.obj, ready=ready, address=worker.address, started_s=worker.started_s, now_s=now_s
        )

    def _plan_steps(self, worker: _PodWorker, uid: str, now_s: float) -> None:
        """Plan when the pod becomes ready, and when it ends if it is not restarted."""
        pod = worker.pod
        ready = self._ready_seconds(pod)
        if 0 < ready < math.inf:
            self._plan(now_s + ready, uid, PodStep.READY)
        length = pod.seconds(ANNOTATION_RUN_FOR, math.inf)
        if (spec(pod.obj).get("restartPolicy") or "Always") != "Always" and length < math.inf:
            self._plan(now_s + length, uid, PodStep.END)

    def _stop(self, worker: _PodWorker, now_s: float) -> None:
        """The pod is terminating: end the containers within the grace period, then delete the object."""
        uid = uid_of(worker.pod.obj)
        if worker.ended or worker.rejection is not None:
            if PodStep.REMOVE not in worker.due:
                self._plan(now_s, uid, PodStep.REMOVE)
            return
        due_s = now_s + self._stop_seconds(worker.pod)
        if not worker.stopping or due_s < worker.due.get(PodStep.STOP, -math.inf):
            worker.stopping = True
            worker.due.pop(PodStep.START, None)
            self._plan(due_s, uid, PodStep.STOP)

    def _ended(self, worker: _PodWorker) -> None:
        """The containers have ended: free the resources of the node."""
        if not worker.ended:
            worker.ended = True
            node = worker.pod.node
            self._used[node] = self.used(node) - worker.held
            worker.held = NO_RESOURCES

    def _forget(self, uid: str) -> None:
        self._ended(self._pods[uid])
        del self._pods[uid]

    def _ready_seconds(self, pod: PodOnNode) -> float:
        return pod.seconds(ANNOTATION_READY_AFTER, self.settings.ready_s)

    def _stop_seconds(self, pod: PodOnNode) -> float:
        grace = meta(pod.obj).get("deletionGracePeriodSeconds")
        stop = pod.seconds(ANNOTATION_STOP_AFTER, self.settings.stop_s)
        return stop if grace is None else min(stop, grace)

    def _plan(self, due_s: float, uid: str, step: PodStep) -> None:
        """Plan a step; this replaces an earlier time for the same step of the same pod."""
        if uid in self._pods:
            self._pods[uid].due[step] = due_s
            heapq.heappush(self._timers, (due_s, next(self._order), uid, step))


def _with_pod(requests: Resources) -> Resources:
    """The requests, and one pod of the node's limit of pods."""
    return requests + Resources(pods=1)


def _checked(capacity: Resources) -> list[tuple[str, int]]:
    """Capacities in the order of the real kubelet's checks. Extended resources that the node lacks are not checked."""
    return sorted(capacity.items(), key=lambda amount: amount[0] != "pods")
