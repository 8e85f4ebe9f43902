"""``make bench``: every figure with its bar and its growth from size to size.

``python bench/run.py [--sizes 500 1000 5000] [--only PART ...]``. Ends with 1 if a bar on growth is broken: those hold on any
machine. Bars on seconds and bytes are for two quiet cores; a broken one is marked and does not fail the run.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.controller import CONFIG, memory_mb  # noqa: E402 - the path comes first
from bench.generate import write  # noqa: E402
from bench.planning import Decider, changed, make_cluster, marked, policies  # noqa: E402
from bench.shapes import Shape  # noqa: E402

COMMAND_LIMIT_S = 600.0
RESCHEDULER = str(Path(sys.executable).with_name("rescheduler"))
READING = ("explain", "pod", "--all-pending")
"""Reads a dump and no more: no pod of it is pending."""
FULL_NODES = 300
GROWTH_BAR = 1.2
"""Ten times the pods cost at most twelve times the time: per pod, 1.2 times."""


@dataclass
class Board:
    """Prints figures and remembers which bars on growth were broken."""

    broken: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def figure(self, name: str, value: float, unit: str, bar: float | None = None) -> None:
        verdict = "" if bar is None else f"bar {bar:g} {unit}: {'held' if value <= bar else 'MISSED'}"
        print(f"  {name:52} {value:10.3f} {unit:8} {verdict}", flush=True)
        if bar is not None and value > bar:
            self.missed.append(name)

    def growth(self, name: str, sizes: Sequence[int], values: Sequence[float]) -> None:
        """How much more the largest size costs than the smallest, per pod."""
        if len(sizes) < 2 or min(values) <= 0:
            return
        ratio = values[-1] / values[0] / (sizes[-1] / sizes[0])
        held = ratio <= GROWTH_BAR
        steps = " -> ".join(f"{value:.3f}" for value in values)
        print(f"  {name + ': growth per pod':52} {ratio:10.2f} {'times':8} bar {GROWTH_BAR} times: "
              f"{'held' if held else 'BROKEN'} ({steps})", flush=True)  # fmt: skip
        if not held:
            self.broken.append(name)


@dataclass(frozen=True)
class Run:
    """What a command took."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    code: int


def command(arguments: Sequence[str]) -> Run:
    """Run the product's command; its time and its peak memory, which is looked at while it runs.

    That of ``wait4`` would be ours where ours was larger: a child begins with what its parent had.
    Modules are compiled once, as an installation compiles them, whatever our environment says.
    """
    peak_mb = 0.0
    begun_s = time.monotonic()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    child = subprocess.Popen(
        [RESCHEDULER, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    while True:
        peak_mb = max(peak_mb, memory_mb(child.pid, "VmHWM"))
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() - begun_s > COMMAND_LIMIT_S:
            child.kill()
        time.sleep(0.02)
    child.returncode = os.waitstatus_to_exitcode(status)
    cpu_s = usage.ru_utime + usage.ru_stime
    return Run(time.monotonic() - begun_s, cpu_s, peak_mb, child.returncode)


def module(name: str, *arguments: str) -> dict[str, float]:
    """The figures that a benchmark of its own process prints as JSON on its last line."""
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{name}", *arguments],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def deciding(board: Board, sizes: Sequence[int]) -> None:
    """One decision within the limits, cold and warm, and the cluster in which nothing fits."""
    colds, warms = [], []
    for nodes in sizes:
        snapshot, log = marked(make_cluster(nodes))
        later = changed(snapshot, 100, log)
        gc.collect()
        gc.freeze()  # as the controller does after its first lists
        decider = Decider(policies())
        cold, warm = decider.measured(snapshot), decider.measured(later)
        colds.append(cold.known_s)
        warms.append(warm.known_s)
        largest = nodes >= 5000
        board.figure(f"{nodes} nodes: decision, cold", cold.known_s, "s", 1.0 if largest else None)
        board.figure(f"{nodes} nodes: the same, who stays counted", cold.counted_s, "s")
        board.figure(
            f"{nodes} nodes: decision, 100 pods changed", warm.known_s, "s", 0.3 if largest else None
        )
        board.figure(f"{nodes} nodes: the same, who stays counted", warm.counted_s, "s")
    every = Decider(policies(), unlimited=True).measured(make_cluster(sizes[0]))
    board.figure(f"{sizes[0]} nodes, all moves: each", every.known_s / max(every.moves, 1) * 1e3, "ms", 0.15)
    board.growth("decision, cold", sizes, colds)
    board.growth("decision, 100 pods changed", sizes, warms)
    full = Decider(policies(), unlimited=True).measured(make_cluster(FULL_NODES, full=True))
    board.figure(f"full {FULL_NODES} nodes where nothing fits, all moves", full.counted_s, "s", 0.2)


def commands(board: Board, sizes: Sequence[int]) -> None:
    """``plan --from`` and ``explain pod --from`` on dumps, from start to end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "config.yaml"
        config.write_text(CONFIG % 0, encoding="utf-8")
        reading, planning, everything = [], [], []
        for nodes in sizes:
            dump = folder / f"{nodes}.json"
            with dump.open("wb") as out:
                write(Shape(nodes=nodes), out)
            largest = nodes >= 5000
            source = ["--from", str(dump)]
            read = command([*READING, *source])
            board.figure(f"{nodes} nodes: read the dump", read.cpu_s, "s CPU")
            done = command(["plan", *source, "--config", str(config), "-o", "json"])
            board.figure(f"{nodes} nodes: plan", done.wall_s, "s wall", 15.0 if largest else None)
            board.figure(f"{nodes} nodes: plan", done.cpu_s, "s CPU")
            board.figure(f"{nodes} nodes: plan, peak memory", done.peak_mb, "MB", 1000.0 if largest else None)
            every = command(["plan", *source, "--config", str(config), "-o", "json", "--max-moves", "all"])
            board.figure(f"{nodes} nodes: plan --max-moves all", every.cpu_s, "s CPU")
            next_cycle = command(["plan", *source, "--config", str(config), "--next-cycle"])
            board.figure(f"{nodes} nodes: plan --next-cycle", next_cycle.cpu_s, "s CPU")
            told = command(["explain", "pod", _a_pod(dump), *source, "-o", "json"])
            board.figure(f"{nodes} nodes: explain pod beyond reading", told.cpu_s - read.cpu_s, "s CPU", 1.0)
            for run in (read, done, every, next_cycle, told):
                if run.code:
                    print(f"  a command ended with {run.code}")
                    board.broken.append(f"exit code at {nodes} nodes")
            reading.append(read.cpu_s)
            planning.append(done.cpu_s)
            everything.append(every.cpu_s)
        board.growth("read the dump", sizes, reading)
        board.growth("plan", sizes, planning)
        board.growth("plan --max-moves all", sizes, everything)
        _compressed(board, folder, sizes[-1])


def _compressed(board: Board, folder: Path, nodes: int) -> None:
    plain = folder / f"{nodes}.json"
    packed = folder / f"{nodes}.json.gz"
    with plain.open("rb") as text, gzip.open(packed, "wb", 1) as out:
        shutil.copyfileobj(text, out, 1 << 20)
    read = command([*READING, "--from", str(packed)])
    board.figure(f"{nodes} nodes, gzip: read the dump", read.cpu_s, "s CPU")
    try:
        import zstandard  # noqa: PLC0415 - an extra
    except ImportError:
        return
    packed = folder / f"{nodes}.json.zst"
    with plain.open("rb") as text, packed.open("wb") as out:
        zstandard.ZstdCompressor().copy_stream(text, out)
    read = command([*READING, "--from", str(packed)])
    board.figure(f"{nodes} nodes, zstd: read the dump", read.cpu_s, "s CPU")


def _a_pod(dump: Path) -> str:
    """NAMESPACE/NAME of a pod that is not of a DaemonSet: the last one of the dump."""
    with dump.open("rb") as file:
        file.seek(-20_000, os.SEEK_END)
        tail = file.read()
    at = tail.rindex(b'"kind":"Pod"')
    meta = json.JSONDecoder().raw_decode(tail[tail.index(b'"metadata":', at) + 11 :].decode())[0]
    return f"{meta['namespace']}/{meta['name']}"


def events(board: Board, sizes: Sequence[int]) -> None:
    """Decode and apply watch events; lists."""
    del sizes  # figures per pod mean something only where there are many
    for part in ("lists", "events"):
        done = subprocess.run(
            [sys.executable, "bench/decode.py", "--part", part, "--pods", "20000"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        )  # fmt: skip
        bars = {"µs per event": 40.0, "µs per pod": 20.0, "retained bytes per pod": 1000.0}
        for name, value in json.loads(done.stdout).items():
            board.figure(f"{part}: {name}", value, "", bars.get(name))


def reconciling(board: Board, sizes: Sequence[int]) -> None:
    """Reconciling the moves under way."""
    found = [module("crowds", "nobody", "--nodes", str(nodes))["median_later_s"] for nodes in sizes]
    for nodes, seconds in zip(sizes, found, strict=True):
        board.figure(f"{nodes} nodes, 20 moves: one reconciliation and its snapshot", seconds * 1000, "ms")
    board.growth("one reconciliation", sizes, found)


def controller(board: Board, sizes: Sequence[int]) -> None:
    """The controller process, from outside."""
    bars = {"memory_after_mb": 400.0, "peak_after_mb": 400.0, "cpu_share": 0.3}
    for nodes in (sizes[0], sizes[-1]):
        for name, value in module("controller", str(nodes)).items():
            board.figure(f"{nodes} nodes, run: {name}", value, "", bars.get(name) if nodes >= 5000 else None)


PARTS: dict[str, Callable[[Board, Sequence[int]], None]] = {
    "deciding": deciding, "commands": commands, "events": events, "reconciling": reconciling,
    "controller": controller,
}  # fmt: skip


def main() -> int:
    """Every part, and what became of the bars."""
    parser = argparse.ArgumentParser(description="Measure everything that has a bar.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1000, 5000], help="numbers of nodes")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    given = parser.parse_args()
    board = Board()
    for name in given.only:
        print(name)
        PARTS[name](board, sorted(given.sizes))
    for name in board.missed:
        print(f"missed (not counted: this machine may be busy or small): {name}")
    for name in board.broken:
        print(f"BROKEN: {name}")
    return 1 if board.broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
