"""Pods without CPU or memory requests: what they count for where nodes are judged as full, and what the plan says of them."""

import dataclasses

import msgspec
import pytest

from harness import builders as b
from rescheduler.model.measured import NodeUsage

PACK = {"thresholds": {"cpu": 50.0, "memory": 50.0}, "target_thresholds": {"cpu": 90.0, "memory": 90.0}}
RELIEVE = {"thresholds": {"cpu": 20.0}, "target_thresholds": {"cpu": 50.0}}
BARE = {"use_default_requests": False}
SAID = (
    "HighNodeUtilization does not know what 40 pods on 4 nodes use: containers that request no cpu or memory count as "
    "100m and 200Mi each, as in kube-scheduler's scores. Set requests"
)


def idle_nodes(app, count=4):
    """Ten pods without requests on each node: 1 of 4 CPUs and 2000 Mi of 16 Gi by kube-scheduler's defaults."""
    names = [f"n{i}" for i in range(count)]
    return b.snapshot(
        *(b.node(n).cpu("4").allocatable(memory="16Gi") for n in names),
        *(app(f"app-{n}-{i}", [n] * 5) for n in names for i in range(2)),
    )


def pods_on(cluster, made):
    """By node, after the plan."""
    moved = {(m.pod.namespace, m.pod.name): m.target for m in made.moves}
    found = {}
    for pod in cluster.pods.values():
        node = moved.get((pod.namespace, pod.name), pod.node)
        found[node] = found.get(node, 0) + 1
    return found


def test_a_node_is_filled_with_them_up_to_its_target(decide, app):
    cluster = idle_nodes(app)
    made = decide(cluster, ("HighNodeUtilization", PACK))
    # 36 pods are 90 % of 4 CPUs, so the 40 need two nodes.
    assert len(pods_on(cluster, made)) == 2
    assert max(pods_on(cluster, made).values()) <= 36
    assert made.metadata.warnings == (SAID,)


def test_as_descheduler_they_count_as_nothing(decide, app):
    cluster = idle_nodes(app)
    made = decide(cluster, ("HighNodeUtilization", {**PACK, **BARE}))
    assert list(pods_on(cluster, made).values()) == [40]
    (said,) = made.metadata.warnings
    assert "count as nothing. Set requests, useDefaultRequests: true" in said


def test_a_node_full_of_them_is_not_under_utilised(decide, app):
    cluster = b.snapshot(
        b.node("n1").cpu("4"), b.node("n2").cpu("4"), app("idle", ["n1"] * 30),
        app("web", ["n2"] * 4, lambda spec: spec.requests(cpu="500m", memory="200Mi")),
    )  # fmt: skip
    only_cpu = {"thresholds": {"cpu": 20.0}, "target_thresholds": {"cpu": 90.0}}
    assert decide(cluster, ("HighNodeUtilization", only_cpu)).moves == ()
    assert len(decide(cluster, ("HighNodeUtilization", {**only_cpu, **BARE})).moves) == 30


def test_each_resource_by_itself(decide, app):
    """Pods that request CPU and no memory: 200 Mi each fill the memory of a small node."""
    cluster = b.snapshot(
        *(b.node(n).cpu("8").allocatable(memory="2Gi") for n in ("n1", "n2")),
        *(app(f"web-{n}", [n] * 5, lambda spec: spec.cpu("100m")) for n in ("n1", "n2")),
    )
    made = decide(cluster, ("HighNodeUtilization", PACK))
    assert made.moves == ()
    (said,) = made.metadata.warnings
    assert "10 pods on 2 nodes use: containers that request no memory count as 200Mi each" in said


def test_the_scheduler_itself_counts_them_as_nothing(decide, app):
    """n1 is full by requests; a pod without any still fits there, as it does for kube-scheduler."""
    cluster = b.snapshot(
        b.node("n1").cpu("4"), b.node("n2").cpu("4").taint("dedicated", "team"),
        app("web", ["n1"] * 4, lambda spec: spec.cpu("1")), app("idle", ["n2"]),
    )  # fmt: skip
    (move,) = decide(cluster, "NodeTaints", ("HighNodeUtilization", {})).moves
    assert (move.policy, move.target) == ("NodeTaints", "n1")


def test_an_overloaded_node_is_relieved_of_them(decide, app):
    cluster = b.snapshot(b.node("n1").cpu("4"), b.node("n2").cpu("4"), app("idle", ["n1"] * 30))
    made = decide(cluster, ("LowNodeUtilization", RELIEVE))
    assert pods_on(cluster, made) == {"n1": 20, "n2": 10}
    (said,) = made.metadata.warnings
    assert "30 pods on 1 node use: containers that request no cpu count as 100m each" in said
    assert said.endswith("Set requests or usage: actual")
    assert decide(cluster, ("LowNodeUtilization", {**RELIEVE, **BARE})).moves == ()


def test_where_usage_is_measured_they_take_their_part_of_it(decide, app):
    """n1 uses 3 of 4 CPUs, by four pods without requests: 750m each, so two go until it uses half."""
    cluster = b.snapshot(b.node("n1").cpu("4"), b.node("n2").cpu("4"), app("idle", ["n1"] * 4))
    usage = {
        name: NodeUsage(name, cpu, 0, cluster.taken_at_s - 30.0) for name, cpu in (("n1", 3000), ("n2", 0))
    }
    cluster = dataclasses.replace(cluster, usage=usage)
    made = decide(cluster, ("LowNodeUtilization", {**RELIEVE, "usage": "actual"}))
    assert pods_on(cluster, made) == {"n1": 2, "n2": 2}
    (said,) = made.metadata.warnings
    assert "no pod is measured" in said


@pytest.mark.parametrize(
    ("objects", "policy"),
    [
        pytest.param(lambda app: app("web", ["n1"], lambda s: s.requests(cpu="1", memory="1Gi")), {}, id="all requested"),
        pytest.param(lambda app: [b.daemonset("agent"), b.daemonset("agent").pod("a-1").on("n1")], {}, id="of DaemonSets only"),
        pytest.param(lambda app: app("idle", ["n1"]), {"node_selector": {"pool": "b"}}, id="on other nodes"),
        pytest.param(lambda app: app("idle", ["n1"]), {"thresholds": {"pods": 9.0}, "target_thresholds": {"pods": 50.0}}, id="by number only"),
    ],
)  # fmt: skip
def test_nothing_is_said_where_none_could_move(decide, app, objects, policy):
    cluster = b.snapshot(b.node("n1"), b.node("n2").label(pool="b"), objects(app))
    assert decide(cluster, ("HighNodeUtilization", policy)).metadata.warnings == ()


def test_two_policies_of_one_kind_say_it_once(decide, app):
    made = decide(idle_nodes(app), ("HighNodeUtilization", PACK), ("HighNodeUtilization", PACK))
    assert made.metadata.warnings == (SAID,)


def test_nothing_is_left_to_plan_once_the_plan_is_carried_out(decide, app):
    cluster = idle_nodes(app, count=7)
    made = decide(cluster, ("HighNodeUtilization", PACK))
    moved = {(m.pod.namespace, m.pod.name): m.target for m in made.moves}
    assert moved
    pods = {
        key: msgspec.structs.replace(pod, node=moved.get((pod.namespace, pod.name), pod.node))
        for key, pod in cluster.pods.items()
    }
    landed = dataclasses.replace(cluster, pods=pods)
    assert decide(landed, ("HighNodeUtilization", PACK)).moves == ()
