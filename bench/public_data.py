"""Plans on public data beside the best results known: what is found, what is known, every plan replayed move by move.

Usage: RESCHEDULER_DATA=FOLDER python -m bench.public_data [NAME ...]   (names: rasa vmr openb huawei)

| data | question | best known |
|---|---|---|
| rasa: ByteDance M3, 96 machines | nodes emptied with at most 100, 200 moves | 15, 18 (18 proven for 200) |
| vmr: ByteDance VMR medium, 279 hosts | fragment rate after at most 50 moves | .5983 (proven); .5753 with machines that no pod can be |
| openb: Alibaba GPU trace, 1,523 nodes | nodes emptied with at most 500 moves | 411, from a start that is not published |
| huawei: C1, C5, 1,710 servers | violations left after two stages of moves | 0 |

Start states are those of ``bench.traces``, except that in vmr each NUMA node is a node, as its published measure has it: virtual machines
on one NUMA node may move, those on both stay: no pod is on two nodes.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final

from bench.optima import planned
from bench.random_clusters import REPAIRS, policies
from bench.traces import MIB, Trace, huawei, openb, rasa, spec_of
from rescheduler.model.never_moves import belongs_to_node
from rescheduler.model.snapshot import Snapshot
from rescheduler.policies.framework import Policy, PolicyView
from rescheduler.policies.objective import Tier
from rescheduler.scheduling.state import SchedulingState

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
    arguments = {
        "thresholds": {"cpu": 99.999, "memory": 99.999},
        "target_thresholds": {"cpu": 100.0, "memory": 100.0},
    }
    return policies(HighNodeUtilization=arguments)


def in_use(snapshot: Snapshot) -> int:
    """Nodes with at least one pod that does not belong to its node."""
    return len({pod.node for pod in snapshot.pods.values() if pod.node and not belongs_to_node(pod)})


def emptied(label: str, snapshot: Snapshot, max_moves: int, known: int) -> Row:
    done = planned(snapshot, packing(), max_moves=max_moves)
    found = in_use(snapshot) - in_use(done.snapshot)
    question = f"{label}: nodes emptied, at most {max_moves} moves"
    return Row(question, str(found), str(known), done.moves, done.refused, done.seconds)


def of_rasa(folder: Path) -> Iterator[Row]:
    for label, trace in rasa(folder):
        snapshot = trace.snapshot()
        for max_moves, known in ((100, 15), (200, 18)):
            yield emptied(label, snapshot, max_moves, known)


def of_openb(folder: Path) -> Iterator[Row]:
    """The start is not published: beside the figure of another start stands what 500 moves can empty at most in this one."""
    for label, trace in openb(folder):
        snapshot = trace.snapshot()
        row = emptied(label, snapshot, 500, 411)
        yield dataclasses.replace(
            row, known=f"411 (another start; here at most {most_by_count(snapshot, 500)})"
        )


def most_by_count(snapshot: Snapshot, max_moves: int) -> int:
    """Nodes that so many moves can empty if there is room for every pod: those with the fewest pods."""
    counts = sorted(Counter(pod.node for pod in snapshot.pods.values() if not belongs_to_node(pod)).values())
    return sum(1 for total in accumulate(counts) if total <= max_moves)


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
