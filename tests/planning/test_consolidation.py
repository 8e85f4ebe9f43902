"""The search for nodes to empty together: whole nodes, within its moves, the best there is on small clusters, always the same."""

from __future__ import annotations

import random
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.planning.consolidation import consolidate
from rescheduler.planning.consolidation_problem import ConsolidationProblem, Occupant, Source
from rescheduler.planning.placement_conflicts import Bound, Mark

QUICK = settings(max_examples=150)


def item(nodes, need, **more):
    """A pod that any of so many nodes takes where there is room."""
    return Occupant(
        needs=((0, need),), size=float(need), allowed=lambda: np.ones(nodes, dtype=np.bool_), **more
    )


def cluster(free, sources, *, prices=None, **more):
    """``free``: one resource, by node. ``sources``: node -> what each of its pods needs."""
    rows = np.array([free], dtype=np.int64)
    size = len(free)
    return ConsolidationProblem(
        free=rows,
        shares=rows / 100.0,
        receives=np.ones(size, dtype=np.bool_),
        sources=tuple(
            Source(
                node,
                tuple(sorted(as_items(size, pods), key=lambda one: -one.size)),
                (prices or {}).get(node, 1),
            )
            for node, pods in sources.items()
        ),
        **more,
    )


def as_items(nodes, pods):
    return [pod if isinstance(pod, Occupant) else item(nodes, pod) for pod in pods]


def check(problem, found):
    """What every answer keeps; gives the sum of prices and the moves."""
    emptied = {problem.sources[one.source].node for one in found}
    assert len(emptied) == len(found)
    free = problem.free.copy()
    moves = 0
    for one in found:
        source = problem.sources[one.source]
        assert len(one.targets) == len(source.items)
        for pod, target in zip(source.items, one.targets, strict=True):
            assert target not in emptied
            assert problem.receives[target]
            assert pod.allowed()[target]
            moves += 1
            for resource, amount in pod.needs:
                free[resource, target] -= amount
    assert (free >= np.minimum(problem.free, 0)).all()
    if problem.most_moves is not None:
        assert moves <= problem.most_moves
    return sum(problem.sources[one.source].price for one in found), -moves


def best(problem):
    """By trying everything."""
    found = (0, 0)
    for count in range(1, len(problem.sources) + 1):
        for chosen in combinations(problem.sources, count):
            pods = [pod for source in chosen for pod in source.items]
            if problem.most_moves is not None and len(pods) > problem.most_moves:
                continue
            closed = {source.node for source in chosen}
            open_ = [n for n in range(problem.free.shape[1]) if n not in closed]
            if any(fits(problem, pods, targets) for targets in product(open_, repeat=len(pods))):
                found = max(found, (sum(source.price for source in chosen), -len(pods)))
    return found


def fits(problem, pods, targets):
    free = problem.free.copy()
    for pod, target in zip(pods, targets, strict=True):
        for resource, amount in pod.needs:
            free[resource, target] -= amount
            if free[resource, target] < 0:
                return False
    return True


@st.composite
def problems(draw, most_nodes, most_pods):
    size = draw(st.integers(2, most_nodes))
    free = [draw(st.integers(-3, 12)) for _ in range(size)]
    nodes = draw(st.lists(st.integers(0, size - 1), unique=True, max_size=size))
    pods = {n: draw(st.lists(st.integers(1, 6), min_size=1, max_size=most_pods)) for n in sorted(nodes)}
    prices = {n: draw(st.integers(1, 3)) for n in pods}
    return cluster(free, pods, prices=prices, most_moves=draw(st.none() | st.integers(0, 8)))


@QUICK
@given(problems(12, 6), st.integers(1, 40))
def test_nodes_are_emptied_as_a_whole_within_room_and_moves(problem, passes):
    found = consolidate(problem, passes)
    assert consolidate(problem, passes) == found
    # More passes are never worse than fewer, and so never worse than the first one, which has no chance in it.
    assert check(problem, consolidate(problem, 1)) <= check(problem, found)


@pytest.mark.parametrize("seed", range(60))
def test_small_clusters_are_emptied_as_well_as_can_be(seed):
    rng = random.Random(seed)  # noqa: S311 -- clusters, no secrets
    free = [rng.randint(-2, 9) for _ in range(4)]
    nodes = rng.sample(range(4), k=rng.randint(1, 4))
    pods = {node: [rng.randint(1, 6) for _ in range(rng.randint(1, 2))] for node in nodes}
    prices = {node: rng.randint(1, 3) for node in nodes}
    problem = cluster(free, pods, prices=prices, most_moves=rng.choice([None, 2, 4]))
    assert check(problem, consolidate(problem, 60)) == best(problem)


def test_nodes_with_few_pods_go_first():
    problem = cluster([50, 50, 50, 9], {0: [1, 1, 1], 1: [4, 4], 2: [1, 1, 1, 1]}, most_moves=5)
    found = consolidate(problem, 1)
    assert [problem.sources[one.source].node for one in found] == [1, 0]


def test_the_dearest_nodes_go_where_not_all_can():
    free = [0, 0, 5]
    assert [one.source for one in consolidate(cluster(free, {0: [5], 1: [5]}), 9)] == [0]
    assert [one.source for one in consolidate(cluster(free, {0: [5], 1: [5]}, prices={1: 2}), 9)] == [1]


def test_a_node_that_has_received_is_emptied_too():
    """Node 0 fits best on node 1 at first, but then all that node 1 holds fits on node 2."""
    problem = cluster([0, 3, 9], {0: [3], 1: [4]})
    assert check(problem, consolidate(problem, 20)) == (2, -2)


@pytest.mark.parametrize(("domains", "emptied"), [([0, 1, 2, 3], 2), ([0, 1, 2, 2], 1)])
def test_pods_that_may_not_meet_go_to_different_domains(domains, emptied):
    mark = Mark(7, np.array(domains))
    pods = [item(4, 1, bears=(mark,), minds=(mark,)) for _ in range(2)]
    assert len(consolidate(cluster([0, 0, 9, 9], {0: [pods[0]], 1: [pods[1]]}), 20)) == emptied


def test_only_one_pod_of_a_spread_leaves_its_domain():
    domains = np.array([0, 0, 1])
    pods = [item(3, 1, spreads=(Bound(3, domains, 0),)) for _ in range(2)]
    assert len(consolidate(cluster([0, 0, 9], {0: [pods[0]], 1: [pods[1]]}), 20)) == 1


def test_the_nodes_that_could_take_most_stay_in_use():
    """Nodes 2 and 3 have one pod each, but without one of them the pods of 0, 1 and 4 have no room."""
    problem = cluster([0, 0, 6, 6, 0], {0: [1, 1, 1], 1: [1, 1, 1], 2: [2], 3: [2], 4: [1, 1, 1]})
    assert check(problem, consolidate(problem, 1)) == (2, -4)
    assert check(problem, consolidate(problem, 2)) == (3, -9)
