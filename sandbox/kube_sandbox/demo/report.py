"""The problems of the demo's cluster, counted from its objects; and the report: before and after, each move, the guarantees that were kept.

The figures are independent of the policies on purpose: the demo proves their effect with them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from kube_sandbox.controllers.api import Api
from kube_sandbox.controllers.daemonset import node_affinity_allows, tolerates
from kube_sandbox.controllers.unstructured import NODE, POD, Obj, deleting, labels, meta, spec, terminal
from kube_sandbox.demo.scenario import RACK
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.names import GATE, LABEL_PLACEHOLDER, ZONE
from rescheduler.model.resources import milli
from rescheduler.model.snapshot import Snapshot
from rescheduler.reports.table import table
from rescheduler.reports.text import Style

_MOVED_APPS = frozenset({"web", "api", "reports", "payments", "db", "kafka"})


@dataclass(frozen=True, slots=True)
class DemoFigures:
    """The state of the cluster at one time."""

    load: tuple[tuple[str, int], ...]
    """(node, requested CPU in percent of its allocatable), by name."""
    on_tainted: int
    """Pods on nodes whose taints they do not tolerate."""
    affinity_broken: int
    """Pods on nodes that their node affinity does not match."""
    sharing_a_rack: int
    """Pods of ``kafka`` in one rack, against their anti-affinity."""
    web_skew: int
    """Difference between the zones with the most and the fewest pods of ``web``."""
    pending: int
    """Pods of workloads without a node."""

    @property
    def busiest(self) -> int:
        """Load of the fullest node, in percent."""
        return max((percent for _, percent in self.load), default=0)

    @property
    def violations(self) -> int:
        """Pods on nodes where their own rules do not allow them, and the skew above one."""
        return self.on_tainted + self.affinity_broken + self.sharing_a_rack + max(self.web_skew - 1, 0)


def measure(api: Api) -> DemoFigures:
    """The figures now."""
    nodes = {meta(n)["name"]: n for n in api.list(NODE)}
    pods = [p for p in api.list(POD) if not terminal(p)]
    placed = [(p, nodes[n]) for p in pods if (n := spec(p).get("nodeName")) in nodes]
    own = [(p, n) for p, n in placed if labels(p).get("app") in _MOVED_APPS and not deleting(p)]
    racks = Counter(labels(n).get(RACK) for p, n in own if labels(p).get("app") == "kafka")
    zones = Counter({labels(n).get(ZONE): 0 for n in nodes.values()})
    zones.update(labels(n).get(ZONE) for p, n in own if labels(p).get("app") == "web")
    return DemoFigures(
        load=tuple(sorted((name, _load(node, placed)) for name, node in nodes.items())),
        on_tainted=sum(not _tolerated(p, n) for p, n in own),
        affinity_broken=sum(not node_affinity_allows(spec(p), n) for p, n in own),
        sharing_a_rack=sum(count for count in racks.values() if count > 1),
        web_skew=max(zones.values(), default=0) - min(zones.values(), default=0),
        pending=sum(not spec(p).get("nodeName") and labels(p).get("app") in _MOVED_APPS for p in pods),
    )


def _tolerated(pod: Obj, node: Obj) -> bool:
    return tolerates(spec(pod).get("tolerations") or (), node, ("NoSchedule", "NoExecute"))


def _load(node: Obj, placed: list[tuple[Obj, Obj]]) -> int:
    asked = sum(_cpu(p) for p, n in placed if n is node)
    room = milli((node.get("status") or {}).get("allocatable", {}).get("cpu", "0"))
    return round(100 * asked / room) if room else 0


def _cpu(pod: Obj) -> int:
    containers = spec(pod).get("containers") or ()
    return sum(milli(((c.get("resources") or {}).get("requests") or {}).get("cpu", "0")) for c in containers)


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


def in_order(snapshot: Snapshot) -> list[PodMigration]:
    """The moves, the oldest first."""
    return sorted(snapshot.migrations.values(), key=lambda m: (m.created_at_s, m.status.started_at_s, m.key))


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
