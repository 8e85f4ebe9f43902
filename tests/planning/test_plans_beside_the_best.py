"""Tiny clusters: plans reach what the best of all placements is, with as few moves; ``python -m harness.exhaustive`` tries many."""

import pytest

from harness.exhaustive.clusters import Topic, tiny_cluster
from harness.exhaustive.judging import judged

SEEDS = {
    1007: Topic.SEVERAL,
    1034: Topic.SEVERAL,  # rules, wishes and balance
    1043: Topic.SEVERAL,  # three moves in the right order
}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_is_reached_with_the_fewest_moves(seed):
    cluster = tiny_cluster(seed)
    assert cluster.topic is SEEDS[seed]
    found = judged(cluster)
    assert found.faults == ()
    assert found.refused == 0
    assert found.found_wanting is None
    assert found.wasted <= 0
