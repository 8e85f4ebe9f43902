"""Pods that are pending before their room is there: they get it, under a stampede. On the sandbox and the real control plane."""

import pytest
from reserving import look, of_web, phase, placeholders, reserve

from harness.controlplane.world import RESERVATIONS, WORLD, World, condition, gates_of, node_of
from rescheduler.model.names import ANNOTATION_HANDOVER_TAINT, ANNOTATION_RESERVATION

pytestmark = pytest.mark.usefixtures("api")

WHO = "rescheduler.test/who"


def full(world, name, cpu="1"):
    """A node that one pod fills; gives both."""
    node = world.node(name, cpu=cpu)
    return node, world.pod(f"old-{name}", cpu, nodeName=node)


def stampede(world, count, cpu="1", **spec):
    """Pods that would take any room; they wait already."""
    for index in range(count):
        world.pod(f"rival-{index}", cpu, labels={"app": "rival"}, **spec)
        world.wait_unschedulable(f"rival-{index}")


def taints(world, node):
    found = world.api.get(f"/api/v1/nodes/{node}").expect().body["spec"].get("taints") or ()
    return [taint["key"] for taint in found if taint["key"] == ANNOTATION_HANDOVER_TAINT]


def by_name(world, name="mine"):
    return {"object": {"namespace": world.namespace, "name": name}}


def by_label(world):
    return {"object": {"namespace": world.namespace}, "labelSelector": {"matchLabels": {WHO: "me"}}}


def landed(world, node, room="room", pod="mine"):
    """The pod is in its room, and nothing of the hand-over is left."""
    assert world.wait_bound(pod) == node
    phase(world, room, "Succeeded")
    world.wait(lambda: not placeholders(world, room) and not taints(world, node))
    rivals = [p for p in world.pods("rival") if node_of(p)]
    assert rivals == []
    said = world.get_pod(pod)["metadata"]["annotations"][ANNOTATION_RESERVATION]
    assert said == f"{world.namespace}-{room}"


@pytest.mark.parametrize("owner", [by_name, by_label, of_web], ids=["name", "label", "owner"])
def test_a_pod_that_is_pending_gets_the_room_that_becomes_free(world, owner):
    node, old = full(world, "one")
    stampede(world, 3)
    if owner is of_web:
        world.workload("Deployment", "web", 1)
        name = world.wait(lambda: [p["metadata"]["name"] for p in world.pods("web")])[0]
    else:
        name = world.pod("mine", labels={WHO: "me"})["metadata"]["name"]
    world.wait_unschedulable(name)
    reserve(world, "room", owner(world), node=node, preAllocation=True).expect()
    phase(world, "room", "Waiting")
    world.delete_pod(old)
    landed(world, node, pod=name)


def test_pods_that_are_pending_do_not_take_the_rooms_of_each_other_on_other_nodes(world):
    nodes = [full(world, f"n{number}") for number in range(3)]
    stampede(world, 6)
    for number, (node, _) in enumerate(nodes):
        world.pod(f"mine-{number}")
        world.wait_unschedulable(f"mine-{number}")
        owner = by_name(world, f"mine-{number}")
        reserve(world, f"room-{number}", owner, node=node, preAllocation=True).expect()
        phase(world, f"room-{number}", "Waiting")
    for _, old in nodes:
        world.delete_pod(old)
    for number, (node, _) in enumerate(nodes):
        landed(world, node, room=f"room-{number}", pod=f"mine-{number}")


def test_a_pod_that_is_pending_gets_a_room_that_is_held_already(world):
    node = world.node("one", cpu="1")
    reserve(world, "room", by_name(world, "later"), node=node).expect()
    phase(world, "room", "Available")
    stampede(world, 3)
    world.pod("mine")
    world.wait_unschedulable("mine")
    change = {"spec": {"owners": [by_name(world)]}}
    world.api.patch(f"{RESERVATIONS}/{world.namespace}-room", change).expect()
    landed(world, node)


def test_pods_that_are_pending_share_a_room_and_its_rest_stays_held(world):
    node = world.node("pool", cpu="3")
    full(world, "other")
    reserve(world, "room", by_name(world, "later"), node=node, cpu="3", allocateOnce=False).expect()
    phase(world, "room", "Available")
    for name in ("a", "b"):
        world.pod(name, labels={WHO: "me"})
        world.wait_unschedulable(name)
    stampede(world, 3)
    change = {"spec": {"owners": [by_label(world)]}}
    world.api.patch(f"{RESERVATIONS}/{world.namespace}-room", change).expect()
    assert {world.wait_bound("a"), world.wait_bound("b")} == {node}
    status = world.wait(lambda: (s := look(world, "room")).get("allocated", {}).get("cpu") == "2" and s)
    assert (status["phase"], status["allocatable"]["cpu"]) == ("Available", "3")
    world.wait(lambda: not taints(world, node))
    assert [p for p in world.pods("rival") if node_of(p)] == []


def test_a_pod_that_passes_the_taint_since_an_earlier_claim_does_not_take_the_room_of_another(world):
    """It is no owner of this one. The owner waits, and is told for which pod; no node is tainted meanwhile."""
    node = world.node("one", cpu="1")
    reserve(world, "room", by_name(world, "later"), node=node).expect()
    phase(world, "room", "Available")
    behind = {"key": ANNOTATION_HANDOVER_TAINT, "operator": "Equal", "value": node, "effect": "NoSchedule"}
    stranger = world.pod("stranger", tolerations=[{"key": WORLD, "operator": "Exists"}, behind])
    world.pod("mine")
    world.wait_unschedulable("stranger")
    world.wait_unschedulable("mine")
    change = {"spec": {"owners": [by_name(world)]}}
    world.api.patch(f"{RESERVATIONS}/{world.namespace}-room", change).expect()

    def told():
        conditions = look(world, "room").get("conditions", ())
        return any("stranger is pending and would take the room" in c.get("message", "") for c in conditions)

    world.wait(told)
    assert (node_of(world.get_pod("stranger")), node_of(world.get_pod("mine"))) == ("", "")
    assert not taints(world, node)
    world.delete_pod(stranger)
    landed(world, node)


def test_what_cannot_use_the_room_leaves_it_to_the_next(world):
    """Another namespace, a gate of another program, another scheduler, too large, or not fit for the node."""
    node = world.node("one", cpu="1")
    full(world, "other", cpu="2")
    reserve(world, "room", by_name(world, "later"), node=node).expect()
    phase(world, "room", "Available")
    me = {WHO: "me"}
    world.pod("gated", labels=me, gates=["example.com/queue"])
    world.pod("foreign", labels=me, schedulerName="another")
    world.pod("large", "2", labels=me)
    world.pod("elsewhere", labels=me, nodeSelector={"kubernetes.io/hostname": f"{world.namespace}-other"})
    with World(world.api, "else") as another:
        their = another.pod("theirs", labels=me)
        change = {"spec": {"owners": [by_label(world)]}}
        world.api.patch(f"{RESERVATIONS}/{world.namespace}-room", change).expect()
        world.wait_unschedulable("large")
        world.wait_unschedulable("elsewhere")
        late = world.pod("late", labels=me)
        if not gates_of(late):
            assert world.wait_bound("late") == node
        landed(world, node, pod="late")
        for name in ("gated", "foreign", "large", "elsewhere"):
            assert node_of(world.get_pod(name)) == ""
        assert node_of(another.get_pod(their["metadata"]["name"])) == ""


def test_the_room_goes_to_the_next_if_the_pod_is_deleted_meanwhile(world):
    node = world.node("one", cpu="1")
    reserve(world, "room", by_name(world, "later"), node=node).expect()
    phase(world, "room", "Available")
    for name in ("a", "b"):
        world.pod(name, labels={WHO: "me"})
        world.wait_unschedulable(name)
    stampede(world, 2)
    change = {"spec": {"owners": [by_label(world)]}}
    world.api.patch(f"{RESERVATIONS}/{world.namespace}-room", change).expect()
    claimed = world.wait(lambda: look(world, "room").get("currentOwners"))[0]["name"]
    world.delete_pod(world.get_pod(claimed), grace=0)
    other = "b" if claimed == "a" else "a"
    status = world.wait(
        lambda: ((s := look(world, "room"))["phase"] in ("Succeeded", "Failed") and s) or None
    )
    # Deleted after its placeholder: the room was given up with it.
    if status["phase"] == "Succeeded" and claimed != status["currentOwners"][0]["name"]:
        landed(world, node, pod=other)
    else:
        assert condition({"status": status}, "Ready")["reason"] in ("ClaimantLost", "Succeeded")
    world.wait(lambda: not taints(world, node))
