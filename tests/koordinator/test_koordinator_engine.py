"""Rooms held by Koordinator: the real koord-scheduler and its CRDs on the real API server."""

from __future__ import annotations

import pytest

from harness import documents
from harness.controlplane.ready_counts import ReadyCounts
from harness.controlplane.world import gates_of, is_ready, node_of, placeholders

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
    spec = {"template": template, "owners": owners, **spec}
    body = documents.own("Reservation", f"{world.namespace}-{name}", spec)
    world.api.create(f"/apis/{OURS}/reservations", body).expect()
    return body["metadata"]["name"]


def test_a_reservation_made_by_hand_goes_to_its_owner(controller, world):
    node = world.node("a", cpu="2")
    name = reserve(world, "room", cpu="2", owners=[{"labelSelector": {"matchLabels": {"app": "mine"}}}])
    found = wait_phase(world, name, "Available")
    assert found["status"]["nodeName"] == node
    assert phase(theirs_of(world, name)) == "Available"
    assert not placeholders(world.api)

    world.pod("stranger", "1", **KOORD)
    world.wait_unschedulable("stranger")
    world.pod("mine", "2", labels={"app": "mine"}, **KOORD)
    assert world.wait_bound("mine") == node
    found = wait_phase(world, name, "Succeeded")
    assert [o["name"] for o in found["status"]["currentOwners"]] == ["mine"]
    assert found["status"]["allocated"]["cpu"] == "2"
    assert ALLOCATED in world.get_pod("mine")["metadata"]["annotations"]
    world.wait(lambda: theirs_of(world, name) is None, 60)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_replacements_land_on_their_rooms_under_a_stampede(controller, world, kind):
    moves = 10
    pods = world.full_node(kind, moves, **KOORD)
    counts = ReadyCounts(world, moves, "web")
    world.landed(world.stampede(pods, **KOORD), 180)
    assert counts.end()[0] >= moves - 1, "the budget was overrun"
    assert not [p for p in world.pods() if gates_of(p)]
    world.wait(lambda: not listed(world, THEIRS), 60)
    assert not placeholders(world.api)


def test_siblings_do_not_take_the_rooms_of_moves(controller, world):
    """A scale-up while rooms are held: its pods have the same owner, and Koordinator alone would let them in."""
    source = world.node("src", cpu="3")
    pods = world.running("Deployment", "web", 3, **KOORD)
    assert {node_of(p) for p in pods} == {source}
    world.pod("unready", labels={"app": "web"}, gates=["test.rescheduler.dev/never"])
    budget = world.budget("web", "web", minAvailable=3)  # rooms are reserved, evictions wait
    targets = [world.node(f"t{index}", cpu="1") for index in range(3)]
    wanted = {world.migrate(pod, target): target for pod, target in zip(pods, targets, strict=True)}

    def held():
        return [r for r in world.rooms() if phase(r) == "Available"]

    world.wait(lambda: len(held()) == 3, 30)
    scale(world, "web", 6)

    def surplus():
        names = [p["metadata"]["name"] for p in world.pods("web") if not node_of(p)]
        return [name for name in names if name != "unready"]

    world.wait(lambda: len(surplus()) == 3)
    for name in surplus():
        world.wait_unschedulable(name)
    assert len(held()) == 3
    path = world.path("poddisruptionbudgets", budget["metadata"]["name"], group="policy/v1")
    # Deleted, it would leave the limit for workloads without a budget, and the siblings count as unavailable.
    world.api.patch(path, {"spec": {"minAvailable": 0}}).expect()
    world.landed(wanted, 120)


def test_a_room_that_the_stock_scheduler_took_is_seen_before_the_eviction(controller, world):
    """Other schedulers do not see Koordinator's rooms; the last look does, and nobody is disturbed."""
    source = world.node("src", cpu="1")
    (pod,) = world.running("Deployment", "web", 1, **KOORD)
    assert node_of(pod) == source
    world.pod("unready", labels={"app": "web"}, gates=["test.rescheduler.dev/never"])
    budget = world.budget("web", "web", minAvailable=1)
    name = world.migrate(pod, world.node("t", cpu="1"))
    world.wait(lambda: world.move_status(name).get("reservedAt"))
    world.pod("intruder")
    world.wait_bound("intruder")
    world.api.delete(
        world.path("poddisruptionbudgets", budget["metadata"]["name"], group="policy/v1")
    ).expect()
    found = world.end_of(name)
    assert (found["phase"], found["reason"], found.get("evictedAt")) == ("Failed", "DecisionStale", None), (
        found
    )
    assert is_ready(world.get_pod(pod["metadata"]["name"]))
    world.wait(lambda: not listed(world, THEIRS), 60)


def scale(world, name, replicas):
    world.api.patch(
        world.path("deployments", name, group="apps/v1"), {"spec": {"replicas": replicas}}
    ).expect()


def test_expiry_gives_the_room_back(controller, world):
    node = world.node("a", cpu="1")
    name = reserve(world, "short", owners=[{"labelSelector": {"matchLabels": {"app": "x"}}}], ttl="4s")
    wait_phase(world, name, "Available")
    found = wait_phase(world, name, "Failed")
    assert ready_reason(found) == "Expired"
    world.wait(lambda: theirs_of(world, name) is None, 60)
    world.pod("next", "1", **KOORD)  # one that waited already is not woken by Koordinator 1.8.0
    assert world.wait_bound("next", 30) == node


def test_a_pending_one_says_why_and_expires(controller, world):
    node = world.node("a", cpu="1")
    owners = [{"object": {"namespace": world.namespace, "name": "later"}}]
    name = reserve(world, "large", cpu="3", owners=owners, node=node, ttl="8s")

    def words():
        found = ours(world, name).get("status", {}).get("conditions", ())
        return next((c["message"] for c in found if c["type"] == "Scheduled" and c["status"] == "False"), "")

    world.wait(lambda: "Insufficient cpu" in words())
    assert ready_reason(wait_phase(world, name, "Failed")) == "Expired"
    world.wait(lambda: theirs_of(world, name) is None, 60)


def test_a_deleted_node_fails_its_reservation(controller, world):
    node = world.node("a", cpu="1")
    name = reserve(world, "room", owners=[{"labelSelector": {"matchLabels": {"app": "x"}}}], node=node)
    wait_phase(world, name, "Available")
    world.api.delete(f"/api/v1/nodes/{node}").expect()
    assert ready_reason(wait_phase(world, name, "Failed")) == "NodeDeleted"
    world.wait(lambda: theirs_of(world, name) is None, 60)


def test_a_deleted_reservation_takes_koordinators_with_it(controller, world):
    node = world.node("a", cpu="1")
    name = reserve(world, "room", owners=[{"labelSelector": {"matchLabels": {"app": "x"}}}])
    wait_phase(world, name, "Available")
    world.api.delete(f"/apis/{OURS}/reservations/{name}").expect()
    world.wait(lambda: theirs_of(world, name) is None, 60)
    world.pod("next", "1", **KOORD)
    assert world.wait_bound("next", 30) == node


def test_other_schedulers_pods_keep_placeholders(controller, world):
    """In the same cluster, chosen for each Reservation."""
    world.node("a", cpu="1")
    owners = [{"labelSelector": {"matchLabels": {"app": "x"}}}]
    name = reserve(world, "stock", owners=owners, scheduler="")
    wait_phase(world, name, "Available")
    assert theirs_of(world, name) is None
    assert len(placeholders(world.api)) == 1
    world.api.delete(f"/apis/{OURS}/reservations/{name}").expect()
    world.wait(lambda: not placeholders(world.api))


def test_a_room_taken_away_in_the_middle_lets_the_pod_go(controller, koordinator, world):
    """Koordinator's scheduler is away while the pod is steered; then its Reservation is deleted by somebody."""
    source = world.node("src", cpu="1")
    (pod,) = world.running("Deployment", "web", 1, **KOORD)
    assert node_of(pod) == source
    target, other = world.node("t", cpu="1"), world.node("other", cpu="1")
    name = world.migrate(pod, target)
    world.wait(lambda: world.move_status(name).get("reservedAt"))
    koordinator.kill()

    def steered():
        return [p for p in world.pods("web") if AFFINITY in p["metadata"].get("annotations", {})]

    world.wait(steered, 30)
    held = theirs_of(world, world.move_status(name)["reservationName"])
    world.api.delete(f"/apis/{THEIRS}/reservations/{held['metadata']['name']}").expect()
    world.wait(lambda: world.move_status(name).get("phase") == "Failed", 30)
    world.wait(lambda: not steered())
    koordinator.start()
    (new,) = world.wait_ready("web", 1, 60)
    assert node_of(new) in (source, target, other)


def test_moves_survive_a_restart_of_koordinators_scheduler(controller, koordinator, world):
    moves = 4
    world.node("src", cpu=str(moves))
    pods = world.running("Deployment", "web", moves, **KOORD)
    world.budget("web", "web", maxUnavailable=2)
    targets = [world.node(f"t{index}", cpu="1") for index in range(moves)]
    wanted = {world.migrate(pod, target): target for pod, target in zip(pods, targets, strict=True)}
    world.wait(lambda: any(world.move_status(name).get("evictionRequestedAt") for name in wanted), 60)
    koordinator.kill()
    world.crowd(moves * 2, **KOORD)
    koordinator.start()
    world.landed(wanted, 120)
    world.wait(lambda: not listed(world, THEIRS), 60)


def test_a_move_without_room_asks_for_a_node_and_the_room_there_is_koordinators(controller, world):
    """The pod that asks names no scheduler that exists: koord-scheduler must not bind it, nor hold anything for it."""
    source = world.node("src", cpu="2", labels={"karpenter.sh/nodepool": "default"})
    (first, _) = world.running("Deployment", "web", 2, **KOORD)
    assert node_of(first) == source
    move = world.migrate(first, "")

    def asking():
        for pod in placeholders(world.api):
            said = [c for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled"]
            if said and said[0].get("reason") == "Unschedulable":
                return pod
        return None

    pod = world.wait(asking, 60)
    assert pod["metadata"]["name"].startswith("node-for-")
    assert not node_of(pod)
    assert not listed(world, THEIRS)
    new = world.node("new", cpu="2")
    world.landed({move: new}, 90)
    world.wait(lambda: not listed(world, THEIRS) and not placeholders(world.api), 60)
