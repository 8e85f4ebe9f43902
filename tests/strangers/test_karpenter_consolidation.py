"""Karpenter consolidates 20 to 30 nodes for ten minutes, beside our guard and our own consolidating policy.

Its evictions find their room reserved, it can still remove nodes, and neither undoes what the other has done. Not part of a change's
tests: ``make strangers`` and nightly. Prints the figures of ``docs/measurements``.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import pytest

from harness.controlplane.world import is_ready, node_of
from harness.strangers.karpenter import Karpenter
from harness.strangers.landings import Landings, Pending
from harness.strangers.tools import KARPENTER
from tests.guard.evictions_of_others import guarding

pytestmark = [pytest.mark.strangers, pytest.mark.timeout(2400)]

APPS = 12
CONSOLIDATES = {
    "consolidationPolicy": "WhenEmptyOrUnderutilized",
    "consolidateAfter": "5s",
    "budgets": [{"nodes": "30%"}],
}
OURS = {
    "interval": "20s",
    "policies": [
        {"name": "NodeTaints"},
        {
            "name": "HighNodeUtilization",
            "thresholds": {"cpu": 30, "memory": 30},
            "targetThresholds": {"cpu": 100, "memory": 100},
        },
    ],
}
QUIET_S = 45.0
"""Consolidation is over once no node has come or gone for so long."""
LONGEST_S = 240.0
COMPARED = bool(os.environ.get("RESCHEDULER_COMPARE"))
"""Also without the controller, for the figures of ``docs/measurements/drain.md``."""
WAYS = pytest.mark.parametrize(
    "guarded", [True, *([False] if COMPARED else [])], ids=lambda on: "guarded" if on else "alone"
)


class Row(NamedTuple):
    """One time of load, and what became of the nodes when it went."""

    pods: int
    nodes: int
    fewer: int
    left: int
    took_s: float
    pending: Pending


def apps():
    return [f"app-{index}" for index in range(APPS)]


def scale(world, replicas):
    for app in apps():
        path = world.path("deployments", app, group="apps/v1")
        world.api.patch(path, {"spec": {"replicas": replicas}}).expect()
    wanted = replicas * APPS

    def there():
        alive = [p for p in world.pods() if "deletionTimestamp" not in p["metadata"]]
        return len(alive) == wanted and all(map(is_ready, alive))

    world.wait(there, 180)


def consolidated(made):
    """How many nodes are left once it has come to rest, and how long that took until the last one went."""
    began = last = time.monotonic()
    before = {n["metadata"]["name"] for n in made.nodes()}
    while time.monotonic() < began + LONGEST_S and time.monotonic() < last + QUIET_S:
        time.sleep(1.0)
        now = {n["metadata"]["name"] for n in made.nodes()}
        if now != before:
            before, last = now, time.monotonic()
    return len(before), last - began


def events(world, *reasons):
    found = world.api.get(f"/apis/events.k8s.io/v1/namespaces/{world.namespace}/events").expect().items
    return Counter(e["reason"] for e in found if e["reason"] in reasons)


def outcomes(found):
    """How the moves ended, by who asked for them."""
    ends = (
        f"{m['spec'].get('policy', '')} {m['status'].get('phase')} {m['status'].get('reason')}" for m in found
    )
    return dict(Counter(ends))


@contextmanager
def bursts(world):
    """Other pods of the same priority come and go all the time, and take what room they find."""
    world.workload("Deployment", "burst", 0)
    path, ended, faults = world.path("deployments", "burst", group="apps/v1"), threading.Event(), []

    def work():
        replicas = 0
        try:
            while not ended.wait(7.0):
                replicas = 0 if replicas else 16
                world.api.patch(path, {"spec": {"replicas": replicas}}).expect()
        except Exception as error:  # noqa: BLE001 - told below
            faults.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10.0)
    assert not faults
    world.api.delete(path)


@contextmanager
def consolidating(plane, world, *, guarded):
    """Karpenter at work on a dozen workloads with budgets: itself, and what is seen of their pods."""
    for app in apps():
        world.workload("Deployment", app, 0)
        world.budget(app, app, maxUnavailable=1)
    work = guarding(plane, world, sections=OURS) if guarded else nullcontext()
    with Karpenter(plane, world, disruption=CONSOLIDATES, sizes=(4,)) as made, work, Landings(world) as seen:
        yield made, seen


@WAYS
def test_consolidation_while_other_pods_want_every_room(guarded_plane, world, program, guarded):
    program(KARPENTER)
    with consolidating(guarded_plane, world, guarded=guarded) as (made, seen):
        scale(world, 7)
        full = len(made.nodes())
        scale(world, 4)
        began = time.monotonic()
        with bursts(world):
            time.sleep(150.0)
        told = events(world, "EvictedWithoutRoom", "EvictionRefused", "AsksForNode")
        pending, found = seen.pending(began, apps()), world.moves()
        left, _ = consolidated(made)
        assert not made.faults
    outcome = outcomes(found)
    print(f"\n{full} nodes, with bursts {left}; {pending}; moves: {outcome}; events: {dict(told)}")  # noqa: T201 - the figures
    assert pending.never == 0
    if guarded:
        assert not told["EvictedWithoutRoom"]


@WAYS
def test_consolidation(guarded_plane, world, program, guarded):
    program(KARPENTER)
    with consolidating(guarded_plane, world, guarded=guarded) as (made, seen):
        rows = []
        for up, down in ((8, 4), (7, 3), (10, 5), (8, 3)):
            scale(world, up)
            full = len(made.nodes())
            scale(world, down)
            began = time.monotonic()
            left, took_s = consolidated(made)
            rows.append(Row(up * APPS, full, down * APPS, left, took_s, seen.pending(began, apps())))
        told = events(world, "EvictedWithoutRoom", "EvictionRefused", "AsksForNode")
        found = world.moves()
        assert not made.faults
        standing = [p for p in world.pods() if "deletionTimestamp" not in p["metadata"]]
        pending_in_the_end = [p["metadata"]["name"] for p in standing if not node_of(p)]
    told_all = [
        f"{row.pods} pods on {row.nodes} nodes, scaled to {row.fewer}: {row.left} nodes after {row.took_s:.0f} s; {row.pending}"
        for row in rows
    ]
    print("", *told_all, f"moves: {outcomes(found)}; events: {dict(told)}", sep="\n")  # noqa: T201 - the figures
    assert not pending_in_the_end
    for row in rows:
        assert row.left <= row.fewer / 4 + 3, "it can still remove nodes"
        assert row.pending.never == 0
    if guarded:
        assert not told["EvictedWithoutRoom"]
        assert len(found) <= sum(row.fewer for row in rows), "no pod is chased from node to node"
