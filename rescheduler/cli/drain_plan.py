"""What draining nodes would do, worked out before anything is changed. Pure.

The nodes count as cordoned. Pods are placed the largest first, and those that found no place go first in the next try. What
fits only once others have landed (it requires their company, say) comes in a later stage. Nothing here evicts: where each
pod goes is what the controller's own rules say, and it judges each move again.
"""

from __future__ import annotations

import dataclasses
import enum
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from rescheduler.cli.move_checks import CheckedMove, check_moves, for_disruption, several_budgets
from rescheduler.configuration.document import Configuration
from rescheduler.migrations.migration_lifecycle import FINISHED
from rescheduler.model.never_moves import NeverMoves, never_moves
from rescheduler.model.pod_volumes import VolumeKind
from rescheduler.model.records import DisruptionBudget, ObjectKey, Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.start_first_mode import StartFirst
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.framework import BoolArray
from rescheduler.scheduling.node_affinity import NodeAffinity
from rescheduler.scheduling.node_unschedulable import TAINT
from rescheduler.scheduling.plugin import FilterPlugin
from rescheduler.scheduling.state import SchedulingState
from rescheduler.scheduling.volume_binding import VolumeBinding
from rescheduler.scheduling.volume_zone import VolumeZone

_RULES: Final[Mapping[str, FilterPlugin]] = {
    "its nodeSelector or node affinity": NodeAffinity(),
    "its volume": VolumeBinding(),
    "the zone of its volume": VolumeZone(),
}
_ORDERS: Final = 4
"""So many orders are tried for each stage until all pods have a place."""


class Stays(enum.StrEnum):
    """Why a pod is neither moved nor evicted, and is not in the way."""

    MIRROR = "a static pod of the node"
    DAEMON = "its DaemonSet has one pod on each node"
    ROOM = "the room of a Reservation, which the controller gives up on a cordoned node"
    ENDING = "it is terminating"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainOptions:
    """The flags of kubectl drain, with its meaning."""

    ignore_daemonsets: bool = False
    delete_emptydir_data: bool = False
    force: bool = False
    """Evict pods without a controller, too, which nothing brings back."""
    evict_unmovable: bool = False
    """Evict what cannot be moved without room held for it, as kubectl drain does with all pods."""
    evict_pinned: bool = False
    """Evict pods that no other node can take without room held for them: they wait for their node."""
    asks_for_nodes: bool = False
    """A pod that only lacks room waits for a node that the node autoscaler adds."""
    keeps_protections: bool = False
    """Protections of the configuration keep a pod on its node, as for other moves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainMove:
    """One pod that is moved. ``stage``: from 0; all of one stage may run at once."""

    pod: Pod
    target: str
    """"": a node that is to be added; the controller chooses."""
    stage: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPlan:
    """What is done with each pod of the nodes."""

    nodes: tuple[str, ...]
    moves: tuple[DrainMove, ...] = ()
    under_way: tuple[tuple[Pod, ObjectKey], ...] = ()
    """Pods that a PodMigration moves already."""
    evictions: tuple[tuple[Pod, str], ...] = ()
    """Pods that are evicted without room, and why they are not moved."""
    waits: tuple[tuple[Pod, str], ...] = ()
    """Pods among the moves whose budget allows nothing as things are, and why it may once the nodes are cordoned."""
    stays: tuple[tuple[Pod, Stays], ...] = ()
    refused: tuple[tuple[Pod, str], ...] = ()
    """Pods that keep the nodes from being drained, and why."""


def plan_drain(
    snapshot: Snapshot,
    configuration: Configuration,
    nodes: Sequence[str],
    options: DrainOptions,
    *,
    closed: Collection[str] = (),
) -> DrainPlan:
    """Judge each pod of the nodes. ``closed``: nodes besides them that receive nothing."""
    wanted = frozenset(nodes)
    cordoned = _cordoned(snapshot, wanted, closed)
    pods = sorted((pod for pod in cordoned.pods.values() if pod.node in wanted), key=lambda pod: pod.key)
    judge = _Judge(cordoned, configuration, options)
    stays: list[tuple[Pod, Stays]] = []
    evictions: list[tuple[Pod, str]] = []
    refused: list[tuple[Pod, str]] = []
    movable: list[Pod] = []
    moving = {
        (m.namespace, m.pod_name): m for m in snapshot.migrations.values() if m.status.phase not in FINISHED
    }
    under_way: list[tuple[Pod, ObjectKey]] = []
    for pod in pods:
        kind, move = _stays(pod), moving.get(pod.key)
        if move is not None and move.pod_uid in ("", pod.uid) and not pod.deleting:
            under_way.append((pod, move.key))
        elif kind is not None and not (kind is Stays.DAEMON and not options.ignore_daemonsets):
            stays.append((pod, kind))
        elif problem := judge.flag_missing(pod):
            refused.append((pod, problem))
        elif unmanaged := _unmanaged(pod):
            evictions.append((pod, unmanaged))
        elif problem := judge.budgets_refuse(pod):
            refused.append((pod, problem))
        else:
            movable.append(pod)
    moves, left = _staged(cordoned, configuration, movable, drained=not options.keeps_protections)
    for check in left:
        pinned = "" if check.unmovable else judge.pinned(check.pod, {*nodes, *closed})
        if options.asks_for_nodes and check.no_room and not pinned:
            moves.append(DrainMove(pod=check.pod, target="", stage=0))
        elif judge.may_be_evicted(check, pinned=bool(pinned)):
            waits = f"{pinned}: it waits until that takes pods again" if pinned else check.refusal
            evictions.append((check.pod, waits))
        else:
            refused.append((check.pod, (pinned or check.refusal) + judge.remedy(check, pinned=bool(pinned))))
    return DrainPlan(
        nodes=tuple(nodes),
        moves=tuple(moves),
        under_way=tuple(under_way),
        evictions=tuple(evictions),
        waits=tuple((m.pod, why) for m in moves if (why := judge.budget_that_may_pass_on(m.pod))),
        stays=tuple(stays),
        refused=tuple(sorted(refused, key=lambda item: item[0].key)),
    )


class _Judge:
    """What the flags and the budgets say of single pods."""

    def __init__(self, snapshot: Snapshot, configuration: Configuration, options: DrainOptions) -> None:
        self._snapshot = snapshot
        self._configuration = configuration
        self._options = options
        self._budgets = BudgetLedger(snapshot)
        self._start_first = StartFirst(snapshot, configuration.mode)
        self._siblings = _by_controller(snapshot.pods.values())
        self._replacements = Replacements(snapshot)
        self._state: SchedulingState | None = None

    def flag_missing(self, pod: Pod) -> str:
        """The flag of kubectl drain without which the pod is not touched; "" if there is none."""
        if _stays(pod) is Stays.DAEMON:
            return f"{Stays.DAEMON}: leave it there with --ignore-daemonsets"
        if pod.terminal:
            return ""
        if pod.controller is None and not self._options.force:
            return "no controller would bring it back: evict it for good with --force"
        local = any(volume.kind is VolumeKind.EMPTY_DIR for volume in pod.spec.volumes)
        if local and not self._options.delete_emptydir_data:
            return "it has an emptyDir, whose data is lost: allow that with --delete-emptydir-data"
        return ""

    def budgets_refuse(self, pod: Pod) -> str:
        """Why its budgets never let it be evicted; "" if they may, now or later."""
        budgets = self._budgets.of(pod)
        if several := several_budgets(budgets):
            return several
        for budget in budgets:
            if self._never(pod, budget) and not self._may_pass_on(pod, budget):
                return (
                    f"PodDisruptionBudget {budget.key} never allows a disruption ({budget.desired_healthy} of "
                    f"{budget.expected_pods} pods must be healthy): {for_disruption(self._snapshot.top_workload(pod))}"
                )
        return ""

    def budget_that_may_pass_on(self, pod: Pod) -> str:
        """What its budget waits for, if it allows nothing as things are and the pod may leave the budget; else "".

        So operators of databases keep a primary: its budget selects the role of the primary, which they give to another
        pod once the node is cordoned.
        """
        for budget in self._budgets.of(pod):
            if self._never(pod, budget) and self._may_pass_on(pod, budget):
                return (
                    f"PodDisruptionBudget {budget.key} allows it once it selects another pod of "
                    f"{pod.controller.kind if pod.controller else 'its controller'}, or it is loosened"
                )
        return ""

    def _never(self, pod: Pod, budget: DisruptionBudget) -> bool:
        return budget.never_allows and pod.ready and not self._start_first.keeps_budgets(pod)

    def _may_pass_on(self, pod: Pod, budget: DisruptionBudget) -> bool:
        """True if the budget selects only some pods of the controller: by a label that another pod may get instead."""
        if self._options.keeps_protections or pod.controller is None or budget.selector is None:
            return False
        selects = budget.selector.matches
        return any(not selects(other.labels) for other in self._siblings.get(pod.controller.uid, ()))

    def pinned(self, pod: Pod, leaving: Collection[str]) -> str:
        """Why it can only come back to a node that is drained; "" if other nodes could take it, were there room."""
        if self._state is None:
            self._state = SchedulingState(self._snapshot, self._configuration.profile)
        replacement = self._replacements.of(pod).pod or pod
        found = pinned_by(self._state, pod, replacement, leaving)
        return f"no node but {pod.node} can take it because of {found}" if found else ""

    def may_be_evicted(self, check: CheckedMove, *, pinned: bool) -> bool:
        """True if the flags allow to evict a pod that cannot be moved at all. One that only lacks room is never evicted."""
        return self._options.evict_pinned if pinned else self._options.evict_unmovable and check.unmovable

    def remedy(self, check: CheckedMove, *, pinned: bool) -> str:
        """What to do about a pod that cannot be moved."""
        if pinned:
            return ": evict it, to wait until its node takes pods again, with --evict-pinned"
        return ": evict it without room held with --evict-unmovable" if check.unmovable else ""


def _by_controller(pods: Iterable[Pod]) -> Mapping[str, Sequence[Pod]]:
    found: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.controller is not None and not pod.terminal and not pod.deleting:
            found[pod.controller.uid].append(pod)
    return found


def landed(snapshot: Snapshot, places: Mapping[ObjectKey, str]) -> Snapshot:
    """The same with pods on other nodes."""
    moved = {key: msgspec.structs.replace(snapshot.pods[key], node=node) for key, node in places.items()}
    return dataclasses.replace(snapshot, pods={**snapshot.pods, **moved}, pod_log=None)


def _staged(
    snapshot: Snapshot, configuration: Configuration, pods: Sequence[Pod], *, drained: bool
) -> tuple[list[DrainMove], list[CheckedMove]]:
    """(the moves in an order in which they can be carried out, what has no place)."""
    moves: list[DrainMove] = []
    left = list(pods)
    stage = 0
    while left:
        checked = _in_the_best_order(snapshot, configuration, left, drained=drained)
        placed = [check for check in checked if not check.refusal]
        moves += [DrainMove(pod=check.pod, target=check.target, stage=stage) for check in placed]
        refused = [check for check in checked if check.refusal]
        if not placed or not refused:
            return moves, refused
        snapshot = landed(snapshot, {check.pod.key: check.target for check in placed})
        left = [snapshot.pods[check.pod.key] for check in refused]
        stage += 1
    return moves, []


def _in_the_best_order(
    snapshot: Snapshot, configuration: Configuration, pods: Sequence[Pod], *, drained: bool
) -> list[CheckedMove]:
    order = sorted(pods, key=_size, reverse=True)
    best: list[CheckedMove] = []
    for _ in range(_ORDERS):
        checked = check_moves(snapshot, configuration, order, drained=drained)
        refused = {check.pod.key for check in checked if check.refusal}
        if not best or len(refused) < sum(bool(check.refusal) for check in best):
            best = checked
        if not refused:
            break
        first = [pod for pod in order if pod.key in refused]
        again = [*first, *(pod for pod in order if pod.key not in refused)]
        if again == order:
            break
        order = again
    return best


def _size(pod: Pod) -> tuple[int, int]:
    requests = pod.spec.requests
    return max(requests.cpu_milli * 4 * 2**20, requests.memory_bytes), requests.cpu_milli


def _stays(pod: Pod) -> Stays | None:
    if pod.deleting:
        return Stays.ENDING
    return {
        NeverMoves.STATIC_POD: Stays.MIRROR,
        NeverMoves.DAEMON_POD: Stays.DAEMON,
        NeverMoves.PLACEHOLDER: Stays.ROOM,
    }.get(never_moves(pod) or NeverMoves.NO_CONTROLLER)


def _unmanaged(pod: Pod) -> str:
    if pod.terminal:
        return f"it has ended ({pod.phase})"
    return "no controller brings it back" if pod.controller is None else ""


def _cordoned(snapshot: Snapshot, nodes: Collection[str], closed: Collection[str]) -> Snapshot:
    """``nodes`` cordoned, and ``closed`` ones as well, but that nobody will cordon these."""
    changed = {}
    for name in {*nodes, *closed} & snapshot.nodes.keys():
        node = snapshot.nodes[name]
        # With the taint it is no domain of a topology spread whose nodeTaintsPolicy is Honor.
        taints = (*node.taints, TAINT) if name in nodes and TAINT not in node.taints else node.taints
        changed[name] = msgspec.structs.replace(node, unschedulable=True, taints=taints)
    return dataclasses.replace(snapshot, nodes={**snapshot.nodes, **changed})


def pinned_by(state: SchedulingState, pod: Pod, replacement: Pod, leaving: Collection[str]) -> str:
    """What lets ``replacement`` go back to the node of ``pod``, and to no node but ``leaving``; "" if nothing does so."""
    own = state.node_index.get(pod.node)
    if own is None:
        return ""
    ask, cluster = state.cluster.ask(replacement), state.cluster
    others: BoolArray = np.asarray([name not in leaving for name in state.node_names], dtype=np.bool_)
    words: list[str] = []
    for what, rule in _RULES.items():
        mask = rule.mask(ask, cluster)
        if mask is None:
            continue
        if not mask[own]:
            return ""
        if (others & ~mask).any():
            words.append(what)
        others &= mask
    return "" if others.any() else " and ".join(words)
