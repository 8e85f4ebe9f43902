"""What pods hold on each node: resources, host ports, disks, claims.

Kept current by ``Cluster``, pod by pod; everyone else only reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from rescheduler.model.pod_volumes import VolumeKind
from rescheduler.model.records import HostPort, ObjectKey, Pod
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import IntArray
from rescheduler.scheduling.nodes import NodeTable
from rescheduler.scheduling.per_node_answers import PerNodeAnswers

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 -- kube-scheduler's name for "every address", nothing is bound
PortUse = dict[str, int]
K = TypeVar("K")


class Occupancy:
    """Per node: requested amounts, pods, used ports, and the classes whose pods use disks or claims there."""

    def __init__(self, nodes: NodeTable) -> None:
        size = nodes.size
        self.cpu: IntArray = np.zeros(size, dtype=np.int64)
        self.memory: IntArray = np.zeros(size, dtype=np.int64)
        self.ephemeral: IntArray = np.zeros(size, dtype=np.int64)
        self.pods: IntArray = np.zeros(size, dtype=np.int64)
        self.score_cpu: IntArray = np.zeros(size, dtype=np.int64)
        self.score_memory: IntArray = np.zeros(size, dtype=np.int64)
        self.scalars: dict[str, IntArray] = {}
        self.ports: dict[tuple[str, int], dict[int, PortUse]] = {}
        """(protocol, port) -> node -> address -> how many pods use it."""
        self.disk_users: dict[int, dict[PodClass, int]] = {}
        self.claim_users: dict[int, dict[PodClass, int]] = {}
        self.answers = PerNodeAnswers(size)
        """What follows from a node and the resources held there alone."""
        self.claims: dict[ObjectKey, int] = {}
        """Claims (not the ones of ephemeral volumes) -> how many pods on nodes use them."""
        self._size = size

    def add(self, pod: Pod, node: int, delta: int) -> None:
        """Count one pod (1) or take it back (-1)."""
        held = pod.held
        self.answers.touch(node)
        self.cpu[node] += delta * held.cpu_milli
        self.memory[node] += delta * held.memory_bytes
        self.pods[node] += delta
        self.score_cpu[node] += delta * pod.held_score_cpu_milli
        self.score_memory[node] += delta * pod.held_score_memory_bytes
        if held.ephemeral_bytes:
            self.ephemeral[node] += delta * held.ephemeral_bytes
        for name, amount in held.scalars:
            self._scalar(name)[node] += delta * amount

    def add_many(self, like: Sequence[Pod], lengths: Sequence[int], nodes: Sequence[int]) -> None:
        """Count many pods at once: ``lengths[i]`` pods that hold what ``like[i]`` holds, and so on, on these nodes."""
        if not like:
            return
        where = np.asarray(nodes, dtype=np.intp)
        amounts = np.asarray(
            [
                (
                    p.held.cpu_milli,
                    p.held.memory_bytes,
                    p.held.ephemeral_bytes,
                    1,
                    p.held_score_cpu_milli,
                    p.held_score_memory_bytes,
                )
                for p in like
            ],
            dtype=np.int64,
        )
        columns = (self.cpu, self.memory, self.ephemeral, self.pods, self.score_cpu, self.score_memory)
        for column, values in zip(columns, amounts.T, strict=True):
            np.add.at(column, where, np.repeat(values, lengths))
        start = 0
        for pod, length in zip(like, lengths, strict=True):
            for name, amount in pod.held.scalars:
                np.add.at(self._scalar(name), where[start : start + length], amount)
            start += length

    def requested(self, resource: str) -> IntArray:
        """What pods hold of a resource on each node; "pods" is their number."""
        match resource:
            case "cpu":
                return self.cpu
            case "memory":
                return self.memory
            case "ephemeral-storage":
                return self.ephemeral
            case "pods":
                return self.pods
            case _:
                return self._scalar(resource)

    def attach(self, kind: PodClass, node: int, delta: int) -> None:
        """Count what a pod of the class holds besides resources."""
        for port in kind.spec.host_ports:
            self._use_port(port, node, delta)
        if kind.disks:
            _count(self.disk_users.setdefault(node, {}), kind, delta)
        if kind.attaches:
            _count(self.claim_users.setdefault(node, {}), kind, delta)
            for volume in kind.spec.volumes:
                if volume.kind is VolumeKind.CLAIM:
                    _count(self.claims, ObjectKey(kind.namespace, volume.source), delta)

    def _use_port(self, port: HostPort, node: int, delta: int) -> None:
        use = self.ports.setdefault((port.protocol or "TCP", port.port), {}).setdefault(node, {})
        _count(use, port.ip or ANY_ADDRESS, delta)

    def _scalar(self, name: str) -> IntArray:
        known = self.scalars.get(name)
        if known is None:
            known = self.scalars[name] = np.zeros(self._size, dtype=np.int64)
        return known


def _count(counts: dict[K, int], key: K, delta: int) -> None:
    left = counts.get(key, 0) + delta
    if left:
        counts[key] = left
    else:
        del counts[key]
