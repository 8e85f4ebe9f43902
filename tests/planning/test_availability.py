"""How many pods of a workload without a PodDisruptionBudget may be unavailable: counted, and kept by plans."""

import dataclasses
from types import MappingProxyType

import pytest

from harness import builders as b
from rescheduler.model.migration import MigrationPhase, MoveMode
from rescheduler.model.names import ANNOTATION_MIGRATION, ANNOTATION_MIGRATION_UID
from rescheduler.model.records import ObjectKey, OwnerRef, PodPhase, PodSpec, Workload
from rescheduler.model.reservation import ControllerRef, ReservationOwner
from rescheduler.model.selectors import LabelSet
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.availability import availability_of, missing_pods
from rescheduler.planning.limits import Limits, PlanningInputs
from tests import records
from tests.records import pod_record

NOW = 1000.0
NODES = (b.node("n1").taint("old"), b.node("n2"), b.node("n3"))
WIDE = Limits(moves_at_once=20, per_node=20, per_namespace=20, per_workload=20, workload_cooldown_s=0.0)


def workload(replicas, kind="Deployment", min_ready_s=0):
    return Workload(
        kind=kind, namespace="default", name="web", uid="w", replicas=replicas, min_ready_s=min_ready_s
    )


def pod(name, owner="rs", **fields):
    base = {"ready": True, "ready_since_s": NOW - 100, "node": "n1", "phase": PodPhase.RUNNING}
    controller = OwnerRef("apps/v1", "ReplicaSet", owner, owner)
    return pod_record(
        namespace="default", name=name, uid=name, spec=PodSpec(), controller=controller, **{**base, **fields}
    )


def pods(count):
    return [pod(f"p{i}") for i in range(count)]


def waits(owner, mine, others=(), *, taken=0, **more):
    """Whether the eviction of ``mine`` must wait."""
    found = availability_of(mine, owner, [mine, *others], NOW, **more)
    return bool(found.refusal(mine, taken))


@pytest.mark.parametrize(
    ("replicas", "most"), [(0, 1), (1, 1), (3, 1), (4, 1), (7, 1), (8, 2), (11, 2), (12, 3), (100, 25)]
)
def test_a_quarter_and_at_least_one(replicas, most):
    mine, *others = pods(max(replicas, 1))
    for taken in range(most + 1):
        assert waits(workload(replicas), mine, others, taken=taken) is (taken >= most and replicas > 0)


@pytest.mark.parametrize("other", [
    pod("p1", ready=False),
    pod("p1", deleting=True),
    pod("p1", phase=PodPhase.FAILED, ready=False),
    pod("p1", node="", phase=PodPhase.PENDING, ready=False),
], ids=["not Ready", "terminating", "failed", "pending"])  # fmt: skip
def test_what_is_not_available_uses_the_limit_up(other):
    assert not waits(workload(3), pod("p0"), [pod("p1"), pod("p2")])
    assert waits(workload(3), pod("p0"), [other, pod("p2")])
    assert waits(workload(3), pod("p0"), [pod("p2")]), "a pod that is missing"
    assert waits(workload(3), pod("p0"), [pod("p1"), pod("p2")], leaving={"p2"}), (
        "an eviction that is decided"
    )


def test_a_pod_that_is_not_ready_moves_and_is_counted_once():
    sick = pod("p0", ready=False)
    assert not waits(workload(3), sick, [pod("p1"), pod("p2")])
    assert not waits(workload(3), sick, [pod("p1", ready=False), pod("p2")])
    assert not waits(workload(8), pod("p1"), [sick, *(pod(f"q{i}") for i in range(6))]), "one of two"
    assert waits(workload(8), pod("p1"), [sick, *(pod(f"q{i}") for i in range(6))], taken=1)


def test_more_pods_than_wanted_give_no_more_than_the_wanted_ones_need():
    mine, *others = pods(5)
    assert not waits(workload(3), mine, others, taken=2), "4 of 3 are left without one"
    assert waits(workload(3), mine, others, taken=3)


def test_available_is_ready_for_min_ready_seconds():
    fresh = pod("p1", ready_since_s=NOW - 9)
    slow = workload(3, min_ready_s=10)
    assert waits(slow, pod("p0"), [fresh, pod("p2")])
    assert not waits(workload(3), pod("p0"), [fresh, pod("p2")])
    found = availability_of(pod("p0"), slow, [fresh, pod("p2")], NOW)
    assert found.settles_at_s == NOW + 2, "whole seconds, so one more"
    assert not waits(slow, fresh, [pod("p0"), pod("p2")]), "it is the one that is unavailable"


@pytest.mark.parametrize("kind", ["Job", "DaemonSet", None])
def test_where_replicas_are_not_known_the_pods_are_counted(kind):
    owner = workload(99, kind) if kind else None
    mine, *others = pods(8)
    assert not waits(owner, mine, others, taken=1)
    assert waits(owner, mine, others, taken=2)
    assert not waits(owner, mine, others[:6], missing=1)
    assert waits(owner, mine, others[:5], missing=2)
    assert not waits(owner, mine, [*others, pod("ended", phase=PodPhase.SUCCEEDED, ready=False)], taken=1)


@pytest.mark.parametrize(("phase", "requested_s", "counts"), [
    (MigrationPhase.HANDING_OVER, 0.0, True),
    (MigrationPhase.EVICTING, NOW, True),
    (MigrationPhase.EVICTING, 0.0, False),
])  # fmt: skip
def test_an_evicted_pod_without_a_replacement_is_missing(phase, requested_s, counts):
    """That it was evicted may be written later than the intent."""
    owner = ReservationOwner(controller=ControllerRef(kind="Custom", uid="c"))
    made_for = LabelSet({ANNOTATION_MIGRATION: "default/m", ANNOTATION_MIGRATION_UID: "m"})
    room = records.room("r", owners=(owner,), annotations=made_for)
    named = {"pod_name": "old", "pod_uid": "old", "reservation_name": "r"}
    move = records.move("m", phase, **named, eviction_requested_at_s=requested_s)

    def missing(**of_the_pod):
        left = {ObjectKey("default", "old"): pod("old", **of_the_pod)} if of_the_pod else {}
        snapshot = Snapshot(
            taken_at_s=NOW,
            pods=MappingProxyType(left),
            reservations=MappingProxyType({"r": room}),
            migrations=MappingProxyType({move.key: move}),
        )
        return missing_pods(snapshot)

    assert missing() == ({"c": 1} if counts else {})
    assert not missing(deleting=True), "still there, and counted as a pod"


def test_the_message_names_workload_numbers_and_what_would_allow_more():
    mine = pod("p0")
    found = availability_of(mine, workload(3), [mine, pod("p1", ready=False), pod("p2")], NOW)
    assert found.refusal(mine).startswith("2 of 3 pods of Deployment default/web are available")
    assert "at most 1 may be unavailable" in found.refusal(mine)
    assert "PodDisruptionBudget" in found.refusal(mine)


# Plans ----------------------------------------------------------------------------------------------


def within_limits():
    return PlanningInputs(limits=WIDE, aggressiveness=1.0)


def blocked(plan):
    return [s for s in plan.skipped if s.reason == "TooFewAvailable"]


@pytest.mark.parametrize(("replicas", "moves"), [(1, 1), (3, 1), (7, 1), (8, 2), (13, 3)])
def test_a_plan_moves_no_more_at_once(decide, app, replicas, moves):
    cluster = b.snapshot(*NODES, app("web", ["n1"] * replicas))
    plan = decide(cluster, "NodeTaints", inputs=within_limits())
    assert len(plan.moves) == moves
    assert {s.blocked_by for s in blocked(plan)} == (
        {"ReplicaSet default/web"} if replicas > moves else set()
    )
    assert len(blocked(plan)) == replicas - moves


def test_a_budget_takes_the_place_of_the_limit(decide, app):
    cluster = b.snapshot(*NODES, app("web", ["n1"] * 3), b.pdb("web").allows(3))
    assert len(decide(cluster, "NodeTaints", inputs=within_limits()).moves) == 3


def test_replicasets_of_one_deployment_share_the_limit(decide):
    deployment = b.deployment("web").replicas(4)
    owners = {name: b.replicaset(name).replicas(2).owned_by(deployment) for name in ("web-1", "web-2")}
    standing = [owner.pod(f"{name}-{i}").on("n1") for name, owner in owners.items() for i in range(2)]
    plan = decide(
        b.snapshot(*NODES, deployment, owners.values(), standing), "NodeTaints", inputs=within_limits()
    )
    assert len(plan.moves) == 1
    assert {s.blocked_by for s in blocked(plan)} == {"Deployment default/web"}


def test_a_pod_that_is_away_leaves_none_to_move_even_as_if_time_passed(decide, app):
    owner, *standing = app("web", ["n1"] * 3)
    sick = [owner, *standing[:2], standing[2].not_ready()]
    for inputs in (within_limits(), None):
        plan = decide(b.snapshot(*NODES, sick), "NodeTaints", inputs=inputs)
        assert [m.pod.name for m in plan.moves] == ["web-2"], "it takes nothing"
        assert len(blocked(plan)) == 2


def test_as_if_time_passed_moves_take_nothing_from_each_other(decide, app):
    assert len(decide(b.snapshot(*NODES, app("web", ["n1"] * 3)), "NodeTaints").moves) == 3


def test_moves_under_way_are_taken_first(decide, app):
    cluster = b.snapshot(*NODES, app("web", ["n1"] * 8))
    for mode, moves in ((MoveMode.RESERVE_FIRST, 1), (MoveMode.START_FIRST, 2)):
        named = {"pod_name": "web-0", "pod_uid": "pod-default-web-0", "node_name": "n2", "mode": mode}
        going = records.move("m", MigrationPhase.RESERVING, **named)
        busy = dataclasses.replace(cluster, migrations=MappingProxyType({going.key: going}))
        assert len(decide(busy, "NodeTaints", inputs=within_limits()).moves) == moves


def test_replacements_that_start_first_take_nothing(decide, app):
    cluster = b.snapshot(*NODES, app("web", ["n1"] * 3))
    inputs = PlanningInputs(limits=WIDE, aggressiveness=1.0, mode=MoveMode.START_FIRST)
    plan = decide(cluster, "NodeTaints", inputs=inputs)
    assert {m.mode for m in plan.moves} == {MoveMode.START_FIRST}
    assert len(plan.moves) == 3


def test_the_limit_cuts_a_group_and_does_not_keep_it(decide, app):
    """A node is emptied over several cycles, as with every other limit of our own."""
    nodes = b.node("n1"), b.node("n2")
    light, heavy = (
        app(n, [on] * count, lambda p: p.cpu("100m")) for n, on, count in (("a", "n1", 3), ("b", "n2", 4))
    )
    cpu = {"thresholds": {"cpu": 20.0}, "target_thresholds": {"cpu": 90.0}}
    plan = decide(b.snapshot(nodes, light, heavy), ("HighNodeUtilization", cpu), inputs=within_limits())
    assert [m.pod.name for m in plan.moves] == ["a-0"]
    assert len(blocked(plan)) == 2
