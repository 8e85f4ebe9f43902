"""Hundreds of PodMigrations of one tenant, with the whole controller on the sandbox: nobody else waits for them."""

from scenes import MOVE, OVER, Scene

from harness import documents
from kube_sandbox.controllers.unstructured import status

MANY = 150


def flood(world, namespace, pod, **wish):
    """So many PodMigrations of one pod."""
    for number in range(MANY):
        wish = {"ttl": "10h", **wish}
        world.api.create(documents.migration(f"flood-{number:03}", pod, namespace=namespace, **wish))


def test_a_flood_of_requests_does_not_hold_up_the_move_of_another_namespace():
    world = Scene({"n1": 8, "n2": 8}).workload(nodes=("n1", "n1"))
    world.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}})
    flood(world, "tenant", "nobody")
    world.start()
    world.advance(1.0)
    moves = [world.move(pod, "n2") for pod in world.pods()]
    took_s = world.until(lambda: world.over(*moves), 60.0)
    assert [world.phase(one) for one in moves] == ["Succeeded", "Succeeded"]
    assert took_s < 30.0
    world.until(lambda: all(status(m).get("phase") in OVER for m in world.api.list(MOVE)), 600.0)
    assert not world.faults


def test_what_waits_paused_costs_no_looks_and_ends_with_its_time():
    world = Scene({"n1": 8, "n2": 8}).workload(nodes=("n1",))
    (pod,) = world.pods()
    world.start()
    flood(world, "default", pod["metadata"]["name"], paused=True)
    world.advance(120.0)
    reasons = [status(m).get("reason") for m in world.api.list(MOVE)]
    assert reasons == ["Paused"] * MANY
    sent = len(world.calls.of(lambda call: call.writes))
    world.advance(600.0)
    assert len(world.calls.of(lambda call: call.writes)) - sent <= 5
    let_go = world.api.list(MOVE)[-1]
    world.api.patch(let_go, {"spec": {"paused": False, "target": {"nodeName": "n2"}}})
    took_s = world.until(lambda: status(world.get_move(let_go["metadata"]["name"])).get("phase") in OVER)
    assert took_s < 30.0
    assert world.phase(let_go["metadata"]["name"]) == "Succeeded"
