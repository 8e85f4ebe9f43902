"""NodeAffinity leaves pods where a label that they require has only just changed."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import builders as b
from rescheduler.controller.marks_memory import MarksMemory
from rescheduler.model.node_marks import NodeMarksSince
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.node_affinity import NodeAffinity, NodeAffinityArgs
from rescheduler.policies.objective import Tier
from rescheduler.scheduling.state import SchedulingState

AFTER_S = 300.0


def selecting(spec):
    return spec.node_selector({"disk": "ssd"})


def requiring(spec):
    return spec.requires_node("disk", "ssd")


def cluster_of(*nodes, ask=selecting, since=None, now_s=b.NOW_S):
    owner = ask(b.replicaset("web").replicas(1))
    found = b.snapshot(*nodes, owner, owner.pod("web-0").cpu("1").on("n1"), now_s=now_s)
    return found if since is None else dataclasses.replace(found, node_marks_since=since)


def proposed(cluster, policy=None):
    policy = policy or NodeAffinity(NodeAffinityArgs())
    view = PolicyView.of(cluster, SchedulingState(cluster))
    found = list(policy.candidates(view))
    assert policy.badness(view)[Tier.HARD] == len(found)
    assert all((policy.change(one.pod, one.pod, view)[Tier.HARD] < 0).any() for one in found)
    return len(found)


BARE = b.node("n1"), b.node("n2").label(disk="ssd")


@pytest.mark.parametrize("ask", [selecting, requiring])
@pytest.mark.parametrize(("age_s", "moves"), [(0.0, 0), (1.3, 0), (AFTER_S - 1, 0), (AFTER_S, 1)])
def test_it_counts_once_the_label_has_been_so_for_a_while(decide, ask, age_s, moves):
    since = {"n1": NodeMarksSince(labels={"disk": b.NOW_S - age_s})}
    cluster = cluster_of(*BARE, ask=ask, since=since)
    assert proposed(cluster) == moves
    assert len(decide(cluster, "NodeAffinity").moves) == moves


@pytest.mark.parametrize(("since", "args"), [
    (None, {}),
    ({"n1": NodeMarksSince(labels={"disk": b.NOW_S})}, {"after_s": 0.0}),
    ({"n1": NodeMarksSince(labels={"team": b.NOW_S})}, {}),
    ({"n2": NodeMarksSince(labels={"disk": b.NOW_S})}, {}),
    ({"gone": NodeMarksSince(labels={"disk": b.NOW_S})}, {}),
], ids=["nobody has seen it", "by choice", "another label", "another node", "a node that is gone"])  # fmt: skip
def test_it_counts_at_once(decide, since, args):
    assert len(decide(cluster_of(*BARE, since=since), ("NodeAffinity", args)).moves) == 1


STEPS = st.lists(
    st.tuples(st.floats(0.0, 400.0), st.sampled_from(["ssd", "hdd", None]), st.booleans()),
    min_size=1,
    max_size=12,
)


@given(STEPS)
def test_a_pod_is_proposed_only_for_a_violation_that_has_lasted(steps):
    """However labels come and go, by the memory that the controller has, and by one policy that keeps what it has computed."""
    marks, now_s, before, changed_s = MarksMemory(), b.NOW_S, None, None
    policy, last = NodeAffinity(NodeAffinityArgs()), "unknown"
    for wait_s, disk, noise in steps:
        builder = b.node("n1").label(**({"disk": disk} if disk else {}), **({"noise": "1"} if noise else {}))
        node = builder.build()
        marks.take(before, node, now_s)
        if before is not None and disk != last:
            changed_s = now_s
        before, last, now_s = node, disk, now_s + wait_s
        cluster = cluster_of(builder, BARE[1], since=marks.known, now_s=now_s)
        lasted = changed_s is None or now_s - changed_s >= AFTER_S
        assert proposed(cluster, policy) == int(disk != "ssd" and lasted)


def test_what_was_computed_for_one_moment_does_not_count_for_a_later_one():
    """The same nodes and pods, and nothing but the time has changed."""
    since = {"n1": NodeMarksSince(labels={"disk": b.NOW_S})}
    cluster = cluster_of(*BARE, since=since)
    state, policy = SchedulingState(cluster), NodeAffinity(NodeAffinityArgs())
    assert not list(policy.candidates(PolicyView.of(cluster, state)))
    later = dataclasses.replace(cluster, taken_at_s=b.NOW_S + AFTER_S)
    assert len(list(policy.candidates(PolicyView.of(later, state)))) == 1
