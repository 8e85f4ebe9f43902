"""A window and a head-room with the scheduler at work, on the sandbox and on the real control plane."""

import time

from reserving import SANDBOX

from harness import documents
from harness.controlplane.world import World, gates_of, node_of
from rescheduler.model.names import API_VERSION

GROUP = f"/apis/{API_VERSION}"


def template(node_pool, cpu="1"):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    tolerations = [{"operator": "Exists"}]
    return {
        "spec": {"nodeSelector": {"pool": node_pool}, "tolerations": tolerations, "containers": [container]}
    }


def make(world, kind, plural, name, spec):
    world.api.create(f"{GROUP}/{plural}", documents.own(kind, name, spec)).expect(201)
    return lambda: world.api.get(f"{GROUP}/{plural}/{name}").body.get("status") or {}


def soon():
    """The cron of a window that begins within the next hour."""
    at = time.gmtime(time.time() + 1200)
    return f"{at.tm_min} {at.tm_hour} * * *"


def mine(world):
    return [{"object": {"namespace": world.namespace}, "labelSelector": {"matchLabels": {"app": "mine"}}}]


def owner(world, name, pool):
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "mine"}},
        **template(pool),
    }
    world.api.create(world.path("pods"), body).expect(201)


def rooms(world, name):
    found = world.api.get(f"{GROUP}/reservations").items
    ours = [r for r in found if r["metadata"].get("ownerReferences", [{}])[0].get("name") == name]
    return [r for r in ours if (r.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]


def test_room_is_gathered_used_and_given_back(api):
    with World(api, "win") as world:
        node = world.node("night", cpu="4", labels={"pool": "night"})
        spec = {"cron": soon(), "duration": "1h", "startReserveAgo": "2h", "podNumToReserve": 2}
        look = make(
            world,
            "ReservationWindow",
            "reservationwindows",
            "win",
            {**spec, "template": template("night"), "owners": mine(world)},
        )
        try:
            world.wait(lambda: look().get("rooms") == "2/2", 30)
            assert (look()["phase"], look()["nodes"]) == ("Gathering", [node])
            owner(world, "a", "night")
            world.wait(lambda: node_of(world.get_pod("a")) == node, 30)
            world.wait(lambda: look().get("placed") == 1, 30)
            assert len(rooms(world, "win")) == 1
        finally:
            world.api.delete(f"{GROUP}/reservationwindows/win").expect()
        world.wait(lambda: not rooms(world, "win"), 30)


@SANDBOX
def test_the_first_of_several_likely_nodes_is_taken_and_the_others_are_given_back(api):
    with World(api, "likely") as world:
        a, b = (world.node(name, cpu="2", labels={"pool": "likely"}) for name in ("a", "b"))
        for name, node in (("a1", a), ("a2", a), ("b1", b), ("b2", b)):
            world.pod(name, nodeName=node)
            world.wait_bound(name)
        spec = {"cron": soon(), "duration": "1h", "startReserveAgo": "2h", "podNumToReserve": 1}
        look = make(
            world,
            "ReservationWindow",
            "reservationwindows",
            "likely",
            {**spec, "template": template("likely", "2"), "owners": mine(world)},
        )
        try:
            waits = world.wait(lambda: len(found := rooms(world, "likely")) == 2 and found, 30)
            assert {r["spec"]["template"]["spec"]["nodeName"] for r in waits} == {a, b}
            world.wait(
                lambda: {(r.get("status") or {}).get("phase") for r in rooms(world, "likely")} == {"Waiting"},
                30,
            )
            world.api.delete(world.path("pods", "a1")).expect()
            world.pod("queued")
            time.sleep(5)
            assert not node_of(world.get_pod("queued")), "what has become free is kept"
            for name in ("b1", "b2"):
                world.api.delete(world.path("pods", name)).expect()
            world.wait(lambda: look().get("rooms") == "1/1", 60)
            assert look()["nodes"] == [b]
            world.wait(lambda: node_of(world.get_pod("queued")) == a, 60)
            assert len(rooms(world, "likely")) == 1
        finally:
            world.api.delete(f"{GROUP}/reservationwindows/likely").expect()
        world.wait(lambda: not rooms(world, "likely"), 30)


def test_a_pod_that_is_annotated_as_volcano_writes_it_is_held_for_the_room(api):
    with World(api, "seed") as world:
        node = world.node("seed", cpu="4", labels={"pool": "seed"})
        spec = {"cron": soon(), "duration": "1h", "startReserveAgo": "2h", "podNumToReserve": 1}
        look = make(
            world, "ReservationWindow", "reservationwindows", "seed", {**spec, "template": template("seed")}
        )
        try:
            world.wait(lambda: look().get("rooms") == "1/1", 30)
            meta = {"name": "a", "annotations": {"volcano.sh/reserveable": "true"}}
            body = world.spec() | {"nodeSelector": {"pool": "seed"}}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body}
            made = world.api.create(world.path("pods"), pod).expect(201).body
            assert made["metadata"]["labels"] == {"volcano.sh/reserveable": "true"}
            assert gates_of(made) == ["rescheduler.dev/hold"]
            world.wait(lambda: node_of(world.get_pod("a")) == node, 30)
            world.wait(lambda: look().get("phase") == "Filled", 30)
        finally:
            world.api.delete(f"{GROUP}/reservationwindows/seed").expect()
