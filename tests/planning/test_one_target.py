"""Whether one node takes a replacement, asked of that node alone, is what the question about all nodes says of it."""

import dataclasses
import random

import pytest

from harness.differential.plans.cases import random_case
from harness.differential.plans.dumps import Misread, read
from rescheduler.model.past_moves import PastMove, node_digest
from rescheduler.planning.planner import plan
from rescheduler.planning.trial import Trial
from rescheduler.policies.framework import PolicyView
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.configuration import parse_scheduler_configuration
from rescheduler.scheduling.framework import Profile
from rescheduler.scheduling.state import SchedulingState
from tests.seeds import seeds

ASKED = 12
"""Pods that are asked about after each planned move."""


def with_refusals(snapshot, rng):
    """Some nodes did not take placeholders of the workloads of some pods."""
    pods = [pod for pod in snapshot.pods.values() if pod.controller is not None]
    refused = {
        str(i): PastMove(
            namespace=pod.namespace,
            workload_uid=snapshot.workload_uid(pod),
            ended_s=snapshot.taken_at_s - 1,
            failed=True,
            refused_by=node_digest(rng.choice(sorted(snapshot.nodes))),
        )
        for i, pod in enumerate(rng.sample(pods, len(pods) // 4))
    }
    return dataclasses.replace(snapshot, past_moves=refused)


@pytest.mark.parametrize("seed", seeds(0, 40, 4))
def test_one_node_and_all_nodes_agree_after_every_planned_move(seed):
    case = random_case(seed)
    try:
        snapshot = read(case.objects, case.form)
    except Misread:
        pytest.skip("the form does not tell the whole cluster")
    profile = Profile() if case.configuration is None else parse_scheduler_configuration(case.configuration)
    moves = plan(snapshot, case.policies, case.inputs, SchedulingState(snapshot, profile)).moves
    snapshot = with_refusals(snapshot, random.Random(seed))  # noqa: S311 -- test data, not secrets
    state = SchedulingState(snapshot, profile)
    trial = Trial(snapshot, PolicyView.of(snapshot, state), set(), at_once=bool(seed % 2))
    replacements = Replacements(snapshot)
    pods = [pod for pod in snapshot.pods.values() if pod.node in state.node_index and not pod.terminal]
    pending = [pod for pod in state.unplaced.values() if not pod.node and not pod.deleting]
    rng = random.Random(seed)  # noqa: S311 -- test data, not secrets
    for pod in pending[:2]:
        trial.assume(pod, rng.choice(state.node_names))
    gone = set()
    for move in (None, *moves):
        if move is not None:
            moved = next(p for p in pods if (p.namespace, p.name) == (move.pod.namespace, move.pod.name))
            trial.move(moved, replacements.of(moved).pod, move.target)
            gone.add(moved.uid)
        left = [pod for pod in pods if pod.uid not in gone and replacements.of(pod).pod is not None]
        for pod in rng.sample(left, min(ASKED, len(left))):
            new = replacements.of(pod).pod
            with trial.without(pod):
                alone = [trial.takes(pod, new, node) for node in range(len(state.node_names))]
                assert alone == trial.feasible_targets(pod, new).tolist(), f"{pod.key} after {move}"
