"""The second promise: nothing is evicted into the void, and no budget is overrun.

Judged on the truth at the very write of an eviction. Where the truth had changed under the program's feet
(somebody else wrote it, and the news had not reached its caches), nobody could have known; all else is a
fault.
"""

from __future__ import annotations

from rescheduler.kube.gate import POLICY_NAME
from rescheduler.model.kinds import Kind
from rescheduler.model.names import LABEL_START_FIRST
from rescheduler.sim.controllers.wire import (
    NODE,
    POD,
    Obj,
    controller_of,
    deleting,
    key,
    labels,
    ready,
    spec,
    status,
    uid,
)
from rescheduler.sim.storeapi import StoreApi
from rescheduler.testing.histories.asks import ROOM
from rescheduler.testing.histories.caches import Caches
from rescheduler.testing.histories.fate import GATE_BINDING, GATE_POLICY
from rescheduler.testing.histories.seen import Seen, Who, is_up, node_of, over, phase, usable
from rescheduler.testing.histories.volumes import for_one_place, out_of_reach

_Problem = tuple[str, str, str]
"""Words; kind and uid of the object that is not as it must be ("" where nothing excuses)."""


class Evictions:
    """Judges each eviction of the program. ``modes``: how often each mode has evicted."""

    def __init__(self, api: StoreApi, seen: Seen, hits: set[str], caches: Caches) -> None:
        self._api, self._seen, self._hits, self._caches = api, seen, hits, caches
        self.modes: dict[str, str] = {}

    def judge(self, pod: Obj) -> list[str]:
        """``pod``: as it was right before its eviction by the program."""
        name = key(pod).name
        found = [m for m in self._seen.moves.values() if _is_of(m, pod) and not over(m)]
        if not found:
            gone = [m for m in self._seen.gone_moves.values() if _is_of(m, pod)]
            known = [m for m in gone if not self._caches.behind(Kind.POD_MIGRATION, uid(m))]
            return [f"{name} was evicted without a move"] if len(known) == len(gone) else []
        move = max(found, key=lambda m: status(m).get("evictionRequestedAt") or "")
        mode = status(move).get("mode", "")
        self.modes[uid(pod)] = mode
        problems = [*self._intent(move), *self._budgets(pod)]
        problems += [] if mode == "Soft" else self._gate(pod)
        problems += self._swap(move, pod) if mode == "StartFirst" else self._room(move, pod)
        return [f"{name} was evicted although {p[0]}" for p in problems if not self._unknowable(p)]

    def _intent(self, move: Obj) -> list[_Problem]:
        if status(move).get("evictionRequestedAt"):
            return []
        return [("the intent is not written down", "", "")]

    def _room(self, move: Obj, pod: Obj) -> list[_Problem]:
        name = status(move).get("reservationName", "")
        room = self._seen.rooms.get(name)
        if room is None:
            return [(f"{name} does not exist", ROOM.kind, self._uid_of_room(name))]
        node_name = status(room).get("nodeName", "")
        problems: list[_Problem] = []
        if phase(room) != "Available":
            problems.append((f"{name} is {phase(room)}", ROOM.kind, uid(room)))
        if status(room).get("currentOwners"):
            problems.append((f"{name} is claimed", ROOM.kind, uid(room)))
        if node_name == node_of(pod):
            problems.append((f"it is on {node_name} already", "", ""))
        standing = [p for p in self._seen.holders(room) if node_of(p) == node_name and not deleting(p)]
        if not standing:
            problems.append((f"no placeholder stands for {name}", POD.kind, self._last_holder(room)))
        node = self._seen.nodes.get(node_name)
        if node is not None and (claims := out_of_reach(self._api, pod, node)):
            problems.append((f"{node_name} does not reach the volumes of {', '.join(claims)}", "", ""))
        return [*problems, *self._node(node_name)]

    def _swap(self, move: Obj, pod: Obj) -> list[_Problem]:
        orphans = [p for p in self._seen.pods.values() if labels(p).get(LABEL_START_FIRST) == uid(move)]
        free = [p for p in orphans if controller_of(p) is None]
        if not free:
            known = (status(move).get("replacement") or {}).get("uid", "")
            return [("its replacement is not there", POD.kind, known)]
        orphan = free[0]
        node = self._seen.nodes.get(node_of(orphan))
        problems: list[_Problem] = []
        if for_one_place(self._api, pod):
            problems.append(("its volume cannot be in two places", "", ""))
        if node is None or not is_up(node):
            problems.append(
                (f"node {node_of(orphan)} is not Ready", NODE.kind, self._known_node(node_of(orphan)))
            )
        if not ready(orphan) or deleting(orphan):
            problems.append(("its replacement is not Ready", POD.kind, uid(orphan)))
        return problems

    def _node(self, name: str) -> list[_Problem]:
        node = self._seen.nodes.get(name)
        if node is not None and usable(node):
            return []
        return [(f"node {name} is not usable", NODE.kind, self._known_node(name))]

    def _gate(self, pod: Obj) -> list[_Problem]:
        owner = controller_of(pod) or {}
        there = all(self._api.get(kind, "", POLICY_NAME) for kind in (GATE_POLICY, GATE_BINDING))
        if ("gate" in self._hits) or (there and owner.get("uid") in self._seen.live):
            return []
        return [("the gate is not on", "", "")]

    def _budgets(self, pod: Obj) -> list[_Problem]:
        if not ready(pod) or self._hits:
            return []  # not counted as healthy; or the API server's own count may be behind
        problems: list[_Problem] = []
        for budget in self._seen.budgets.values():
            wanted = spec(budget)["selector"]["matchLabels"]
            mine = [p for p in self._seen.pods.values() if wanted.items() <= labels(p).items()]
            if pod not in mine and not wanted.items() <= labels(pod).items():
                continue
            left = sum(ready(p) and not deleting(p) for p in mine if uid(p) != uid(pod))
            needed = status(budget).get("desiredHealthy", 0)
            if left < needed:
                problems.append((f"budget {key(budget).name} needs {needed} and {left} are left", "", ""))
        return problems

    def _unknowable(self, problem: _Problem) -> bool:
        _, kind, found = problem
        return (
            bool(found)
            and self._seen.writer.get(found) is not Who.PROGRAM
            and self._caches.behind(Kind(kind), found)
        )

    def _uid_of_room(self, name: str) -> str:
        known = self._caches.snapshot(0.0).reservations.get(name)
        return known.uid if known is not None else ""

    def _last_holder(self, room: Obj) -> str:
        known = self._caches.snapshot(0.0).pods.values()
        mine = (p.uid for p in known if p.controller is not None and p.controller.uid == uid(room))
        return next(mine, "")

    def _known_node(self, name: str) -> str:
        known = self._caches.snapshot(0.0).nodes.get(name)
        return known.uid if known is not None else ""


def _is_of(move: Obj, pod: Obj) -> bool:
    return bool(spec(move)["podRef"].get("uid") == uid(pod))
