"""Skipped pods are counted without being written out, and both say the same."""

import dataclasses
from collections import Counter

import msgspec
import pytest

from harness import builders as b
from rescheduler.model.names import ANNOTATION_EVICT, POD_GROUP_LABELS
from rescheduler.model.selectors import LabelSet
from rescheduler.planning.limits import Limits, PlanningInputs, disruption_weight
from rescheduler.planning.planner import decide, plan
from rescheduler.policies.registry import REGISTRY
from rescheduler.scheduling.state import SchedulingState


def cluster():
    """Two full nodes of which one is tainted, an empty one, and a budget that allows nothing."""
    nodes = [b.node("n0").cpu("4").taint("gpu", "true"), b.node("n1").cpu("4"), b.node("n2").cpu("4")]
    web, db = (b.replicaset(name).cpu("300m").replicas(6) for name in ("web", "db"))
    pods = [owner.pod(f"{i}-{k}").on(f"n{k % 2}") for i, owner in enumerate((web, db)) for k in range(6)]
    return b.snapshot(*nodes, web, db, *pods, b.pdb("db").allows(0))


def decided(*names, **limits):
    snapshot = cluster()
    policies = [REGISTRY[name].build(REGISTRY[name].args()) for name in names]
    return decide(snapshot, policies, PlanningInputs(limits=Limits(**limits)), SchedulingState(snapshot))


@pytest.mark.crossed
@pytest.mark.parametrize("moves", [0, 1, 2, 20])
@pytest.mark.parametrize("names", [
    ("NodeTaints",),
    ("NodeTaints", "LowNodeUtilization"),
    ("LowNodeUtilization", "NodeTaints"),
    ("HighNodeUtilization",),
    ("NodeTaints", "HighNodeUtilization"),
])  # fmt: skip
def test_counts_are_those_of_the_records(names, moves):
    made = decided(*names, moves_at_once=moves, per_node=20, per_namespace=20, per_workload=20)
    skipped = made.plan().skipped
    assert made.skipped.tally().reasons == Counter((s.reason, s.blocked_by) for s in skipped)
    uids = [s.pod.uid for s in skipped] + [m.pod.uid for m in made.moving.moves]
    assert len(set(uids)) == len(uids)


def _changed(snapshot, **kinds):
    """Each object of ``kinds`` with other values for some of its fields."""
    return dataclasses.replace(
        snapshot,
        **{
            kind: {
                key: msgspec.structs.replace(one, **fields) for key, one in getattr(snapshot, kind).items()
            }
            for kind, fields in kinds.items()
        },
    )


@pytest.mark.parametrize("kinds", [
    {},
    {"workloads": {"rolling_out": True}},
    {"workloads": {"deleting": True}},
    {"workloads": {"replicas": 0}},
    {"nodes": {"do_not_disrupt": True}},
    {"pods": {"annotations": LabelSet({ANNOTATION_EVICT: "false"})}},
    {"pods": {"labels": LabelSet({POD_GROUP_LABELS[0]: "gang"})}},
    {"pods": {"controller": None}},
], ids=str)  # fmt: skip
def test_counts_of_a_second_decision_are_those_of_a_first_one(kinds):
    policies = [REGISTRY[name].build(REGISTRY[name].args()) for name in ("NodeTaints", "LowNodeUtilization")]
    inputs = PlanningInputs(limits=Limits(moves_at_once=1))
    before = cluster()
    state = SchedulingState(before)
    first = decide(before, policies, inputs, state).skipped.tally()
    later = _changed(before, **kinds)
    again, anew = (decide(later, policies, inputs, one) for one in (state, SchedulingState(later)))
    found = again.skipped.tally()
    assert found == anew.skipped.tally()
    assert found.reasons == Counter((s.reason, s.blocked_by) for s in again.plan().skipped)
    assert (found == first) is (not kinds)


@pytest.mark.parametrize("young", [0, 1, 3])
def test_pods_of_a_class_are_counted_by_what_their_moves_cost_at_that_time(young):
    weight = disruption_weight(0.5)
    inputs = PlanningInputs(
        limits=Limits(moves_at_once=0, minimum_gain=0.8 - 0.08 * weight)
    )  # only young ones
    policies = [REGISTRY["NodeTaints"].build(REGISTRY["NodeTaints"].args())]
    snapshot = cluster()
    now_s = snapshot.taken_at_s
    pods = dict(snapshot.pods)
    for number, (key, pod) in enumerate(sorted(pods.items())):
        ready_since_s = now_s - (590 if number % 6 < 2 * young else 9000)
        pods[key] = msgspec.structs.replace(pod, ready_since_s=ready_since_s).with_state(ready=True)
    snapshot = dataclasses.replace(snapshot, pods=pods, budgets={})
    state = SchedulingState(snapshot)
    for passed_s, worth in ((0.0, 2 * young), (20.0, 0), (-8000.0, 0)):
        later = dataclasses.replace(snapshot, taken_at_s=now_s + passed_s)
        found = decide(later, policies, inputs, state).skipped.tally().reasons
        assert found["GainTooSmall", "minimumGain"] == 6 - worth
        assert found["LimitMovesAtOnce", "limits.movesAtOnce"] == worth


def test_what_was_left_is_told_with_its_reason():
    made = decided("NodeTaints", moves_at_once=1)
    assert len(made.moving.moves) == 1
    assert made.moving.skipped == ()
    assert made.skipped.tally().reasons == {
        ("DisruptionBudget", "default/db"): 3,
        ("LimitMovesAtOnce", "limits.movesAtOnce"): 2,
    }
    assert [s.pod.name for s in made.plan().skipped] == sorted(s.pod.name for s in made.plan().skipped)


def test_a_plan_written_out_twice_is_the_same():
    made = decided("NodeTaints", "LowNodeUtilization", moves_at_once=1)
    assert made.plan() == made.plan()


@pytest.mark.parametrize("budget", [False, True])
def test_who_does_not_look_ahead_may_still_say_what_is_in_the_way(budget):
    web = b.replicaset("web").cpu("1").replicas(1)
    held = [b.node("n1").cpu("2"), b.node("n2").cpu("1"), web, web.pod("web-1").on("n1")]
    if budget:
        held.append(b.pdb("web"))
    snapshot = b.snapshot(*held, b.pod("big").cpu("2" if budget else "8").unschedulable())
    policies = [REGISTRY["PendingPods"].build(REGISTRY["PendingPods"].args())]
    arguments = (snapshot, policies, PlanningInputs(), SchedulingState(snapshot))
    told = decide(*arguments, explains=True).skipped.tally().reasons
    assert told == {("DisruptionBudget", "default/web") if budget else ("NoTarget", "NodeResourcesFit"): 1}
    assert told == Counter((s.reason, s.blocked_by) for s in plan(*arguments).skipped)
    assert decide(*arguments).skipped.tally().reasons == {("NoTarget", ""): 1}
