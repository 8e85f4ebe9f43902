"""``plan --prove``: the extra that it needs, and a plan with its bounds. The solver is imported only here, and only if it is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rescheduler.extras import Extra, needs
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.plan import Plan
from rescheduler.policies.wire import PolicyArgs
from rescheduler.scheduling.framework import Profile


def need_solver() -> None:
    """Raises MissingExtraError if the solver is not installed."""
    with needs(Extra.PROVE, "'rescheduler plan --prove'"):
        import rescheduler.optima.integer_program  # noqa: F401, PLC0415 -- an extra


def with_bounds(
    plan: Plan,
    *,
    snapshot: Snapshot,
    policies: Sequence[PolicyArgs],
    inputs: PlanningInputs,
    profile: Profile,
    seconds: float,
) -> Plan:
    """The plan, with a bound for each question that its policies are about.

    ``policies``: arguments of those that are switched on; ``seconds``: time of the solver for each question.
    """
    from rescheduler.optima.bounds import JudgedPlan, bounds  # noqa: PLC0415 -- an extra

    judged = JudgedPlan(
        snapshot=snapshot,
        plan=plan,
        policies=policies,
        inputs=inputs,
        profile=profile,
        seconds=seconds,
    )
    return msgspec.structs.replace(plan, bounds=bounds(judged))
