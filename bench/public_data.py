"""Plans on public data beside the best results known: what is found, what is known, every plan replayed move by move.

Usage: RESCHEDULER_DATA=FOLDER python -m bench.public_data [NAME ...]   (names: rasa vmr openb huawei)

| data | question | best known |
|---|---|---|
| rasa: ByteDance M3, 96 machines | nodes emptied with at most 100, 200 moves | 15, 18 (18 proven for 200) |
| vmr: ByteDance VMR medium, 279 hosts | fragment rate after at most 50 moves | .5753; .5983 if only machines on one NUMA node move (both proven) |
| openb: Alibaba GPU trace, 1,523 nodes | nodes emptied with at most 500 moves | what no plan can pass (411 from a start that is not published) |
| huawei: C1, C5, 1,710 servers | violations left after two stages of moves | 0 |

Start states are those of ``bench.traces``, except that vmr is asked by NUMA node, as its published measure has it. Either each NUMA node
is a node: machines on one may move, those on both stay, for no pod is on two nodes. Or each host is a node that offers the CPU and memory of
each NUMA node as extended resources: then a machine on both is one pod, and each machine keeps the numbers of its NUMA nodes.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.optima import planned
from bench.random_clusters import REPAIRS, policies
from bench.traces import MIB, Trace, huawei, openb_start, rasa, spec_of
from rescheduler.model.never_moves import belongs_to_node
from rescheduler.model.records import PodSpec
from rescheduler.model.resources import Resources
from rescheduler.model.snapshot import Snapshot
from rescheduler.optima.fillings import Consolidation, most_emptied_by_sizes
from rescheduler.optima.placement import Places
from rescheduler.policies.framework import Policy, PolicyView
from rescheduler.policies.objective import Tier
from rescheduler.scheduling.state import SchedulingState

SECONDS: Final = 60.0
"""Of the solver."""
FULL: Final = {"cpu": 100.0, "memory": 100.0}
NOT_FULL: Final = {"cpu": 99.999, "memory": 99.999}
OPENB_STARTS: Final[dict[str, dict[str, Any]]] = {
    "all pods at random": {},
    "all pods where least is used": {"spread": True},
    "running pods at random": {"running": True},
    "running pods where least is used": {"running": True, "spread": True},
    "pods at random up to 70 % of the GPUs": {"most_gpu": 0.7},
    "pods at random up to 34 % of the GPUs": {"most_gpu": 0.34},
}
"""The trace has no placement. Of the last one no plan can empty more than 410 nodes."""
ROOM_MILLI: Final = 16_000
"""The fragment rate counts rooms of 16 cores."""


@dataclass(frozen=True)
class Row:
    """One figure beside the best known."""

    question: str
    found: str
    known: str
    moves: int
    refused: int
    seconds: float


def packing() -> tuple[Policy, ...]:
    """HighNodeUtilization that may empty any node and fill every other to the brim."""
    return policies(HighNodeUtilization={"thresholds": NOT_FULL, "target_thresholds": FULL})


def in_use(snapshot: Snapshot) -> int:
    """Nodes with at least one pod that does not belong to its node."""
    return len({pod.node for pod in snapshot.pods.values() if pod.node and not belongs_to_node(pod)})


def emptied(label: str, snapshot: Snapshot, max_moves: int, known: str) -> Row:
    done = planned(snapshot, packing(), max_moves=max_moves)
    found = in_use(snapshot) - in_use(done.snapshot)
    question = f"{label}: nodes emptied, at most {max_moves} moves"
    return Row(question, str(found), known, done.moves, done.refused, done.seconds)


def of_rasa(folder: Path) -> Iterator[Row]:
    for label, trace in rasa(folder):
        snapshot = trace.snapshot()
        for max_moves, known in ((100, "15"), (200, "18")):
            yield emptied(label, snapshot, max_moves, known)


def of_openb(folder: Path) -> Iterator[Row]:
    """No start is published: some natural ones, each beside what no plan can pass in it."""
    for label, how in OPENB_STARTS.items():
        snapshot = openb_start(folder, **how).snapshot()
        yield emptied(f"openb, {label}", snapshot, 500, most_possible(snapshot, 500))


def most_possible(snapshot: Snapshot, max_moves: int) -> str:
    """The bound by sizes of pods."""
    placement = Places(snapshot).placement
    asked = Consolidation.of(placement, NOT_FULL, FULL, max_moves)
    best = most_emptied_by_sizes(placement, asked, SECONDS)
    return f"at most {math.floor(1e-6 - best.bound)}"


def of_huawei(folder: Path) -> Iterator[Row]:
    wanted = policies(*REPAIRS)
    for label, trace in huawei(folder):
        snapshot = trace.snapshot()
        done = planned(snapshot, wanted, stages=2)
        question = f"{label}: of {broken(snapshot, wanted)} violations left, two stages"
        left = broken(done.snapshot, wanted)
        yield Row(question, str(left), "0", done.moves, done.refused, done.seconds)


def broken(snapshot: Snapshot, wanted: Sequence[Policy]) -> int:
    """How many hard rules the pods break: as the policies count them, since the exact models leave out groups of several flavours."""
    view = PolicyView.of(snapshot, SchedulingState(snapshot))
    return sum(int(policy.badness(view)[Tier.HARD]) for policy in wanted)


def machines_of(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]], Counter[tuple[str, int]]]:
    """Hosts, virtual machines, and the memory (MiB) that is taken of each host and NUMA node."""
    document = json.loads(gzip.decompress((folder / "medium_279pm_2089vm.json.gz").read_bytes()))
    # The two clusters of the file form one pool in the model of its authors.
    hosts = [host for cluster in document["cluster_list"] for host in cluster["host_info"]]
    machines = [vm for cluster in document["cluster_list"] for vm in cluster["vm_instance"]]
    taken: Counter[tuple[str, int]] = Counter()
    for vm in machines:
        for part in vm["numa"]:
            taken[vm["host_id"], part["node"]] += int(part["mem_mb"])
    return hosts, machines, taken


def numa_nodes(folder: Path) -> Trace:
    """Each NUMA node a node. A virtual machine on both has a pod on each, which stays."""
    hosts, machines, taken = machines_of(folder)
    trace = Trace()
    for host in hosts:
        for part in host["numa"]:
            # A few start above their capacity; they may stay so.
            memory = max(int(part["memory_huge_total_mb"]), taken[host["node_id"], part["node"]])
            trace.node(f"{host['node_id']}-{part['node']}", int(part["total_cpu"]) * 1000, memory * MIB)
    for vm in machines:
        parts = vm["numa"]
        for part in parts:
            slot = f"{vm['host_id']}-{part['node']}"
            name = vm["instance_id"] if len(parts) == 1 else f"{vm['instance_id']}-{part['node']}"
            spec = spec_of(int(part["cpu"] * 1000), int(part["mem_mb"]) * MIB)
            trace.pod(name, f"{'of' if len(parts) == 1 else STAYS}-{name}", spec, slot)
    return trace


STAYS: Final = "stays"
NUMA_CPU: Final = "example.com/numa-{}-cpu-milli"
NUMA_MEMORY: Final = "example.com/numa-{}-memory-mib"


def numa_resources(folder: Path) -> Trace:
    """Each host a node, with CPU and memory of each NUMA node as resources of their own; each virtual machine one pod that asks for its parts."""
    hosts, machines, taken = machines_of(folder)
    trace = Trace()
    for host in hosts:
        offered: dict[str, int] = {}
        for part in host["numa"]:
            memory = max(int(part["memory_huge_total_mb"]), taken[host["node_id"], part["node"]])
            offered[NUMA_CPU.format(part["node"])] = int(part["total_cpu"]) * 1000
            offered[NUMA_MEMORY.format(part["node"])] = memory
        trace.node(host["node_id"], 0, 0, scalars=tuple(sorted(offered.items())))
    for vm in machines:
        asked: dict[str, int] = {}
        for part in vm["numa"]:
            asked[NUMA_CPU.format(part["node"])] = int(part["cpu"] * 1000)
            asked[NUMA_MEMORY.format(part["node"])] = int(part["mem_mb"])
        spec = PodSpec(requests=Resources(scalars=tuple(sorted(asked.items()))))
        trace.pod(vm["instance_id"], f"of-{vm['instance_id']}", spec, vm["host_id"])
    return trace


def fragment_rate(snapshot: Snapshot, cpus: Sequence[str]) -> float:
    """Free CPU that is in no whole room, of all free CPU; ``cpus``: the resources that are CPU."""
    free = Counter(
        {(name, cpu): node.allocatable.amount(cpu) for name, node in snapshot.nodes.items() for cpu in cpus}
    )
    for pod in snapshot.pods.values():
        for cpu in cpus:
            free[pod.node, cpu] -= pod.spec.requests.amount(cpu)
    rest = sum(left % ROOM_MILLI for left in free.values())
    return rest / sum(free.values())


def of_vmr(folder: Path) -> Iterator[Row]:
    label = "bytedance-vmr medium, NUMA nodes as"
    cores = {"template": {"cpu": ROOM_MILLI // 1000}}
    yield defragmented(f"{label} nodes", numa_nodes(folder).snapshot(), ["cpu"], cores, "0.5983 (proven)")
    cpus = [NUMA_CPU.format(number) for number in (0, 1)]
    first, second = ({cpu: ROOM_MILLI} for cpu in cpus)
    either = {"template": first, "more_templates": (second,)}
    yield defragmented(
        f"{label} resources", numa_resources(folder).snapshot(), cpus, either, "0.5753 (proven)"
    )


def defragmented(
    label: str, snapshot: Snapshot, cpus: Sequence[str], arguments: dict[str, Any], known: str
) -> Row:
    done = planned(snapshot, policies(Defragmentation=arguments), max_moves=50)
    question = f"{label}: fragment rate (start {fragment_rate(snapshot, cpus):.4f}), at most 50 moves"
    rate = f"{fragment_rate(done.snapshot, cpus):.4f}"
    return Row(question, rate, known, done.moves, done.refused, done.seconds)


QUESTIONS: Final[dict[str, tuple[str, Callable[[Path], Iterator[Row]]]]] = {
    "rasa": ("bytedance-rasa-m3", of_rasa),
    "vmr": ("bytedance-vmr", of_vmr),
    "openb": ("openb-gpu2023", of_openb),
    "huawei": ("huawei-topology", of_huawei),
}


def main() -> int:
    folder = os.environ.get("RESCHEDULER_DATA", "")
    if not folder:
        print("no folder of public data: set RESCHEDULER_DATA", file=sys.stderr)
        return 2
    for name in sys.argv[1:] or QUESTIONS:
        where, ask = QUESTIONS[name]
        if not (Path(folder) / where).is_dir():
            print(f"{where}: not in {folder}")
            continue
        start = time.perf_counter()
        for row in ask(Path(folder) / where):
            print(
                f"{row.question}: {row.found} / {row.known}   moves {row.moves}, {row.refused} refused, "
                f"{row.seconds:.2f} s CPU",
                flush=True,
            )
        print(f"  ({where} took {time.perf_counter() - start:.0f} s, loading and replay included)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
