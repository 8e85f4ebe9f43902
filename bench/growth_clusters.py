"""The clusters that ``bench.growth`` measures on: one that looks ordinary, and those that were the hardest of about twenty shapes.

The others differ from it in one thing each. Same number of nodes, same cluster.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable

import msgspec

from bench.planning import make_cluster, make_spec
from rescheduler.model.holding import holding
from rescheduler.model.names import HOSTNAME, ZONE
from rescheduler.model.records import (
    OwnerRef,
    Pod,
    PodAffinityTerm,
    SpreadConstraint,
    Taint,
    TaintEffect,
    Workload,
)
from rescheduler.model.selectors import LabelSelector, LabelSet, Operator, Requirement
from rescheduler.model.snapshot import Snapshot

NODE_CPU_MILLI = 4_000
FEW = 3
"""Pods on a node that is hardly used."""
TIERS = 30
BIG = "big"


def cluster(nodes: int) -> Snapshot:
    """Every third node is hardly used. Each workload has as many pods as it wants."""
    full = make_cluster(nodes)
    allocatable = msgspec.structs.replace(
        next(iter(full.nodes.values())).allocatable, cpu_milli=NODE_CPU_MILLI
    )
    some = {name: msgspec.structs.replace(n, allocatable=allocatable) for name, n in full.nodes.items()}
    held = dict.fromkeys(some, 0)
    most = {name: FEW if i % 3 == 0 else NODE_CPU_MILLI for i, name in enumerate(some)}
    pods = {}
    for key, pod in full.pods.items():
        if held[pod.node] < most[pod.node]:
            held[pod.node] += 1
            pods[key] = pod
    standing = Counter(pod.controller.uid for pod in pods.values() if pod.controller is not None)
    workloads = {
        uid: msgspec.structs.replace(one, replicas=standing[uid])
        for uid, one in full.workloads.items()
        if standing[uid]
    }
    return dataclasses.replace(full, nodes=some, pods=pods, workloads=workloads)


def some_nodes_better_avoided(snapshot: Snapshot) -> Snapshot:
    """With a soft taint on every fifth node, and two on one."""
    wishes = [
        Taint("old", "", TaintEffect.PREFER_NO_SCHEDULE),
        Taint("slow", "", TaintEffect.PREFER_NO_SCHEDULE),
    ]
    nodes = {
        name: msgspec.structs.replace(node, taints=tuple(wishes[: 2 if i == 5 else 1]))
        if i % 5 == 0
        else node
        for i, (name, node) in enumerate(snapshot.nodes.items())
    }
    return dataclasses.replace(snapshot, nodes=nodes)


def spread_by_default(snapshot: Snapshot) -> Snapshot:
    """With some nodes better avoided, and controllers whose pods the profile's default constraints spread."""
    workloads = {
        uid: msgspec.structs.replace(one, selector=_selects("app", one.name))
        for uid, one in snapshot.workloads.items()
    }
    return dataclasses.replace(some_nodes_better_avoided(snapshot), workloads=workloads)


def apart_in_tiers(snapshot: Snapshot) -> Snapshot:
    """All applications belong to thirty tiers, and no node may hold two pods of a tier, whichever namespace they are in."""
    pods, templates = {}, {}
    for key, pod in snapshot.pods.items():
        app = pod.labels["app"]
        tier = str(int(app[-5:]) % TIERS)
        spec = templates.get(app)
        if spec is None:
            term = PodAffinityTerm(_selects("tier", tier), HOSTNAME, namespace_selector=LabelSelector())
            spec = msgspec.structs.replace(pod.spec, pod_anti_affinity=(term,), spread=())
            templates[app] = spec
        pods[key] = msgspec.structs.replace(pod, spec=spec, labels=LabelSet({**pod.labels, "tier": tier}))
    workloads = {
        uid: msgspec.structs.replace(one, template=templates.get(uid, one.template))
        for uid, one in snapshot.workloads.items()
    }
    return dataclasses.replace(snapshot, pods=pods, workloads=workloads)


def one_application(snapshot: Snapshot) -> Snapshot:
    """Half of all pods are replicas of one application."""
    own = _selects("app", BIG)
    spread = SpreadConstraint(5, ZONE, hard=True, selector=own), SpreadConstraint(1, HOSTNAME, False, own)
    spec = msgspec.structs.replace(make_spec(BIG, 3, 100), spread=spread)
    labels, owner = LabelSet({"app": BIG}), OwnerRef("apps/v1", "ReplicaSet", BIG, BIG)
    namespace = next(iter(snapshot.pods.values())).namespace
    pods: dict[object, Pod] = {}
    for i, pod in enumerate(snapshot.pods.values()):
        one = pod
        if i % 2 == 0:
            one = msgspec.structs.replace(
                pod, namespace=namespace, name=f"{BIG}-{i}", uid=f"{BIG}-{i}", spec=spec, labels=labels,
                controller=owner, state=holding(spec, phase=pod.phase, ready=pod.ready),
            )  # fmt: skip
        pods[one.key] = one
    whole = Workload(
        kind="ReplicaSet", namespace=namespace, name=BIG, uid=BIG, replicas=(len(pods) + 1) // 2, template=spec,
        template_labels=labels, selector=own,
    )  # fmt: skip
    return dataclasses.replace(snapshot, pods=pods, workloads={**snapshot.workloads, BIG: whole})


CLUSTERS: dict[str, Callable[[Snapshot], Snapshot]] = {
    "ordinary": lambda snapshot: snapshot,
    "spread-by-default": spread_by_default,
    "apart-in-tiers": apart_in_tiers,
    "one-application": one_application,
}
"""By name: what is changed about the ordinary cluster."""


def _selects(key: str, value: str) -> LabelSelector:
    return LabelSelector((Requirement(key, Operator.IN, (value,)),))
