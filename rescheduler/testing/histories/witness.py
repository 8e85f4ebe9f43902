"""Sees every write of a history, whoever made it, and judges what must hold at every instant.

Rooms and evictions have modules of their own. Here: workloads that start first never have fewer Ready pods
than before nor more than one pod too many; nobody is held by the gate for longer than its limit.
"""

from __future__ import annotations

from typing import Final

from rescheduler.model.kinds import Kind
from rescheduler.model.names import LABEL_PLACEHOLDER, LABEL_START_FIRST
from rescheduler.sim.cluster import EmbeddedCluster
from rescheduler.sim.controllers.api import Change
from rescheduler.sim.controllers.wire import (
    Obj,
    controller_of,
    deleting,
    key,
    labels,
    ready,
    seconds,
    spec,
    status,
    terminal,
    uid,
)
from rescheduler.testing.histories.asks import Asks
from rescheduler.testing.histories.evictions import Evictions
from rescheduler.testing.histories.ownrules import OwnRules
from rescheduler.testing.histories.program import Program
from rescheduler.testing.histories.rooms import Rooms
from rescheduler.testing.histories.script import Mark, Script, Tell
from rescheduler.testing.histories.seen import Seen, Who, app_of, evicted, gated
from rescheduler.testing.histories.trace import words_on
from rescheduler.testing.histories.worlds import World

GATE_LIMIT_S: Final = 60.0
_GATE_SLACK_S: Final = 25.0
"""Late watches, refusals and a crash can each hold a release up."""


class Witness:
    """Listens to the API server. ``faults``: broken promises, in words."""

    def __init__(
        self,
        cluster: EmbeddedCluster,
        *,
        world: World,
        script: Script,
        asks: Asks,
        program: Program,
        tell: Tell,
    ) -> None:
        self._clock, self._tell = cluster.clock, tell
        self._script, self._asks, self._program = script, asks, program
        self.seen = Seen()
        for obj in cluster.api.everything():
            self.seen.apply(Change("ADDED", obj), Who.CLUSTER, cluster.clock())
        self._rooms = Rooms(self.seen, script.hits, self._knows, OwnRules(cluster))
        self._evictions = Evictions(cluster.api, self.seen, script.hits, program.caches)
        self._first = {w.name: self._ready_now(w.name) for w in world.workloads if w.starts_first}
        self.faults: list[str] = []
        self.writes = 0
        cluster.api.subscribe(self._hear)

    @property
    def evicted(self) -> dict[str, str]:
        """Uids of the pods that the program evicted, and the mode of each move."""
        return self._evictions.modes

    @property
    def excused(self) -> dict[str, str]:
        """Uids of Reservations whose rooms were lost and that nobody could have kept, and why."""
        return self._rooms.excused

    def _hear(self, change: Change) -> None:
        who = self._who()
        now_s, obj = self._clock(), change.object
        old = self.seen.apply(change, who, now_s)
        self.writes += 1
        if words := words_on(change):
            self._tell(f"{who:8}{words}")
        if who is Who.PROGRAM:
            self._script.note(Mark.WRITE)
            if obj["kind"] == "PodMigration" and _means_to_evict(obj) and not _means_to_evict(old):
                self._script.note(Mark.INTENT)
            if obj["kind"] == "Reservation" and old is not None:
                self._judge_claim(old, obj)
            if obj["kind"] == "Pod" and old is not None:
                self._judge_end(old, obj, gone=change.type == "DELETED")
        if obj["kind"] in ("Pod", "Reservation", "Node"):
            self._fault(*self._rooms.judge(who, obj, now_s))
        if obj["kind"] == "Pod":
            self._count(self._app(obj))
            self._judge_gate(now_s)

    def _judge_end(self, old: Obj, pod: Obj, *, gone: bool) -> None:
        """The program ends pods by eviction; it deletes nothing but what it has made."""
        if evicted(pod) and not evicted(old):
            self._fault(*self._evictions.judge(old))
        elif (gone or deleting(pod)) and not (deleting(old) or evicted(pod) or _made_by_program(pod)):
            self._fault(f"{key(pod).name} was deleted and not evicted")

    def _judge_claim(self, old: Obj, room: Obj) -> None:
        """The room that a move has made is for nobody before its pod is evicted, or gone."""
        move = self.seen.move_of(room)
        if move is None or not status(room).get("currentOwners") or status(old).get("currentOwners"):
            return
        pod = self.seen.pods.get(spec(move)["podRef"].get("uid", ""))
        if pod is not None and not deleting(pod) and not terminal(pod):
            self._fault(f"the room of {key(move).name} was given away before {key(pod).name} was evicted")

    def _who(self) -> Who:
        if self._program.line.sending:
            return Who.PROGRAM
        return Who.PEOPLE if self._script.acting else Who.CLUSTER

    def _knows(self, pod: Obj) -> bool:
        return not self._program.caches.behind(Kind.POD, uid(pod))

    def _count(self, app: str) -> None:
        """Only while its owner and its nodes are left alone: growth counts once it is Ready."""
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
        own = sum(ready(p) for p in mine if controller_of(p) is not None)
        self._first[app] = max(best, min(own, wanted))

    def _app(self, pod: Obj) -> str:
        """Its workload; a replacement that starts first may carry nothing but the uid of its move."""
        move = self.seen.moves.get(labels(pod).get(LABEL_START_FIRST, ""))
        own = labels(pod).get("app", "")
        return own or ("" if move is None else app_of(move))

    def _ready_now(self, app: str) -> int:
        return sum(ready(p) for p in self.seen.pods.values() if labels(p).get("app") == app)

    def _reserved_first(self, app: str) -> bool:
        """A move of this workload was not able to start first, and has evicted."""
        return any(
            mode != "StartFirst" and self._app_of(pod_uid) == app for pod_uid, mode in self.evicted.items()
        )

    def _app_of(self, pod_uid: str) -> str:
        for move in (*self.seen.moves.values(), *self.seen.gone_moves.values()):
            if move["spec"]["podRef"].get("uid") == pod_uid:
                return app_of(move)
        return ""

    def _judge_gate(self, now_s: float) -> None:
        for pod in self.seen.pods.values():
            if not gated(pod) or deleting(pod):
                continue
            created_s = seconds(pod["metadata"]["creationTimestamp"])
            age_s = now_s - created_s - self._program.line.away_since(created_s)
            if age_s > GATE_LIMIT_S + _GATE_SLACK_S:
                self._fault(f"{key(pod).name} has been held for {age_s:.0f} s")

    def _fault(self, *words: str) -> None:
        for each in words:
            if each not in self.faults:
                self._tell(f"!! {each}")
                self.faults.append(each)


def _means_to_evict(move: Obj | None) -> bool:
    return bool(status(move or {}).get("evictionRequestedAt"))


def _made_by_program(pod: Obj) -> bool:
    orphan = LABEL_START_FIRST in labels(pod) and controller_of(pod) is None
    return orphan or LABEL_PLACEHOLDER in labels(pod)
