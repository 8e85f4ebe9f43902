"""Protections of the configuration as the machines ask for them: may this pod be moved now?

The same ``Protector`` as the planner's, so a move that the planner would not make is not made by hand either.
"""

from __future__ import annotations

from rescheduler.controller.rules import Protection
from rescheduler.migrations.observed import YES, Verdict
from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.limits import Protections
from rescheduler.planning.protections import Protector
from rescheduler.scheduling.framework import Profile


def protection_of(protections: Protections, profile: Profile) -> Protection:
    """A judge that builds one Protector for each snapshot that it is asked about."""
    last: list[tuple[Snapshot, Protector]] = []
    ledgers: list[tuple[object, BudgetLedger]] = []

    def judge(pod: Pod, snapshot: Snapshot) -> Verdict:
        if not last or last[0][0] is not snapshot:
            if not ledgers or ledgers[0][0] is not snapshot.budgets:
                ledgers[:] = [(snapshot.budgets, BudgetLedger(snapshot))]
            ledger = ledgers[0][1]
            protector = Protector(snapshot, protections, lambda p: bool(ledger.of(p)), judges=profile.judges)
            last[:] = [(snapshot, protector)]
        refusal = last[0][1].refusal(pod)
        return YES if refusal is None else Verdict(ok=False, message=f"the pod {refusal.message}")

    return judge
