"""Pods of higher priority that only a placeholder keeps out, and reserved nodes that are cordoned, at every step of a move.

Checked: at an eviction no pod that the program knows to wait would preempt the replacement on its target, and no Reservation
counts as used while such a pod is about to preempt its owner. Judged by the sandbox's scheduler on what the program's
caches show. Drawn from a random stream of their own: histories without them are those of before.
"""

from __future__ import annotations

from typing import Final

import msgspec

from harness.histories.clusters import lone_pod
from harness.histories.disturbances import CROWD
from harness.histories.observed_cluster import cpu_of, evicted, over
from harness.histories.theme import Stage, Theme
from harness.histories.user_requests import MOVE, ROOM
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.unstructured import NODE, POD, Obj, key, spec, status, terminal, uid
from kube_sandbox.scheduler.preemption import preempt
from rescheduler.model.names import HOSTNAME
from rescheduler.model.records import Pod
from rescheduler.model.resources import milli
from rescheduler.model.snapshot import Snapshot
from rescheduler.scheduling.state import SchedulingState

_MOST: Final = 4
_LATER_S: Final = (0.001, 0.05, 0.3, 1.0)
_CORDONED_S: Final = (1.0, 5.0, 100.0)


class WaitingPods(Theme):
    """In such a history no answer is late, so that a write was decided on what the caches show."""

    stream, share = "waiting pods", 0.2

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._judged: set[str] = set()
        self._cordoned: set[str] = set()
        self._api.subscribe(self._hear)

    def write_script(self) -> None:
        """Draw what happens, and when."""
        rng = self._rng
        for _ in range(rng.randint(1, _MOST)):
            waits = ("pod of higher priority waits for a held room", self._wait)
            name, do = rng.choice((waits, waits, ("reserved node cordoned", self._cordon)))
            self._at_a_milestone(name, do, writes=25, later_s=_LATER_S)

    def undo(self) -> None:
        """Uncordon every node, also those added for pods that asked: the longest cordon outlasts most histories."""
        for node in sorted(self._cordoned):
            self._schedulable(node, unschedulable=None)

    def _reserved_node(self) -> str:
        """The node of a Reservation that has not ended, or the target of a move."""
        rooms = [r for r in self._api.list(ROOM) if not over(r)]
        moves = [m for m in self._api.list(MOVE) if not over(m)]
        named = [status(each).get("nodeName", "") for each in (*rooms, *moves)]
        nodes = sorted({node for node in named if node and self._api.get(NODE, "", node)})
        return self._rng.choice(nodes) if nodes else ""

    def _wait(self) -> None:
        node = self._reserved_node()
        if not node:
            return
        self._script.hits.add("higher priority")
        cpu_milli = self._left_milli(node) + self._rng.choice((100, 500, 500, 1000, 2000))
        pod = lone_pod(self._name("waits"), cpu_milli=cpu_milli, priority_class="high", label=CROWD)
        pod["spec"]["nodeSelector"] = {HOSTNAME: node}
        self._api.create(pod)

    def _left_milli(self, node: str) -> int:
        """What pods and placeholders leave of the node: a pod that wants more waits, or preempts."""
        found = self._api.get(NODE, "", node) or {}
        held = [p for p in self._api.list(POD) if spec(p).get("nodeName") == node and not terminal(p)]
        total = milli((status(found).get("allocatable") or {}).get("cpu", "0"))
        return max(0, total - sum(map(cpu_of, held)))

    def _cordon(self) -> None:
        node = self._reserved_node()
        if not node:
            return
        self._script.hits.add(f"node {node}")
        self._cordoned.add(node)
        self._schedulable(node, unschedulable=True)
        ends_s = self._rng.choice(_CORDONED_S)
        self._in(ends_s, "reserved node uncordoned", lambda: self._schedulable(node, unschedulable=None))

    def _schedulable(self, name: str, *, unschedulable: bool | None) -> None:
        node = self._api.get(NODE, "", name)
        if node is not None:
            self._api.patch(node, {"spec": {"unschedulable": unschedulable}})

    # Checks

    def _hear(self, change: ObjectChange) -> None:
        obj = change.object
        if not self.at_work or not self._program.line.sending:
            return
        if obj["kind"] == "Pod" and evicted(obj) and uid(obj) not in self._judged:
            self._judged.add(uid(obj))
            self._check_eviction(obj)
        if obj["kind"] == "Reservation" and status(obj).get("phase") == "Succeeded":
            self._check_success(obj)

    def _check_eviction(self, pod: Obj) -> None:
        moves = [
            m
            for m in self._api.list(MOVE)
            if not over(m) and spec(m)["podRef"].get("uid") == uid(pod) and status(m).get("nodeName")
        ]
        snapshot = self._program.loop.snapshot()
        old = next((p for p in snapshot.pods.values() if p.uid == uid(pod)), None)
        if not moves or old is None or status(moves[0]).get("mode") == "StartFirst":
            return
        node, room = status(moves[0])["nodeName"], status(moves[0]).get("reservationName", "")
        owner = snapshot.reservations.get(room)
        holders = [
            p for p in snapshot.pods.values() if owner and p.controller and p.controller.uid == owner.uid
        ]
        coming = msgspec.structs.replace(
            old, name=f"{old.name}-coming", uid="coming", node="", created_at_s=snapshot.taken_at_s
        )
        for waiting in self._preemptors(snapshot, coming, node, gone=(old, *holders)):
            self.faults.append(f"{key(pod).name} was evicted although {waiting} waits for its room on {node}")

    def _check_success(self, room: Obj) -> None:
        owners: list[Obj] = status(room).get("currentOwners") or []
        if uid(room) in self._judged or len(owners) != 1 or spec(room).get("allocateOnce") is False:
            return
        self._judged.add(uid(room))
        snapshot = self._program.loop.snapshot()
        landed = next((p for p in snapshot.pods.values() if p.uid == owners[0]["uid"]), None)
        if landed is None or landed.deleting:
            self.faults.append(f"{key(room).name} counts as used, and its owner is gone")

    def _preemptors(self, snapshot: Snapshot, coming: Pod, node: str, gone: tuple[Pod, ...]) -> list[str]:
        """Pods that wait as the caches show, and would preempt ``coming`` on the node."""
        state = SchedulingState(snapshot)
        if node not in state.node_index:
            return []
        for pod in gone:
            state.remove(pod)
        placed = state.place(coming, node)
        found: list[str] = []
        for pod in snapshot.pods.values():
            waits = bool(pod.unschedulable_message) and not pod.spec.gates and not pod.deleting
            if pod.node or not waits or not pod.spec.preempts:
                continue
            if pod.spec.priority <= coming.spec.priority or pod.nominated_node not in ("", node):
                continue
            if state.feasible(pod).any():
                continue
            choice = preempt(state, pod, state.explain(pod), snapshot.budgets).choice
            if choice is not None and any(victim is placed for victim in choice.victims):
                found.append(pod.name)
        return found
