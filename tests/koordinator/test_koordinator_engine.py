"""Rooms held by Koordinator: the real koord-scheduler and its CRDs on the real API server."""

from __future__ import annotations

import threading
import time

import pytest

from rescheduler.testing.world import is_ready, node_of

pytestmark = pytest.mark.koordinator

OURS = "rescheduler.dev/v1alpha1"
THEIRS = "scheduling.koordinator.sh/v1alpha1"
KOORD = {"schedulerName": "koord-scheduler"}
ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"
AFFINITY = "scheduling.koordinator.sh/reservation-affinity"


def listed(world, group):
    return world.api.get(f"/apis/{group}/reservations").expect().items


def theirs_of(world, name):
    """Koordinator's Reservation that serves ours of that name."""
    for item in listed(world, THEIRS):
        if any(ref["name"] == name for ref in item["metadata"].get("ownerReferences", ())):
            return item
    return None


def ours(world, name):
    return world.api.get(f"/apis/{OURS}/reservations/{name}").expect().body


def phase(obj):
    return obj.get("status", {}).get("phase", "")


def ready_reason(obj):
    return next(
        (c["reason"] for c in obj.get("status", {}).get("conditions", ()) if c["type"] == "Ready"), ""
    )


def wait_phase(world, name, *phases, seconds=20):
    def look():
        found = ours(world, name)
        return found if phase(found) in phases else None

    try:
        return world.wait(look, seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}; {ours(world, name)}; {theirs_of(world, name)}") from error


def reserve(world, name, *, cpu="1", owners, node="", scheduler="koord-scheduler", **spec):
    template = {"metadata": {"namespace": world.namespace}, "spec": world.spec(cpu)}
    if scheduler:
        template["spec"]["schedulerName"] = scheduler
    if node:
        template["spec"]["nodeName"] = node
    body = {
        "apiVersion": OURS,
        "kind": "Reservation",
        "metadata": {"name": f"{world.namespace}-{name}"},
        "spec": {"template": template, "owners": owners, **spec},
    }
    world.api.create(f"/apis/{OURS}/reservations", body).expect()
    return body["metadata"]["name"]


def placeholders(world):
    path = "/api/v1/namespaces/rescheduler/pods"
    return world.api.get(path, labelSelector="rescheduler.dev/placeholder").expect().items


def migrate(world, pod, target):
    name = f"move-{pod['metadata']['name']}"
    body = {
        "apiVersion": OURS,
        "kind": "PodMigration",
        "metadata": {"name": name},
        "spec": {
            "podRef": {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
            "target": {"nodeName": target},
            "ttl": "2m",
        },
    }
    world.api.create(world.path("podmigrations", group=OURS), body).expect()
    return name


def move_status(world, name):
    return world.api.get(world.path("podmigrations", name, group=OURS)).expect().body.get("status") or {}


def ended(world, moves, seconds):
    def look():
        found = {name: move_status(world, name) for name in moves}
        return found if all(s.get("phase") in ("Succeeded", "Failed") for s in found.values()) else None

    try:
        return world.wait(look, seconds)
    except AssertionError as error:
        found = {name: move_status(world, name) for name in moves}
        raise AssertionError(f"{error}; moves: {found}; theirs: {listed(world, THEIRS)}") from error


def test_a_reservation_made_by_hand_goes_to_its_owner(controller, world):
    node = world.node("a", cpu="2")
    name = reserve(world, "room", cpu="2", owners=[{"labelSelector": {"matchLabels": {"app": "mine"}}}])
    found = wait_phase(world, name, "Available")
    assert found["status"]["nodeName"] == node
    assert phase(theirs_of(world, name)) == "Available"
    assert not placeholders(world)

    world.pod("stranger", "1", **KOORD)
    world.wait_unschedulable("stranger")
    world.pod("mine", "2", labels={"app": "mine"}, **KOORD)
    assert world.wait_bound("mine") == node
    found = wait_phase(world, name, "Succeeded")
    assert [o["name"] for o in found["status"]["currentOwners"]] == ["mine"]
    assert found["status"]["allocated"]["cpu"] == "2"
    assert ALLOCATED in world.get_pod("mine")["metadata"]["annotations"]
    world.wait(lambda: theirs_of(world, name) is None)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_replacements_land_on_their_rooms_under_a_stampede(controller, world, kind):
    moves = 10
    source = world.node("src", cpu=str(moves))
    world.workload(kind, "web", moves, **KOORD)
    pods = world.wait_ready("web", moves, 60)
    assert {node_of(p) for p in pods} == {source}
    world.budget("web", "web", maxUnavailable=1)
    targets = []
    for index in range(moves):
        node = world.node(f"t{index}", cpu="2")
        world.pod(f"old-{index}", nodeName=node)
        targets.append(node)
    wanted = {migrate(world, pod, target): target for pod, target in zip(pods, targets, strict=True)}

    def all_held():
        assert not controller, controller
        moving = [
            r
            for r in listed(world, OURS)
            if r["metadata"]
            .get("annotations", {})
            .get("rescheduler.dev/migration", "")
            .startswith(world.namespace)
        ]
        return sum(phase(r) in ("Available", "Succeeded") for r in moving) >= moves

    world.wait(all_held, 60)
    least, stop = [moves], threading.Event()

    def watch():
        while not stop.is_set():
            least.append(sum(is_ready(p) for p in world.pods("web")))
            time.sleep(0.05)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    for index in range(moves * 3):
        world.pod(f"crowd-{index}", "1" if index % 2 else "500m", **KOORD)
    found = ended(world, wanted, 180)
    stop.set()
    watcher.join()
    for name, target in wanted.items():
        assert found[name]["phase"] == "Succeeded", found[name]
        assert node_of(world.get_pod(found[name]["replacement"]["name"])) == target
    assert min(least) >= moves - 1, "the budget was overrun"
    assert not [p for p in world.pods() if p["spec"].get("schedulingGates")]
    world.wait(lambda: not listed(world, THEIRS))
    assert not placeholders(world)
