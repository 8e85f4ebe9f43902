"""Which pods requested moves may move: the planner's own protections, asked for one pod of a round. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from rescheduler.migrations.observed_migration import ALLOWED, Permission
from rescheduler.model.records import Pod
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.limits import Protections
from rescheduler.planning.plan import Blocked, SkipReason
from rescheduler.planning.protections import CONFIGURED, Lifted, Protectors
from rescheduler.replacements.reasons import NoReplacement
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.framework import Profile

NO_PROFILES: Final[Mapping[str, Protections]] = MappingProxyType({})
Protection = Callable[[Pod, Replacements, Lifted, str], Permission]
"""Whether a pod may be moved by that policy ("": by people)."""


def movable_by_nature(
    pod: Pod,
    replacements: Replacements,
    _lifted: Lifted = Lifted.NOTHING,
    _policy: str = "",
) -> Permission:
    """The checks that no protection changes: a controller recreates the pod, and other nodes can take it."""
    found = replacements.of(pod)
    if found.pod is None:
        passes = found.reason is NoReplacement.MAY_BE_REMOVED  # known in a moment
        return Permission(ok=False, message=f"the pod {found.message}", passes=passes)
    if pod.spec.resource_claims:
        return Permission(ok=False, message="the pod has device claims, which cannot be reserved")
    return ALLOWED


def protection_of(
    protections: Protections, profile: Profile, profiles: Mapping[str, Protections] = NO_PROFILES
) -> Protection:
    """The planner's own ``Protector``, so that a PodMigration by hand cannot get around the configured protections.

    ``profiles``: those of policies that are in one. They are built anew for each round.
    """
    last: list[tuple[Replacements, Protectors]] = []
    ledgers: list[tuple[object, BudgetLedger]] = []

    def judged(pod: Pod, replacements: Replacements, lifted: Lifted, policy: str) -> Permission:
        if not last or last[0][0] is not replacements:
            snapshot = replacements.snapshot
            if not ledgers or ledgers[0][0] is not snapshot.budgets:
                ledgers[:] = [(snapshot.budgets, BudgetLedger(snapshot))]
            ledger = ledgers[0][1]
            protectors = Protectors(
                replacements,
                protections,
                profiles,
                lambda p: bool(ledger.of(p)),
                judges=profile.judges,
            )
            last[:] = [(replacements, protectors)]
        refusal = last[0][1].of(policy).refusal(pod, lifted=lifted)
        if refusal is None:
            return ALLOWED
        passes = refusal.reason is SkipReason.WORKLOAD_BUSY
        return Permission(ok=False, message=f"the pod {refusal.message}{_set_by(refusal)}", passes=passes)

    return judged


def _set_by(refusal: Blocked) -> str:
    """Which key of the configuration says so, in brackets; "": none does."""
    return f" ({refusal.by})" if refusal.by.startswith(CONFIGURED) else ""
