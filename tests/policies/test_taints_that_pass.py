"""NodeTaints leaves pods where a taint has not stood yet, or says what happens to a node at the moment."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import builders as b
from rescheduler.controller.marks_memory import MarksMemory
from rescheduler.model.node_marks import NodeMarksSince
from rescheduler.model.records import Taint
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.node_taints import NodeTaints, NodeTaintsArgs
from rescheduler.scheduling.state import SchedulingState

AFTER_S = 300.0
OLD = {"key": "old", "effect": "NoSchedule"}


def tainted(*taints):
    return b.node("n1").set("spec.taints", list(taints))


def moved(decide, node, since=None, **args):
    owner = b.replicaset("web").replicas(1)
    cluster = b.snapshot(node, b.node("n2"), owner, owner.pod("web-0").cpu("1").on("n1"))
    if since is not None:
        marks = {"n1": NodeMarksSince({taint: b.NOW_S - age_s for taint, age_s in since.items()})}
        cluster = dataclasses.replace(cluster, node_marks_since=marks)
    return len(decide(cluster, ("NodeTaints", args)).moves)


@pytest.mark.parametrize(("age_s", "moves"), [(0.0, 0), (1.3, 0), (AFTER_S - 1, 0), (AFTER_S, 1)])
def test_a_taint_counts_once_it_has_stood(decide, age_s, moves):
    assert moved(decide, tainted(OLD), {Taint("old"): age_s}) == moves


def test_it_counts_at_once_where_nobody_waits_for_it_or_knows_since_when_it_stands(decide):
    assert moved(decide, tainted(OLD)) == 1
    assert moved(decide, tainted(OLD), {Taint("old"): 0.0}, after_s=0.0) == 1


@pytest.mark.parametrize(("added", "seen_age_s", "moves"), [
    ("2027-01-15T07:59:00Z", 3600.0, 0),
    ("2027-01-15T07:00:00Z", 1.0, 1),
    ("2027-01-15T09:00:00Z", 1.0, 0),
    ("2027-01-15T09:00:00Z", 3600.0, 1),
    ("2027-01-15T07:59:00Z", None, 0),
    ("2027-01-15T07:00:00Z", None, 1),
], ids=["added again", "before the start", "in the future", "long in the future", "young", "old"])  # fmt: skip
def test_what_the_taint_says_itself_goes_before_what_was_seen(decide, added, seen_age_s, moves):
    node = tainted({**OLD, "effect": "NoExecute", "timeAdded": added})
    since = {Taint("old", effect="NoExecute"): seen_age_s} if seen_age_s is not None else None
    assert moved(decide, node, since) == moves


def test_of_two_taints_the_one_that_has_stood_counts(decide):
    node = tainted(OLD, {"key": "new", "effect": "NoExecute"})
    since = {Taint("old"): AFTER_S, Taint("new", effect="NoExecute"): 1.0}
    owner = b.replicaset("web").replicas(1)
    cluster = b.snapshot(node, b.node("n2"), owner, owner.pod("web-0").cpu("1").on("n1"))
    marks = {"n1": NodeMarksSince({taint: b.NOW_S - age_s for taint, age_s in since.items()})}
    (move,) = decide(dataclasses.replace(cluster, node_marks_since=marks), "NodeTaints").moves
    assert move.reason == "UntoleratedNoSchedule"


PASSING = [
    "node.cilium.io/agent-not-ready",
    "cni.istio.io/not-ready",
    "ebs.csi.aws.com/agent-not-ready",
    "node.cluster.x-k8s.io/uninitialized",
    "node.cloudprovider.kubernetes.io/shutdown",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/unschedulable",
    "startup-taint.cluster-autoscaler.kubernetes.io/gpu",
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
    "rescheduler.dev/hand-over",
]


@pytest.mark.parametrize("key", PASSING)
def test_what_others_see_to_counts_only_by_name(decide, key):
    node = tainted({"key": key, "effect": "NoSchedule"})
    assert moved(decide, node) == 0
    assert moved(decide, node, included_taints=(key,)) == 1


@pytest.mark.parametrize("key", ["old", "example.com/maintenance", "pool", "node-role.kubernetes.io/ingress"])
def test_what_people_set_counts(decide, key):
    assert moved(decide, tainted({"key": key, "effect": "NoSchedule"})) == 1


STEPS = st.lists(st.tuples(st.floats(0.0, 400.0), st.sets(st.sampled_from("ab"))), min_size=1, max_size=12)


@given(STEPS)
def test_a_pod_is_proposed_only_for_a_taint_that_has_stood_all_the_time(steps):
    """However taints come and go, by the memory that the controller has."""
    marks, now_s, before, since = MarksMemory(), b.NOW_S, None, {}
    policy = NodeTaints(NodeTaintsArgs())
    owner = b.replicaset("web").replicas(1)
    for wait_s, keys in steps:
        builder = tainted(*({"key": key, "effect": "NoSchedule"} for key in sorted(keys)))
        node = builder.build()
        marks.take(before, node, now_s)
        since = {key: since.get(key, now_s) for key in keys}
        before, now_s = node, now_s + wait_s
        cluster = b.snapshot(builder, b.node("n2"), owner, owner.pod("web-0").on("n1"), now_s=now_s)
        cluster = dataclasses.replace(cluster, node_marks_since=marks.known)
        proposed = list(policy.candidates(PolicyView.of(cluster, SchedulingState(cluster))))
        assert bool(proposed) == any(now_s - at_s >= AFTER_S for at_s in since.values())


def test_the_memory_forgets_a_node_that_is_gone_and_one_of_the_same_name_is_another():
    marks, node = MarksMemory(), tainted(OLD)
    marks.take(None, node.build(), 10.0)
    marks.take(node.build(), node.uid("new").build(), 20.0)
    assert marks.known["n1"].taints == {Taint("old"): 20.0}
    marks.take(node.build(), None, 30.0)
    assert not marks.known
