"""PodDisruptionBudgets as the eviction subresource judges them, our own limits, rest and back-off."""

import dataclasses

import msgspec
import pytest

from harness import builders as b
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.names import ANNOTATION_COOLDOWN, CREATED_BY, LABEL_CREATED_BY, LABEL_WORKLOAD_UID
from rescheduler.model.past_moves import PastMove
from rescheduler.model.selectors import LabelSet
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.limits import Limits, PlanningInputs
from tests import records


def tainted(app, count=3, name="web", namespace="default", node="n1"):
    """Pods on a node that they should leave."""
    return app(name, [node] * count, namespace=namespace)


NODES = (b.node("n1").taint("old"), b.node("n2"), b.node("n3"))


def reasons(plan):
    return sorted(str(s.reason) for s in plan.skipped)


@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_the_budget_is_spent_and_never_overrun(decide, app, allowed):
    plan = decide(b.snapshot(*NODES, tainted(app), b.pdb("web").allows(allowed)), "NodeTaints")
    assert len(plan.moves) == allowed
    assert reasons(plan) == ["DisruptionBudget"] * (3 - allowed)
    assert {s.blocked_by for s in plan.skipped} <= {"default/web"}
    said = "allows 1 disruption now" if allowed == 1 else f"allows {allowed} disruptions now"
    assert all(said in s.message for s in plan.skipped)


def test_the_buffer_is_left_in_the_budget(decide, app):
    inputs = PlanningInputs(limits=Limits(budget_buffer=1), unlimited=True)
    plan = decide(b.snapshot(*NODES, tainted(app), b.pdb("web").allows(2)), "NodeTaints", inputs=inputs)
    assert len(plan.moves) == 1


def test_two_budgets_block_for_good(decide, app):
    budgets = [b.pdb("web").allows(3), b.pdb("all").selects(app="web").allows(3)]
    plan = decide(b.snapshot(*NODES, tainted(app), budgets), "NodeTaints")
    assert reasons(plan) == ["MultipleDisruptionBudgets"] * 3
    assert plan.skipped[0].blocked_by == "default/all, default/web"


def test_a_budget_that_was_not_evaluated_blocks(decide, app):
    stale = b.pdb("web").allows(3).set("metadata.generation", 2)
    assert reasons(decide(b.snapshot(*NODES, tainted(app), stale), "NodeTaints")) == ["DisruptionBudget"] * 3


@pytest.mark.parametrize(("budget", "free"), [
    (b.pdb("web").allows(0, healthy=2, desired=2), True),
    (b.pdb("web").allows(0, healthy=1, desired=2), False),
    (b.pdb("web") .allows(0, healthy=1, desired=2) .set("spec.unhealthyPodEvictionPolicy", "AlwaysAllow"), True),
])  # fmt: skip
def test_pods_that_are_not_ready(app, budget, free):
    _, pod = app("web", ["n1"])
    cluster = b.snapshot(*NODES, pod.not_ready(), budget)
    (record,) = cluster.pods.values()
    assert (BudgetLedger(cluster).refusal(record) is None) is free


@pytest.mark.parametrize(("limits", "reason", "moves"), [
    (Limits(moves_at_once=2, per_node=9, per_namespace=9, per_workload=9), "LimitMovesAtOnce", 2),
    (Limits(moves_at_once=9, moves_per_hour=1, per_node=9, per_workload=9), "LimitMovesPerHour", 1),
    (Limits(moves_at_once=9, per_node=1, per_workload=9), "LimitPerNode", 1),
    (Limits(moves_at_once=9, per_node=9, per_namespace=2, per_workload=9), "LimitPerNamespace", 2),
    (Limits(moves_at_once=9, per_node=9, per_workload=1), "LimitPerWorkload", 1),
    (Limits(moves_at_once=0), "LimitMovesAtOnce", 0),
])  # fmt: skip
def test_each_limit_is_named(decide, app, limits, reason, moves):
    cluster = b.snapshot(*NODES, tainted(app), b.pdb("web").allows(3))
    plan = decide(cluster, "NodeTaints", inputs=PlanningInputs(limits=limits))
    assert len(plan.moves) == moves
    assert reasons(plan) == [reason] * (3 - moves)


def finished(cluster, pod_name, phase, ago_s, **status):
    """The cluster with a migration of a pod in its past."""
    pod = next(p for p in cluster.pods.values() if p.name == pod_name)
    at = cluster.taken_at_s - ago_s
    named = {"name": f"m-{pod_name}-{ago_s}", "uid": "", "labels": {LABEL_WORKLOAD_UID: pod.controller.uid}}
    times = {"created_at_s": at, "started_at_s": at, "finished_at_s": at}
    migration = records.move_of(pod, phase, **named, **times, **status)
    return dataclasses.replace(cluster, migrations={**cluster.migrations, migration.key: migration})


def test_a_moved_workload_rests(decide, app):
    cluster = finished(b.snapshot(*NODES, tainted(app)), "web-0", MigrationPhase.SUCCEEDED, 600)
    assert reasons(decide(cluster, "NodeTaints")) == ["WorkloadCooldown"] * 3
    rested = finished(b.snapshot(*NODES, tainted(app)), "web-0", MigrationPhase.SUCCEEDED, 2000)
    assert len(decide(rested, "NodeTaints").moves) == 3


def annotated(cluster, value):
    """The cluster whose workloads ask for so much rest between moves."""
    marks = LabelSet({ANNOTATION_COOLDOWN: value})
    known = {uid: msgspec.structs.replace(w, annotations=marks) for uid, w in cluster.workloads.items()}
    return dataclasses.replace(cluster, workloads=known)


@pytest.mark.parametrize(("value", "moves"), [("6h", 0), ("30m", 3), ("1m", 3), ("0", 3)])
def test_the_owner_of_a_workload_can_ask_for_a_longer_rest(decide, app, value, moves):
    cluster = finished(b.snapshot(*NODES, tainted(app)), "web-0", MigrationPhase.SUCCEEDED, 4 * 3600)
    assert len(decide(annotated(cluster, value), "NodeTaints").moves) == moves


def test_nobody_can_ask_for_less_rest_than_the_configuration(decide, app):
    cluster = finished(b.snapshot(*NODES, tainted(app)), "web-0", MigrationPhase.SUCCEEDED, 600)
    assert reasons(decide(annotated(cluster, "0s"), "NodeTaints")) == ["WorkloadCooldown"] * 3


@pytest.mark.parametrize("value", ["6 hours", "-1h", ""])
def test_a_rest_that_cannot_be_read_holds_the_workload_and_says_so(decide, app, value):
    plan = decide(annotated(b.snapshot(*NODES, tainted(app)), value), "NodeTaints")
    assert reasons(plan) == ["WorkloadCooldown"] * 3
    assert "rescheduler.dev/workload-cooldown" in plan.skipped[0].message


def test_a_failed_move_backs_off_longer_each_time(decide, app):
    cluster = b.snapshot(*NODES, tainted(app))
    once = finished(cluster, "web-0", MigrationPhase.FAILED, 90)
    assert len(decide(once, "NodeTaints").moves) == 3
    why = {"reason": "ReservationFailed", "message": "the placeholder is not as asked"}
    once = finished(cluster, "web-0", MigrationPhase.FAILED, 90, **why)
    twice = finished(once, "web-0", MigrationPhase.FAILED, 1000)
    plan = decide(twice, "NodeTaints")
    assert [(s.pod.name, str(s.reason)) for s in plan.skipped] == [("web-0", "MoveBackoff")]
    assert "(ReservationFailed: the placeholder is not as asked)" in plan.skipped[0].message


def test_moves_under_way_hold_their_target_and_their_budget(decide, app):
    cluster = b.snapshot(
        b.node("n1").taint("old"), b.node("n2").pods(1), tainted(app, 2), b.pdb("web").allows(1)
    )
    pod = next(p for p in cluster.pods.values() if p.name == "web-0")
    under_way = records.move_of(pod, MigrationPhase.RESERVING, target_node="n2", node_name="n2")
    cluster = dataclasses.replace(cluster, migrations={under_way.key: under_way})
    plan = decide(cluster, "NodeTaints")
    assert plan.moves == ()
    assert {s.pod.name: str(s.reason) for s in plan.skipped} == {"web-1": "DisruptionBudget"}


def test_a_pod_that_was_asked_to_move_twice_is_counted_once(decide, app):
    cluster = b.snapshot(b.node("n1").taint("old"), b.node("n2"), b.node("n3"), tainted(app, 2))
    pod = next(p for p in cluster.pods.values() if p.name == "web-0")
    asked = [
        records.move_of(
            pod, MigrationPhase.RESERVING, name=f"to-{target}", target_node=target, node_name=target
        )
        for target in ("n2", "n3")
    ]
    cluster = dataclasses.replace(cluster, migrations={m.key: m for m in asked})
    assert [move.pod.name for move in decide(cluster, "NodeTaints").moves] == ["web-1"]


@pytest.mark.parametrize(("limits", "reason"), [
    (Limits(moves_at_once=1), "LimitMovesAtOnce"),
    (Limits(per_node=1, per_workload=9), "LimitPerNode"),
    (Limits(per_namespace=1, per_workload=9), "LimitPerNamespace"),
    (Limits(per_workload=1), "LimitPerWorkload"),
])  # fmt: skip
def test_a_move_counts_in_each_limit_until_its_replacement_has_landed(decide, app, limits, reason):
    cluster = b.snapshot(*NODES, tainted(app), b.pdb("web").allows(3))
    labels = {LABEL_CREATED_BY: CREATED_BY, LABEL_WORKLOAD_UID: next(iter(cluster.workloads.values())).uid}
    began = {"source_node": "n1", "started_at_s": cluster.taken_at_s - 5}
    gone = {"pod_name": "gone", "pod_uid": "gone", "policy": "NodeTaints", "labels": labels}
    move = records.move("m", MigrationPhase.HANDING_OVER, **gone, **began)
    cluster = dataclasses.replace(cluster, migrations={move.key: move})
    plan = decide(cluster, "NodeTaints", inputs=PlanningInputs(limits=limits))
    assert not plan.moves
    assert reasons(plan) == [reason] * 3


def test_a_workload_rests_once_the_end_of_its_move_is_written(decide, app):
    """Though the cache still shows the move under way."""
    cluster = b.snapshot(*NODES, tainted(app), b.pdb("web").allows(3))
    workload, now_s = next(iter(cluster.workloads.values())).uid, cluster.taken_at_s
    gone = {"pod_name": "gone", "pod_uid": "gone", "source_node": "n1", "started_at_s": now_s - 9}
    move = records.move("m", MigrationPhase.EVICTING, **gone)
    ended = PastMove(begun_s=now_s - 9, evicting_s=now_s - 5, ended_s=now_s - 2, workload_uid=workload)
    cluster = dataclasses.replace(cluster, migrations={move.key: move}, past_moves={"m": ended})
    plan = decide(cluster, "NodeTaints", inputs=PlanningInputs(limits=Limits(per_workload=9)))
    assert not plan.moves
    assert reasons(plan) == ["WorkloadCooldown"] * 3
