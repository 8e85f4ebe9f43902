"""``rescheduler budgets``: which workloads no PodDisruptionBudget keeps, or one that never lets a pod go; and the budgets that they lack.

Reads only: what it offers is for ``kubectl apply``. A workload without a budget loses as many pods at once as somebody evicts (row R41); the
controller itself takes a quarter of one at a time (row R45), which is what the offered budgets say to everybody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.label_query import label_query
from rescheduler.cli.live_controller import read_by_its_configuration
from rescheduler.cli.move_checks import for_disruption, several_budgets
from rescheduler.cli.output import emit_as, is_text, tell
from rescheduler.kube.gc_pause import rare_collections
from rescheduler.model.counted import plural, verb
from rescheduler.model.decode.wire_form import encode_label_selector
from rescheduler.model.records import DisruptionBudget, Pod, Workload
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.start_first_mode import StartFirst
from rescheduler.reports.structured import resource_list
from rescheduler.reports.table import flat_table

_HEADER: Final = ("NAMESPACE", "WORKLOAD", "REPLICAS", "BUDGET", "FOUND")
_KINDS: Final = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"})
"""Of others the disruption controller knows no size, so that maxUnavailable says nothing there."""
_NONE: Final = "no budget: all of its pods may be evicted at once"


class Row(NamedTuple):
    """One workload."""

    workload: Workload
    budgets: tuple[str, ...]
    found: str
    offered: bool
    """It lacks a budget."""


@rare_collections()
def run(
    *,
    namespace: str | None,
    all_namespaces: bool,
    selector: str,
    max_unavailable: str,
    min_replicas: int,
    output: str,
    cluster: NamedCluster,
    paths: tuple[str, ...],
    now: float | None,
) -> None:
    """Show what budgets workloads have; or the budgets that they lack, as manifests."""
    snapshot, configuration = read_by_its_configuration(cluster, paths, now)
    wanted = "" if all_namespaces or (paths and not namespace) else cluster.namespace(namespace)
    query = label_query("-l", selector)
    found = [
        row
        for row in rows(snapshot, StartFirst(snapshot, configuration.mode), min_replicas)
        if wanted in ("", row.workload.namespace) and query.matches(row.workload.template_labels)
    ]
    lacking = [row.workload for row in found if row.offered]
    taken = {(budget.namespace, budget.name) for budget in snapshot.budgets.values()}
    emit_as(
        output,
        document=lambda: resource_list(offered(one, max_unavailable, taken) for one in lacking),
        names=lambda: (f"{one.kind.lower()}/{one.name}" for one in lacking),
        text=lambda: flat_table(_HEADER, [_cells(row) for row in found]) if found else "",
    )
    if not is_text(output):
        return
    if not found:
        where = f" in namespace {wanted}; -A looks in all" if wanted else ""
        tell(f"no workloads{' with these labels' if selector else ''}{where}")
        return
    lack = f"{len(lacking):,} {verb(len(lacking), 'lacks a budget', 'lack one')}"
    more = ": rescheduler budgets -o yaml prints what kubectl apply takes" if lacking else ""
    tell(f"{plural(len(found), 'workload')} shown; {lack}{more}")


def rows(snapshot: Snapshot, mode: StartFirst, min_replicas: int) -> list[Row]:
    """Workloads with pods, by namespace and name. ``mode``: whose pods pass a budget; ``min_replicas``: to smaller ones none is offered."""
    ledger, pods = BudgetLedger(snapshot), defaultdict[str, list[Pod]](list)
    for pod in snapshot.pods.values():
        top = snapshot.top_workload(pod)
        if top is not None and top.kind in _KINDS and not (pod.terminal or pod.deleting):
            pods[top.uid].append(pod)
    tops = (snapshot.workloads[uid] for uid in pods)
    ordered = sorted(tops, key=lambda one: (one.namespace, one.name, one.kind))
    return [_row(one, ledger, mode, pods[one.uid], min_replicas) for one in ordered]


def _row(
    workload: Workload, ledger: BudgetLedger, mode: StartFirst, pods: Sequence[Pod], min_replicas: int
) -> Row:
    of_pods = [ledger.of(pod) for pod in pods]
    budgets = {budget.name: budget for found in of_pods for budget in found}
    starts_first = all(map(mode.keeps_budgets, pods))
    words = next(_faults(of_pods, () if starts_first else budgets.values(), for_disruption(workload)), "")
    lacks = not budgets and max(workload.replicas, len(pods)) >= max(min_replicas, 2)
    if lacks:
        words = _NONE if workload.selector is not None else f"{_NONE}; its selector cannot be read"
    return Row(workload, tuple(sorted(budgets)), words, lacks and workload.selector is not None)


def _faults(
    of_pods: Iterable[tuple[DisruptionBudget, ...]], budgets: Iterable[DisruptionBudget], remedy: str
) -> Iterator[str]:
    """What keeps a drain off, worst first. ``remedy``: of a budget that never allows a disruption."""
    yield from filter(None, map(several_budgets, of_pods))
    for budget in budgets:
        if budget.never_allows:
            yield f"{budget.name} never allows a disruption: {remedy}"


def offered(workload: Workload, max_unavailable: str, taken: Iterable[tuple[str, str]]) -> bytes:
    """The PodDisruptionBudget that a workload lacks, as JSON. ``taken``: namespaces and names of those that exist.

    Pods that are not ready may go in any case, so that a broken workload holds up no drain.
    """
    name = workload.name if (workload.namespace, workload.name) not in taken else f"{workload.name}-pods"
    most: str | int = int(max_unavailable) if max_unavailable.isdecimal() else max_unavailable
    spec: dict[str, Any] = {
        "maxUnavailable": most,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": encode_label_selector(workload.selector) if workload.selector is not None else {},
    }
    metadata = {"name": name, "namespace": workload.namespace}
    return msgspec.json.encode(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
    )


def _cells(row: Row) -> tuple[str, ...]:
    one = row.workload
    return (
        one.namespace,
        f"{one.kind}/{one.name}",
        str(one.replicas),
        ", ".join(row.budgets) or "-",
        row.found or "OK",
    )
