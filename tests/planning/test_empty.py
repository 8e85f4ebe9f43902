"""The search for nodes to empty together: whole nodes, within its moves, the best there is on small clusters, always the same."""

import dataclasses
import random
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.planning.empty import Empty, put_making_way
from rescheduler.planning.problem import Mark, MovablePod, SearchProblem, Source, Spread

QUICK = settings(max_examples=150)


def item(nodes, need, **more):
    """A pod that any of so many nodes takes where there is room."""
    return {"needs": ((0, float(need)),), "allowed": lambda: np.ones(nodes, dtype=np.bool_), **more}


def cluster(free, sources, *, prices=None, **more):
    """``free``: one resource, by node. ``sources``: node -> what each of its pods needs."""
    rows, pods, found = np.array([free], dtype=np.float64), [], []
    for node, some in sources.items():
        given = [pod if isinstance(pod, dict) else item(len(free), pod) for pod in some]
        numbers = tuple(range(len(pods), len(pods) + len(given)))
        pods += [MovablePod(source=node, **one) for one in given]
        found.append(Source(node, numbers, (prices or {}).get(node, 1), claims=(node,)))
    return SearchProblem(
        free=rows, whole=np.full_like(rows, 100.0), pods=pods, receives=np.ones(len(free), dtype=np.bool_),
        sources=found, **more,
    )  # fmt: skip


def consolidate(problem, passes):
    return Empty(problem).search(passes)


def check(problem, found):
    """What every answer keeps; gives the sum of prices and the moves."""
    sources = [problem.sources[number] for number in found.emptied]
    emptied = {source.node for source in sources}
    assert len(emptied) == len(sources)
    assert sorted(found.ways) == sorted(pod for source in sources for pod in source.pods)
    free = problem.free.copy()
    for number, way in found.ways.items():
        assert way.node not in emptied
        assert problem.receives[way.node]
        for row, amount in problem.pods[number].needs:
            free[row, way.node] -= amount
    assert (free >= np.minimum(problem.free, 0)).all()
    if problem.most_moves is not None:
        assert len(found.ways) <= problem.most_moves
    return sum(source.price for source in sources), -len(found.ways)


def best(problem):
    """By trying everything."""
    found = (0, 0)
    for count in range(1, len(problem.sources) + 1):
        for chosen in combinations(problem.sources, count):
            pods = [problem.pods[pod] for source in chosen for pod in source.pods]
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
    assert [problem.sources[number].node for number in found.emptied] == [1, 0]


def test_the_dearest_nodes_go_where_not_all_can():
    free = [0, 0, 5]
    assert consolidate(cluster(free, {0: [5], 1: [5]}), 9).emptied == (0,)
    assert consolidate(cluster(free, {0: [5], 1: [5]}, prices={1: 2}), 9).emptied == (1,)


def test_a_node_that_has_received_is_emptied_too():
    """Node 0 fits best on node 1 at first, but then all that node 1 holds fits on node 2."""
    problem = cluster([0, 3, 9], {0: [3], 1: [4]})
    assert check(problem, consolidate(problem, 20)) == (2, -2)


@pytest.mark.parametrize(("domains", "emptied"), [([0, 1, 2, 3], 2), ([0, 1, 2, 2], 1)])
def test_pods_that_may_not_meet_go_to_different_domains(domains, emptied):
    mark = Mark(7, np.array(domains))
    pods = [item(4, 1, bears=(mark,), minds=(mark,)) for _ in range(2)]
    assert len(consolidate(cluster([0, 0, 9, 9], {0: [pods[0]], 1: [pods[1]]}), 20).emptied) == emptied


@pytest.mark.parametrize(("here", "emptied"), [(2, 1), (4, 2)])
def test_as_many_pods_of_a_spread_leave_their_domain_as_its_skew_allows(here, emptied):
    """After both moves there are none and two pods in the two domains, or two and two."""
    spread = Spread(np.array([0, 0, 1]), [here, 0], [0, 1], max_skew=1)
    pods = [item(3, 1, spreads=(spread,)) for _ in range(2)]
    assert len(consolidate(cluster([0, 0, 9], {0: [pods[0]], 1: [pods[1]]}), 20).emptied) == emptied


def test_the_nodes_that_could_take_most_stay_in_use():
    """Nodes 2 and 3 have one pod each, but without one of them the pods of 0, 1 and 4 have no room."""
    problem = cluster([0, 0, 6, 6, 0], {0: [1, 1, 1], 1: [1, 1, 1], 2: [2], 3: [2], 4: [1, 1, 1]})
    assert check(problem, consolidate(problem, 1)) == (2, -4)
    assert check(problem, consolidate(problem, 2)) == (3, -9)


def within(nodes, need, **more):
    """A pod that these of four nodes take where there is room."""
    mask = np.isin(np.arange(4), nodes)
    return item(4, need, **{"allowed": lambda: mask, **more})


def emptying(free, *pods):
    """Nodes 0 and 1, each with one of the pods, beside 2 and 3, which have so much room: 0 is emptied so far, its pod goes to 2."""
    problem = cluster([0, 0, *free], {node: [pod] for node, pod in enumerate(pods)})
    found = Empty(dataclasses.replace(problem, receives=np.array([False, False, True, True])))
    found.state.close(0)
    found.state.put(0, 2)
    found.state.close(1)
    return found


APART = Mark(1, np.arange(4))
SPREAD = Spread(np.array([0, 0, 1, 0]), [2, 0], [0, 1], max_skew=1)


@pytest.mark.parametrize(("free", "first", "more"), [
    pytest.param([5, 6], (3, 5), {}, id="no room beside it"),
    pytest.param([8, 9], (1, 1), {"bears": (APART,), "minds": (APART,)}, id="they may not meet"),
    pytest.param([8, 9], (1, 1), {"spreads": (SPREAD,)}, id="only one may leave its domain"),
])  # fmt: skip
def test_a_pod_goes_elsewhere_for_one_that_fits_only_where_it_is(free, first, more):
    one, other = first
    found = emptying(free, within([2, 3], one, **more), within([2], other, **more))
    assert put_making_way(found, [1], 1)
    assert {pod: way.node for pod, way in found.state.ways.items()} == {0: 3, 1: 2}


def test_no_more_attempts_than_asked_for():
    assert not put_making_way(emptying([5, 6], within([2, 3], 3), within([2], 5)), [1], 0)


def test_what_has_no_room_at_all_is_given_up():
    assert not put_making_way(emptying([5, 2], within([2], 3), within([2], 4)), [1], 100)


def test_of_sources_that_claim_the_same_one_is_emptied():
    """Of node 0 all pods may go, one part, or another part; the whole and the first part exclude each other."""
    problem = cluster([0, 0, 9, 9], {0: [1], 1: [1]})
    whole, part = Source(0, (0,), 1, takes=(), claims=(0, 1)), Source(0, (1,), 1, takes=(), claims=(1,))
    assert len(consolidate(dataclasses.replace(problem, sources=(whole, part)), 20).emptied) == 1
    apart = dataclasses.replace(part, claims=(2,))
    assert len(consolidate(dataclasses.replace(problem, sources=(whole, apart)), 20).emptied) == 2
