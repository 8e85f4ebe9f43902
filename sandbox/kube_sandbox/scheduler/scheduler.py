"""The scheduling loop: one pod at a time, filtered and scored by ``rescheduler.scheduling``, bound through the API.

Deterministic for one order of events and one source of randomness (which only breaks ties between equal
scores). It does not sleep: ``step`` tries every pod that can be tried now.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TypeVar

import numpy as np

from kube_sandbox.controllers.api import Api, ApiRefusal, ObjectChange
from kube_sandbox.controllers.unstructured import Obj
from kube_sandbox.scheduler.cache import ListAll, SchedulerCache, SchedulerReflector
from kube_sandbox.scheduler.fit_error import fit_message
from kube_sandbox.scheduler.preemption import PreemptionCandidate, PreemptionResult, preempt
from kube_sandbox.scheduler.queue import (
    ClusterEvent,
    QueuedPod,
    SchedulingQueue,
    node_event,
    pod_event,
)
from kube_sandbox.scheduler.status_writer import StatusWriter
from rescheduler.model.kinds import Kind
from rescheduler.model.pod_volumes import VolumeKind
from rescheduler.model.records import Node, ObjectKey, Pod
from rescheduler.model.snapshot import Snapshot
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
        self._unsubscribe = api.subscribe(self._reflector.receive)

    def prime(self, existing: Iterable[Obj]) -> None:
        """Take objects that existed before the subscription."""
        for obj in existing:
            self._reflector.receive(ObjectChange("ADDED", obj))

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
        except ApiRefusal:
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
