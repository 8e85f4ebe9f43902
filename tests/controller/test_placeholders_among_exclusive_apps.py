"""Apps that stand alone but for their own pods, whose anti-affinity refuses placeholders: the whole controller on the sandbox.

No move is begun whose placeholder is refused, and no room keeps the pods of another room out.
"""

import pytest
from scenes import TAINTS, Scene

from harness import documents
from kube_sandbox.controllers.unstructured import NODE, condition, spec

HOST = "kubernetes.io/hostname"


def alone(app, *, topology=HOST):
    """Required anti-affinity to all pods of other apps, in all namespaces."""
    term = {
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [app]}]},
        "namespaceSelector": {},
        "topologyKey": topology,
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def deployment(name, affinity, selector):
    more = {"nodeSelector": selector, "affinity": affinity, "terminationGracePeriodSeconds": 1}
    return documents.workload("Deployment", name, 0, documents.pod_spec(**more), namespace="default")


def running(world, nodes, affinity):
    """Pods of web that are Ready on these nodes."""
    world.api.create(deployment("web", affinity, {}))
    for count, node in enumerate(nodes, start=1):
        world.uncordon(node)
        world.cordon(*(other for other in world.nodes() if other != node))
        world.scale(count)
        world.until(lambda count=count: len(world.ready()) == count)
    world.uncordon(*world.nodes())
    world.advance(2.0)


def rooms(world, count, app="web", node="n2", affinity=None):
    """Reservations for pods of the app, as ``reserve create deployment/web --count`` makes them."""
    names = []
    for number in range(count):
        name = f"room-{number}"
        template = {
            "metadata": {"labels": {"app": app}},
            "spec": {
                "nodeSelector": {HOST: node},
                **({"affinity": affinity} if affinity else {}),
                "containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "1"}}}],
            },
        }
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": app, "namespace": "default"}
        world._create("Reservation", name, {"template": template, "owners": [{"controller": owner}]})
        names.append(name)
    return names


def evicted(world):
    return world.calls.of(lambda call: call.evicts)


def reserved(world):
    return world.calls.of(lambda c: c.method == "POST" and c.path.endswith("/reservations"))


def test_no_move_is_planned_whose_placeholder_the_own_app_refuses():
    world = Scene({"n1": 4, "n2": 4})
    running(world, ("n1", "n2"), alone("web"))
    world.taint("n1")
    world.start(document=TAINTS)
    world.advance(90.0)
    assert not reserved(world)
    assert not evicted(world)


def test_such_a_pod_moves_to_a_node_of_its_own():
    world = Scene({"n1": 4, "n2": 4, "n3": 4})
    running(world, ("n1", "n2"), alone("web"))
    world.taint("n1")
    world.start(document=TAINTS)
    world.until(lambda: len(world.on("n3")) == 1 and not world.on("n1"))
    assert len(evicted(world)) == 1


def test_a_pod_is_not_moved_beside_the_placeholder_that_its_old_self_refuses():
    world = Scene({"n1": 4, "n2": 4})
    for node in world.api.list(NODE):
        world.api.patch(node, {"metadata": {"labels": {"zone": "a"}}})
    running(world, ("n1",), alone("web", topology="zone"))
    world.taint("n1")
    world.start(document=TAINTS)
    world.advance(60.0)
    assert not reserved(world)


@pytest.mark.parametrize("count", [2, 3])
def test_rooms_of_one_app_do_not_keep_its_own_pod_out(count):
    world = Scene({"n1": 4, "n2": 4})
    world.api.create(deployment("web", alone("web"), {HOST: "n2"}))
    world.start()
    names = rooms(world, count, affinity=alone("web"))
    world.advance(10.0)
    held = [n for n in names if world.state(n).get("phase") == "Available"]
    assert len(held) == 1, "one placeholder would keep the pods of the other rooms out"
    waits = next(n for n in names if n not in held)
    assert "anti-affinity" in condition({"status": world.state(waits)}, "Scheduled")["message"]
    world.scale(1)
    world.until(lambda: len(world.ready()) == 1, 20.0)
    assert spec(world.pods()[0])["nodeName"] == "n2"


def test_a_room_of_another_app_is_not_held_beside_the_room_of_an_exclusive_one():
    world = Scene({"n1": 4, "n2": 4})
    world.api.create(deployment("web", alone("web"), {HOST: "n2"}))
    world.start()
    (first,) = rooms(world, 1, affinity=alone("web"))
    world.until(lambda: world.state(first).get("phase") == "Available")
    world.workload(name="other", nodes=("n1",))
    second = world.room("second", app="other", node="n2")
    world.advance(10.0)
    assert world.state(second).get("phase") == "Pending"
    world.scale(1)
    world.until(lambda: len(world.ready()) == 1, 20.0)
