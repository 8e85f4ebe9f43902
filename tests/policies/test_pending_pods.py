"""PendingPods: which pods count as waiting for room, and how its arguments are judged."""

import dataclasses

import pytest

from harness import builders as b
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import Tier
from rescheduler.policies.pending_pods import NodeAutoscaler, PendingPods, PendingPodsArgs
from rescheduler.policies.wire import NamespaceFilter
from rescheduler.scheduling.state import SchedulingState

WAITS = b.pod("big").cpu("2").unschedulable()


def found(*items, **args):
    snapshot = b.snapshot(b.node("n1").cpu("1"), *items)
    view = PolicyView.of(snapshot, SchedulingState(snapshot))
    policy = PendingPods(PendingPodsArgs(**args))
    names = sorted(candidate.pod.name for candidate in policy.candidates(view))
    assert policy.badness(view)[Tier.PENDING] == len(names)
    return names


def test_a_pod_that_the_scheduler_refused_long_ago_waits_for_room():
    assert found(WAITS) == ["big"]


@pytest.mark.parametrize("pod", [
    b.pod("big").cpu("2"),
    WAITS.nominated("n1"),
    WAITS.set("spec.schedulingGates", [{"name": "other"}]),
    WAITS.set("spec.schedulerName", "other"),
    WAITS.set("metadata.deletionTimestamp", b.CREATED),
    WAITS.annotate({"kubernetes.io/config.mirror": "x"}),
    b.pod("big").on("n1"),
], ids=["not refused yet", "nominated", "gated", "other scheduler", "ending", "static", "runs"])  # fmt: skip
def test_others_do_not(pod):
    assert found(pod) == []


def test_a_pod_that_was_refused_a_moment_ago_is_left_to_the_scheduler():
    assert found(WAITS, after_s=4e9) == []
    assert found(WAITS, after_s=0.0) == ["big"]


def test_one_of_a_daemon_set_waits_for_its_node_and_for_no_autoscaler():
    daemon = b.daemonset("d").pod("agent").unschedulable()
    late = {"after_s": 0.0, "after_node_autoscaler_s": 4e9, "node_autoscaler": NodeAutoscaler.PRESENT}
    assert found(daemon, WAITS, **late) == ["agent"]
    assert found(daemon, after_s=4e9) == []


def test_a_node_autoscaler_gets_its_time_first():
    karpenter = b.node("k").cpu("1").label({"karpenter.sh/nodepool": "default"})
    late = {"after_s": 0.0, "after_node_autoscaler_s": 4e9}
    assert found(WAITS, **late) == ["big"]
    assert found(WAITS, karpenter, **late) == []
    assert found(WAITS, karpenter, node_autoscaler=NodeAutoscaler.ABSENT, **late) == ["big"]
    assert found(WAITS, node_autoscaler=NodeAutoscaler.PRESENT, **late) == []


def test_one_that_reports_that_it_is_at_work_gets_its_time_too():
    snapshot = dataclasses.replace(b.snapshot(b.node("n1").cpu("1"), WAITS), node_autoscaler=True)
    view = PolicyView.of(snapshot, SchedulingState(snapshot))
    late = {"after_s": 0.0, "after_node_autoscaler_s": 4e9}
    assert list(PendingPods(PendingPodsArgs(**late)).candidates(view)) == []
    absent = PendingPodsArgs(node_autoscaler=NodeAutoscaler.ABSENT, **late)
    assert [candidate.pod.name for candidate in PendingPods(absent).candidates(view)] == ["big"]


@pytest.mark.parametrize(("deployment", "waits"), [
    (b.deployment("cluster-autoscaler", "kube-system"), True),
    (b.deployment("release-aws-cluster-autoscaler", "kube-system"), True),
    (b.deployment("cluster-autoscaler", "kube-system").replicas(0), False),
    (b.deployment("cluster-autoscaler", "shop"), False),
    (b.deployment("coredns", "kube-system"), False),
], ids=["as in its manifests", "as its chart names it", "switched off", "a tenant's", "another"])  # fmt: skip
def test_cluster_autoscaler_is_known_by_its_deployment(deployment, waits):
    late = {"after_s": 0.0, "after_node_autoscaler_s": 4e9}
    assert found(WAITS, deployment, **late) == ([] if waits else ["big"])


def test_only_pods_of_its_namespaces_count():
    assert found(WAITS, namespaces=NamespaceFilter(include=("shop",))) == []


def test_no_mode_is_taken():
    assert [path for path, _ in PendingPodsArgs(mode="StartFirst").problems()] == [("mode",)]
