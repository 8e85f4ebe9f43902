"""What LowNodeUtilization and HighNodeUtilization find bad about a placement, and that a change of it is told exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import builders as b
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.high_node_utilization import HighNodeUtilization, HighNodeUtilizationArgs
from rescheduler.policies.low_node_utilization import LowNodeUtilization, LowNodeUtilizationArgs
from rescheduler.policies.objective import ONE, Tier
from rescheduler.scheduling.state import SchedulingState

POLICIES = {
    "fixed": LowNodeUtilization(
        LowNodeUtilizationArgs(
            thresholds={"cpu": 20.0, "memory": 20.0}, target_thresholds={"cpu": 30.0, "memory": 25.0}
        )
    ),
    "above the mean": LowNodeUtilization(
        LowNodeUtilizationArgs(
            thresholds={"cpu": 5.0, "pods": 5.0, "example.com/gpu": 5.0},
            target_thresholds={"cpu": 5.0, "pods": 5.0, "example.com/gpu": 5.0},
            use_deviation_thresholds=True,
        )
    ),
    "some nodes": LowNodeUtilization(
        LowNodeUtilizationArgs(
            thresholds={"cpu": 10.0}, target_thresholds={"cpu": 20.0}, node_selector={"pool": "a"}
        )
    ),
    "consolidating": HighNodeUtilization(HighNodeUtilizationArgs(thresholds={"cpu": 50.0, "memory": 50.0})),
    "consolidating by bare requests": HighNodeUtilization(
        HighNodeUtilizationArgs(thresholds={"cpu": 50.0, "memory": 50.0}, use_default_requests=False)
    ),
    "consolidating gpus": HighNodeUtilization(HighNodeUtilizationArgs(thresholds={"example.com/gpu": 60.0})),
}

NODES = st.lists(st.tuples(st.integers(1, 8), st.booleans(), st.booleans()), min_size=2, max_size=6)
PODS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 1500), st.integers(0, 4), st.booleans()),
    min_size=1,
    max_size=12,
)


def cluster_of(nodes, pods):
    """(CPUs, offers GPUs, in pool a) of each node; (node, mCPU, GiB, wants a GPU) of each pod; 0: it requests none."""
    built = []
    for i, (cpus, gpus, pool) in enumerate(nodes):
        node = b.node(f"n{i}").cpu(str(cpus)).label(pool="a" if pool else "b")
        built.append(node.allocatable({"example.com/gpu": "4"}) if gpus else node)
    standing = []
    for i, (where, cpu, memory, gpu) in enumerate(pods):
        pod = b.pod(f"p{i}").on(f"n{where % len(nodes)}")
        pod = pod.cpu(f"{cpu}m") if cpu else pod
        pod = pod.memory(f"{memory}Gi") if memory else pod
        standing.append(pod.requests({"example.com/gpu": "1"}) if gpu else pod)
    return b.snapshot(built, standing)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
@given(nodes=NODES, pods=PODS)
def test_a_change_is_the_difference_of_two_placements(policy, nodes, pods):
    snapshot = cluster_of(nodes, pods)
    state = SchedulingState(snapshot)
    before = policy.badness(PolicyView.of(snapshot, state))
    for pod in snapshot.pods.values():
        told = policy.change(pod, pod, PolicyView.of(snapshot, state))
        for i, name in enumerate(state.node_names):
            mark = state.checkpoint()
            state.remove(pod)
            state.place(pod, name)
            after = policy.badness(PolicyView.of(snapshot, state))
            state.rollback(mark)
            assert (after - before).tolist() == told[:, i].tolist()
        assert not told[:, state.node_index[pod.node]].any()


def test_what_is_above_the_target_counts_more_the_fuller_the_node(app):
    """25 points above count as 50, 0 as 0, and the same of memory twice."""
    snapshot = b.snapshot(
        b.node("n1").cpu("4"), b.node("n2").cpu("4"), app("a", ["n1"] * 3, lambda s: s.cpu("1"))
    )
    policy = LowNodeUtilization(
        LowNodeUtilizationArgs(thresholds={"cpu": 20.0}, target_thresholds={"cpu": 50.0})
    )
    view = PolicyView.of(snapshot, SchedulingState(snapshot))
    assert policy.badness(view).tolist() == [0, 0, 0, 500_000, 0, 0, 0]
    pod = next(iter(snapshot.pods.values()))
    assert policy.change(pod, pod, view)[Tier.BALANCE].tolist() == [0, -500_000]


def test_nodes_in_use_are_counted_without_pods_that_belong_to_them(app):
    agent = b.daemonset("agent").cpu("100m")
    snapshot = b.snapshot(
        b.node("n1"), b.node("n2"), b.node("n3"), agent,
        *(agent.pod(f"agent-{i}").on(f"n{i}") for i in (1, 2, 3)), app("a", ["n1", "n2", "n2"], lambda s: s.cpu("100m")),
    )  # fmt: skip
    policy = HighNodeUtilization(HighNodeUtilizationArgs())
    view = PolicyView.of(snapshot, SchedulingState(snapshot))
    assert policy.badness(view)[Tier.CONSOLIDATION] == 2 * ONE
    pods = {pod.name: pod for pod in snapshot.pods.values()}
    names = view.state.node_names
    last = policy.change(pods["a-0"], pods["a-0"], view)[Tier.CONSOLIDATION]
    assert dict(zip(names, last.tolist(), strict=True)) == {"n1": 0, "n2": -ONE, "n3": 0}
    one_of_two = policy.change(pods["a-1"], pods["a-1"], view)[Tier.CONSOLIDATION]
    assert dict(zip(names, one_of_two.tolist(), strict=True)) == {"n1": 0, "n2": 0, "n3": ONE}
    assert not policy.change(pods["agent-1"], pods["agent-1"], view).any()


def test_a_node_without_gpus_is_not_one_with_unused_gpus(decide, app):
    """n1 is at 62 % of its CPU and offers no GPU: a threshold for GPUs says nothing about it."""
    gpu = {"thresholds": {"example.com/gpu": 50.0}, "target_thresholds": {"example.com/gpu": 90.0}}
    snapshot = b.snapshot(
        b.node("n1").cpu("4"), b.node("n2").cpu("8").allocatable({"example.com/gpu": "4"}),
        app("a", ["n1"] * 5, lambda s: s.cpu("500m")),
        app("g", ["n2"] * 3, lambda s: s.cpu("100m").requests({"example.com/gpu": "1"})),
    )  # fmt: skip
    assert decide(snapshot, ("HighNodeUtilization", gpu)).moves == ()


def test_a_half_emptied_node_counts_for_less():
    """Each pod that goes from the node with fewer pods to the one with more lowers the sum, both being hardly used."""
    snapshot = b.snapshot(
        b.node("n1"), b.node("n2"),
        [b.pod(f"p{i}").cpu("10m").on("n1") for i in range(2)], [b.pod(f"q{i}").cpu("10m").on("n2") for i in range(4)],
    )  # fmt: skip
    policy = HighNodeUtilization(HighNodeUtilizationArgs())
    view = PolicyView.of(snapshot, SchedulingState(snapshot))
    index = view.state.node_index
    there = {p.name: policy.change(p, p, view) for p in snapshot.pods.values()}
    assert there["p0"][Tier.EMPTYING][index["n2"]] < 0
    assert there["q0"][Tier.EMPTYING][index["n1"]] > 0
    assert np.array_equal(there["p0"][Tier.CONSOLIDATION], [0, 0])
