"""Whether the controller's next decision would move a pod, and everything that keeps it: for ``explain``. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rescheduler.configuration.document import Configuration
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.history import History
from rescheduler.planning.plan import Skipped
from rescheduler.planning.planner import decide
from rescheduler.planning.protections import Protector
from rescheduler.reports.move_answer import MoveAnswer
from rescheduler.scheduling.state import SchedulingState


def move_answers(
    snapshot: Snapshot,
    configuration: Configuration,
    pods: Sequence[Pod],
    state: SchedulingState,
    protector: Protector,
) -> dict[ObjectKey, MoveAnswer]:
    """The answer for each of the pods that is bound. ``state``: of the snapshot; it is left as it was."""
    bound = [pod for pod in pods if pod.node]
    if not bound:
        return {}
    policies = configuration.build_policies()
    plan = decide(snapshot, policies, configuration.inputs(), state).plan()
    moves = {ObjectKey(move.pod.namespace, move.pod.name): move for move in plan.moves}
    skipped: defaultdict[ObjectKey, list[Skipped]] = defaultdict(list)
    for one in plan.skipped:
        skipped[ObjectKey(one.pod.namespace, one.pod.name)].append(one)
    budgets, history = BudgetLedger(snapshot), History(snapshot)
    found: dict[ObjectKey, MoveAnswer] = {}
    for pod in bound:
        refusal = protector.refusal(pod)
        found[pod.key] = MoveAnswer(
            policies=tuple(policy.name for policy in policies),
            move=moves.get(pod.key),
            skipped=tuple(skipped[pod.key]),
            protection=f"{refusal[1]} ({refusal[2]})" if refusal is not None else "",
            budgets=tuple(budgets.of(pod)),
            rests_until_s=history.cooldown_until(pod, configuration.limits.workload_cooldown_s),
            waits_until_s=history.backoff_until(pod),
        )
    return found
