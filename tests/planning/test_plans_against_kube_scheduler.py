"""Plans of random clusters, move by move, beside kube-scheduler's own code."""

import pytest

from harness.differential.plans.asked import asked_moves
from harness.differential.plans.judging import Tally, judge, judge_moves
from harness.differential.plans.replay import When
from harness.shapes.clusters import random_shapes
from tests.planning.test_plans_of_every_shape import SEEDS

AGED = (3, 6, 19, 37, 43, 53, 56, 75, 86, 97, 100, 104, 111, 112, 126, 139, 143, 155, 165, 230, 713)
RARE = (37, 43, 53, 57, 60)
ASKED = (880010, 880035, 880055, 880068, 880074, 880112, 880128, 950551)
"""Where a second move was let begin, whose replacement the node would not take beside that of the first."""


@pytest.mark.realcluster
def test_kube_scheduler_takes_every_replacement_where_it_is_planned(program):
    tally, refused = Tally(), []
    cases = [random_shapes(seed, aged=True) for seed in AGED] + [random_shapes(seed) for seed in SEEDS]
    for case in cases + [random_shapes(seed, aged=True, rare=True) for seed in RARE]:
        refused += [str(found) for found in judge(case, program, tally)]
    assert not refused, "\n".join(refused[:5])
    assert tally.moves > 80
    assert tally.asked[When.ROOM]
    assert set(tally.modes) == {"ReserveFirst", "StartFirst"}
    assert {"ReplicaSet", "StatefulSet", "ReplicationController"} <= set(tally.owners)


@pytest.mark.realcluster
def test_kube_scheduler_takes_every_replacement_of_moves_that_people_ask_for_one_after_the_other(program):
    tally, refused = Tally(), []
    for seed in ASKED:
        case = random_shapes(seed, tight=seed % 4 == 0, aged=True, rare=seed % 3 != 0)
        refused += [str(found) for found in judge_moves(case, asked_moves(case, seed), program, tally)]
    assert not refused, "\n".join(refused[:5])
    assert tally.moves > len(ASKED)
