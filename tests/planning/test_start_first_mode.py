"""Workloads that start first: their budgets are not spent, their rooms are counted once, they are not pinned for ever."""

import dataclasses

import pytest

from harness import builders as b
from rescheduler.model.migration import MigrationPhase, MoveMode
from rescheduler.model.names import ANNOTATION_MODE, LABEL_START_FIRST
from rescheduler.model.reservation import ObjectRef
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.plan import SkipReason
from rescheduler.planning.start_first_mode import StartFirst
from rescheduler.replacements.replacement import Replacements
from tests import records

NODES = (b.node("n1").taint("old"), b.node("n2"), b.node("n3"))


def web(says="StartFirst", *, on=("n1",), strategy=None):
    above = b.deployment("web").replicas(len(on))
    if says:
        above = above.annotate({ANNOTATION_MODE: says})
    if strategy:
        above = above.set("spec.strategy", strategy)
    owner = b.replicaset("web-1").template_label({"app": "web", "pod-template-hash": "1"}).replicas(len(on))
    owner = owner.owned_by(above)
    pods = [owner.pod(f"web-1-{i}").on(node) for i, node in enumerate(on)]
    return [above, owner, *pods, b.pdb("web").selects(app="web").allows(0, healthy=len(on))]


@pytest.mark.parametrize(("says", "mode", "strategy", "moves"), [
    ("StartFirst", MoveMode.AUTO, None, 1),
    ("", MoveMode.AUTO, None, 0),
    ("", MoveMode.START_FIRST, None, 1),
    ("ReserveFirst", MoveMode.START_FIRST, None, 0),
    ("StartFirst", MoveMode.RESERVE_FIRST, None, 0),
    ("StartFirst", MoveMode.AUTO, {"type": "Recreate"}, 0),
])  # fmt: skip
def test_a_budget_that_allows_nothing_binds_only_those_that_do_not_start_first(
    decide, says, mode, strategy, moves
):
    inputs = PlanningInputs(unlimited=True, mode=mode)
    plan = decide(b.snapshot(*NODES, web(says, strategy=strategy)), "NodeTaints", inputs=inputs)
    assert [m.mode for m in plan.moves] == [MoveMode.START_FIRST] * moves
    assert [str(s.reason) for s in plan.skipped] == ["DisruptionBudget"] * (1 - moves)


@pytest.mark.parametrize(("says", "mode", "declared", "moves"), [
    ("", MoveMode.AUTO, {"NodeTaints": MoveMode.START_FIRST}, 1),
    ("", MoveMode.RESERVE_FIRST, {"NodeTaints": MoveMode.START_FIRST}, 1),
    ("ReserveFirst", MoveMode.AUTO, {"NodeTaints": MoveMode.START_FIRST}, 0),
    ("", MoveMode.AUTO, {"NodeAffinity": MoveMode.START_FIRST}, 0),
    ("", MoveMode.START_FIRST, {"NodeTaints": MoveMode.RESERVE_FIRST}, 0),
    ("StartFirst", MoveMode.AUTO, {"NodeTaints": MoveMode.RESERVE_FIRST}, 0),
])  # fmt: skip
def test_what_a_policy_declares_goes_before_the_configuration_and_after_the_owner(
    decide, says, mode, declared, moves
):
    inputs = PlanningInputs(unlimited=True, mode=mode, modes=declared)
    plan = decide(b.snapshot(*NODES, web(says)), "NodeTaints", inputs=inputs)
    assert [m.mode for m in plan.moves] == [MoveMode.START_FIRST] * moves
    assert [str(s.reason) for s in plan.skipped] == ["DisruptionBudget"] * (1 - moves)


def test_a_budget_is_spent_by_the_policies_that_declare_nothing_only():
    cluster = b.snapshot(*NODES, web("", on=("n1",))[:-1], b.pdb("web").allows(1, healthy=1))
    (pod,) = cluster.pods.values()
    start_first = StartFirst(cluster, MoveMode.AUTO, {"NodeTaints": MoveMode.START_FIRST})
    ledger = BudgetLedger(cluster, free=start_first.keeps_budgets)
    ledger.take(pod, "NodeTaints")
    assert ledger.refusal(pod, "NodeAffinity") is None
    ledger.take(pod, "NodeAffinity")
    assert ledger.refusal(pod, "NodeTaints") is None
    assert ledger.refusal(pod, "NodeAffinity").reason is SkipReason.DISRUPTION_BUDGET
    ledger.give_back(pod, "NodeAffinity")
    assert ledger.refusal(pod, "NodeAffinity") is None


def test_two_budgets_block_these_pods_too(decide):
    second = b.pdb("all").selects(app="web").allows(3)
    plan = decide(b.snapshot(*NODES, web(), second), "NodeTaints")
    assert [str(s.reason) for s in plan.skipped] == ["MultipleDisruptionBudgets"]


def test_a_replica_set_of_its_own_spends_its_budget():
    owner = b.replicaset("web").annotate({ANNOTATION_MODE: "StartFirst"})
    cluster = b.snapshot(*NODES, owner, owner.pod("web-0").on("n1"))
    (pod,) = cluster.pods.values()
    start_first = StartFirst(cluster, MoveMode.AUTO)
    assert start_first.takes(pod)
    assert not start_first.keeps_budgets(pod)


def test_the_next_pod_of_a_moved_one_is_not_pinned():
    owner = b.replicaset("web").owned_by(b.deployment("web"))
    moved = owner.pod("web-0").on("n1").label({LABEL_START_FIRST: "m"})
    pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    moved = moved.set(
        "spec.affinity",
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [pin]}}},
    )
    cluster = b.snapshot(*NODES, owner, moved)
    (pod,) = cluster.pods.values()
    assert pod.spec.node_affinity is not None
    assert Replacements(cluster).of(pod).pod.spec.node_affinity is None


def test_a_replacement_that_stands_already_is_counted_once(decide):
    """Room for one pod more on n2: the replacement of the move under way has taken the other already."""
    small = (b.node("n1").taint("old"), b.node("n2"))
    above = b.deployment("web").replicas(1).annotate({ANNOTATION_MODE: "StartFirst"})
    owner = b.replicaset("web-1").cpu("2").template_label({"pod-template-hash": "1"}).owned_by(above)
    other = b.replicaset("api").cpu("2")
    orphan = b.pod("web-1-x").cpu("2").on("n2").label({"app": "web", LABEL_START_FIRST: "m"})
    cluster = b.snapshot(
        *small, above, owner, owner.pod("web-1-a").on("n1"), other, other.pod("api-0").on("n1"), orphan
    )
    comes = {"mode": MoveMode.START_FIRST, "replacement": ObjectRef("default", "web-1-x", "x")}
    places = {"pod_name": "web-1-a", "target_node": "n2", "node_name": "n2"}
    migration = records.move("m", MigrationPhase.EVICTING, **places, **comes)
    plan = decide(dataclasses.replace(cluster, migrations={migration.key: migration}), "NodeTaints")
    assert [m.pod.name for m in plan.moves] == ["api-0"]
