"""Public traces of real clusters as snapshots, for ``bench.public_data``.

| folder | what it is | start state |
|---|---|---|
| bytedance-rasa-m3 | microservices, placed | theirs |
| openb-gpu2023 | GPU cluster, not placed | at random where there is room, seed 42, in the order of creation |
| huawei-topology | VMs with groups, not placed | likewise; 64 racks, servers dealt out in turn |

VMs and containers become pods; NUMA nodes are added up, for the stock scheduler does not place by them.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.planning import NOW_S
from rescheduler.model.holding import holding
from rescheduler.model.names import HOSTNAME, ZONE
from rescheduler.model.records import (
    Node,
    ObjectKey,
    OwnerRef,
    Pod,
    PodAffinityTerm,
    PodPhase,
    PodSpec,
    SpreadConstraint,
    Workload,
)
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSelector, LabelSet, Operator, Requirement
from rescheduler.model.snapshot import Snapshot

MIB = 1 << 20
PODS_PER_NODE = 500
GPU = "nvidia.com/gpu-milli"
RACKS = 64
SEED = 42
WHOLE_CLUSTER_MILLI = 100_000_000
"""rasa gives shares of the whole cluster: taken for this much CPU, and as many MiB."""


class Trace:
    """A cluster that is being put together."""

    def __init__(self, *, spread: bool = False) -> None:
        """``spread``: pods go where CPU and memory are least used, as kube-scheduler's defaults have it; otherwise at random."""
        self._spread = spread
        self.nodes: dict[str, Node] = {}
        self.pods: dict[ObjectKey, Pod] = {}
        self.workloads: dict[str, Workload] = {}
        self._flavours: dict[str, dict[PodSpec, int]] = {}
        """By group, the number of each flavour."""
        self._free: dict[str, list[int]] = {}
        self._rng = random.Random(SEED)

    def node(
        self,
        name: str,
        cpu_milli: int,
        memory_bytes: int,
        gpu_milli: int = 0,
        zone: str = "",
        *,
        scalars: tuple[tuple[str, int], ...] = (),
    ) -> None:
        labels = {HOSTNAME: name, **({ZONE: zone} if zone else {})}
        scalars = ((GPU, gpu_milli),) if gpu_milli else scalars
        room = Resources(cpu_milli=cpu_milli, memory_bytes=memory_bytes, pods=PODS_PER_NODE, scalars=scalars)
        self.nodes[name] = Node(name=name, uid=name, labels=LabelSet(labels), allocatable=room)
        self._free[name] = [cpu_milli, memory_bytes, gpu_milli]

    def pod(self, name: str, owner: str, spec: PodSpec, node: str = "") -> bool:
        """A running pod; without ``node`` it is put somewhere where there is room. False: there is none."""
        asked = (spec.requests.cpu_milli, spec.requests.memory_bytes, spec.requests.scalar(GPU))
        where = node or self._somewhere(asked)
        if not where:
            return False
        self._free[where] = [have - need for have, need in zip(self._free[where], asked, strict=True)]
        labels = LabelSet({"app": owner})
        # A group of several flavours is one ReplicaSet for each of them: what a ReplicaSet makes is all alike.
        number = self._flavours.setdefault(owner, {}).setdefault(spec, len(self._flavours[owner]))
        made_by = f"{owner}-{number}" if number else owner
        ref = OwnerRef("apps/v1", "ReplicaSet", made_by, made_by)
        known = self.workloads.get(made_by)
        self.workloads[made_by] = Workload(
            kind="ReplicaSet", namespace="trace", name=made_by, uid=made_by, template=spec, template_labels=labels,
            replicas=known.replicas + 1 if known else 1,
        )  # fmt: skip
        pod = Pod(
            namespace="trace", name=name, uid=name, node=where, spec=spec, labels=labels, controller=ref,
            created_at_s=NOW_S - 1e6,
            state=holding(spec, phase=PodPhase.RUNNING, ready=True),
        )  # fmt: skip
        self.pods[pod.key] = pod
        return True

    def _somewhere(self, asked: tuple[int, ...]) -> str:
        fits = [n for n, free in self._free.items() if all(f >= a for f, a in zip(free, asked, strict=True))]
        if self._spread and fits:
            scores = {name: self._score(name, asked) for name in fits}
            most = max(scores.values())
            fits = [name for name, score in scores.items() if score == most]
        return self._rng.choice(fits) if fits else ""

    def _score(self, name: str, asked: tuple[int, ...]) -> int:
        """NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation together, of 200."""
        size, free = self.nodes[name].allocatable, self._free[name]
        cpu = (free[0] - asked[0]) / size.cpu_milli
        memory = (free[1] - asked[1]) / size.memory_bytes
        return int(50 * (cpu + memory)) + int(100 * (1 - abs(cpu - memory) / 2))

    def snapshot(self) -> Snapshot:
        return Snapshot(taken_at_s=NOW_S, nodes=self.nodes, pods=self.pods, workloads=self.workloads)


def spec_of(cpu_milli: int, memory_bytes: int, gpu_milli: int = 0, **constraints: Any) -> PodSpec:
    scalars = ((GPU, gpu_milli),) if gpu_milli else ()
    return PodSpec(
        requests=Resources(cpu_milli=cpu_milli, memory_bytes=memory_bytes, scalars=scalars),
        score_cpu_milli=cpu_milli,
        score_memory_bytes=memory_bytes,
        **constraints,
    )


def rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def rasa(folder: Path) -> Iterator[tuple[str, Trace]]:
    document = json.loads(gzip.decompress((folder / "M3.json.gz").read_bytes()))
    trace, place = Trace(), {}
    for machine in document["MachineList"]:
        name = f"m-{machine['MachineIP']}"
        cpu = int(machine["TotalCPU"] * WHOLE_CLUSTER_MILLI)
        trace.node(name, cpu, int(machine["TotalMem"] * WHOLE_CLUSTER_MILLI) * MIB)
        place.update(dict.fromkeys(machine["InitialDeployingContainers"], name))
    for service in document["ServiceList"]:
        cpu = int(service["RequestCPU"] * WHOLE_CLUSTER_MILLI)
        spec = spec_of(cpu, int(service["RequestMem"] * WHOLE_CLUSTER_MILLI) * MIB)
        for container in service["ContainerList"]:
            trace.pod(container, service["Service"], spec, place[container])
    yield "bytedance-rasa-m3", trace


def openb_start(folder: Path, *, running: bool = False, most_gpu: float = 1.0, spread: bool = False) -> Trace:
    """``running``: only pods whose phase is Running. ``most_gpu``: no more pods once this share of all GPUs is taken."""
    trace = Trace(spread=spread)
    gpus = taken = 0
    for row in rows(folder / "openb_node_list_all_node.csv.gz"):
        memory = int(row["memory_mib"]) * MIB
        trace.node(row["sn"], int(row["cpu_milli"]), memory, int(row["gpu"] or 0) * 1000)
        gpus += int(row["gpu"] or 0) * 1000
    pods = sorted(rows(folder / "openb_pod_list_default.csv.gz"), key=lambda r: int(r["creation_time"]))
    for row in pods:
        gpu = int(row["num_gpu"] or 0) * int(row["gpu_milli"] or 0)
        if taken >= most_gpu * gpus:
            break
        if running and row["pod_phase"] != "Running":
            continue
        spec = spec_of(int(row["cpu_milli"]), int(row["memory_mib"]) * MIB, gpu)
        if trace.pod(row["name"], f"of-{row['name']}", spec):
            taken += gpu
    return trace


def huawei(folder: Path) -> Iterator[tuple[str, Trace]]:
    for sequence in ("C1", "C5"):
        trace = Trace()
        for number, row in enumerate(rows(folder / "PM_res.csv.gz")):
            memory = (int(row["RAM1"]) + int(row["RAM2"])) * 1024 * MIB
            rack = f"rack-{number % RACKS}"
            trace.node(f"pm-{number}", (int(row["CPU1"]) + int(row["CPU2"])) * 1000, memory, zone=rack)
        for number, row in enumerate(rows(folder / f"VM_data_{sequence}.csv.gz")):
            strategy = row["strategy"]
            owner = f"{strategy.replace('_', '-')}-{row['group']}" if strategy else f"plain-{number}"
            own = LabelSelector((Requirement("app", Operator.IN, (owner,)),))
            constraints: dict[str, Any] = {}
            if strategy == "anti-affinity":
                constraints["pod_anti_affinity"] = (PodAffinityTerm(own, HOSTNAME),)
            elif strategy == "affinity":
                constraints["pod_affinity"] = (PodAffinityTerm(own, HOSTNAME),)
            elif strategy == "fault_domain":
                constraints["spread"] = (SpreadConstraint(1, ZONE, hard=True, selector=own),)
            memory = int(row["flavor_ram"]) * 1024 * MIB
            spec = spec_of(int(row["flavor_vcpus"]) * 1000, memory, **constraints)
            trace.pod(f"vm-{number}", owner, spec)
        yield f"huawei-topology {sequence}", trace
