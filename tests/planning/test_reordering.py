"""A small cluster is planned several times, pods that found no place first; the best plan stands in the end."""

from __future__ import annotations

import pytest

from rescheduler.planning.limits import EFFORT, PlanningInputs
from rescheduler.planning.reordering import ATTEMPTS, Attempt, AttemptOrder, attempts, plan_best
from rescheduler.policies.proposals import Candidate
from rescheduler.policies.registry import REGISTRY
from rescheduler.testing import builders as b

POLICY = REGISTRY["NodeTaints"].build(REGISTRY["NodeTaints"].args())


def stuck(*names):
    """Of these pods each found no place."""
    pods = [b.pod(name).on("n0").build() for name in names]
    return [(POLICY, Candidate(pod=p, policy="NodeTaints", reason="R", message="", gain=1.0)) for p in pods]


class Plans:
    """Stands for a planner: the values of its plans one after the other, and who found no place in each."""

    def __init__(self, *made):
        self.made = list(made)
        self.orders: list[tuple[str, ...]] = []
        self.large: list[bool] = []
        self.tight: list[bool] = []

    def __call__(self, order: AttemptOrder) -> Attempt:
        self.orders.append(tuple(candidate.pod.name for _, candidate in order.first))
        self.large.append(order.large)
        self.tight.append(order.tight)
        value, names = self.made[min(len(self.orders), len(self.made)) - 1]
        found = stuck(*names)
        return Attempt(((value,),), found, frozenset(c.pod.uid for _, c in found))


def test_where_all_found_a_place_there_is_one_plan():
    plans = Plans((-3, ()))
    plan_best(plans, 8)
    assert plans.orders == [()]


def test_who_found_no_place_is_planned_first_next_time():
    plans = Plans((-3, ("a", "b")), (-4, ("b",)), (-5, ()))
    plan_best(plans, 8)
    assert plans.orders == [(), ("a", "b"), ("b", "a")], "who was stuck most often comes first"
    assert plans.large == [False, True, False]


def test_the_best_plan_is_made_once_more_if_it_was_not_the_last():
    plans = Plans((-3, ("a",)), (-9, ("b",)), (-1, ("b",)), (-1, ("b",)), (-1, ("b",)))
    plan_best(plans, 8)
    assert plans.orders[-1] == plans.orders[1] == ("a",)
    assert plans.large[-1] == plans.large[1]


def test_after_six_in_a_row_that_are_no_better_there_are_no_more():
    plans = Plans((-3, ("a",)))
    plan_best(plans, 8)
    assert plans.orders == [(), *[("a",)] * 6, ()]


def test_attempts_differ_in_how_closely_pods_stand_and_who_makes_room():
    plans = Plans(*((-n, ("a",)) for n in range(20)))
    plan_best(plans, 4)
    assert (plans.large[0], plans.tight[0]) == (False, False), "first as the scheduler would put them"
    assert len(set(zip(plans.large[1:], plans.tight[1:], strict=True))) == 4


def test_later_attempts_try_other_orders_the_same_every_time():
    names = tuple("abcdefgh")
    first, again = (Plans(*((-n, names) for n in range(20))) for _ in range(2))
    for plans in (first, again):
        plan_best(plans, 12)
    assert first.orders == again.orders
    assert first.orders[1] == first.orders[2] == names
    assert len(set(first.orders[4:])) > 1
    assert {frozenset(order) for order in first.orders[1:]} == {frozenset(names)}


def test_no_more_than_so_many():
    plans = Plans(*((-n, ("a",)) for n in range(20)))
    plan_best(plans, 5)
    assert len(plans.orders) == 6


@pytest.mark.parametrize(
    ("pods", "effort", "expected"),
    [(0, EFFORT, ATTEMPTS), (375, EFFORT, ATTEMPTS), (1_000, EFFORT, 6), (6_001, EFFORT, 0), (150_000, EFFORT, 0),
     (100, 1, 0), (100, 10 * EFFORT, 10 * ATTEMPTS), (10_000, 10 * EFFORT, 6)],
)  # fmt: skip
def test_how_often_is_a_matter_of_size_and_effort(pods, effort, expected):
    assert attempts(pods, effort) == expected


def test_a_pod_that_may_go_to_one_node_only_is_not_kept_out_by_one_that_may_go_anywhere(decide, app):
    """Both must leave n0; any-0, which is asked first, would take the last room of n1, the only node for x-0."""
    cluster = b.snapshot(
        b.node("n0").taint("old"), b.node("n1").cpu("1").label(kind="x"), b.node("n2").cpu("1"),
        app("any", ["n0"], lambda s: s.cpu("1")),
        app("x", ["n0"], lambda s: s.cpu("1").node_selector({"kind": "x"})),
    )  # fmt: skip
    once = decide(cluster, "NodeTaints", inputs=PlanningInputs(unlimited=True, effort=1))
    assert [m.pod.name for m in once.moves] == ["any-0"]
    made = decide(cluster, "NodeTaints", inputs=PlanningInputs(unlimited=True))
    assert {m.pod.name: m.target for m in made.moves} == {"any-0": "n2", "x-0": "n1"}


def test_what_is_planned_again_leaves_no_trace(decide, app):
    """No pod has a place: several plans are made, and the limits are as full as after one."""
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
