"""What must hold of every plan and of every policy on any cluster: exact changes, and no order of reading.

Each check gives its faults in words.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import msgspec

from harness.differential.comparison import snapshot_of
from harness.differential.manifests import Manifest
from harness.differential.plans.case import Case
from rescheduler.model.kinds import RESOURCES
from rescheduler.model.never_moves import belongs_to_node
from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.badness import Badness, MoveEffect, by_policy
from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import plan
from rescheduler.policies.framework import Policy, PolicyView
from rescheduler.policies.objective import Tier
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.state import SchedulingState

PODS_ASKED = 4
"""Of each cluster, pods whose moves to every node are looked at."""


def known(objects: Sequence[Manifest]) -> list[Manifest]:
    """The objects of kinds that are read."""
    return [item for item in objects if item["kind"] in RESOURCES]


def planned(case: Case, cluster: Snapshot) -> Plan:
    """The plan of the case on this cluster."""
    return plan(cluster, case.policies, case.inputs, SchedulingState(cluster, case.profile))


def inexact_changes(case: Case, cluster: Snapshot, seed: int) -> Iterator[str]:
    """Policies that say of a move something else than what it changes in their badness."""
    rng = random.Random(seed)  # noqa: S311 -- test data, not secrets
    state = SchedulingState(cluster, case.profile)
    view, replacements = PolicyView.of(cluster, state), Replacements(cluster)
    standing = [
        pod
        for pod in cluster.pods.values()
        if pod.node in state.node_index and not (pod.terminal or pod.deleting or belongs_to_node(pod))
    ]
    for pod in rng.sample(standing, min(PODS_ASKED, len(standing))):
        other = msgspec.structs.replace(rng.choice(standing), name=pod.name, uid=f"{pod.uid}/next", node="")
        comes = replacements.of(pod).pod
        for replacement in (other, comes) if comes is not None else (other,):
            for policy in case.policies:
                yield from _inexact(policy, pod, replacement, view)
        # What follows is asked in the middle of a plan.
        state.remove(pod)
        state.place(other, rng.choice(state.node_names))
        standing = [one for one in standing if one is not pod]


def _inexact(policy: Policy, pod: Pod, replacement: Pod, view: PolicyView) -> Iterator[str]:
    state = view.state
    before, change = policy.badness(view), policy.change(pod, replacement, view).copy()
    for i, node in enumerate(state.node_names):
        said, real = change[:, i].tolist(), [0] * len(Tier)
        if node != pod.node:
            mark = state.checkpoint()
            state.remove(pod)
            state.place(replacement, node)
            real = (policy.badness(view) - before).tolist()
            state.rollback(mark)
        if real != said:
            yield f"{policy.name}: {pod.key} from {pod.node} to {node} changes {real}, not {said}"


def order_of_reading(case: Case, made: Plan, seed: int) -> Iterator[str]:
    """Plans that differ because the objects were read in another order."""
    objects = known(case.objects)
    random.Random(seed).shuffle(objects)  # noqa: S311 -- test data, not secrets
    other = planned(case, snapshot_of(objects))
    if msgspec.json.encode(other) != msgspec.json.encode(made):
        yield f"read in another order the plan differs: {len(made.moves)} moves and {len(other.moves)}"


def sums_that_differ(made: Plan) -> Iterator[str]:
    """Policies whose badness after the plan is not that before it and what its moves change. Pods that only arrive are no moves; tier EMPTYING only compares."""
    if made.rooms:
        return
    change = by_policy(effect for move in made.moves for effect in move.effects)
    before, after = (
        by_policy(MoveEffect(policy.name, policy.badness) for policy in summary.policies)
        for summary in (made.before, made.after)
    )
    for name, badness in before.items():
        told = (badness + change.get(name, Badness())).tiers()[: Tier.EMPTYING]
        if told != after[name].tiers()[: Tier.EMPTYING]:
            yield f"{name}: {badness} and the moves make {told}, not {after[name]}"
