"""A window whose pods are annotated as Volcano writes it, on the sandbox and on the real control plane."""

import time

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
