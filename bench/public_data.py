"""Plans on public data beside the best results known: what is found, what is known, every plan replayed move by move.

Usage: RESCHEDULER_DATA=FOLDER python -m bench.public_data [NAME ...]   (names: rasa vmr openb huawei)

| data | question | best known |
|---|---|---|
| rasa: ByteDance M3, 96 machines | nodes emptied with at most 100, 200 moves | 15, 18 (18 proven for 200) |
| vmr: ByteDance VMR medium, 279 hosts | fragment rate after at most 50 moves | .5983 (proven); .5753 with machines that no pod can be |
| openb: Alibaba GPU trace, 1,523 nodes | nodes emptied with at most 500 moves | what no plan can pass (411 from a start that is not published) |
| huawei: C1, C5, 1,710 servers | violations left after two stages of moves | 0 |

Start states are those of ``bench.traces``, except that in vmr each NUMA node is a node, as its published measure has it: virtual machines
on one NUMA node may move, those on both stay: no pod is on two nodes.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.optima import planned
from bench.random_clusters import REPAIRS, policies
from bench.traces import MIB, Trace, huawei, openb_start, rasa, spec_of
from rescheduler.model.never_moves import belongs_to_node
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
    asked = Consolidation.of(placement, NOT_FULL, FULL, max_moves, any_order=True)
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


def numa(folder: Path) -> Trace:
    """Each NUMA node a node. A virtual machine on both has a pod on each, which stays."""
    document = json.loads(gzip.decompress((folder / "medium_279pm_2089vm.json.gz").read_bytes()))
    # The two clusters of the file form one pool in the model of its authors.
    hosts = [host for cluster in document["cluster_list"] for host in cluster["host_info"]]
    machines = [vm for cluster in document["cluster_list"] for vm in cluster["vm_instance"]]
    taken: dict[str, int] = {}
    for vm in machines:
        for part in vm["numa"]:
            slot = f"{vm['host_id']}-{part['node']}"
            taken[slot] = taken.get(slot, 0) + int(part["mem_mb"])
    trace = Trace()
    for host in hosts:
        for part in host["numa"]:
            slot = f"{host['node_id']}-{part['node']}"
            # A few start above their capacity; they may stay so.
            memory = max(int(part["memory_huge_total_mb"]), taken.get(slot, 0))
            trace.node(slot, int(part["total_cpu"]) * 1000, memory * MIB)
    for vm in machines:
        parts = vm["numa"]
        for part in parts:
            slot = f"{vm['host_id']}-{part['node']}"
            name = vm["instance_id"] if len(parts) == 1 else f"{vm['instance_id']}-{part['node']}"
            spec = spec_of(int(part["cpu"] * 1000), int(part["mem_mb"]) * MIB)
            trace.pod(name, f"{'of' if len(parts) == 1 else STAYS}-{name}", spec, slot)
    return trace


STAYS: Final = "stays"


def fragment_rate(snapshot: Snapshot) -> float:
    """Free CPU that is in no whole room, of all free CPU."""
    free = {name: node.allocatable.cpu_milli for name, node in snapshot.nodes.items()}
    for pod in snapshot.pods.values():
        free[pod.node] -= pod.spec.requests.cpu_milli
    rest = sum(left % ROOM_MILLI for left in free.values())
    return rest / sum(free.values())


def of_vmr(folder: Path) -> Iterator[Row]:
    snapshot = numa(folder).snapshot()
    done = planned(
        snapshot, policies(Defragmentation={"template": {"cpu": ROOM_MILLI // 1000}}), max_moves=50
    )
    question = f"bytedance-vmr medium: fragment rate (start {fragment_rate(snapshot):.4f}), at most 50 moves"
    rate = f"{fragment_rate(done.snapshot):.4f}"
    yield Row(
        question,
        rate,
        "0.5983 (proven; 0.5753 if machines on both NUMA nodes of a host move, too)",
        done.moves,
        done.refused,
        done.seconds,
    )


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
