"""How the time of a plan grows with the cluster, for every shipped document and every policy by itself.

    python -m bench.growth [--nodes 500 ...] [--only consolidate.yaml ...] [--all-moves] [--cluster one-application]

Each row is the CPU time of one decision, from records in memory to the whole plan with all that is skipped: within the
document's own limits, as of ``plan --next-cycle``, or with ``--all-moves`` without limits, as of ``plan``. The last column
is by how much the time grew from the first size to the last, and what n log n would be. Nodes have 4 CPUs; two thirds of
them hold 30 pods (75 %), the others 3 pods (8 %), which is what makes a document that empties nodes work hardest. ``--cluster``
changes one thing about it: see ``bench.growth_clusters``.
"""

from __future__ import annotations

import gc
import math
import time
from pathlib import Path
from typing import Any

import click
import msgspec

from bench.growth_clusters import CLUSTERS, cluster
from rescheduler.configuration.document import parse_configuration
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.planner import plan
from rescheduler.policies.framework import Policy
from rescheduler.policies.registry import REGISTRY
from rescheduler.scheduling.state import SchedulingState

DOCUMENTS = Path(__file__).resolve().parent.parent / "policies"
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "NodeAffinity preferred": ("NodeAffinity", {"types": ("preferred",)}),
    "NodeAffinity score": ("NodeAffinity", {"types": ("score",)}),
    "Defragmentation 1 CPU": ("Defragmentation", {"template": {"cpu": "1"}}),
}
"""Policies that do little or nothing with their default arguments: name of the row, policy, arguments."""


def subjects(only: tuple[str, ...]) -> list[tuple[str, tuple[Policy, ...], PlanningInputs]]:
    """Name, policies and inputs of each row."""
    found: list[tuple[str, tuple[Policy, ...], PlanningInputs]] = []
    for path in sorted(DOCUMENTS.glob("*.yaml")):
        document = parse_configuration(path.read_text(), path.name)
        found.append((path.name, document.build_policies(), document.inputs()))
    for name, kind in REGISTRY.items():
        found.append((name, (kind.build(kind.args()),), PlanningInputs()))
    for row, (name, args) in VARIANTS.items():
        kind = REGISTRY[name]
        found.append((row, (kind.build(kind.args(**args)),), PlanningInputs()))
    return [row for row in found if not only or row[0] in only]


def took(
    snapshot: Snapshot, policies: tuple[Policy, ...], inputs: PlanningInputs, *, unlimited: bool
) -> tuple[float, int]:
    """CPU seconds of one plan, and its moves."""
    inputs = msgspec.structs.replace(inputs, unlimited=unlimited)
    gc.collect()
    gc.disable()
    begun = time.process_time()
    made = plan(snapshot, policies, inputs, SchedulingState(snapshot))
    seconds = time.process_time() - begun
    gc.enable()
    return seconds, len(made.moves)


@click.command(help=__doc__)
@click.option("--nodes", "sizes", multiple=True, type=int, default=(500, 1000, 2000, 5000))
@click.option("--only", multiple=True, help="a document or policy; all if none is named")
@click.option("--all-moves", is_flag=True)
@click.option("--cluster", "kind", type=click.Choice(list(CLUSTERS)), default="ordinary", show_default=True)
def main(sizes: tuple[int, ...], only: tuple[str, ...], *, all_moves: bool, kind: str) -> None:
    snapshots = {size: CLUSTERS[kind](cluster(size)) for size in sizes}
    print(f"{'seconds of CPU (moves)':24}" + "".join(f"{size:>18}" for size in sizes) + "   growth (n log n)")
    for name, policies, inputs in subjects(only):
        found = [took(snapshots[size], policies, inputs, unlimited=all_moves) for size in sizes]
        cells = "".join(f"{f'{seconds:.2f} ({moves})':>18}" for seconds, moves in found)
        bound = sizes[-1] * math.log(sizes[-1]) / (sizes[0] * math.log(sizes[0]))
        print(f"{name:24}{cells}   {found[-1][0] / max(found[0][0], 1e-9):6.1f} ({bound:.1f})", flush=True)


if __name__ == "__main__":
    main()
