"""Pending pods that fit only after others have moved: what policy PendingPods places, beside the best that there is.

Usage: python -m bench.pending [--clusters 30] [--first SEED] [--seconds 20] [--each] [--decide NODES PENDING]

Each cluster is made backwards: full nodes with every pod in its place, of which some then become pending and others take their
places, in chains of one, two and three moves. So room for all of them is possible, and the moves of the chains are enough. The exact
model (highspy) says how many moves are needed at least; where it is not proven in its time, its bound is taken. Bars: 0.95 of the
pods placed, at most 1.2 times the moves, none refused when the plan is carried out in any order of the moves of a stage.

``--decide``: CPU seconds of one decision on a large cluster whose nodes are full, the first and the second time. Needs the extra ``prove``.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from bench.replay import replay
from harness import builders as b
from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.optima.integer_program import IntegerProgram, Solution
from rescheduler.planning.limits import Limits, PlanningInputs
from rescheduler.planning.plan import Plan, in_stages
from rescheduler.planning.planner import plan
from rescheduler.policies.registry import REGISTRY
from rescheduler.scheduling.state import SchedulingState

ORDERS: Final = 3
NODE_CPU_MILLI: Final = 8000
NODE_MIB: Final = 32_768
DEPTHS: Final = (1, 2, 3)
HELD: Final = 0.1
"""Share of the pods that a budget holds where they are."""


_Size = tuple[int, int]
"""CPU in milli, memory in MiB."""


@dataclass
class _Small:
    """A pod while its cluster is made: sizes only."""

    name: str
    cpu: int
    mib: int
    held: bool = False


@dataclass
class Generated:
    """A cluster and what is known of it."""

    seed: int
    snapshot: Snapshot
    moves: int
    """So many are enough for room for all."""
    depths: dict[str, int] = field(default_factory=dict)
    """By name of the pending pod."""


def generate(
    seed: int, nodes: int | None = None, pending: int | None = None, *, alike: bool = False
) -> Generated:
    """The same seed gives the same cluster. ``alike``: pods of one size have one owner, as on large clusters; none is held."""
    rng = random.Random(seed)
    number = nodes or rng.randint(20, 60)
    standing = [_full_node(rng, node) for node in range(number)]
    wanted = pending or max(3, number // 8)
    made: dict[str, int] = {}
    waiting: list[_Small] = []
    used: set[int] = set()
    moves = 0
    for _ in range(wanted * 200):
        if len(waiting) == wanted:
            break
        depth = DEPTHS[len(waiting) % len(DEPTHS)]
        chain = _chain(rng, standing, used, depth)
        if chain is None:
            continue
        first = chain[0][1]
        before = {node: list(standing[node]) for node, _ in chain}
        for node, pod in chain:
            standing[node].remove(pod)
        for (into, _), (_, pod) in pairwise(chain):
            standing[into].append(pod)
        changed = [standing[node] for node, _ in chain]
        if any(_fits(first, pods) for pods in standing) or any(
            _fits(p, pods) for p in waiting for pods in changed
        ):
            for node, pods in before.items():
                standing[node] = pods
            continue
        waiting.append(first)
        used |= {node for node, _ in chain}
        made[first.name], moves = depth, moves + depth
    return Generated(seed, _snapshot(rng, standing, waiting, used, alike=alike), moves, made)


def _full_node(rng: random.Random, node: int) -> list[_Small]:
    """Pods that leave next to nothing free."""
    found: list[_Small] = []
    cpu, mib = NODE_CPU_MILLI, NODE_MIB
    while cpu > 400 and mib > 1_500:
        want = min(rng.choice((300, 500, 700, 900, 1_200, 1_600, 2_200)), cpu)
        memory = min(want * rng.choice((2, 3, 4, 5)), mib)
        found.append(_Small(f"p{node}-{len(found)}", want, memory))
        cpu, mib = cpu - want, mib - memory
    return found


def _chain(
    rng: random.Random, standing: list[list[_Small]], used: set[int], depth: int
) -> list[tuple[int, _Small]] | None:
    """A pod that becomes pending, and on other nodes those that take one another's places, each smaller than the one before."""
    free = [node for node in range(len(standing)) if node not in used]
    rng.shuffle(free)
    if len(free) <= depth:
        return None
    found = [(free[0], rng.choice(standing[free[0]]))]
    for node in free[1:]:
        last = found[-1][1]
        smaller = [p for p in standing[node] if 200 < p.cpu < last.cpu and p.mib <= last.mib]
        if smaller:
            found.append((node, rng.choice(smaller)))
            if len(found) == depth + 1:
                return found
    return None


def _fits(pod: _Small, pods: list[_Small]) -> bool:
    """True if it would not have to wait."""
    cpu, mib = sum(p.cpu for p in pods), sum(p.mib for p in pods)
    return cpu + pod.cpu <= NODE_CPU_MILLI and mib + pod.mib <= NODE_MIB


def _snapshot(
    rng: random.Random, standing: list[list[_Small]], waiting: list[_Small], used: set[int], *, alike: bool
) -> Snapshot:
    items: list[object] = [b.pdb("held", "default").selects(held="yes").allows(0)]
    names = {
        id(p): f"s{p.cpu}-{p.mib}-{n % 8}" if alike else p.name
        for n, pods in enumerate(standing)
        for p in pods
    }
    replicas = Counter(names.values())
    for node, pods in enumerate(standing):
        items.append(b.node(f"n{node}").cpu(f"{NODE_CPU_MILLI}m").memory(f"{NODE_MIB}Mi"))
        for pod in pods:
            name = names[id(pod)]
            owner = b.replicaset(name).cpu(f"{pod.cpu}m").memory(f"{pod.mib}Mi").replicas(replicas[name])
            if not alike and node not in used and rng.random() < HELD:
                owner = owner.template_label(held="yes")
            items += [owner, owner.pod(f"{pod.name}-x").on(f"n{node}")]
    for pod in waiting:
        owner = b.replicaset(pod.name).cpu(f"{pod.cpu}m").memory(f"{pod.mib}Mi").replicas(1)
        items += [owner, owner.pod(f"{pod.name}-x").unschedulable()]
    return b.snapshot(*items)


def fewest_moves(snapshot: Snapshot, seconds: float) -> Solution:
    """Of any placement in which all pending pods have room: how many pods stand elsewhere.

    Pods of one size are one class: unknown is how many of it leave each node and how many come.
    """
    program = IntegerProgram()
    free, standing, pending = _by_size(snapshot)
    total = sum(standing.values(), Counter(pending))
    balance: dict[_Size, dict[int, float]] = {size: {} for size in sorted(total)}
    for name, room in free.items():
        here = standing[name]
        leaving = {size: program.column(float(n), cost=1.0) for size, n in sorted(here.items())}
        coming = {}
        for size in sorted(total):
            whole = min((room[r] + sum(one[r] * n for one, n in here.items())) // size[r] for r in (0, 1))
            if (most := min(whole, total[size] - here[size])) > 0:
                coming[size] = program.column(float(most))
                # Follows from the sizes for whole pods, and tells the solver about parts of pods.
                must = max(_fewest(here, r, size[r] - room[r]) for r in (0, 1))
                program.row(dict.fromkeys(leaving.values(), 1.0) | {coming[size]: -must / most}, least=0.0)
        for r in (0, 1):
            taken = {column: float(size[r]) for size, column in coming.items()}
            given = {column: -float(size[r]) for size, column in leaving.items()}
            program.row(taken | given, most=float(room[r]))
        for columns, sign in ((leaving, 1.0), (coming, -1.0)):
            for size, column in columns.items():
                balance[size][column] = sign
    for size, terms in balance.items():
        program.row(terms, least=-float(pending[size]), most=-float(pending[size]))
    return program.solve(seconds)


def _by_size(snapshot: Snapshot) -> tuple[dict[str, _Size], dict[str, Counter[_Size]], Counter[_Size]]:
    """What is free on each node, its pods that may move, and the pending pods, as numbers of pods of each size."""
    free: dict[str, _Size] = dict.fromkeys(sorted(snapshot.nodes), (NODE_CPU_MILLI, NODE_MIB))
    standing: dict[str, Counter[_Size]] = {name: Counter() for name in free}
    pending: Counter[_Size] = Counter()
    for pod in snapshot.pods.values():
        size = (pod.spec.requests.cpu_milli, pod.spec.requests.memory_bytes >> 20)
        if not pod.node:
            pending[size] += 1
            continue
        cpu, mib = free[pod.node]
        free[pod.node] = cpu - size[0], mib - size[1]
        if pod.labels.get("held") != "yes":
            standing[pod.node][size] += 1
    return free, standing, pending


def _fewest(standing: Counter[_Size], resource: int, missing: int) -> int:
    """So many pods must leave until that much is free; 0 if it is free now."""
    number = 0
    for size in sorted(standing.elements(), key=lambda size: -size[resource]):
        if missing <= 0:
            break
        missing, number = missing - size[resource], number + 1
    return number


def decide(snapshot: Snapshot, state: SchedulingState | None = None, *, limits: Limits | None = None) -> Plan:
    """The plan of policy PendingPods alone."""
    kind = REGISTRY["PendingPods"]
    inputs = PlanningInputs(limits=limits or Limits(), aggressiveness=1.0, unlimited=limits is None)
    return plan(snapshot, [kind.build(kind.args())], inputs, state or SchedulingState(snapshot))


def refused(snapshot: Snapshot, made: Plan) -> int:
    """Moves and landings that the scheduler's rules refuse when the plan is carried out, in the worst order that is tried."""
    worst = 0
    for order in (None, *(random.Random(n) for n in range(ORDERS))):
        done = replay(snapshot, in_stages(made.moves), order)
        state = SchedulingState(done.snapshot)
        count = len(done.refused)
        by_uid = {pod.uid: pod for pod in done.snapshot.pods.values()}
        for room in made.rooms:
            pod: Pod = by_uid[room.pod.uid]
            if room.node and not state.feasible(pod)[state.node_index[room.node]]:
                count += 1
            elif room.node:
                state.remove(pod)
                state.place(pod, room.node)
        worst = max(worst, count)
    return worst


def compare(clusters: int, first: int, seconds: float, *, each: bool) -> int:
    """Print the figures; 1 if a bar is missed."""
    placed = wanted = moves = least = wrong = 0
    by_depth = {depth: [0, 0] for depth in DEPTHS}
    took: list[float] = []
    for seed in range(first, first + clusters):
        cluster = generate(seed)
        begun = time.perf_counter()
        made = decide(cluster.snapshot)
        took.append(time.perf_counter() - begun)
        got = {room.pod.name.removesuffix("-x") for room in made.rooms if room.node}
        for name, depth in cluster.depths.items():
            by_depth[depth][0] += name in got
            by_depth[depth][1] += 1
        best = fewest_moves(cluster.snapshot, seconds) if len(got) == len(cluster.depths) else None
        bad = refused(cluster.snapshot, made)
        placed, wanted, wrong = placed + len(got), wanted + len(cluster.depths), wrong + bad
        bound = None
        if best is not None:
            bound = max(1, round(best.bound + 0.499)) if best.bound > 0 else 1
            moves, least = moves + len(made.moves), least + bound
        if each:
            proven = "" if best is None else " proven" if best.proven else " bound"
            print(
                f"seed {seed}: {len(cluster.snapshot.nodes)} nodes, placed {len(got)} of {len(cluster.depths)}, "
                f"moves {len(made.moves)}, at least {bound}{proven}, known {cluster.moves}, refused {bad}, {took[-1]:.2f} s",
                flush=True,
            )
    depths = ", ".join(f"depth {d}: {got} of {of}" for d, (got, of) in by_depth.items())
    print(
        f"seeds {first} to {first + clusters - 1}: placed {placed} of {wanted} ({placed / wanted:.3f}; {depths})"
    )
    print(
        f"moves where all are placed: {moves}, at least {least} ({moves / max(least, 1):.3f}); refused {wrong}"
    )
    print(f"seconds of a plan: {sum(took) / len(took):.2f} in the mean, {max(took):.2f} at most")
    return int(placed < 0.95 * wanted or moves > 1.2 * least or wrong > 0)


def measure(nodes: int, pending: int) -> None:
    """CPU seconds of a decision within limits, and of a plan."""
    cluster = generate(1, nodes, pending, alike=True)
    for words, limits in (("decision within limits", Limits(moves_at_once=20, per_node=5)), ("plan", None)):
        state = SchedulingState(cluster.snapshot)
        for time_of in ("first", "second"):
            begun = time.process_time()
            made = decide(cluster.snapshot, state, limits=limits)
            found = sum(bool(room.node) for room in made.rooms)
            print(
                f"{nodes} nodes, {len(cluster.snapshot.pods)} pods, {len(cluster.depths)} pending: {words}, {time_of}: "
                f"{time.process_time() - begun:.2f} s, room for {found}, {len(made.moves)} moves",
                flush=True,
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--clusters", type=int, default=30)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--decide", type=int, nargs=2, metavar=("NODES", "PENDING"))
    args = parser.parse_args()
    if args.decide:
        measure(*args.decide)
        return 0
    return compare(args.clusters, args.first, args.seconds, each=args.each)


if __name__ == "__main__":
    raise SystemExit(main())
