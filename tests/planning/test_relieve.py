"""The search for moves that relieve overloaded nodes: large pods where they fit, within its moves, always the same."""

import numpy as np

from rescheduler.planning.problem import MovablePod, SearchProblem, Strain
from rescheduler.planning.relieve import Relieve


def problem(above, pods, **more):
    """One resource, nodes that hold 100. ``above``: by node. ``pods``: (node, what it takes), which every node allows."""
    row = np.array([above], dtype=np.float64)
    hundred = np.full_like(row, 100.0)
    return SearchProblem(
        free=-row,
        whole=hundred,
        receives=row[0] < 0,
        strain=Strain(row, hundred, (1,)),
        pods=[
            MovablePod(
                node,
                ((0, float(size)),),
                lambda: np.ones(len(above), dtype=np.bool_),
                takes=(float(size),),
                **given,
            )
            for node, size, given in (one if len(one) == 3 else (*one, {}) for one in pods)
        ],
        **more,
    )


def relieve(problem, passes, least=0.0):
    """(pod, node), those first that relieve most."""
    operator = Relieve(problem, least)
    found = operator.search(passes)
    return [(pod, found.ways[pod].node) for pod in operator.in_order(found)]


def test_one_large_pod_goes_rather_than_many_small_ones():
    found = relieve(problem([30, -30], [(0, 10), (0, 10), (0, 10), (0, 30)]), 16)
    assert found == [(3, 1)]


def test_no_node_receives_more_than_it_has_room_for():
    found = relieve(problem([50, -20, -20], [(0, 15)] * 5), 16)
    assert sorted(node for _, node in found) == [1, 2]


def test_a_pod_that_relieves_less_leaves_its_room_to_two_that_relieve_more():
    pods = [(0, 29), (1, 20), (1, 20)]
    first, best = ([pod for pod, _ in relieve(problem([40, 40, -40], pods), passes)] for passes in (1, 16))
    assert first == [0]
    assert sorted(best) == [1, 2]


def test_the_moves_are_limited_and_the_best_ones_are_made():
    found = relieve(problem([60, -60], [(0, 10), (0, 30), (0, 20)], most_moves=2), 16)
    assert [pod for pod, _ in found] == [1, 2]


def test_a_budget_is_not_overspent():
    pods = [(0, 20, {"budgets": (0,)}), (0, 20, {"budgets": (0,)}), (0, 10)]
    found = relieve(problem([60, -60], pods, budgets=[1]), 16)
    assert sorted(pod for pod, _ in found) in ([0, 2], [1, 2])


def test_the_same_input_gives_the_same_moves():
    pods = [(i % 3, 5 + 7 * i % 23) for i in range(40)]
    given = problem([40, 35, 30, -25, -25, -30], pods)
    assert relieve(given, 16) == relieve(given, 16)


def test_nothing_is_above_its_target():
    assert relieve(problem([-10, -10], [(0, 5)]), 16) == []


def test_the_fullest_node_is_relieved_first():
    found = relieve(problem([44, 7, 7, 7, -44], [(0, 10)] * 5 + [(n, 7) for n in (1, 2, 3)]), 16)
    gone = [pod for pod, _ in found]
    assert [pod for pod in gone if pod < 5] == gone[:3]


def test_what_a_move_does_not_relieve_enough_stays():
    pods = [(0, 10), (0, 1), (1, 1)]
    assert [pod for pod, _ in relieve(problem([11, 1, -30], pods), 16, least=0.02)] == [0]
    assert sorted(pod for pod, _ in relieve(problem([11, 1, -30], pods), 16)) == [0, 1, 2]
