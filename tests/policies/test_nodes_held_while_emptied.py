"""A node that an earlier decision has begun to empty, and holds, is emptied further; a decision says which it goes on with."""

import dataclasses

import msgspec
import pytest

from harness import builders as b
from rescheduler.model.kept_empty import Hold, KeptEmpty
from rescheduler.model.names import DO_NOT_DISRUPT
from rescheduler.model.selectors import LabelSet
from rescheduler.planning.decided import BeingEmptied
from rescheduler.planning.limits import Limits, PlanningInputs
from rescheduler.planning.planner import decide
from rescheduler.policies.high_node_utilization import HighNodeUtilization, HighNodeUtilizationArgs
from rescheduler.scheduling.state import SchedulingState

N1 = BeingEmptied("HighNodeUtilization", "n1")
KEPT = LabelSet({DO_NOT_DISRUPT: "true"})
LIMITED = PlanningInputs(limits=Limits(moves_at_once=9, per_node=9, per_workload=9))


def held(cluster, hold=Hold.CORDONED, **more):
    """The same with n1 held."""
    kept = {"kept_empty": KeptEmpty(hold, 9e9), "unschedulable": hold is Hold.CORDONED}
    node = msgspec.structs.replace(cluster.nodes["n1"], **kept | more)
    return dataclasses.replace(cluster, nodes={**cluster.nodes, "n1": node})


def two(app, *others, cpu="100m", full="500m"):
    return b.snapshot(
        b.node("n1"), b.node("n2"), app("a", ["n1"] * 3, lambda spec: spec.cpu(cpu)),
        app("b", ["n2"] * 4, lambda spec: spec.cpu(full)), *others,
    )  # fmt: skip


def decided(cluster, inputs=LIMITED, **args):
    args = {"thresholds": {"cpu": 30.0}, "target_thresholds": {"cpu": 90.0}} | args
    policy = HighNodeUtilization(HighNodeUtilizationArgs(**args))
    return decide(cluster, [policy], inputs, SchedulingState(cluster))


@pytest.mark.parametrize("hold", [Hold.CORDONED, Hold.TAINTED])
def test_its_other_pods_leave_and_none_comes(app, hold):
    found = decided(held(two(app), hold))
    assert [move.target for move in found.moving.moves] == ["n2"]
    assert found.emptying == {N1}


@pytest.mark.parametrize("others", [
    {"kept_empty": KeptEmpty(Hold.GIVEN_BACK, 9e9)},
    {"kept_empty": None},
    {"ready": False},
    {"deleting": True},
], ids=["given back, and cordoned by somebody else", "no note", "not ready", "goes"])  # fmt: skip
def test_a_node_that_somebody_else_cordons_is_left_alone(app, others):
    found = decided(held(two(app), **others))
    assert found.moving.moves == ()
    assert found.emptying == frozenset()


def test_a_cordon_over_our_taint_is_somebody_elses(app):
    assert decided(held(two(app), Hold.TAINTED, unschedulable=True)).emptying == frozenset()


def test_fewer_nodes_than_the_policy_wants_to_begin_with_end_no_emptying(app):
    assert decided(two(app), number_of_nodes=2).moving.moves == ()
    assert len(decided(held(two(app)), number_of_nodes=2).moving.moves) == 1


@pytest.mark.parametrize(
    ("limits", "moves"),
    [({"moves_at_once": 0}, 0), ({"per_node": 1}, 1), ({"moves_per_hour": 0}, 0)],
    ids=["no move at once is left", "one from each node", "no move of this hour is left"],
)
def test_what_only_limits_hold_up_goes_on(app, limits, moves):
    limits = msgspec.structs.replace(LIMITED.limits, **limits)
    found = decided(held(two(app)), PlanningInputs(limits=limits))
    assert len(found.moving.moves) == moves
    assert found.emptying == {N1}


def test_what_waits_for_its_budget_goes_on(app):
    found = decided(held(two(app, b.pdb("a").allows(0, healthy=3))))
    assert found.moving.moves == ()
    assert found.emptying == {N1}


def test_what_has_no_room_any_more_does_not(app):
    assert decided(held(two(app, full="875m"))).emptying == frozenset()


def test_what_is_protected_does_not(app):
    """The pods stay, so the node is given back."""
    cluster = held(two(app))
    pods = {key: msgspec.structs.replace(pod, annotations=KEPT) for key, pod in cluster.pods.items()}
    assert decided(dataclasses.replace(cluster, pods=pods)).emptying == frozenset()


def test_what_is_too_full_now_does_not(app):
    assert decided(held(two(app, cpu="600m", full="100m"))).emptying == frozenset()
