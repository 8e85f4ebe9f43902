"""Every policy on the real control plane: the fault, the moves, where pods land, and that the decisions after it move nothing.

A fault is a function that makes it in a world of its own, and says which moves mend it. The clean-up of failed pods is here, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from harness.controlplane.controllers import running
from harness.controlplane.world import WORLD, World, is_ready, node_of
from rescheduler.controller.ports import LoopTimings
from rescheduler.model.names import HOSTNAME
from rescheduler.model.times import format_seconds
from rescheduler.policies import pod_life_time as policy
from rescheduler.policies.registry import REGISTRY

DECISIONS = 2
"""That must move nothing, after the moves have ended."""
TIMINGS = LoopTimings(turn_s=0.2, rest_s=0.2, settle_s=0.2)
HARD = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class Fault:
    """``landed``: True once the pods stand where they should; ``moves``: how many that takes, none more."""

    arguments: dict[str, Any]
    moves: int
    landed: Callable[[], bool]
    others: tuple[dict[str, Any], ...] = ()
    """Policies beside it."""


def places(world, app):
    """The nodes of the pods of a workload, once all are Ready."""
    pods = [pod for pod in world.pods(app) if "deletionTimestamp" not in pod["metadata"]]
    return sorted(map(node_of, pods)) if all(map(is_ready, pods)) else []


def start(world, app, replicas=1, cpu="1", **spec):
    """A Deployment whose pods stand wherever there is room now."""
    world.running("Deployment", app, replicas, cpu, **spec)


def patch(world, node, **spec):
    world.api.patch(f"/api/v1/nodes/{node}", {"spec": spec}).expect()


def label(world, node, **labels):
    world.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}}).expect()


def report(world, node, kind, ago_s):
    """What node-problem-detector writes into the status of a node."""
    since = format_seconds(time.time() - ago_s)
    times = {"lastTransitionTime": since, "lastHeartbeatTime": since}
    found = {"type": kind, "status": "True", "reason": "Test", **times}
    known = world.api.get(f"/api/v1/nodes/{node}").expect().body["status"]["conditions"]
    body = {"status": {"conditions": [*known, found]}}
    world.api.patch(f"/api/v1/nodes/{node}/status", body).expect()


def node_taints(world):
    first = world.node("first")
    start(world, "web", 2)
    second = world.node("second")
    world.taint(first, "old")
    return Fault({"after": "0s"}, 2, lambda: places(world, "web") == [second] * 2)


def node_affinity(world):
    first = world.node("first", labels={"pool": "a"})
    terms = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}]
    start(world, "web", affinity={"nodeAffinity": {HARD: {"nodeSelectorTerms": terms}}})
    second = world.node("second", labels={"pool": "a"})
    label(world, first, pool="b")
    return Fault({"after": "0s"}, 1, lambda: places(world, "web") == [second])


def node_health(world):
    ill = world.node("ill")
    start(world, "web", 2)
    young, well, more = (world.node(name) for name in ("young", "well", "more"))
    report(world, young, "ReadonlyFilesystem", 5)
    report(world, ill, "KernelDeadlock", 3600)
    return Fault({}, 2, lambda: set(places(world, "web")) <= {well, more} and len(places(world, "web")) == 2)


def inter_pod_anti_affinity(world):
    first = world.node("first")
    term = {"labelSelector": {"matchLabels": {"role": "noisy"}}, "topologyKey": HOSTNAME}
    start(world, "quiet", affinity={"podAntiAffinity": {HARD: [term]}})
    start(world, "noisy")
    second = world.node("second")
    (pod,) = world.pods("noisy")
    path = world.path("pods", pod["metadata"]["name"])
    world.api.patch(path, {"metadata": {"labels": {"role": "noisy"}}}).expect()
    world.wait(lambda: second)
    return Fault(
        {}, 1, lambda: places(world, "quiet") + places(world, "noisy") in ([first, second], [second, first])
    )


def pod_affinity(world):
    first = world.node("first")
    start(world, "cache")
    term = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": HOSTNAME}
    start(world, "web", affinity={"podAffinity": {HARD: [term]}})
    second = world.node("second")
    patch(world, first, unschedulable=True)
    (cache,) = world.pods("cache")
    world.delete_pod(cache)
    world.wait(lambda: places(world, "cache") == [second])
    patch(world, first, unschedulable=None)
    return Fault({}, 1, lambda: places(world, "web") == places(world, "cache") != [])


def topology_spread(world):
    world.node("first")
    constraint = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule"}
    spread = {**constraint, "labelSelector": {"matchLabels": {"app": "web"}}}
    start(world, "web", 4, topologySpreadConstraints=[spread])
    world.node("second")
    return Fault({}, 2, lambda: len(set(places(world, "web"))) == 2)


def duplicates(world):
    world.node("first")
    start(world, "web", 3)
    world.node("second")
    world.node("third")
    return Fault({}, 2, lambda: len(set(places(world, "web"))) == 3)


def too_many_restarts(world):
    first = world.node("first")
    start(world, "web")
    (pod,) = world.pods("web")
    for name in ("second", "third"):
        world.node(name)
    container = {"name": "main", "image": "pause", "imageID": "", "ready": True, "restartCount": 200}
    status = {"containerStatuses": [{**container, "state": {"running": {}}}]}
    world.api.patch(world.path("pods", pod["metadata"]["name"], "status"), {"status": status}).expect()
    return Fault({"requireHealthyReplicas": False}, 1, lambda: places(world, "web") not in ([], [first]))


def pod_life_time(world):
    first = world.node("first")
    start(world, "web")
    second = world.node("second")
    # The least age is ten minutes, and nobody can make a pod that is older than it is: see the fixture.
    time.sleep(8.0)
    assert places(world, "web") == [first]
    return Fault({"maxAge": "8s", "jitter": 0.0}, 1, lambda: places(world, "web") == [second])


def low_node_utilization(world):
    first = world.node("first")
    start(world, "web", 4)
    second = world.node("second")
    arguments = {"thresholds": {"cpu": 40}, "targetThresholds": {"cpu": 50}}
    return Fault(
        {**arguments, **own_nodes(world)}, 2, lambda: places(world, "web") == [first] * 2 + [second] * 2
    )


def high_node_utilization(world):
    first = world.node("first")
    start(world, "web", 3)
    patch(world, first, unschedulable=True)
    world.node("second")
    start(world, "small")
    patch(world, first, unschedulable=None)
    arguments = {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 100}}
    return Fault({**arguments, **own_nodes(world)}, 1, lambda: places(world, "small") == [first])


def defragmentation(world):
    first = world.node("first")
    start(world, "a", cpu="1")
    patch(world, first, unschedulable=True)
    second = world.node("second")
    start(world, "b", cpu="1")
    patch(world, first, unschedulable=None)
    together = ([first, first], [second, second])
    arguments = {"template": {"cpu": 4}, **own_nodes(world)}
    return Fault(arguments, 1, lambda: places(world, "a") + places(world, "b") in together)


def pending_pods(world):
    first = world.node("first", cpu="2")
    start(world, "small")
    second = world.node("second", cpu="1")
    name = world.pod("big", "2")["metadata"]["name"]
    world.wait_unschedulable(name)
    return Fault(
        {"after": "1s", "nodeAutoscaler": "Absent"},
        1,
        lambda: places(world, "small") == [second] and node_of(world.get_pod(name)) == first,
    )


def workload_spread(world):
    """It proposes nothing: it keeps HighNodeUtilization from gathering all replicas on one node."""
    nodes = [world.node(name) for name in ("first", "second")]
    anti = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOSTNAME}
    preferred = [{"weight": 100, "podAffinityTerm": anti}]
    terms = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    start(world, "web", 2, affinity=terms)
    assert places(world, "web") == sorted(nodes)
    emptying = {"name": "HighNodeUtilization", "thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 100}}
    beside = ({**emptying, **own_nodes(world)},)
    return Fault({}, 0, lambda: places(world, "web") == sorted(nodes), beside)


def own_nodes(world):
    """Utilization and rooms are those of all nodes that take part."""
    return {"nodeSelector": {WORLD: world.namespace}}


FAULTS = {
    "NodeTaints": node_taints,
    "NodeAffinity": node_affinity,
    "NodeHealth": node_health,
    "InterPodAntiAffinity": inter_pod_anti_affinity,
    "PodAffinity": pod_affinity,
    "TopologySpread": topology_spread,
    "Duplicates": duplicates,
    "TooManyRestarts": too_many_restarts,
    "PodLifeTime": pod_life_time,
    "LowNodeUtilization": low_node_utilization,
    "HighNodeUtilization": high_node_utilization,
    "Defragmentation": defragmentation,
    "PendingPods": pending_pods,
    "WorkloadSpread": workload_spread,
}


def test_no_policy_is_left_out():
    assert list(FAULTS) == list(REGISTRY)


@pytest.fixture
def world(request, monkeypatch):
    monkeypatch.setattr(policy, "LEAST_AGE_S", 1.0)
    with World(request.getfixturevalue("control_plane").api(), "policy") as world:
        yield world


def settings_of(world, *policies, **more):
    return {
        "interval": "1s",
        "aggressiveness": "aggressive",
        "limits": {"workloadCooldown": "0s", "perWorkload": 5},
        "protections": {"namespaces": {"include": [world.namespace]}},
        **({"policies": list(policies)} if policies else {}),
        **more,
    }


def mended(world, fault, name, settings):
    """The moves, once the pods have landed and some decisions more have moved nothing."""
    with running(world.api.transport, timings=TIMINGS, **settings) as work:
        if fault.moves:
            world.wait(lambda: len(world.moves()) >= fault.moves)
        world.wait(fault.landed)
        world.wait(lambda: all(m.get("status", {}).get("phase") == "Succeeded" for m in world.moves()))
        for _ in range(DECISIONS + 1):  # the first may have begun before
            last = work.controller.decision
            world.wait(lambda last=last: work.controller.decision is not last)
        found = world.moves()
    assert fault.landed()
    assert len(found) == fault.moves, [(m["spec"], m["status"]) for m in found]
    assert {m["spec"]["policy"] for m in found} <= {name}
    assert all(m["status"]["phase"] == "Succeeded" for m in found)
    return found


@pytest.mark.realcluster
@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_mended_by_the_fewest_moves_and_then_nothing_moves(world, name):
    fault = FAULTS[name](world)
    mended(world, fault, name, settings_of(world, {"name": name, **fault.arguments}, *fault.others))


@pytest.mark.realcluster
def test_a_profile_moves_what_its_own_protections_let_go(world):
    fault = node_taints(world)
    entry = {"name": "NodeTaints", **fault.arguments}
    elsewhere = {"namespaces": {"include": ["nowhere"]}}
    profiles = [
        {"name": "kept", "protections": elsewhere, "policies": [entry]},
        {"name": "own", "nodeSelector": {WORLD: world.namespace}, "policies": [entry]},
    ]
    mended(world, fault, "own/NodeTaints", settings_of(world, profiles=profiles))


@pytest.mark.realcluster
def test_the_api_server_deletes_failed_pods_that_a_budget_would_hold(world):
    world.node("n", cpu="4")
    start(world, "web")
    (running_pod,) = world.pods("web")
    # Of a controller that nobody runs: a ReplicaSet would delete pods that are too many before they have failed.
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "runner"}}
    runner = world.api.create(world.path("configmaps"), body).expect(201).body["metadata"]
    named = {"name": runner["name"], "uid": runner["uid"], "controller": True}
    owner = [{"apiVersion": "v1", "kind": "ConfigMap", **named}]
    world.budget("web", "web", maxUnavailable=0)
    for name, reason in (("refused", "OutOfcpu"), ("other", "Evicted")):
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "schedulingGates": [{"name": "example.com/never"}],
        }
        meta = {"name": name, "ownerReferences": owner, "labels": running_pod["metadata"]["labels"]}
        world.api.create(
            world.path("pods"), {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        ).expect(201)
        status = {"phase": "Failed", "reason": reason, "startTime": format_seconds(time.time() - 7200)}
        world.api.patch(world.path("pods", name, "status"), {"status": status}).expect()
    with running(world.api.transport, failedPods={"enabled": True, "reasons": ["OutOfcpu"]}):
        world.wait(lambda: not world.api.get(world.path("pods", "refused")).ok, 30.0)
    assert world.api.get(world.path("pods", "other")).ok
    assert world.api.get(world.path("pods", running_pod["metadata"]["name"])).ok
