"""A cluster that looks ordinary, with every third node hardly used, and two that differ from it in one thing. Same number of nodes, same cluster."""

from __future__ import annotations

import dataclasses

import msgspec

from bench.planning import make_cluster
from rescheduler.model.records import (
    Taint,
    TaintEffect,
)
from rescheduler.model.selectors import LabelSelector, Operator, Requirement
from rescheduler.model.snapshot import Snapshot

NODE_CPU_MILLI = 4_000
FEW = 3
"""Pods on a node that is hardly used."""


def cluster(nodes: int) -> Snapshot:
    """Every third node is hardly used."""
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
    return dataclasses.replace(full, nodes=some, pods=pods)


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


def _selects(key: str, value: str) -> LabelSelector:
    return LabelSelector((Requirement(key, Operator.IN, (value,)),))
