"""Makes dumps of clusters of any size, with the shapes that hurt a scheduler. Same seed, same bytes.

``python bench/generate.py --nodes 500 --pods-per-node 30 --out dump.json``

The cluster is untidy on purpose: a third of the nodes is crowded, a third nearly empty; half of the apps
carry anti-affinity (by hostname or zone), half prefer nodes by label, a third spreads over zones, 5 % of
the nodes are tainted, and pods were placed without looking at any of it. ``--full`` makes a cluster in
which nothing fits anywhere. The dump is a List as ``kubectl get -o json`` writes it, without line breaks
(``--pretty`` for kubectl's own indentation); pods have the size of real ones, 5 to 6 KB.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.cluster_objects import (  # noqa: E402 - the path comes first
    encode,
    namespace_of,
    node_of,
    pod_from,
    pod_name,
    pod_template,
    priority_classes,
    workload_of,
)
from bench.shapes import App, Placer, Shape, apps_of, room_of  # noqa: E402

DAEMONS = ("node-agent", "log-shipper")
WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "PodDisruptionBudget")


def objects(shape: Shape) -> Iterator[bytes]:
    """Every object of the cluster as JSON."""
    rng = random.Random(shape.seed)
    rooms = [room_of(shape, rng, index) for index in range(shape.nodes)]
    apps = list(apps_of(shape, rng))
    yield from (encode(node_of(room, rng)) for room in rooms)
    yield from (encode(item) for item in priority_classes())
    for namespace in sorted({app.namespace for app in apps} | {"kube-system"}):
        yield encode(namespace_of(namespace))
    daemons = [
        App(1_000_000 + number, "DaemonSet", "kube-system", name, shape.nodes, 50, 64, tolerates=True)
        for number, name in enumerate(DAEMONS)
    ]
    for kind in WORKLOADS:  # kubectl writes one kind after the other
        items = (item for app in (*apps, *daemons) for item in workload_of(app))
        yield from (encode(item) for item in items if item["kind"] == kind)
    for daemon, name in zip(daemons, DAEMONS, strict=True):
        template = pod_template(daemon)
        for index, room in enumerate(rooms):
            room.take(daemon)
            yield pod_from(template, daemon, f"{name}-{index:05x}", room, rng)
    placer = Placer(rooms, rng, full=shape.full)
    for app in apps:
        template = pod_template(app)
        for replica in range(app.replicas):
            room = placer.place(app)
            yield pod_from(template, app, pod_name(app, replica, rng), room, rng)


def write(shape: Shape, out: BinaryIO, *, pretty: bool = False) -> int:
    """Write the dump as one List; gives the number of objects."""
    out.write(b'{\n    "apiVersion": "v1",\n    "items": [\n' if pretty else b'{"apiVersion":"v1","items":[')
    count = 0
    for item in objects(shape):
        if count:
            out.write(b",\n" if pretty else b",")
        out.write(_indented(item) if pretty else item)
        count += 1
    out.write(b'\n    ],\n    "kind": "List"\n}\n' if pretty else b'],"kind":"List","metadata":{}}\n')
    return count


def _indented(item: bytes) -> bytes:
    lines = msgspec.json.format(item, indent=4).split(b"\n")
    return b"\n".join(b"        " + line for line in lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Make a dump of a cluster.")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods-per-node", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--zones", type=int, default=5)
    parser.add_argument("--apps-per-namespace", type=int, default=20)
    parser.add_argument("--full", action="store_true", help="nothing fits anywhere")
    parser.add_argument("--pretty", action="store_true", help="indented as kubectl does")
    parser.add_argument("--out", default="-", help="file, or - for standard output")
    given = parser.parse_args()
    shape = Shape(
        nodes=given.nodes, pods_per_node=given.pods_per_node, seed=given.seed, full=given.full,
        zones=given.zones, apps_per_namespace=given.apps_per_namespace,
    )  # fmt: skip
    if given.out == "-":
        write(shape, sys.stdout.buffer, pretty=given.pretty)
        return
    with Path(given.out).open("wb") as out:
        count = write(shape, out, pretty=given.pretty)
    sys.stderr.write(f"{count} objects, {Path(given.out).stat().st_size / 1e6:.0f} MB\n")


if __name__ == "__main__":
    main()
