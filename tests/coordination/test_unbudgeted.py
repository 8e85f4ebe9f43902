"""Evictions of one workload without a PodDisruptionBudget see each other, also within one round."""

from types import MappingProxyType

import pytest

from rescheduler.coordination.expectations import Expectations
from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.unbudgeted import UnbudgetedWorkloads
from rescheduler.model.migration import MigrationPhase, MigrationStatus, MoveMode
from rescheduler.model.records import OwnerRef, PodPhase, PodSpec, Workload
from rescheduler.model.snapshot import Snapshot
from tests import records
from tests.records import pod_record

PHASE = MigrationPhase
DEPLOYMENT = Workload(kind="Deployment", namespace="default", name="web", uid="d", replicas=4)


def replica_set(uid):
    above = OwnerRef("apps/v1", "Deployment", "web", "d")
    return Workload(kind="ReplicaSet", namespace="default", name=uid, uid=uid, replicas=2, controller=above)


def pod(name, owner="new", kind="ReplicaSet", **fields):
    base = {"ready": True, "node": "n1", "phase": PodPhase.RUNNING}
    controller = OwnerRef("apps/v1", kind, owner, owner)
    return pod_record(
        namespace="default", name=name, uid=name, spec=PodSpec(), controller=controller, **{**base, **fields}
    )


def move(of, phase=PHASE.EVICTING, **status):
    return records.move(f"m-{of}", phase, pod_name=of, pod_uid=of, **status)


KNOWN = (DEPLOYMENT, replica_set("new"), replica_set("old"))
STANDING = (pod("a"), pod("b"), pod("c", "old"), pod("e", "old"))


def seen(mine, *others, pods=STANDING, intents=(), workloads=KNOWN):
    """What the move ``mine`` is told."""
    snapshot = Snapshot(
        taken_at_s=100.0,
        pods=MappingProxyType({p.key: p for p in pods}),
        workloads=MappingProxyType({w.uid: w for w in workloads}),
        migrations=MappingProxyType({m.key: m for m in (mine, *others)}),
    )
    (moved,) = [p for p in pods if p.uid == mine.pod_uid]
    expectations = Expectations(
        statuses={key: (MigrationStatus(eviction_requested_at_s=99.0),) for key in intents}
    )
    workloads_now = UnbudgetedWorkloads(index=RoundIndex.of(snapshot), expectations=expectations, now_s=100.0)
    return workloads_now.of(mine, moved)


def waits(*moves, **more):
    found = seen(*moves, **more)
    (moved,) = [p for p in more.get("pods", STANDING) if p.uid == moves[0].pod_uid]
    return bool(found.refusal(moved))


def test_pods_of_all_replicasets_of_the_deployment_are_counted():
    assert seen(move("a")).available == {"a", "b", "c", "e"}
    assert not waits(move("a"))
    assert waits(move("a"), pods=(*STANDING[:3], pod("e", "old", ready=False)))


@pytest.mark.parametrize(("other", "counts"), [
    (move("c"), False),
    (move("c", eviction_requested_at_s=90.0), True),
    (move("c", PHASE.HANDING_OVER, eviction_requested_at_s=90.0), True),
    (move("c", PHASE.FAILED, eviction_requested_at_s=90.0), True),
    (move("c", PHASE.FAILED), False),
    (move("c", eviction_requested_at_s=90.0, mode=MoveMode.START_FIRST), False),
    (move("another", eviction_requested_at_s=90.0), False),
], ids=["no intent", "intent", "evicted", "evicted and failed", "failed before", "starts first", "not its pod"])  # fmt: skip
def test_an_eviction_that_the_pods_do_not_show_counts(other, counts):
    assert waits(move("a"), other) is counts


def test_an_intent_that_was_written_in_this_round_counts():
    other = move("c")
    assert not waits(move("a"), other)
    assert waits(move("a"), other, intents=[other.key])
    assert not waits(move("a", eviction_requested_at_s=90.0), intents=[move("a").key]), "its own"


def test_an_eviction_that_the_pods_show_counts_once():
    pods = (*STANDING[:3], pod("e", "old", deleting=True))
    four_of_eight = [pod(f"q{i}") for i in range(4)]
    eight = Workload(kind="Deployment", namespace="default", name="web", uid="d", replicas=8)
    workloads = (eight, replica_set("new"), replica_set("old"))
    other = move("e", PHASE.HANDING_OVER, eviction_requested_at_s=90.0)
    assert not waits(move("a"), other, pods=(*pods, *four_of_eight), workloads=workloads)


def test_an_owner_that_is_not_known_is_counted_by_its_pods():
    pods = [pod(f"x{i}", "custom", kind="Custom") for i in range(3)]
    assert seen(move("x0"), pods=pods).wanted == 3
    assert waits(move("x0"), move("x1", eviction_requested_at_s=90.0), pods=pods)
    assert not waits(move("x0"), move("a", eviction_requested_at_s=90.0), pods=(*pods, *STANDING)), (
        "another workload"
    )


@pytest.mark.parametrize(
    "mine",
    [move("a", PHASE.RESERVING), move("a", PHASE.HANDING_OVER), move("a", mode=MoveMode.START_FIRST)],
    ids=["reserving", "evicted", "starts first"],
)
def test_where_it_does_not_matter_nothing_is_counted(mine):
    assert seen(mine) is None
