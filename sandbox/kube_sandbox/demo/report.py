"""The report of the demo: the cluster before and after, each move, and the guarantees that were kept."""

from __future__ import annotations

from dataclasses import dataclass

from kube_sandbox.demo.figures import DemoFigures
from kube_sandbox.demo.view import in_order
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.names import GATE, LABEL_PLACEHOLDER
from rescheduler.model.snapshot import Snapshot
from rescheduler.reports.table import table
from rescheduler.reports.text import Style


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """The result of the demo."""

    before: DemoFigures
    after: DemoFigures
    moves: tuple[PodMigration, ...]
    early_evictions: int
    """Evictions before the Reservation was Available."""
    leftovers: int
    """Placeholders and gated pods that were not removed."""
    seconds: float

    @property
    def landed(self) -> int:
        """Moves whose replacement landed on its reserved node."""
        return sum(1 for m in self.moves if m.status.phase is MigrationPhase.SUCCEEDED)

    @property
    def evicted(self) -> int:
        """Moves that evicted a pod."""
        return sum(1 for m in self.moves if m.status.evicted_at_s)

    @property
    def good(self) -> bool:
        """True if all guarantees were kept, and at least one move succeeded."""
        kept = not self.early_evictions and not self.leftovers and self.landed == self.evicted
        return kept and self.landed > 0 and self.after.violations < self.before.violations


def summarize(before: DemoFigures, after: DemoFigures, last: Snapshot, seconds: float) -> DemoOutcome:
    """The result, by the objects of the cluster alone."""
    moves = tuple(in_order(last))
    early = sum(
        1
        for m in moves
        if m.status.evicted_at_s and not 0 < m.status.reserved_at_s <= m.status.eviction_requested_at_s
    )
    held = (p for p in last.pods.values() if LABEL_PLACEHOLDER in p.labels or GATE in p.spec.gates)
    return DemoOutcome(
        before=before,
        after=after,
        moves=moves,
        early_evictions=early,
        leftovers=sum(1 for _ in held),
        seconds=seconds,
    )


def report_text(outcome: DemoOutcome, style: Style) -> str:
    """The report, ending in a newline."""
    before, after = outcome.before, outcome.after
    facts = [
        ("pods on a node whose taint they do not tolerate", before.on_tainted, after.on_tainted),
        ("pods whose required node affinity is broken", before.affinity_broken, after.affinity_broken),
        ("pods that share a rack against their anti-affinity", before.sharing_a_rack, after.sharing_a_rack),
        ("difference of web pods between zones (1 is allowed)", before.web_skew, after.web_skew),
        ("cpu requested on the fullest node, percent", before.busiest, after.busiest),
        ("workload pods without a node", before.pending, after.pending),
    ]
    rows = [(words, str(old), str(new)) for words, old, new in facts]
    lines = [
        style(f"AFTER {outcome.seconds:.0f} SECONDS", "heading"),
        *table(("", "BEFORE", "AFTER"), rows, right=frozenset({1, 2})),
        "",
        style("MOVES", "heading"),
        *table(("POD", "FROM", "TO", "POLICY", "EVICTED -> BOUND", "END"), [_row(m) for m in outcome.moves]),
        "",
        _guarantee(
            outcome.early_evictions == 0,
            f"evictions before the Reservation was Available: {outcome.early_evictions}",
            style,
        ),
        _guarantee(
            outcome.landed == outcome.evicted,
            f"replacements on their reserved node: {outcome.landed} of {outcome.evicted}",
            style,
        ),
        _guarantee(outcome.leftovers == 0, f"placeholders and gates left behind: {outcome.leftovers}", style),
    ]
    return "\n".join(lines) + "\n"


def _row(migration: PodMigration) -> tuple[str, ...]:
    status = migration.status
    landing = f"{status.landed_at_s - status.evicted_at_s:.2f} s" if status.landed_at_s else "-"
    ended = status.phase is MigrationPhase.SUCCEEDED
    return (
        migration.pod_name,
        status.source_node,
        status.node_name or migration.target_node,
        migration.policy,
        landing,
        status.phase.value if ended else f"{status.phase.value}: {status.message}",
    )


def _guarantee(kept: bool, words: str, style: Style) -> str:  # noqa: FBT001 - a mark before a line
    return style("kept   " if kept else "BROKEN ", "good" if kept else "bad") + words
