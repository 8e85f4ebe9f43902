"""What one namespace asks for, pauses, or pretends to have planned takes nothing from the limits of the others."""

import dataclasses

import msgspec
import pytest

from harness import builders as b
from rescheduler.model.migration import MigrationPhase, MigrationStatus
from rescheduler.model.names import CREATED_BY, LABEL_CREATED_BY
from rescheduler.model.past_moves import PastMove, decode_past_move, encode_past_move
from rescheduler.model.selectors import LabelSet
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.beginning import MOST_ENTRIES, MoveToBegin, held_back
from rescheduler.planning.history import History
from rescheduler.planning.limits import Limits, PlanningInputs, RequestedLimits
from rescheduler.planning.past_moves import HOUR_S, PastMoves, merged
from rescheduler.planning.plan import SkipReason
from tests import records

NODES = (b.node("n1").taint("old"), b.node("n2"), b.node("n3"))
WIDE = Limits(per_namespace=9, per_workload=9, per_node=9)
PLANNED = LabelSet({LABEL_CREATED_BY: CREATED_BY})


def asked(pod, name="", phase=MigrationPhase.PENDING, **fields):
    named = {"name": name or f"move-{pod.name}", "uid": f"uid-{name or pod.name}", "target_node": "n2"}
    return records.move_of(pod, phase, **named | fields)


def with_moves(cluster, *moves):
    return dataclasses.replace(cluster, migrations={m.key: m for m in moves})


def reserving(**fields):
    return MigrationStatus(phase=MigrationPhase.RESERVING, node_name="n2", started_at_s=1.0, **fields)


@pytest.mark.parametrize("fields", [
    {"paused": True},
    {},
    {"paused": True, "status": reserving()},
    {"status": reserving()},
    {"paused": True, "policy": "NodeTaints", "labels": PLANNED},
], ids=["paused", "waits for ever", "paused with its room", "waits with its room", "paused and marked"])  # fmt: skip
def test_moves_that_nobody_carries_out_do_not_stop_the_planner(decide, app, fields):
    tenant = app("idle", ["n1"] * 5, namespace="tenant")
    cluster = b.snapshot(*NODES, tenant, app("web", ["n1"] * 2), b.pdb("web").allows(2))
    idle = [pod for pod in cluster.pods.values() if pod.namespace == "tenant"]
    cluster = with_moves(cluster, *(asked(pod, ttl_s=604_800.0, **fields) for pod in idle))
    limits = msgspec.structs.replace(WIDE, moves_at_once=2, per_node=2)
    plan = decide(cluster, "NodeTaints", inputs=PlanningInputs(limits=limits))
    assert {move.pod.namespace for move in plan.moves} == {"default"}
    assert len(plan.moves) == 2


def test_a_requested_move_that_is_about_to_evict_counts_for_all(decide, app):
    cluster = b.snapshot(*NODES, app("idle", ["n1"] * 2, namespace="tenant"), app("web", ["n1"]))
    idle = [pod for pod in cluster.pods.values() if pod.namespace == "tenant"]
    about = MigrationStatus(
        phase=MigrationPhase.EVICTING, node_name="n2", started_at_s=1.0, eviction_requested_at_s=2.0
    )
    cluster = with_moves(cluster, *(asked(pod, status=about) for pod in idle))
    limits = msgspec.structs.replace(WIDE, moves_at_once=2)
    plan = decide(cluster, "NodeTaints", inputs=PlanningInputs(limits=limits))
    assert plan.moves == ()


def test_the_owner_of_the_pod_is_still_left_alone_while_a_move_waits(decide, app):
    cluster = b.snapshot(*NODES, app("web", ["n1"] * 3))
    first = next(iter(cluster.pods.values()))
    plan = decide(
        with_moves(cluster, asked(first)), "NodeTaints", inputs=PlanningInputs(limits=Limits(per_workload=1))
    )
    assert plan.moves == ()
    assert {s.reason for s in plan.skipped} == {SkipReason.IN_PROGRESS, SkipReason.LIMIT_WORKLOAD}


@pytest.mark.parametrize("phase", [MigrationPhase.PENDING, MigrationPhase.FAILED])
def test_what_never_begins_does_not_count_in_the_hour(phase):
    now_s = 1_790_000_000.0
    named = {"pod_uid": "uid-of-somebody-else", "policy": "NodeTaints", "labels": PLANNED}
    times = {"created_at_s": now_s - 5, "finished_at_s": now_s - 1}
    ghosts = [
        records.move(f"ghost-{number}", phase, namespace="tenant", **named, **times) for number in range(60)
    ]
    history = History(with_moves(Snapshot(taken_at_s=now_s), *ghosts))
    assert history.begun_within_hour() == 0
    assert history.failed == frozenset(), "nobody makes a pod back off that is not in the own namespace"


def test_a_planned_move_that_fails_before_it_begins_is_not_planned_again_at_once(app):
    cluster = b.snapshot(*NODES, app("web", ["n1"]))
    (pod,) = cluster.pods.values()
    status = MigrationStatus(phase=MigrationPhase.FAILED, finished_at_s=cluster.taken_at_s)
    move = asked(pod, policy="NodeTaints", labels=PLANNED, status=status)
    history = History(with_moves(cluster, move))
    assert history.begun_within_hour() == 0
    assert history.backoff_until(pod) == pytest.approx(cluster.taken_at_s + 60, abs=1)
    (kept,) = merged({}, with_moves(cluster, move)).values()
    assert decode_past_move(encode_past_move(kept), cluster.taken_at_s) == kept
    assert not kept.begun_s


NOW = 1_790_000_000.0
HUNDRED = Limits(requested=RequestedLimits(moves_per_hour=100))


def hour(**begun):
    """Moves that people asked for, by namespace: so many, one each second."""
    moves = {
        f"{namespace}-{number}": PastMove(begun_s=NOW - 600 + number, requested=True, namespace=namespace)
        for namespace, count in begun.items()
        for number in range(count)
    }
    return PastMoves(moves, (), NOW)


def of(namespace):
    return MoveToBegin(requested=True, namespace=namespace, pod_uid="pod", workload_uid="workload")


def test_a_namespace_leaves_the_last_twentieth_of_the_hour_to_others():
    assert held_back(of("tenant"), hour(tenant=94), HUNDRED, NOW) is None
    found = held_back(of("tenant"), hour(tenant=95), HUNDRED, NOW)
    assert found.reason is SkipReason.LIMIT_HOUR
    assert found.until_s == NOW - 600 + HOUR_S
    assert "95 of them in namespace tenant" in found.message
    assert held_back(of("shop"), hour(tenant=95), HUNDRED, NOW) is None
    assert held_back(of("shop"), hour(tenant=95, shop=4), HUNDRED, NOW) is None
    assert held_back(of("shop"), hour(tenant=95, shop=5), HUNDRED, NOW).reason is SkipReason.LIMIT_HOUR


def test_what_becomes_free_goes_to_those_that_have_had_less():
    """The tenant waits for a twentieth to be free, so whoever has had less begins before it."""
    past = hour(tenant=66, shop=30)
    assert held_back(of("tenant"), past, HUNDRED, NOW) is not None
    assert held_back(of("shop"), past, HUNDRED, NOW) is None
    assert held_back(of("bank"), past, HUNDRED, NOW) is None


def test_a_small_limit_is_not_shared_out():
    nine = Limits(requested=RequestedLimits(moves_per_hour=9))
    assert held_back(of("tenant"), hour(tenant=8), nine, NOW) is None
    assert held_back(of("shop"), hour(tenant=9), nine, NOW) is not None


def test_a_pod_that_is_evicted_soon_anyway_has_a_move_beyond_the_limits_as_long_as_it_can_be_kept():
    """Its room is all that they could hold back. What the ConfigMap holds is shared out among namespaces like the limit."""
    resting = Limits(requested=RequestedLimits(moves_per_hour=100, workload_cooldown_s=900.0))
    at_last = of("tenant")._replace(at_last=True)
    assert held_back(of("tenant"), hour(tenant=300), resting, NOW) is not None
    assert held_back(at_last, hour(tenant=300), resting, NOW) is None
    most = MOST_ENTRIES * 19 // 20
    assert held_back(at_last, hour(tenant=most), resting, NOW).reason is SkipReason.LIMIT_HOUR
    assert held_back(of("shop")._replace(at_last=True), hour(tenant=most), resting, NOW) is None
    none = Limits(requested=RequestedLimits(moves_per_hour=0))
    assert held_back(at_last, hour(), none, NOW) is not None, "no such move is wanted"


def test_what_began_at_last_beyond_the_limit_leaves_others_their_part_of_it():
    """A drain of hundreds of guarded pods, or a tenant who writes into his moves since when they are asked for."""
    assert held_back(of("tenant"), hour(tenant=900), HUNDRED, NOW) is not None
    assert held_back(of("shop"), hour(tenant=900, shop=4), HUNDRED, NOW) is None
    assert held_back(of("shop"), hour(tenant=900, shop=5), HUNDRED, NOW) is not None
    assert held_back(of("shop"), hour(tenant=900, bank=900, shop=4), HUNDRED, NOW) is None
    planned = MoveToBegin(requested=False, namespace="shop", pod_uid="pod", workload_uid="workload")
    beyond = PastMoves({f"{i}": PastMove(begun_s=NOW - 5, namespace="bank") for i in range(61)}, (), NOW)
    assert held_back(planned, beyond, Limits(moves_per_hour=60), NOW) is not None


def test_planned_moves_know_no_shares():
    past = PastMoves({f"{i}": PastMove(begun_s=NOW - 5, namespace="shop") for i in range(59)}, (), NOW)
    planned = MoveToBegin(requested=False, namespace="shop", pod_uid="pod", workload_uid="workload")
    assert held_back(planned, past, Limits(moves_per_hour=60), NOW) is None
