"""What a plan says of availability: which workloads have more replicas on one node, or in one zone, after it, and which zones it empties. Pure.

WorkloadSpread keeps most replicas of a workload apart (policies/workload_spread.py); what it lets go by is told here, so that
nobody finds out when a node fails.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from rescheduler.model.counted import plural, verb
from rescheduler.model.names import ZONE
from rescheduler.model.never_moves import belongs_to_node
from rescheduler.model.records import ObjectKey
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.steps import PlannedStep
from rescheduler.replacements.controllers import JOB, group_kind

_LEAST: Final = 2
"""Replicas that one failure takes together."""


def gathered(snapshot: Snapshot, steps: Sequence[PlannedStep]) -> Iterator[str]:
    """A sentence for nodes and one for zones, each if any workload stands closer together after the plan, and one for zones left empty."""
    moved = {step.pod.uid: step.move.target for step in steps}
    owners = {
        step.pod.controller.uid: ObjectKey(step.pod.namespace, step.pod.controller.name)
        for step in steps
        if step.pod.controller is not None and group_kind(step.pod.controller) != JOB
    }
    if not owners:
        return
    places: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for pod in snapshot.pods.values():
        if pod.controller is not None and pod.controller.uid in owners and pod.node and not pod.terminal:
            places[pod.controller.uid].append((pod.node, moved.get(pod.uid, pod.node)))
    zones = {name: node.labels.get(ZONE) or "" for name, node in snapshot.nodes.items()}
    yield from _closer(owners, places, "on one node", "on node/", lambda node: node)
    yield from _closer(owners, places, "in one zone", "in zone ", lambda node: zones.get(node, ""))
    yield from _left_empty(snapshot, moved, zones)


def _left_empty(snapshot: Snapshot, moved: Mapping[str, str], zones: Mapping[str, str]) -> Iterator[str]:
    stand = [pod for pod in snapshot.pods.values() if pod.node and not (pod.terminal or belongs_to_node(pod))]
    before = {zones.get(pod.node, "") for pod in stand}
    after = {zones.get(moved.get(pod.uid, pod.node), "") for pod in stand}
    left = sorted(filter(None, before - after))
    if left:
        yield (
            f"no pods but those of DaemonSets are left in {'zone' if len(left) == 1 else 'zones'} {', '.join(left)}: "
            "an autoscaler may remove all nodes there"
        )


def _closer(
    owners: dict[str, ObjectKey],
    places: dict[str, list[tuple[str, str]]],
    where: str,
    at: str,
    domain: Callable[[str], str],
) -> Iterator[str]:
    found: list[tuple[int, int, ObjectKey, str]] = []
    for uid, moves in places.items():
        before, after = (Counter(d for m in moves if (d := domain(m[side]))) for side in (0, 1))
        most = max(after.values(), default=0)
        if most >= _LEAST and most > max(before.values(), default=0):
            name = min(name for name, number in after.items() if number == most)
            found.append((most, len(moves), owners[uid], name))
    if found:
        most, replicas, owner, name = min(found, key=lambda one: (-one[0] / one[1], one[2]))
        number = plural(len(found), "workload")
        yield (
            f"{number} {verb(len(found), 'has', 'have')} more replicas {where} after it than before, "
            f"such as {owner}: {most} of {replicas} {at}{name}"
        )
