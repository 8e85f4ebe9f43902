"""Checks the invariants of a history at every write.

``rooms`` and ``evictions`` check two of them. Here: workloads with StartFirst never have fewer Ready pods than before,
nor more than one additional pod; no pod is gated for longer than its limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.histories.clusters import ClusterPlan
from harness.histories.ending import outcome
from harness.histories.evictions import Evictions
from harness.histories.observed_cluster import Seen, Writer, app_of, evicted, gated, phase
from harness.histories.ownrules import OwnRules
from harness.histories.program import Program
from harness.histories.rooms import GATE_LIMIT_S, Rooms
from harness.histories.script import Milestone, Script, Tell
from harness.histories.trace import words_on
from harness.histories.user_requests import Asks
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.unstructured import (
    Obj,
    annotations_of,
    controller_of,
    deleting,
    key,
    labels,
    ready,
    spec,
    status,
    terminal,
    uid,
)
from kube_sandbox.sandbox import Sandbox
from rescheduler.coordination.handover_order import KEPT_FOR_LANDING
from rescheduler.model.kinds import Kind
from rescheduler.model.names import ANNOTATION_MIGRATION, LABEL_PLACEHOLDER, LABEL_START_FIRST

_GATE_SLACK_S: Final = 25.0
"""Late watches, refused calls and a crash can each delay a release."""


class Checker:
    """Subscribes to all writes. ``faults``: messages about the invariants that were broken."""

    def __init__(
        self, cluster: Sandbox, *, plan: ClusterPlan, script: Script, asks: Asks, program: Program, tell: Tell
    ) -> None:
        self._cluster, self._clock, self._tell = cluster, cluster.clock, tell
        self._script, self._asks, self._program = script, asks, program
        self.seen = Seen()
        for obj in cluster.api.everything():
            self.seen.apply(ObjectChange("ADDED", obj), Writer.CLUSTER, cluster.clock())
        self._rooms = Rooms(
            self.seen, script.hits, self._knows, OwnRules(cluster), away_since=program.line.away_since,
            lists_anew_s=self._lists_anew_s,
        )  # fmt: skip
        self._evictions = Evictions(cluster, self.seen, script.hits, program)
        self._first = {w.name: self._ready_now(w.name) for w in plan.workloads if w.starts_first}
        self.faults: list[str] = []
        self.writes = 0
        cluster.api.subscribe(self._hear)

    @property
    def evicted(self) -> dict[str, str]:
        """Uids of the pods that the program evicted, and the mode of each move."""
        return self._evictions.modes

    @property
    def evicted_at_s(self) -> dict[str, float]:
        """When, by uid."""
        return self._evictions.at_s

    @property
    def excused(self) -> dict[str, str]:
        """Uids of Reservations whose rooms were lost for a reason that the program could not prevent, and the reason."""
        ended = (r for r in self.seen.rooms.values() if outcome(r) == "Reservation Failed (GateTimeout)")
        late = (r for r in ended if any(map(self._answered_late, self.seen.owners(r))))
        return {uid(r): "answers took three quarters of the gate's limit" for r in late} | self._rooms.excused

    def _answered_late(self, claimant: Obj) -> bool:
        """True if slow answers used up the part of its gate's limit that is not kept for its landing."""
        born_s = self.seen.born_s[uid(claimant)]
        waited_s = self._program.waited_s(born_s, born_s + GATE_LIMIT_S)
        return waited_s >= GATE_LIMIT_S * (1 - KEPT_FOR_LANDING)

    def _hear(self, change: ObjectChange) -> None:
        who = self._who()
        now_s, obj = self._clock(), change.object
        old = self.seen.apply(change, who, now_s)
        self._evictions.replacements.hear(obj, now_s)
        self.writes += 1
        if words := words_on(change):
            self._tell(f"{who:8}{words}")
        for milestone in _milestones(old, obj):
            self._script.note(milestone)
        if who is Writer.PROGRAM:
            self._script.note(Milestone.WRITE)
            if obj["kind"] == "Reservation" and old is not None:
                self._check_claim(old, obj)
            if obj["kind"] == "Pod" and old is not None:
                self._check_end(old, obj, gone=change.type == "DELETED")
        if obj["kind"] in ("Pod", "Reservation", "Node"):
            self._fault(*self._rooms.check(who, obj, now_s))
        if obj["kind"] == "Pod":
            self._count(self._app(obj))
            self._check_gate(now_s)

    def _check_end(self, old: Obj, pod: Obj, *, gone: bool) -> None:
        """The program may evict pods; it may delete only pods that it has created."""
        if evicted(pod) and not evicted(old):
            self._fault(*self._evictions.check(old, self._clock()))
        elif (gone or deleting(pod)) and not (deleting(old) or evicted(pod) or _made_by_program(pod)):
            self._fault(f"{key(pod).name} was deleted and not evicted")

    def _check_claim(self, old: Obj, room: Obj) -> None:
        """The room that a move has reserved must not be claimed before the pod of the move is evicted or gone."""
        move = self.seen.move_of(room)
        if move is None or not status(room).get("currentOwners") or status(old).get("currentOwners"):
            return
        pod = self.seen.pods.get(spec(move)["podRef"].get("uid", ""))
        if pod is not None and not deleting(pod) and not terminal(pod):
            self._fault(f"the room of {key(move).name} was given away before {key(pod).name} was evicted")

    def _who(self) -> Writer:
        if self._program.line.sending:
            return Writer.PROGRAM
        return Writer.PEOPLE if self._script.acting else Writer.CLUSTER

    def _knows(self, pod: Obj) -> bool:
        return not self._program.caches.behind(Kind.POD, uid(pod))

    def _lists_anew_s(self, moment_s: float) -> float:
        back_s = self._cluster.scheduler_back_at_s
        return back_s if any(moment_s <= began_s <= back_s for began_s, _ in self._program.line.away) else 0.0

    def _count(self, app: str) -> None:
        """Count the pods of a workload with StartFirst, unless a disturbance has hit it or its nodes.

        New pods of a scale-up raise the expected number once they are Ready.
        """
        best = self._first.get(app)
        if best is None or self._script.hits:
            return
        mine = [p for p in self.seen.pods.values() if self._app(p) == app and not deleting(p)]
        alive = sum(not terminal(p) for p in mine)
        able = sum(map(ready, mine))
        wanted = self._asks.sizes[app]
        if alive > wanted + 1:
            self._fault(f"{app} has {alive} pods, {wanted} are wanted")
        if able < best and not self._reserved_first(app):
            self._fault(f"{app} has {able} Ready pods and had {best}")
        # Without replacements that are not adopted yet: they are deleted if their move fails.
        own = sum(ready(p) for p in mine if controller_of(p) is not None)
        self._first[app] = max(best, min(own, wanted))

    def _app(self, pod: Obj) -> str:
        """The workload of a pod. A replacement of StartFirst may have no label but the uid of its move."""
        move = self.seen.moves.get(labels(pod).get(LABEL_START_FIRST, ""))
        own = labels(pod).get("app", "")
        return own or ("" if move is None else app_of(move))

    def _ready_now(self, app: str) -> int:
        return sum(ready(p) for p in self.seen.pods.values() if labels(p).get("app") == app)

    def _reserved_first(self, app: str) -> bool:
        """True if a move of this workload evicted without starting first."""
        return any(
            mode != "StartFirst" and self._app_of(pod_uid) == app for pod_uid, mode in self.evicted.items()
        )

    def _app_of(self, pod_uid: str) -> str:
        for move in (*self.seen.moves.values(), *self.seen.gone_moves.values()):
            if move["spec"]["podRef"].get("uid") == pod_uid:
                return app_of(move)
        return ""

    def _check_gate(self, now_s: float) -> None:
        for pod in self.seen.pods.values():
            if not gated(pod) or deleting(pod):
                continue
            created_s = self.seen.born_s[uid(pod)]
            age_s = now_s - created_s - self._program.line.away_since(created_s)
            if age_s > GATE_LIMIT_S + _GATE_SLACK_S:
                self._fault(f"{key(pod).name} has been held for {age_s:.0f} s")

    def _fault(self, *words: str) -> None:
        for each in words:
            if each not in self.faults:
                self._tell(f"!! {each}")
                self.faults.append(each)


def _milestones(old: Obj | None, obj: Obj) -> Iterator[Milestone]:
    """The steps of moves that this write takes."""
    match obj["kind"]:
        case "PodMigration" if old is None:
            yield Milestone.MOVE
        case "PodMigration" if _means_to_evict(obj) and not _means_to_evict(old):
            yield Milestone.INTENT
        case "Reservation" if ANNOTATION_MIGRATION in annotations_of(obj):
            if phase(obj) == "Available" and (old is None or phase(old) != "Available"):
                yield Milestone.AVAILABLE
        case "Pod" if old is not None and evicted(obj) and not evicted(old):
            yield Milestone.EVICTED


def _means_to_evict(move: Obj | None) -> bool:
    return bool(status(move or {}).get("evictionRequestedAt"))


def _made_by_program(pod: Obj) -> bool:
    orphan = LABEL_START_FIRST in labels(pod) and controller_of(pod) is None
    return orphan or LABEL_PLACEHOLDER in labels(pod)
