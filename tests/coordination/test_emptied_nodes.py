"""The table of states of a node that was emptied, and what counts as empty, as ours, and as wanted."""

import dataclasses

import msgspec
import pytest

from harness import builders as b
from rescheduler.calls.nodes import give_node_back, keep_node_empty
from rescheduler.coordination.emptied_nodes import (
    EMPTIED_WITHIN_S,
    RENEWED_AFTER_S,
    KeepingState,
    ObservedNode,
    observed_nodes,
    state_of,
    step,
)
from rescheduler.model.kept_empty import Hold, KeptEmpty, parse_kept_empty
from rescheduler.model.migration import MigrationPhase, MigrationStatus, PodMigration
from rescheduler.model.names import CREATED_BY, LABEL_CREATED_BY, TAINT_KEPT_EMPTY
from rescheduler.model.records import ObjectKey
from rescheduler.model.selectors import LabelSet
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.decided import BeingEmptied
from rescheduler.policies.keeping_empty import LEAST_S, KeepingRule
from tests.records import changed

NOW_S = 1_000_000.0
RULE = KeepingRule(policy="HighNodeUtilization", kept_for_s=3600.0)
NODE = msgspec.structs.replace(b.node("n1").build(), resource_version="5", created_at_s=NOW_S - 1000.0)
UNTIL_S = NOW_S + 600.0
KEPT = msgspec.structs.replace(NODE, unschedulable=True, kept_empty=KeptEmpty(Hold.CORDONED, UNTIL_S))
GIVEN_BACK = msgspec.structs.replace(NODE, kept_empty=KeptEmpty(Hold.GIVEN_BACK, UNTIL_S))
EMPTIED = ObservedNode(node=NODE, rule=RULE, left_s=NOW_S - 5)
HELD = ObservedNode(node=KEPT, rule=RULE)
N0 = msgspec.structs.replace(NODE, name="n0")
GOES = BeingEmptied("HighNodeUtilization", "n1")


def test_an_emptied_node_is_cordoned():
    call, told = step(EMPTIED, NOW_S)
    assert call == keep_node_empty(NODE, KeptEmpty(Hold.CORDONED, NOW_S + 3600.0))
    assert told.reason == "KeptEmpty"


@pytest.mark.parametrize("change", [
    {"rule": None},
    {"left_s": None},
    {"in_use": "a pod is to come"},
    {"wanted_by": "pod shop/web"},
    {"node": msgspec.structs.replace(NODE, unschedulable=True)},
    {"node": msgspec.structs.replace(NODE, ready=False)},
    {"node": msgspec.structs.replace(NODE, deleting=True)},
    {"node": msgspec.structs.replace(NODE, do_not_disrupt=True)},
    {"node": msgspec.structs.replace(NODE, scale_down_disabled=True)},
], ids=str)  # fmt: skip
def test_no_other_node_is_cordoned(change):
    assert step(dataclasses.replace(EMPTIED, **change), NOW_S) == ()


def test_a_kept_node_stays_so_until_its_time_is_over():
    assert step(HELD, NOW_S) == ()
    assert step(HELD, UNTIL_S - 1) == ()
    assert step(HELD, UNTIL_S)[0] == give_node_back(KEPT, None)


@pytest.mark.parametrize("change", [
    {"rule": None},
    {"in_use": "pods that stand there cannot leave"},
    {"wanted_by": "pod shop/web"},
    {"node": msgspec.structs.replace(KEPT, unschedulable=False)},
    {"node": msgspec.structs.replace(NODE, kept_empty=KeptEmpty(Hold.TAINTED, UNTIL_S))},
], ids=str)  # fmt: skip
def test_it_is_given_back_before_its_time_and_then_left_alone(change):
    observed = dataclasses.replace(HELD, **change)
    call, told = step(observed, NOW_S)
    assert call == give_node_back(observed.node, KeptEmpty(Hold.GIVEN_BACK, UNTIL_S))
    assert told.reason == "GivenBack"
    after = dataclasses.replace(EMPTIED, node=GIVEN_BACK)
    assert step(after, NOW_S) == ()
    assert step(after, UNTIL_S) == (give_node_back(GIVEN_BACK, None),)


def test_the_note_decides_the_state():
    assert [state_of(node) for node in (NODE, KEPT, GIVEN_BACK)] == list(KeepingState)


def test_a_note_outlasts_what_it_was_written_for():
    assert LEAST_S > EMPTIED_WITHIN_S, "or a node would be cordoned twice for one emptying"


@pytest.mark.parametrize("kept", [KEPT.kept_empty, GIVEN_BACK.kept_empty])
def test_a_note_is_read_as_it_was_written(kept):
    assert parse_kept_empty(kept.text) == kept


@pytest.mark.parametrize(
    "text", ["", "x", "Cordoned", "Cordoned until then", "Held until 2026-01-31T23:59:59Z"]
)
def test_a_damaged_note_has_ended(text):
    assert parse_kept_empty(text) == KeptEmpty(Hold.CORDONED, 0.0)
    assert parse_kept_empty(None) is None


# Observing


def landed(
    source="n1",
    *,
    to="n5",
    policy="HighNodeUtilization",
    at_s=NOW_S - 5,
    phase=MigrationPhase.SUCCEEDED,
    **more,
):
    status = MigrationStatus(phase=phase, source_node=source, node_name=to, finished_at_s=at_s)
    more = {"labels": LabelSet({LABEL_CREATED_BY: CREATED_BY}), "policy": policy} | more
    return PodMigration(namespace="shop", name="move", pod_name="web", status=status, **more)


def seen(*moves, pods=(), nodes=(NODE,), rooms=(), rules=(RULE,), emptying=frozenset()):
    snapshot = Snapshot(
        taken_at_s=NOW_S,
        nodes={node.name: node for node in nodes},
        pods={pod.key: pod for pod in pods},
        migrations={ObjectKey("shop", f"m{i}"): move for i, move in enumerate(moves)},
        reservations={room.name: room for room in rooms},
    )
    unbound = [pod for pod in pods if not pod.node]
    return {o.node.name: o for o in observed_nodes(snapshot, unbound, rules, emptying, NOW_S)}


def test_moves_of_the_policy_that_have_landed_empty_a_node():
    assert seen(landed())["n1"] == EMPTIED


@pytest.mark.parametrize("move", [
    landed(policy="NodeTaints"),
    landed(labels=LabelSet({})),
    landed(phase=MigrationPhase.FAILED),
    landed(at_s=NOW_S - EMPTIED_WITHIN_S),
    landed("n7"),
], ids=["another policy", "people", "failed", "long ago", "a node that is gone"])  # fmt: skip
def test_nothing_else_does(move):
    assert seen(move) == {}


@pytest.mark.parametrize(("joined_s", "kept"), [(NOW_S - 60.0, True), (NOW_S - 10.0, False)])
def test_a_node_that_joined_anew_under_its_name_is_not_the_one_that_was_emptied(joined_s, kept):
    move = landed()
    left = msgspec.structs.replace(move.status, evicted_at_s=NOW_S - 20.0)
    node = msgspec.structs.replace(NODE, created_at_s=joined_s)
    assert bool(seen(msgspec.structs.replace(move, status=left), nodes=(node,))) is kept


def test_nodes_outside_of_the_pool_are_not_kept():
    pool = dataclasses.replace(RULE, node_labels=(("pool", "batch"),))
    assert seen(landed(), rules=(pool,)) == {}


def on(node="n1", **more):
    pod = b.pod("web", "shop").cpu("1").owner("ReplicaSet", "web", "rs").on(node).build()
    return changed(pod, **more)


def test_a_pod_that_stands_there_uses_the_node_and_one_that_ends_does_not():
    assert seen(landed(), pods=[on()])["n1"].in_use
    assert not seen(landed(), pods=[on(deleting=True)])["n1"].in_use
    assert seen(landed(), pods=[on("", nominated_node="n1")])["n1"].in_use
    daemon = b.pod("log", "shop").owner("DaemonSet", "log", "ds").on("n1").build()
    assert not seen(landed(), pods=[daemon])["n1"].in_use


def test_a_move_that_people_asked_for_uses_the_node_that_it_leaves():
    asked = landed(phase=MigrationPhase.EVICTING, labels=LabelSet({}))
    assert seen(landed(), asked)["n1"].in_use


def test_a_move_that_is_under_way_uses_the_node_that_it_comes_to():
    assert seen(landed("n0"), landed("n7", to="n0", phase=MigrationPhase.EVICTING), nodes=(N0,))["n0"].in_use


@pytest.mark.parametrize(
    ("emptying", "is_left"),
    [({GOES}, True), (None, True), (set(), False), ({BeingEmptied("Defragmentation", "n1")}, False)],
    ids=["goes on", "no decision yet", "cannot leave", "another policy"],
)
def test_pods_that_the_last_decision_lets_leave_do_not_use_the_node(emptying, is_left):
    first_left = seen(landed(), pods=[on()], emptying=emptying)["n1"]
    assert (not first_left.in_use) is is_left
    assert bool(step(first_left, NOW_S)) is is_left
    held = seen(landed(), pods=[on()], nodes=[KEPT], emptying=emptying)["n1"]
    assert [call.does for call in step(held, NOW_S)[:1]] == [
        "keep_node_empty" if is_left else "give_node_back"
    ]


def test_a_node_is_held_from_the_first_eviction_on_and_not_before():
    evicting = landed(phase=MigrationPhase.EVICTING, at_s=0.0)
    assert "n1" not in seen(evicting, pods=[on()])
    status = msgspec.structs.replace(evicting.status, evicted_at_s=NOW_S - 1)
    observed = seen(msgspec.structs.replace(evicting, status=status), pods=[on()])["n1"]
    assert step(observed, NOW_S)[0] == keep_node_empty(NODE, KeptEmpty(Hold.CORDONED, NOW_S + 3600.0))


def test_a_pod_that_comes_ends_the_emptying():
    coming = on("", name="late", nominated_node="n1")
    assert seen(landed(), pods=[on(), coming], nodes=[KEPT], emptying={GOES})["n1"].in_use


def test_each_pod_that_leaves_begins_the_time_of_the_node_anew():
    early = dataclasses.replace(HELD, left_s=UNTIL_S - RULE.kept_for_s + RENEWED_AFTER_S)
    assert step(early, NOW_S) == (keep_node_empty(KEPT, KeptEmpty(Hold.CORDONED, UNTIL_S + RENEWED_AFTER_S)),)
    assert step(dataclasses.replace(early, left_s=early.left_s - 1), NOW_S) == ()


def waiting(**spec):
    pod = b.pod("late", "shop").cpu(spec.pop("cpu", "1")).build()
    asked = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **spec))
    return asked.with_state(unschedulable_message="0/1 nodes are available")


def test_a_pod_that_could_use_the_node_wants_it():
    assert seen(pods=[waiting()], nodes=[KEPT])["n1"].wanted_by == "pod shop/late"
    assert not seen(pods=[waiting(cpu="100000")], nodes=[KEPT])["n1"].wanted_by
    assert not seen(pods=[waiting(node_selector=(("pool", "x"),))], nodes=[KEPT])["n1"].wanted_by
    tainted = msgspec.structs.replace(KEPT, taints=b.node("n1").taint("gpu").build().taints)
    assert not seen(pods=[waiting()], nodes=[tainted])["n1"].wanted_by
    for key in ("node.kubernetes.io/unschedulable", TAINT_KEPT_EMPTY):
        ours = b.node("n1").taint(key).build().taints
        assert seen(pods=[waiting()], nodes=[msgspec.structs.replace(KEPT, taints=ours)])["n1"].wanted_by


def test_a_move_to_the_node_wants_it():
    asked = landed("n0", phase=MigrationPhase.PENDING, target_node="n1")
    asked = msgspec.structs.replace(asked, status=MigrationStatus())
    assert seen(asked, nodes=[KEPT])["n1"].wanted_by == "PodMigration shop/move"
