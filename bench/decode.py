"""What reading costs: µs and bytes per pod of lists, dumps and events. Run it alone on a quiet machine.

``python bench/decode.py --pods 20000`` decodes pages of 500 pods in memory and reads a dump of the same
cluster from disk; each part runs in a process of its own, so that peak memory is its own. CPU times are
``thread_time``, the best of three.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import msgspec

from bench.generate import objects, write
from bench.shapes import Shape
from rescheduler.cli.dump_reader import read_sources
from rescheduler.model.cluster import ClusterState
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind

PAGE = 500
PODS_PER_NODE = 30


def best(work: Callable[[], object], repeats: int = 3) -> float:
    """Least CPU time of the work in seconds."""
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return min(times)


def peak_mb() -> float:
    """Peak resident memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def resident_mb() -> float:
    """Resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


def pod_texts(pods: int) -> list[bytes]:
    """Pods as JSON, as a watch would send them."""
    shape = Shape(nodes=max(1, pods // PODS_PER_NODE), pods_per_node=PODS_PER_NODE)
    return [item for item in objects(shape) if item.startswith(b'{"apiVersion":"v1","kind":"Pod"')]


def lists(pods: int) -> dict[str, float]:
    """Decode pages of a list, as the informers do."""
    texts = pod_texts(pods)
    pages = [
        b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[%s]}'
        % b",".join(texts[at : at + PAGE])
        for at in range(0, len(texts), PAGE)
    ]
    count, size = len(texts), sum(map(len, texts))
    del texts
    gc.collect()
    gc.disable()
    before = resident_mb()
    decoder = Decoder()
    start = time.thread_time()
    records = [record for page in pages for record in decoder.page(Kind.POD, page).records]
    elapsed = time.thread_time() - start
    retained = resident_mb() - before
    gc.enable()
    start = time.perf_counter()
    gc.collect()
    pause = time.perf_counter() - start
    return {
        "pods": len(records),
        "JSON bytes per pod": size / count,
        "µs per pod": elapsed / count * 1e6,
        "retained bytes per pod": retained * 1e6 / count,
        "full collection ms": pause * 1e3,
    }


def events(pods: int) -> dict[str, float]:
    """Decode and apply MODIFIED events of distinct pods."""
    texts = pod_texts(pods)
    lines = [b'{"type":"MODIFIED","object":%s}\n' % text for text in texts]
    decoder, state = Decoder(), ClusterState()

    def work() -> None:
        for line in lines:
            event = decoder.event(Kind.POD, line)
            if event.record is not None:
                state.apply(Kind.POD, event.record)

    elapsed = best(work)
    one = next(iter(state.snapshot(0.0).pods.values()))

    def change_and_look() -> None:
        state.delete(Kind.POD, one.key)
        state.apply(Kind.POD, msgspec.structs.replace(one, uid=""))
        state.snapshot(0.0)

    snapshots = best(change_and_look)
    return {"events": len(lines), "µs per event": elapsed / len(lines) * 1e6, "snapshot ms": snapshots * 1e3}


def dump(path: str) -> dict[str, float]:
    """Read a dump from disk, as ``plan --from`` does."""
    start, cpu = time.perf_counter(), time.thread_time()
    state, warnings = read_sources([path], Decoder(), lambda _done, _total, _path: None)
    pods = state.counts()[Kind.POD]
    return {
        "pods": pods,
        "MB": Path(path).stat().st_size / 1e6,
        "warnings": len(warnings),
        "seconds": time.perf_counter() - start,
        "µs CPU per pod": (time.thread_time() - cpu) / pods * 1e6,
        "peak MB": peak_mb(),
    }


def main() -> None:
    """Command line; a part is run in a process of its own."""
    parser = argparse.ArgumentParser(description="Measure what reading costs.")
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--part", choices=("lists", "events", "dump"))
    parser.add_argument("--dump", help="an existing dump instead of a generated one")
    given = parser.parse_args()
    if given.part:
        part = {"lists": lists, "events": events}.get(given.part)
        sys.stdout.write(json.dumps(part(given.pods) if part else dump(given.dump)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = given.dump or str(Path(folder) / "dump.json")
        if not given.dump:
            with Path(path).open("wb") as out:
                write(Shape(nodes=max(1, given.pods // PODS_PER_NODE), pods_per_node=PODS_PER_NODE), out)
        for part_name in ("lists", "events", "dump"):
            arguments = ["--part", part_name, "--pods", str(given.pods), "--dump", path]
            text = subprocess.run(
                [sys.executable, __file__, *arguments], check=True, capture_output=True, text=True
            ).stdout
            print(part_name)
            for name, value in json.loads(text).items():
                print(f"  {name:24} {value:12,.1f}")


if __name__ == "__main__":
    main()
