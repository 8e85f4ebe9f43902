"""A pod that uses a Reservation for several is not moved for what it leaves: that is held again. For where it stands it is."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import builders as b
from rescheduler.model.reservation import ObjectRef, Reservation, ReservationPhase, ReservationStatus
from rescheduler.model.resources import Resources
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.planner import plan
from rescheduler.policies.registry import REGISTRY
from rescheduler.scheduling.state import SchedulingState

EVEN = ("LowNodeUtilization", {"thresholds": {"cpu": 20.0}, "target_thresholds": {"cpu": 50.0}})
PACK = ("HighNodeUtilization", {"thresholds": {"cpu": 60.0}})


def owned(cluster, *names, phase=ReservationPhase.AVAILABLE, **fields):
    """The cluster with a Reservation on the node of these pods that they use completely."""
    pods = [pod for pod in cluster.pods.values() if pod.name in names]
    amounts = Resources(cpu_milli=sum(pod.held.cpu_milli for pod in pods))
    status = ReservationStatus(
        phase=phase,
        node_name=pods[0].node,
        allocatable=amounts,
        allocated=amounts,
        current_owners=tuple(ObjectRef(pod.namespace, pod.name, pod.uid) for pod in pods),
    )
    room = Reservation(name="pool", uid="pool", status=status, **{"allocate_once": False} | fields)
    return dataclasses.replace(cluster, reservations={"pool": room})


def full(app):
    return b.snapshot(
        b.node("n1").cpu("4"), b.node("n2").cpu("4"), app("web", ["n1"] * 3, lambda s: s.cpu("1200m"))
    )


def test_owners_are_not_moved_off_a_full_node_one_after_the_other_and_the_reason_says_why(decide, app):
    made = decide(owned(full(app), "web-0", "web-1", "web-2"), EVEN)
    assert not made.moves
    assert {skipped.blocked_by for skipped in made.skipped} == {"Reservation pool"}
    assert "would hold again what it leaves" in made.skipped[0].message


def test_the_others_on_that_node_are(decide, app, landings):
    assert landings(decide(owned(full(app), "web-0", "web-2"), EVEN)) == {"web-1": "n2"}


@pytest.mark.parametrize(
    "change",
    [{"allocate_once": True}, {"phase": ReservationPhase.SUCCEEDED}, {"deleting": True}],
    ids=["for one pod", "ended", "being deleted"],
)
def test_only_where_what_they_leave_is_held_again(decide, app, change):
    assert decide(owned(full(app), "web-0", "web-1", "web-2", **change), EVEN).moves


def test_they_leave_a_node_where_they_must_not_stand(decide, app, landings):
    cluster = b.snapshot(b.node("n1").taint("old"), b.node("n2"), app("web", ["n1"]))
    assert landings(decide(owned(cluster, "web-0"), "NodeTaints")) == {"web-0": "n2"}


def test_they_do_not_step_aside_for_others(decide, app, landings):
    mine = {"kind": "x"}
    cluster = b.snapshot(
        b.node("n0").taint("old"), b.node("n1").cpu("2").label(mine), b.node("n2").cpu("2"),
        app("w", ["n0"], lambda s: s.cpu("2").node_selector(mine)), app("o", ["n1"], lambda s: s.cpu("1")),
    )  # fmt: skip
    assert landings(decide(cluster, "NodeTaints")) == {"o-0": "n2", "w-0": "n1"}
    assert not decide(owned(cluster, "o-0"), "NodeTaints").moves


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["300m", "900m"])), min_size=2, max_size=9),
    st.sets(st.integers(0, 8), min_size=1),
    st.sampled_from([EVEN, PACK]),
)
@settings(max_examples=40, deadline=None)
def test_no_policy_moves_an_owner_for_the_load_of_nodes(pods, owners, policy):
    web = b.replicaset("web").replicas(len(pods))
    stand = [web.pod(f"web-{i}").on(f"n{node}").cpu(cpu) for i, (node, cpu) in enumerate(pods)]
    cluster = b.snapshot(*(b.node(f"n{i}").cpu("4") for i in range(4)), web, stand)
    names = {f"web-{i}" for i in owners if i < len(pods)}
    if names:
        cluster = owned(cluster, *names)
    kind = REGISTRY[policy[0]]
    made = plan(
        cluster,
        [kind.build(kind.args(**policy[1]))],
        PlanningInputs(unlimited=True),
        SchedulingState(cluster),
    )
    assert names.isdisjoint(move.pod.name for move in made.moves)
