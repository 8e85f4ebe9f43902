"""Plans of random clusters, move by move, beside kube-scheduler's own code."""

import pytest

from harness.differential.plans.cases import random_case
from harness.differential.plans.judging import Tally, judge

SEEDS = (2, 3, 4, 8, 9, 10, 11, 13, 14, 16, 18, 19, 21, 25, 26, 28, 29, 30, 31, 32, 33, 38)


@pytest.mark.realcluster
def test_kube_scheduler_takes_every_replacement_where_it_is_planned(program):
    tally, refused = Tally(), []
    for seed in SEEDS:
        refused += [f"seed {seed}: {found}" for found in judge(random_case(seed), program, tally)]
    assert not refused, "\n".join(refused[:5])
    assert tally.moves > 30
    assert set(tally.modes) == {"ReserveFirst", "StartFirst"}
    assert {"ReplicaSet", "StatefulSet", "ReplicationController"} <= set(tally.owners)
