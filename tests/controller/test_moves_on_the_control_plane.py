"""Moves on the real control plane: every replacement lands on its reserved node while a crowd waits for rooms."""

import threading
import time

import pytest

from harness.controlplane.world import RESERVATIONS, is_ready

pytestmark = pytest.mark.realcluster

MIGRATIONS = "rescheduler.dev/v1alpha1"


def reservations(world):
    items = world.api.get(RESERVATIONS).expect().items
    mine = f"{world.namespace}/"
    return [
        r
        for r in items
        if r["metadata"].get("annotations", {}).get("rescheduler.dev/migration", "").startswith(mine)
    ]


def stampede(world, kind, moves, controller):
    source = world.node("src", cpu=str(moves))
    world.workload(kind, "web", moves)
    pods = world.wait_ready("web", moves, 40)
    assert {p["spec"]["nodeName"] for p in pods} == {source}
    world.budget("web", "web", maxUnavailable=1)
    targets = []
    for index in range(moves):
        node = world.node(f"t{index}", cpu="2")
        world.pod(f"old-{index}", nodeName=node)
        targets.append(node)
    wanted = {world.migrate(pod, target): target for pod, target in zip(pods, targets, strict=True)}

    def all_held():
        assert not controller.faults
        return (
            sum(r.get("status", {}).get("phase") in ("Available", "Succeeded") for r in reservations(world))
            >= moves
        )

    world.wait(all_held, 30)
    return wanted


def crowd(world, count, **spec):
    for index in range(count):
        world.pod(f"crowd-{index}", "1" if index % 2 else "500m", **spec)


def ended(world, wanted, seconds):
    def look():
        found = {name: world.move_status(name) for name in wanted}
        done = all(s.get("phase") in ("Succeeded", "Failed") for s in found.values())
        return found if done else None

    try:
        return world.wait(look, seconds)
    except AssertionError as error:
        found = {name: world.move_status(name) for name in wanted}
        raise AssertionError(f"{error}; moves: {found}") from error


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_replacements_land_under_a_stampede(controller, world, kind):
    moves = 5
    wanted = stampede(world, kind, moves, controller)
    least = [moves]
    stop = threading.Event()

    def watch():
        while not stop.is_set():
            least.append(sum(is_ready(p) for p in world.pods("web")))
            time.sleep(0.05)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    crowd(world, moves * 3)
    found = ended(world, wanted, 90)
    stop.set()
    watcher.join()
    for name, target in wanted.items():
        assert found[name]["phase"] == "Succeeded", found[name]
        assert found[name]["nodeName"] == target
        pod = world.get_pod(found[name]["replacement"]["name"])
        assert pod["spec"]["nodeName"] == target
    assert min(least) >= moves - 1, "the budget was overrun"
    assert not [p for p in world.pods() if p["spec"].get("schedulingGates")]
