"""A search on numbers finds who goes where in two stages, and who steps aside; a plan follows it where all rules allow it."""

import random

import msgspec
import numpy as np
import pytest

from bench.optima import STAGES, planned
from bench.random_clusters import Kind, random_cluster
from harness import builders as b
from rescheduler.model.bounds import MOST_EARLIER_MOVES
from rescheduler.optima.placement import Places
from rescheduler.planning.limits import EFFORT, PlanningInputs, limits_for
from rescheduler.planning.planner import plan
from rescheduler.planning.problem import Mark, MovablePod, SearchProblem, Spread
from rescheduler.planning.repair import Repair
from rescheduler.scheduling.state import SchedulingState
from tests.seeds import some


def pod(source, size, repairs=(), *, places=(), **more):
    """A pod of one resource; ``repairs``: the nodes where it is well placed."""

    def allowed():
        mask = np.zeros(9, dtype=np.bool_)
        mask[list(places)] = True
        return mask

    return MovablePod(
        source=source, needs=((0, size),), holds=((0, size),), allowed=allowed,
        repairs=dict.fromkeys(repairs, 1.0), **more,
    )  # fmt: skip


def problem(free, *pods, **more):
    rows = np.array([[*free, *[0] * (9 - len(free))]], dtype=np.float64)
    every = np.ones(9, dtype=np.bool_)
    return SearchProblem(
        free=rows, whole=np.full_like(rows, 9.0), pods=pods, receives=every, stages=2, **more
    )


def found(free, *pods, passes=8, **more):
    ways = Repair(problem(free, *pods, **more)).search(passes).ways
    return sorted((way.stage, pod, way.node) for pod, way in ways.items())


def test_where_there_is_room_a_pod_moves_at_once():
    assert found([0, 3], pod(0, 2, [1])) == [(1, 0, 1)]


def test_one_steps_aside_in_the_first_stage_and_its_room_is_used_in_the_second():
    assert found([0, 0, 2], pod(0, 2, [1]), pod(1, 2, places=[2])) == [(1, 1, 2), (2, 0, 1)]


def test_nobody_steps_aside_where_that_repairs_nothing():
    assert found([0, 0, 1], pod(0, 2, [1]), pod(1, 1, places=[2])) == []


def test_the_room_of_a_pod_that_is_repaired_itself_is_used_without_anybody_stepping_aside():
    moves = found([0, 0, 2, 2], pod(0, 2, [1]), pod(1, 2, [2]), pod(1, 2, places=[3]))
    assert moves == [(1, 1, 2), (2, 0, 1)]


def test_rooms_that_are_left_in_the_second_stage_are_not_used():
    """Each of the two wants the room of the other."""
    assert found([0, 0], pod(0, 2, [1]), pod(1, 2, [0])) == []


def test_one_large_pod_steps_aside_rather_than_two_small_ones():
    small = [pod(1, 1, places=[2]) for _ in range(2)]
    moves = found([0, 0, 2], pod(0, 1, [1]), pod(0, 1, [1]), *small, pod(1, 2, places=[2]))
    assert moves == [(1, 4, 2), (2, 0, 1), (2, 1, 1)]


def test_a_room_goes_to_the_pod_that_can_go_nowhere_else():
    for order in ((0, 1), (1, 0)):
        pods = [pod(0, 2, [1, 2]), pod(0, 2, [1])]
        assert len(found([0, 2, 2], *(pods[i] for i in order))) == 2


def test_pods_of_one_owner_do_not_change_places():
    pods = [pod(0, 2, [1], owner=7), pod(1, 2, [0], places=[0], owner=7)]
    assert len(found([2, 2], *pods)) == 1


def test_a_budget_ends_what_leaves():
    pods = [pod(0, 1, [1], budgets=(0,)), pod(0, 1, [1], budgets=(0,))]
    assert len(found([0, 2], *pods, budgets=[1])) == 1


def test_pods_that_mind_each_other_do_not_meet_before_the_other_has_left():
    mark = Mark(0, np.arange(9))
    bound = {"bears": (mark,), "minds": (mark,)}
    other = pod(1, 1, [2], **bound)
    moves = found([0, 5, 5], pod(0, 1, [1], **bound), other, standing={(mark.key, 0): 1, (mark.key, 1): 1})
    assert moves == [(1, 1, 2), (2, 0, 1)]
    assert found([0, 5], pod(0, 1, [1], **bound), standing={(mark.key, 0): 1, (mark.key, 1): 1}) == []


def test_as_many_leave_a_crowded_domain_as_are_too_many():
    spread = Spread(domains=np.array([0, 1, 2, *[-1] * 6]), counts=[4, 1, 1], valid=[0, 1, 2], max_skew=1)
    pods = [pod(0, 1, [1, 2], spreads=(spread,), excess=True) for _ in range(4)]
    assert len(found([9, 9, 9], *pods)) == 2
    assert spread.counts == [4, 1, 1], "the numbers of a problem stay as they are"


def test_pods_of_one_spread_wait_for_the_stage_in_which_they_may_come():
    """Of two that leave zone 0 one goes to zone 1 and one to zone 2, whose room another pod leaves first."""
    spread = Spread(domains=np.array([0, 1, 2, *[-1] * 6]), counts=[3, 0, 0], valid=[0, 1, 2], max_skew=1)
    pods = [pod(0, 1, [1, 2], spreads=(spread,), excess=True) for _ in range(3)]
    moves = found([0, 2, 0, 1], *pods, pod(2, 1, places=[3]))
    assert [(stage, node) for stage, _, node in moves] == [(1, 1), (1, 3), (2, 2)]


def test_who_steps_aside_and_repairs_a_spread_by_that_still_only_steps_aside():
    """It was not proposed, so it has no reason of its own to move."""
    spread = Spread(domains=np.array([0, 0, 1, *[-1] * 6]), counts=[3, 0], valid=[0, 1], max_skew=1)
    asked = Repair(problem([0, 0, 1], pod(0, 1, [1]), pod(1, 1, places=[2], spreads=(spread,), excess=True)))
    made = asked.search(4)
    assert asked.in_order(made) == [(1, False), (0, True)]
    assert [made.ways[number].stage for number in (1, 0)] == [1, 2]


def test_no_more_pods_leave_a_node_for_others_than_a_move_may_wait_for():
    small = [pod(1, 1, places=[2]) for _ in range(MOST_EARLIER_MOVES + 2)]
    large = MOST_EARLIER_MOVES + 1
    assert found([0, 0, large], pod(0, large, [1]), *small) == []


def _anywhere(rng):
    """Pods of two spreads over three zones with too many in some, and a few that want another node."""
    domains = np.arange(9) % 3
    pods, spreads = [], []
    for _ in range(2):
        nodes = [rng.randrange(9) for _ in range(rng.randint(3, 9))]
        counts = [sum(domains[node] == zone for node in nodes) for zone in range(3)]
        spread = Spread(domains=domains, counts=counts, valid=(0, 1, 2), max_skew=1)
        spreads.append(spread)
        pods += [
            pod(node, 1, [other for other in range(9) if domains[other] != domains[node]], places=range(9),
                spreads=(spread,), excess=True)
            for node in nodes
        ]  # fmt: skip
    pods += [
        pod(rng.randrange(9), rng.randint(1, 3), [rng.randrange(9)], places=range(9))
        for _ in range(rng.randint(0, 2))
    ]
    if rng.random() < 0.25:  # one is counted in both
        pods.append(pod(0, 1, [1], places=range(9), spreads=tuple(spreads)))
    return problem([rng.randint(0, 3) for _ in range(9)], *pods, fault=1000.0)


@pytest.mark.parametrize("seed", range(20))
def test_a_search_that_ends_because_nothing_can_be_better_loses_nothing(seed, monkeypatch):
    asked = _anywhere(random.Random(seed))  # noqa: S311
    ended, whole = Repair(asked), Repair(asked)
    monkeypatch.setattr(whole, "_done", lambda: False)
    assert ended.search(8) == whole.search(8)
    assert ended.looks <= whole.looks


def test_the_same_numbers_give_the_same_moves():
    rng = random.Random(1)  # noqa: S311
    pods = [pod(0, rng.randint(1, 3), [1, 2]) for _ in range(6)]
    pods += [pod(rng.choice((1, 2)), rng.randint(1, 3), places=[3, 4]) for _ in range(8)]
    one, again = (found([0, 1, 1, 4, 5], *pods) for _ in range(2))
    assert one == again
    assert one


def test_a_room_that_chains_one_by_one_would_waste_is_found(decide, app):
    """a may go to n1 and n2, w to n1 only; both need somebody to step aside, and n3 has room for one small pod and one large."""
    mine, yours = {"kind": "x"}, {"both": "x"}
    cluster = (
        b.node("n0").taint("old"), b.node("n1").cpu("2").label(**mine, **yours), b.node("n2").cpu("2").label(**yours),
        b.node("n3").cpu("3"),
        app("a", ["n0"], lambda s: s.cpu("1").node_selector(yours)), app("w", ["n0"], lambda s: s.cpu("2").node_selector(mine)),
        app("s", ["n2", "n2"], lambda s: s.cpu("1")), app("t", ["n1"], lambda s: s.cpu("2")),
    )  # fmt: skip
    made = decide(b.snapshot(*cluster), "NodeTaints")
    assert {
        move.pod.name for move in made.moves if move.policy == "NodeTaints" and move.reason != "MakesRoom"
    } == {"a-0", "w-0"}
    assert len(made.moves) == 4


# All that can be repaired.
TIGHT = {880002: 22, 880012: 16, 880013: 7, 910001: 27}


@pytest.mark.parametrize("seed", some(TIGHT, 2))
def test_plans_on_tight_clusters_repair_what_two_stages_can(seed):
    cluster = random_cluster(Kind.TIGHT, seed)
    places = Places(cluster.snapshot)
    done = planned(cluster.snapshot, cluster.policies, stages=STAGES)
    before, after = (
        places.placement.violations(c) for c in (places.placement.start, places.counts(done.snapshot))
    )
    assert before - after >= TIGHT[seed]
    assert not done.refused


def test_a_plan_within_limits_searches_too_and_is_the_same_every_time():
    cluster = random_cluster(Kind.TIGHT, 880013)
    inputs = PlanningInputs(limits=limits_for(1.0), aggressiveness=1.0)
    one, again = (
        plan(cluster.snapshot, cluster.policies, inputs, SchedulingState(cluster.snapshot)) for _ in range(2)
    )
    assert one.moves
    assert msgspec.json.encode(one) == msgspec.json.encode(again)


def test_a_pod_that_may_go_to_one_node_only_is_not_kept_out_by_one_that_may_go_anywhere(decide, app):
    """Both must leave n0; any-0, which is asked first, would take the last room of n1, the only node for x-0."""
    cluster = b.snapshot(
        b.node("n0").taint("old"), b.node("n1").cpu("1").label(kind="x"), b.node("n2").cpu("1"),
        app("any", ["n0"], lambda s: s.cpu("1")),
        app("x", ["n0"], lambda s: s.cpu("1").node_selector({"kind": "x"})),
    )  # fmt: skip
    made = decide(cluster, "NodeTaints", inputs=PlanningInputs(unlimited=True))
    assert {m.pod.name: m.target for m in made.moves} == {"any-0": "n2", "x-0": "n1"}


def test_a_draft_that_is_no_better_leaves_no_trace(decide, app):
    """No pod has a place: it is planned twice, and the limits are as full as after one plan."""
    nodes = [b.node("n0").taint("old").cpu("8"), b.node("n1").cpu("1")]
    apps = [app(f"a{i}", ["n0"], lambda s: s.cpu("1")) for i in range(4)]
    once, made = (
        decide(
            b.snapshot(*nodes, *apps), "NodeTaints", inputs=PlanningInputs(aggressiveness=1.0, effort=effort)
        )
        for effort in (1, EFFORT)
    )
    assert len(once.moves) == len(made.moves) == 1
    assert once.skipped == made.skipped
    assert len(made.skipped) == 3
