"""The scheduler's loop: one pod at a time, judged by ``rescheduler.scheduling``, bound through the API.

Deterministic for one order of events and one source of randomness (which only breaks ties between equal
scores). It does not sleep: ``step`` handles everything that can be tried now.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TypeVar

import numpy as np

from rescheduler.model.kinds import Kind
from rescheduler.model.records import Node, ObjectKey, Pod, VolumeKind
from rescheduler.model.snapshot import Snapshot
from rescheduler.scheduling.framework import BoolArray, Profile, Refusal
from rescheduler.scheduling.state import SchedulingState
from rescheduler.sim.controllers.api import Api, ApiRefusal, Change
from rescheduler.sim.controllers.wire import Obj
from rescheduler.sim.scheduler.announce import Announcer
from rescheduler.sim.scheduler.events import wake_of_node, wake_of_pod
from rescheduler.sim.scheduler.hearing import Hearing, ReadAnew
from rescheduler.sim.scheduler.message import fit_message
from rescheduler.sim.scheduler.preemption import Choice, PreemptionResult, preempt
from rescheduler.sim.scheduler.queue import QueuedPod, SchedulingQueue, Wake
from rescheduler.sim.scheduler.records import ClusterRecords

RecordT = TypeVar("RecordT")
_VOLUME_KINDS = frozenset(
    {Kind.PERSISTENT_VOLUME, Kind.PERSISTENT_VOLUME_CLAIM, Kind.STORAGE_CLASS, Kind.CSI_NODE}
)


class Scheduler:
    """kube-scheduler's behaviour on the embedded cluster. Owned by one thread."""

    def __init__(self, api: Api, *, rng: random.Random, profile: Profile | None = None) -> None:
        self._api = api
        self._rng = rng
        self._profile = profile or Profile()
        self._announcer = Announcer(api, self._profile.scheduler_name)
        self._hearing = Hearing(rng)
        self._records = ClusterRecords()
        self._state: SchedulingState | None = None
        self.queue = SchedulingQueue()
        self._now_s = 0.0
        self._unsubscribe = api.subscribe(self._hearing.hear)

    def prime(self, existing: Iterable[Obj]) -> None:
        """Take in objects that were there before the subscription."""
        for obj in existing:
            self._hearing.hear(Change("ADDED", obj))

    def lose_watches(self, until_s: float, read_anew: ReadAnew) -> None:
        """The API server is out of reach until then, and has forgotten by then what was missed."""
        self._hearing.lose(until_s, read_anew)

    def close(self) -> None:
        """Stop listening."""
        self._unsubscribe()

    def step(self, now_s: float, limit: int = 1_000) -> int:
        """Try pods until none is left to try at ``now_s``; gives how many were tried."""
        self._now_s = now_s
        if self._hearing.deaf(now_s):
            return 0
        self._drain()
        tried = 0
        while tried < limit and (entry := self.queue.pop(now_s)) is not None:
            self._try(entry)
            self._drain()
            tried += 1
        return tried

    def next_due_s(self, now_s: float) -> float | None:
        """When ``step`` has something to do again without any event (epoch seconds); None: never."""
        heard_s = self._hearing.due_s()
        return heard_s if heard_s is not None else self.queue.next_due_s(now_s)

    def _try(self, entry: QueuedPod) -> None:
        """One scheduling cycle."""
        pod = entry.pod
        snapshot = self._records.snapshot(self._now_s)
        state = self._synced(snapshot)
        try:
            found = state.filter(pod)
            if found.any():
                node = self._pick(state, pod, _narrowed(state, pod, found.feasible))
                self._bind(pod, node, snapshot)
            else:
                self._refuse(pod, state, snapshot, found.everywhere)
        except ApiRefusal:
            self.queue.failed(pod.uid)

    def _pick(self, state: SchedulingState, pod: Pod, feasible: BoolArray) -> str:
        """The best node; a random one of several that are equally good."""
        indices = np.flatnonzero(feasible)
        if len(indices) == 1:
            return state.node_names[int(indices[0])]
        totals = state.score(pod, feasible).total[indices]
        best = indices[totals == totals.max()]
        return state.node_names[int(best[self._rng.randrange(len(best))])]

    def _bind(self, pod: Pod, node: str, snapshot: Snapshot) -> None:
        if self._claims_wait(pod, node, snapshot):
            self.queue.refused(pod.uid, {"VolumeBinding"})
            return
        self._api.bind(self._announcer.reference(pod), node)
        self._hearing.own(pod.uid)
        self._announcer.scheduled(pod, node, self._now_s)

    def _claims_wait(self, pod: Pod, node: str, snapshot: Snapshot) -> bool:
        """Tell the volume binder the node of claims that wait for their first consumer."""
        waits = False
        for volume in pod.spec.volumes:
            if volume.kind not in (VolumeKind.CLAIM, VolumeKind.EPHEMERAL):
                continue
            name = volume.source if volume.kind is VolumeKind.CLAIM else f"{pod.name}-{volume.source}"
            claim = snapshot.claims.get(ObjectKey(pod.namespace, name))
            if claim is not None and not claim.bound:
                waits = True
                if claim.selected_node != node:
                    self._announcer.select_node(claim, node)
        return waits

    def _refuse(
        self, pod: Pod, state: SchedulingState, snapshot: Snapshot, everywhere: Refusal | None
    ) -> None:
        """No node takes the pod: try preemption, say why, and wait."""
        verdicts = state.explain(pod)
        result = preempt(state, pod, verdicts, snapshot.budgets)
        self.queue.refused(pod.uid, {r.plugin for v in verdicts for r in v.refusals})
        if result.choice is not None:
            self._preempt(pod, result.choice, snapshot)
        nominated = _nomination(pod, result)
        text = fit_message(verdicts, result.message, everywhere.reason if everywhere else "")
        self._announcer.failed(pod, text, nominated, self._now_s)

    def _preempt(self, pod: Pod, choice: Choice, snapshot: Snapshot) -> None:
        """Delete the victims; pods of lower priority nominated to the node lose their nomination."""
        for victim in choice.victims:
            self._announcer.preempted(victim, pod, choice.node, self._now_s)
        for other in snapshot.pods.values():
            lower = other.spec.priority < pod.spec.priority
            if lower and not other.node and other.nominated_node == choice.node:
                self._announcer.clear_nomination(other)

    def _synced(self, snapshot: Snapshot) -> SchedulingState:
        if self._state is None:
            self._state = SchedulingState(snapshot, self._profile)
        else:
            self._state.sync(snapshot)
        return self._state

    def _drain(self) -> None:
        while (change := self._hearing.next()) is not None:
            self._take(change)

    def _take(self, change: Change) -> None:
        applied = self._records.apply(change)
        if applied is None:
            return
        old, new = applied.old, applied.new
        if applied.kind is Kind.POD:
            self._take_pod(_as(Pod, old), _as(Pod, new), change.object)
        elif applied.kind is Kind.NODE:
            self._wake(wake_of_node(_as(Node, old), _as(Node, new)))
        elif applied.kind in _VOLUME_KINDS:
            self._wake(Wake.VOLUME_CHANGED)

    def _take_pod(self, old: Pod | None, new: Pod | None, wire: Obj) -> None:
        self._wake(wake_of_pod(old, new))
        if new is None or new.node or new.deleting or new.terminal:
            if old is not None:
                self.queue.drop(old.uid)
                self._announcer.forget(old.uid)
        elif new.spec.scheduler_name == self._profile.scheduler_name:
            if old is not None and old.uid != new.uid:
                self.queue.drop(old.uid)
            self.queue.put(new, self._now_s)
            if new.spec.gates:
                self._announcer.gated(new, wire, self._now_s)

    def _wake(self, event: Wake | None) -> None:
        if event is not None:
            self.queue.wake(event, self._now_s)


def _as(kind: type[RecordT], record: object) -> RecordT | None:
    return record if isinstance(record, kind) else None


def _narrowed(state: SchedulingState, pod: Pod, feasible: BoolArray) -> BoolArray:
    """The nominated node alone if the pod fits there (it is tried first); all feasible nodes otherwise."""
    index = state.node_index.get(pod.nominated_node)
    if index is None or not feasible[index]:
        return feasible
    only = np.zeros_like(feasible)
    only[index] = True
    return only


def _nomination(pod: Pod, result: PreemptionResult) -> str:
    """Where the pod is nominated to now; an attempt without a choice clears it."""
    if result.choice is not None:
        return result.choice.node
    return "" if result.eligible else pod.nominated_node
