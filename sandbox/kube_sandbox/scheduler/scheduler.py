"""The scheduling loop: one pod at a time, filtered and scored by ``rescheduler.scheduling``, bound through the API.

Deterministic for one order of events and one source of randomness (which only breaks ties between equal
scores). It does not sleep: ``step`` tries every pod that can be tried now.
"""

from __future__ import annotations

import hashlib
import random
from typing import TypeVar

import numpy as np

from kube_sandbox.apiserver.errors import StatusError
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.api import Api, refused
from kube_sandbox.controllers.unstructured import (
    CLAIM,
    POD,
    Obj,
    condition,
    new_condition,
    status,
    with_condition,
)
from kube_sandbox.controllers.volumes import SELECTED_NODE
from kube_sandbox.scheduler.cache import ListAll, SchedulerCache, SchedulerReflector
from kube_sandbox.scheduler.preemption import (
    BY_SCHEDULER,
    PreemptionCandidate,
    PreemptionResult,
    fit_message,
    preempt,
)
from kube_sandbox.scheduler.queue import ClusterEvent, QueuedPod, SchedulingQueue, node_event, pod_event
from rescheduler.model.kinds import Kind
from rescheduler.model.pod_volumes import VolumeKind
from rescheduler.model.records import Node, ObjectKey, Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.storage_records import PersistentVolumeClaim
from rescheduler.model.times import format_micros
from rescheduler.scheduling.framework import BoolArray, Profile, Refusal
from rescheduler.scheduling.state import SchedulingState

RecordT = TypeVar("RecordT")
_VOLUME_KINDS = frozenset(
    {Kind.PERSISTENT_VOLUME, Kind.PERSISTENT_VOLUME_CLAIM, Kind.STORAGE_CLASS, Kind.CSI_NODE}
)


class Scheduler:
    """kube-scheduler of the sandbox. Owned by one thread."""

    def __init__(self, api: Api, *, rng: random.Random, profile: Profile | None = None) -> None:
        self._api = api
        self._rng = rng
        self._profile = profile or Profile()
        self._writer = StatusWriter(api, self._profile.scheduler_name)
        self._reflector = SchedulerReflector(rng)
        self._cache = SchedulerCache()
        self._state: SchedulingState | None = None
        self.queue = SchedulingQueue()
        self._now_s = 0.0
        self._unsubscribe = api.subscribe(self._reflector.receive, existing=True)

    def disconnect(self, until_s: float, list_all: ListAll) -> None:
        """Lose the API server until ``until_s``; the missed events are then replaced by a new list."""
        self._reflector.disconnect(until_s, list_all)

    def close(self) -> None:
        """End the subscription."""
        self._unsubscribe()

    def step(self, now_s: float, limit: int = 1_000) -> int:
        """Try pods until none is left to try at ``now_s``; returns how many were tried."""
        self._now_s = now_s
        if self._reflector.disconnected(now_s):
            return 0
        self._handle_events()
        tried = 0
        while tried < limit and (entry := self.queue.pop(now_s)) is not None:
            self._schedule_one(entry)
            self._handle_events()
            tried += 1
        return tried

    def next_due_s(self, now_s: float) -> float | None:
        """When ``step`` has something to do again without any event (epoch seconds); None: never."""
        events_due_s = self._reflector.due_s()
        return events_due_s if events_due_s is not None else self.queue.next_due_s(now_s)

    def _schedule_one(self, entry: QueuedPod) -> None:
        """One scheduling cycle for one pod."""
        pod = entry.pod
        snapshot = self._cache.snapshot(self._now_s)
        state = self._synced_state(snapshot)
        try:
            found = state.filter(pod)
            if found.any():
                node = self._pick(state, pod, _nominated_first(state, pod, found.feasible))
                self._bind(pod, node, snapshot)
            else:
                self._handle_failure(pod, state, snapshot, found.everywhere)
        except StatusError:
            self.queue.add_backoff(pod.uid)

    def _pick(self, state: SchedulingState, pod: Pod, feasible: BoolArray) -> str:
        """The best node; a random one of several that are equally good."""
        indices = np.flatnonzero(feasible)
        if len(indices) == 1:
            return state.node_names[int(indices[0])]
        totals = state.score(pod, feasible).total[indices]
        best = indices[totals == totals.max()]
        return state.node_names[int(best[self._rng.randrange(len(best))])]

    def _bind(self, pod: Pod, node: str, snapshot: Snapshot) -> None:
        if self._claims_unbound(pod, node, snapshot):
            self.queue.add_unschedulable(pod.uid, {"VolumeBinding"})
            return
        self._api.bind(self._writer.reference(pod), node)
        self._reflector.assume(pod.uid)
        self._writer.scheduled(pod, node, self._now_s)

    def _claims_unbound(self, pod: Pod, node: str, snapshot: Snapshot) -> bool:
        """True if the pod has unbound claims; each is annotated with the node, for the volume binder."""
        waits = False
        for volume in pod.spec.volumes:
            if volume.kind not in (VolumeKind.CLAIM, VolumeKind.EPHEMERAL):
                continue
            name = volume.source if volume.kind is VolumeKind.CLAIM else f"{pod.name}-{volume.source}"
            claim = snapshot.claims.get(ObjectKey(pod.namespace, name))
            if claim is not None and not claim.bound:
                waits = True
                if claim.selected_node != node:
                    self._writer.select_node(claim, node)
        return waits

    def _handle_failure(
        self, pod: Pod, state: SchedulingState, snapshot: Snapshot, everywhere: Refusal | None
    ) -> None:
        """No node fits: try preemption, write the reason, and leave the pod in the queue."""
        verdicts = state.explain(pod)
        result = preempt(state, pod, verdicts, snapshot.budgets)
        self.queue.add_unschedulable(pod.uid, {r.plugin for v in verdicts for r in v.refusals})
        if result.choice is not None:
            self._preempt(pod, result.choice, snapshot)
        nominated = _nomination(pod, result)
        text = fit_message(verdicts, result.message, everywhere.reason if everywhere else "")
        self._writer.failed(pod, text, nominated, self._now_s)

    def _preempt(self, pod: Pod, choice: PreemptionCandidate, snapshot: Snapshot) -> None:
        """Delete the victims, and clear the nominations of pods of lower priority to this node."""
        for victim in choice.victims:
            self._writer.preempted(victim, pod, choice.node, self._now_s)
        for other in snapshot.pods.values():
            lower = other.spec.priority < pod.spec.priority
            if lower and not other.node and other.nominated_node == choice.node:
                self._writer.clear_nomination(other)

    def _synced_state(self, snapshot: Snapshot) -> SchedulingState:
        if self._state is None:
            self._state = SchedulingState(snapshot, self._profile)
        else:
            self._state.sync(snapshot)
        return self._state

    def _handle_events(self) -> None:
        while (change := self._reflector.next()) is not None:
            self._handle(change)

    def _handle(self, change: ObjectChange) -> None:
        applied = self._cache.apply(change)
        if applied is None:
            return
        old, new = applied.old, applied.new
        if applied.kind is Kind.POD:
            self._handle_pod(_as(Pod, old), _as(Pod, new), change.object)
        elif applied.kind is Kind.NODE:
            self._requeue(node_event(_as(Node, old), _as(Node, new)))
        elif applied.kind in _VOLUME_KINDS:
            self._requeue(ClusterEvent.VOLUME_CHANGED)

    def _handle_pod(self, old: Pod | None, new: Pod | None, wire: Obj) -> None:
        self._requeue(pod_event(old, new))
        if new is None or new.node or new.deleting or new.terminal:
            if old is not None:
                self.queue.delete(old.uid)
                self._writer.forget(old.uid)
        elif new.spec.scheduler_name == self._profile.scheduler_name:
            if old is not None and old.uid != new.uid:
                self.queue.delete(old.uid)
            self.queue.add(new, self._now_s)
            if new.spec.gates:
                self._writer.gated(new, wire, self._now_s)

    def _requeue(self, event: ClusterEvent | None) -> None:
        if event is not None:
            self.queue.move_to_active_or_backoff(event, self._now_s)


def _as(kind: type[RecordT], record: object) -> RecordT | None:
    return record if isinstance(record, kind) else None


def _nominated_first(state: SchedulingState, pod: Pod, feasible: BoolArray) -> BoolArray:
    """The nominated node alone if the pod fits there (kube-scheduler tries it first); else all feasible nodes."""
    index = state.node_index.get(pod.nominated_node)
    if index is None or not feasible[index]:
        return feasible
    only = np.zeros_like(feasible)
    only[index] = True
    return only


def _nomination(pod: Pod, result: PreemptionResult) -> str:
    """The nominated node after this attempt; an attempt without a candidate clears it."""
    if result.choice is not None:
        return result.choice.node
    return "" if result.eligible else pod.nominated_node


_GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"
_NOTE_LIMIT = 1024


class StatusWriter:
    """Writes for one scheduler. It keeps the last message of each pod, so that Events are not repeated."""

    def __init__(self, api: Api, scheduler: str) -> None:
        self._api = api
        self._scheduler = scheduler
        self._last_message: dict[str, str] = {}

    def reference(self, pod: Pod) -> Obj:
        """The pod's identity as an object of the API."""
        return {"apiVersion": "v1", "kind": "Pod", "metadata": identity(pod)}

    def forget(self, uid: str) -> None:
        """Drop the last message of a pod that is bound or deleted."""
        self._last_message.pop(uid, None)

    def scheduled(self, pod: Pod, node: str, now_s: float) -> None:
        """Write the Event of a pod that was bound."""
        text = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._event(pod, now_s, kind="Normal", reason="Scheduled", action="Binding", note=text)

    def failed(self, pod: Pod, message: str, nominated: str, now_s: float) -> None:
        """Write that no node fits: condition, nomination and, if the message is new, an Event."""
        current = self._api.get(POD, pod.namespace, pod.name)
        if current is None or current["metadata"]["uid"] != pod.uid:
            return
        change: Obj = {"nominatedNodeName": nominated or None}
        new = _not_scheduled("Unschedulable", message, now_s)
        if not _has_condition(current, new):
            change["conditions"] = with_condition(status(current).get("conditions") or [], new)
        if "conditions" in change or (status(current).get("nominatedNodeName") or "") != nominated:
            self._api.patch(current, {"status": change}, subresource="status")
        if self._last_message.get(pod.uid) != message:
            self._last_message[pod.uid] = message
            self._event(
                pod, now_s, kind="Warning", reason="FailedScheduling", action="Scheduling", note=message
            )

    def gated(self, pod: Pod, wire: Obj, now_s: float) -> None:
        """Write the condition of a pod with scheduling gates, once."""
        new = _not_scheduled("SchedulingGated", _GATED_MESSAGE, now_s)
        if (condition(wire, "PodScheduled") or {}).get("reason") == "SchedulingGated":
            return
        current = self._api.get(POD, pod.namespace, pod.name)
        if current is not None and current["metadata"]["uid"] == pod.uid:
            self._api.mark(current, new)

    def preempted(self, victim: Pod, by: Pod, node: str, now_s: float) -> None:
        """Set the condition DisruptionTarget of the victim, and delete it."""
        current = self._api.get(POD, victim.namespace, victim.name)
        if current is None or current["metadata"]["uid"] != victim.uid:
            return
        text = f"{self._scheduler}: preempting to accommodate a higher priority pod"
        self._api.mark(current, new_condition("DisruptionTarget", BY_SCHEDULER, text, now_s))
        self._api.delete_if_there(current)
        note = f"Preempted by pod {by.uid} on node {node}"
        self._event(victim, now_s, kind="Normal", reason="Preempted", action="Preempting", note=note)

    def clear_nomination(self, pod: Pod) -> None:
        """Clear the nomination of a pod whose node a pod of higher priority takes."""
        self._api.patch(self.reference(pod), {"status": {"nominatedNodeName": None}}, subresource="status")

    def select_node(self, claim: PersistentVolumeClaim, node: str) -> None:
        """Write the selected node of a claim, for which the provisioner creates the volume."""
        current = self._api.get(CLAIM, claim.namespace, claim.name)
        if current is not None:
            self._api.patch(current, {"metadata": {"annotations": {SELECTED_NODE: node}}})

    def _event(self, pod: Pod, now_s: float, *, kind: str, reason: str, action: str, note: str) -> None:
        digest = hashlib.sha256(f"{pod.uid}{reason}{note}{now_s:.6f}".encode()).hexdigest()[:16]
        regarding = {**identity(pod), "apiVersion": "v1", "kind": "Pod"}
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": pod.namespace, "name": f"{pod.name[:230]}.{digest}"},
            "eventTime": format_micros(now_s),
            "type": kind,
            "reason": reason,
            "action": action,
            "note": note[:_NOTE_LIMIT],
            "regarding": regarding,
            "reportingController": self._scheduler,
            "reportingInstance": self._scheduler,
        }
        with refused("AlreadyExists", "NotFound", "Forbidden"):
            self._api.create(body)


def identity(pod: Pod) -> Obj:
    """Namespace, name and uid."""
    return {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}


def _not_scheduled(reason: str, message: str, now_s: float) -> Obj:
    return {
        **new_condition("PodScheduled", reason, message, now_s, state="False"),
        "lastProbeTime": None,
    }


def _has_condition(pod: Obj, new: Obj) -> bool:
    found = condition(pod, new["type"]) or {}
    return all(found.get(k) == new[k] for k in ("status", "reason", "message"))
