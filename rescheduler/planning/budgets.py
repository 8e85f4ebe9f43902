"""PodDisruptionBudgets, groups that need so many pods, and our own limits, spent move by move. Refusals are values. Pure but for its own sums.

The rules are those of the eviction subresource: a pod that two budgets select is never evicted; a pod that
is not Ready is free under AlwaysAllow, and under IfHealthyBudget while its budget is healthy.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import chain

from rescheduler.model.counted import plural
from rescheduler.model.records import DisruptionBudget, ObjectKey, Pod, PodPhase
from rescheduler.model.selectors import LabelSet
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.group_members import GroupMembers
from rescheduler.planning.history import Spent
from rescheduler.planning.limits import Limits
from rescheduler.planning.plan import Blocked, SkipReason
from rescheduler.scheduling.matching import demanded_label


class BudgetLedger:
    """PodDisruptionBudgets and groups of a snapshot with what was spent of them.

    Moves under way whose eviction the API server has not yet accepted are spent from the start. What planned moves take
    comes back when they have landed: a later one may have its turn then.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        buffer: int = 0,
        free: Callable[[Pod, str], bool] = lambda _pod, _policy: False,
    ) -> None:
        """``buffer``: disruptions left unused. ``free``: a move of the pod by that policy takes nothing from a budget."""
        self._buffer = buffer
        self._spends_nothing = free
        self._by_label: defaultdict[tuple[str, tuple[str, str] | None], list[DisruptionBudget]]
        self._by_label = defaultdict(list)
        """By namespace and a label that all pods have that it selects; None: there is no such label."""
        for budget in snapshot.budgets.values():
            self._by_label[budget.namespace, demanded_label(budget.selector)].append(budget)
        self._under_way: Counter[ObjectKey] = Counter()
        self._planned: defaultdict[ObjectKey, list[Pod]] = defaultdict(list)
        """The pods of planned moves that take one of a budget, in the order of the plan."""
        self._groups = GroupMembers(snapshot)
        self._known: dict[tuple[str, LabelSet], tuple[DisruptionBudget, ...]] = {}

    def of(self, pod: Pod) -> tuple[DisruptionBudget, ...]:
        """The budgets that select a pod."""
        if not self._by_label:
            return ()
        key = (pod.namespace, pod.labels)
        found = self._known.get(key)
        if found is None:
            asked = (self._by_label.get((pod.namespace, label), ()) for label in (None, *pod.labels.items()))
            selecting = [
                budget
                for budget in chain.from_iterable(asked)
                if budget.selector is not None and budget.selector.matches(pod.labels)
            ]
            found = self._known[key] = tuple(sorted(selecting, key=lambda budget: budget.key))
        return found

    def refusal(
        self, pod: Pod, policy: str = "", *, reserves_first: bool = False, in_turn: bool = False
    ) -> Blocked | None:
        """Why the eviction of the pod would be refused, or None.

        ``reserves_first``: the move is made so although the pod could start first for that policy.
        ``in_turn``: it need not begin now, so what planned moves take for a while does not count.
        """
        found = self._of_budgets(pod, policy, reserves_first=reserves_first)
        if found is not None and in_turn and self.before(pod) is not None:
            found = None
        return found or self._of_group(pod, policy, reserves_first=reserves_first)

    def before(self, pod: Pod) -> Pod | None:
        """The pod whose planned move must have landed before this one may go, as their budget does not allow both at once.

        None: no planned move stands in its way, or the budget does not allow a single one.
        """
        budgets = self.of(pod)
        if len(budgets) != 1 or not budgets[0].observed or _free(pod, budgets[0]):
            return None
        planned = self._planned[budgets[0].key]
        at_once = self._left(budgets[0]) + len(planned)
        return planned[-at_once] if 0 < at_once <= len(planned) else None

    def _of_group(self, pod: Pod, policy: str, *, reserves_first: bool) -> Blocked | None:
        said = self._groups.refusal(pod)
        if not said or (not reserves_first and self._spends_nothing(pod, policy)):
            return None
        return Blocked(SkipReason.GROUP, said, "gang")

    def _of_budgets(self, pod: Pod, policy: str, *, reserves_first: bool) -> Blocked | None:
        budgets = self.of(pod)
        if not budgets or pod.phase is PodPhase.PENDING:
            return None
        if len(budgets) > 1:
            names = ", ".join(str(b.key) for b in budgets)
            return Blocked(
                SkipReason.MULTIPLE_BUDGETS,
                f"{len(budgets)} PodDisruptionBudgets select it ({names}): the API server never evicts such a pod",
                names,
            )
        budget = budgets[0]
        if not budget.observed:
            return Blocked(
                SkipReason.DISRUPTION_BUDGET,
                f"PodDisruptionBudget {budget.key} was changed and not yet evaluated",
                str(budget.key),
            )
        if _free(pod, budget) or self._left(budget) > 0:
            return None
        if not reserves_first and self._spends_nothing(pod, policy):
            return None
        return Blocked(SkipReason.DISRUPTION_BUDGET, self._exhausted(budget), str(budget.key))

    def spent_by(self, pod: Pod, policy: str) -> list[tuple[ObjectKey, int]]:
        """The budgets of which a move of the pod takes one, with what is left of each."""
        if self._spends_nothing(pod, policy):
            return []
        return [(b.key, self._left(b)) for b in self.of(pod) if not _free(pod, b)]

    def take_under_way(self, pod: Pod, policy: str, *, reserves_first: bool) -> None:
        """Spend what the eviction of a pod costs whose move is under way."""
        if reserves_first or not self._spends_nothing(pod, policy):
            self._groups.add(pod, 1)
            self._under_way.update(self._spent_by(pod))

    def take(self, pod: Pod, policy: str = "", *, reserves_first: bool = False) -> None:
        """Spend what the eviction of the pod costs, ``policy`` being the one that plans to move it."""
        if reserves_first or not self._spends_nothing(pod, policy):
            self._groups.add(pod, 1)
            for budget in self._spent_by(pod):
                self._planned[budget].append(pod)

    def give_back(self, pod: Pod, policy: str = "", *, reserves_first: bool = False) -> None:
        """Undo ``take``, the last one first."""
        if reserves_first or not self._spends_nothing(pod, policy):
            self._groups.add(pod, -1)
            for budget in self._spent_by(pod):
                self._planned[budget].pop()

    def _spent_by(self, pod: Pod) -> list[ObjectKey]:
        return [budget.key for budget in self.of(pod) if not _free(pod, budget)]

    def _spent(self, budget: DisruptionBudget) -> int:
        return self._under_way[budget.key] + len(self._planned[budget.key])

    def _left(self, budget: DisruptionBudget) -> int:
        return budget.disruptions_allowed - self._spent(budget) - self._buffer

    def _exhausted(self, budget: DisruptionBudget) -> str:
        spent = self._spent(budget)
        allowed = max(budget.disruptions_allowed, 0)
        text = (
            f"PodDisruptionBudget {budget.key} allows {plural(allowed, 'disruption')} now "
            f"({budget.current_healthy} healthy, {budget.desired_healthy} needed)"
        )
        if spent:
            text += f", {spent} taken by other moves"
        if self._buffer:
            text += f", {self._buffer} kept as buffer"
        return text


def _free(pod: Pod, budget: DisruptionBudget) -> bool:
    """True if the eviction takes nothing from the budget."""
    if pod.ready:
        return False
    return (
        pod.phase is PodPhase.PENDING
        or budget.always_allow_unhealthy
        or budget.current_healthy >= budget.desired_healthy > 0
    )


def evictions_to_come(snapshot: Snapshot, pods: Iterable[Pod]) -> list[Pod]:
    """Of pods being moved, those whose eviction is not in a budget's status yet."""
    counted = {(b.namespace, name) for b in snapshot.budgets.values() for name in b.disrupted_pods}
    return [pod for pod in pods if not pod.deleting and (pod.namespace, pod.name) not in counted]


class LimitLedger:
    """Our own limits, with what moves under way and planned ones have spent."""

    def __init__(
        self, snapshot: Snapshot, limits: Limits, *, unlimited: bool, max_moves: int | None, this_hour: int
    ) -> None:
        """``max_moves``: with which an unlimited plan ends. ``this_hour``: moves that began within the last hour."""
        self._snapshot = snapshot
        self._limits = limits
        self._unlimited = unlimited
        self._max_moves = max_moves
        self._before = self._this_hour = this_hour
        self._total = 0
        self._full: Blocked | None = None
        self._nodes: Counter[str] = Counter()
        self._namespaces: Counter[str] = Counter()
        self._workloads: Counter[str] = Counter()

    @property
    def unlimited(self) -> bool:
        """True if the plan shows what would be moved as time passes."""
        return self._unlimited

    @property
    def exhausted(self) -> bool:
        """True if no pod at all may be moved any more."""
        if self._unlimited:
            return self.left == 0
        return self._total >= self._limits.moves_at_once or self._this_hour >= self._limits.moves_per_hour

    @property
    def left(self) -> int | None:
        """How many more moves the plan may have, those of an hour where it is made within limits; None: any number."""
        if not self._unlimited:
            return self._limits.moves_per_hour
        return None if self._max_moves is None else max(0, self._before + self._max_moves - self._this_hour)

    def beyond(self, number: int) -> Blocked | None:
        """Why so many moves, which belong together, are too many for the plan, or None: a plan ends between them."""
        left = self.left
        if not self._unlimited or left is None or number <= left:
            return None
        return self._used_up()

    @property
    def full(self) -> Blocked | None:
        """The limit that every pod would pass, or None."""
        if self.exhausted and self._full is None:
            self._full = self._used_up()
        return self._full

    def _used_up(self) -> Blocked:
        limits = self._limits
        if self._unlimited:
            message = f"the plan ends after {plural(self._max_moves or 0, 'move')}"
            return Blocked(SkipReason.LIMIT_PLAN, message, "--max-moves")
        if self._total >= limits.moves_at_once:
            message = f"{self._total} of {limits.moves_at_once} moves at once are taken"
            return Blocked(SkipReason.LIMIT_TOTAL, message, "limits.movesAtOnce")
        message = f"{self._this_hour} of {limits.moves_per_hour} moves per hour are taken"
        return Blocked(SkipReason.LIMIT_HOUR, message, "limits.movesPerHour")

    def refusal(self, pod: Pod, *, follows: bool = False) -> Blocked | None:
        """Which limit the move of a pod would pass, or None.

        ``follows``: it begins after another move of the plan, whose place among the moves at once it takes then.
        """
        full = self.full
        if follows and full is not None and full.reason is SkipReason.LIMIT_TOTAL:
            full = self._used_up() if self._this_hour >= self._limits.moves_per_hour else None
        if full is not None or self._unlimited:
            return full
        limits, uid = self._limits, self._snapshot.workload_uid(pod)
        checks = (
            (SkipReason.LIMIT_NODE, self._nodes[pod.node], limits.per_node, "perNode", f"from {pod.node}"),
            (
                SkipReason.LIMIT_NAMESPACE,
                self._namespaces[pod.namespace],
                limits.per_namespace,
                "perNamespace",
                f"in namespace {pod.namespace}",
            ),
            (
                SkipReason.LIMIT_WORKLOAD,
                self._workloads[uid],
                limits.per_workload,
                "perWorkload",
                "of its workload",
            ),
        )
        for reason, used, limit, name, where in checks:
            if used >= limit:
                return Blocked(reason, f"{used} of {limit} moves {where} are taken", f"limits.{name}")
        return None

    def take(self, pod: Pod, *, follows: bool = False) -> None:
        """Spend one move."""
        self._add(pod, 1, shared=not follows)
        self._this_hour += 1

    def take_under_way(self, spent: Spent) -> None:
        """Spend a move that is under way; the history counts it in the hour."""
        self._spend(spent, 1)

    def give_back(self, pod: Pod, *, follows: bool = False) -> None:
        """Undo ``take``."""
        self._add(pod, -1, shared=not follows)
        self._this_hour -= 1

    def _add(self, pod: Pod, amount: int, *, shared: bool) -> None:
        self._spend(Spent(pod.node, pod.namespace, self._snapshot.workload_uid(pod), shared), amount)

    def _spend(self, spent: Spent, amount: int) -> None:
        self._full = None
        if spent.shared:
            self._total += amount
            self._nodes[spent.node] += amount
        self._namespaces[spent.namespace] += amount
        self._workloads[spent.workload_uid] += amount
