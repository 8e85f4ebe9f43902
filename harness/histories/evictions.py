"""The second invariant: a pod is evicted only if its room is held, no budget is exceeded, and without one few pods are away.

Checked on the objects of the API server at the write of the eviction. If another client had changed an object, and the
program's caches did not show that yet, or it happened between the decision and the call, or while its machine was paused between
the two, the program could not know; everything else is a fault.
"""

from __future__ import annotations

from harness.histories.disturbances import GATE_BINDING, GATE_POLICY, MAP
from harness.histories.observed_cluster import Seen, Writer, cpu_of, is_up, node_of, over, phase, usable
from harness.histories.program import Program
from harness.histories.replacements import Replacements
from harness.histories.user_requests import KINDS, ROOM
from harness.histories.volumes import for_one_place, out_of_reach
from kube_sandbox.controllers.unstructured import (
    NODE,
    POD,
    REPLICA_SET,
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
from kube_sandbox.sandbox import Sandbox
from rescheduler.kube.gate import POLICY_NAME
from rescheduler.model.controller_key import controller_keys
from rescheduler.model.kinds import Kind
from rescheduler.model.names import HISTORY_CONFIG_MAP, LABEL_START_FIRST
from rescheduler.model.selectors import LabelSet

_Problem = tuple[str, str, str]
"""Message; kind and uid of the object that is wrong ("" if there is no excuse)."""


class Evictions:
    """Checks each eviction of the program. ``modes``: the mode of the move, by uid of the evicted pod; ``at_s``: when."""

    def __init__(self, cluster: Sandbox, seen: Seen, hits: set[str], program: Program) -> None:
        self._api, self._seen, self._hits, self._program = cluster.api, seen, hits, program
        self.replacements = Replacements(cluster, seen, program)
        self.modes: dict[str, str] = {}
        self.at_s: dict[str, float] = {}

    def check(self, pod: Obj, now_s: float) -> list[str]:
        """``pod``: as it was right before its eviction by the program."""
        name = key(pod).name
        self.at_s[uid(pod)] = now_s
        found = [m for m in self._seen.moves.values() if _is_of(m, pod) and not over(m)]
        if not found:
            gone = [m for m in self._seen.gone_moves.values() if _is_of(m, pod)]
            known = [m for m in gone if not self._deleted_just_now(m)]
            return [f"{name} was evicted without a move"] if len(known) == len(gone) else []
        move = max(found, key=lambda m: status(m).get("evictionRequestedAt") or "")
        mode = status(move).get("mode", "")
        self.modes[uid(pod)] = mode
        problems = [*self._intent(move), *self._recorded(move), *self._budgets(pod)]
        problems += [] if mode == "StartFirst" else self._availability(pod)
        problems += [] if mode == "Soft" else self._gate(pod)
        problems += self._swap(move, pod) if mode == "StartFirst" else self._room(move, pod)
        wrong = [p[0] for p in problems if not self._unknowable(p)]
        if mode != "StartFirst":  # there the replacement is Ready already
            room = None if mode == "Soft" else self._seen.rooms.get(status(move).get("reservationName", ""))
            wrong += self.replacements.check(pod, room)
        return [f"{name} was evicted although {words}" for words in wrong]

    def _deleted_just_now(self, move: Obj) -> bool:
        """True if the caches could not show it yet, or the eviction was decided before and is still fresh."""
        behind = self._program.caches.behind(Kind.POD_MIGRATION, uid(move))
        return behind or self._program.decided_before(self._seen.changed_at_s[uid(move)])

    def _intent(self, move: Obj) -> list[_Problem]:
        if status(move).get("evictionRequestedAt"):
            return []
        return [("the intent is not written down", "", "")]

    def _recorded(self, move: Obj) -> list[_Problem]:
        """The limits of the next hours count the eviction, whatever happens to the PodMigration."""
        stored = self._api.get(MAP, "rescheduler", HISTORY_CONFIG_MAP) or {}
        if "history" in self._hits or "evicting=" in (stored.get("data") or {}).get(uid(move), ""):
            return []
        return [("ConfigMap move-history does not have it", "", "")]

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
        if node_of(orphan) != status(move).get("nodeName", ""):
            problems.append((f"its replacement is on {node_of(orphan)}", POD.kind, uid(orphan)))
        if cpu_of(orphan) < min(cpu_of(pod), self._cpu_of_template(pod)):
            problems.append(("its replacement asks for less", POD.kind, uid(orphan)))
        if not ready(orphan) or deleting(orphan):
            problems.append(("its replacement is not Ready", POD.kind, uid(orphan)))
        return problems

    def _cpu_of_template(self, pod: Obj) -> int:
        owner = controller_of(pod) or {}
        found = self._api.get(REPLICA_SET, key(pod).namespace, owner.get("name", ""))
        return cpu_of(found["spec"]["template"]) if found is not None else 0

    def _node(self, name: str) -> list[_Problem]:
        node = self._seen.nodes.get(name)
        if node is not None and usable(node):
            return []
        return [(f"node {name} is not usable", NODE.kind, self._known_node(name))]

    def _gate(self, pod: Obj) -> list[_Problem]:
        owner = controller_of(pod) or {}
        there = all(self._api.get(kind, "", POLICY_NAME) for kind in (GATE_POLICY, GATE_BINDING))
        keys = controller_keys(pod["metadata"].get("namespace", ""), owner.get("uid", ""))
        if ("gate" in self._hits) or (there and any(key in self._seen.live for key in keys)):
            return []
        return [("the gate is not on", "", "")]

    def _budgets(self, pod: Obj) -> list[_Problem]:
        if not ready(pod) or self._hits:
            return []  # not counted as healthy; or the API server's own count may be behind
        problems: list[_Problem] = []
        for budget in self._seen.budgets.values():
            mine = [p for p in self._seen.pods.values() if _selects(budget, labels(p))]
            if pod not in mine and not _selects(budget, labels(pod)):
                continue
            left = sum(ready(p) and not deleting(p) for p in mine if uid(p) != uid(pod))
            needed = status(budget).get("desiredHealthy", 0)
            if left < needed:
                problems.append((f"budget {key(budget).name} needs {needed} and {left} are left", "", ""))
        return problems

    def _availability(self, pod: Obj) -> list[_Problem]:
        """Without a budget at most a quarter of the replicas may be away, and always one.

        A pod that somebody else ended counts as long as the program's caches show it as Ready; one that the program itself
        evicted never does. A budget that was deleted counts as long as the caches show it.
        """
        mine, name = labels(pod), labels(pod).get("app", "")
        snapshot = self._program.loop.snapshot()
        shown_budgets = (b.selector for b in snapshot.budgets.values())
        if not ready(pod) or any(_selects(b, mine) for b in self._seen.budgets.values()):
            return []
        if any(selector is not None and selector.matches(LabelSet(mine)) for selector in shown_budgets):
            return []
        there = {uid(p) for p in self._seen.pods.values() if _is_up(p, name)}
        shown = {
            p.uid
            for p in snapshot.pods.values()
            if p.labels.get("app") == name and p.ready and not p.deleting and not p.terminal
        }
        own = {known for known, who in self._seen.ender.items() if who is Writer.PROGRAM}
        wanted, left = self._wanted(name), len((there | (shown - own)) - {uid(pod)})
        needed = wanted - max(1, wanted // 4)
        if left >= needed:
            return []
        return [
            (f"without a budget {needed} of {wanted} pods of {name} are needed and {left} are left", "", "")
        ]

    def _wanted(self, name: str) -> int:
        """Replicas of the workload: the least that it wants, or that the program's caches show."""
        found = [self._api.get(kind, "default", name) for kind in KINDS.values()]
        asked = [spec(each).get("replicas", 1) for each in found if each is not None]
        known = self._program.loop.snapshot().workloads.values()
        seen = [w.replicas for w in known if w.name == name and w.kind in KINDS]
        return min((*asked, *seen), default=0)

    def _unknowable(self, problem: _Problem) -> bool:
        _, kind, found = problem
        return (
            bool(found)
            and self._seen.writer.get(found) is not Writer.PROGRAM
            and (
                self._program.caches.behind(Kind(kind), found)
                or self._program.decided_before(self._seen.changed_at_s.get(found, 0.0))
            )
        )

    def _uid_of_room(self, name: str) -> str:
        known = self._program.loop.snapshot().reservations.get(name)
        return known.uid if known is not None else self._seen.newest.get((ROOM.kind, name), "")

    def _last_holder(self, room: Obj) -> str:
        known = self._program.loop.snapshot().pods.values()
        mine = (p.uid for p in known if p.controller is not None and p.controller.uid == uid(room))
        return next(mine, "") or self._seen.last_holder.get(uid(room), "")

    def _known_node(self, name: str) -> str:
        known = self._program.loop.snapshot().nodes.get(name)
        return known.uid if known is not None else self._seen.newest.get((NODE.kind, name), "")


def _selects(budget: Obj, given: dict[str, str]) -> bool:
    wanted: dict[str, str] = spec(budget)["selector"]["matchLabels"]
    return wanted.items() <= given.items()


def _is_up(pod: Obj, app: str) -> bool:
    return labels(pod).get("app") == app and ready(pod) and not deleting(pod)


def _is_of(move: Obj, pod: Obj) -> bool:
    return bool(spec(move)["podRef"].get("uid") == uid(pod))
