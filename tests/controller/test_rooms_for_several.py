"""Rooms for several pods and preallocated rooms, with crowds that want them, late watches and crashes, in virtual time."""

import pytest
from scenes import Scene

from kube_sandbox.controllers.unstructured import NODE, spec, status
from tests.seeds import fresh

seeds = pytest.mark.parametrize("seed", fresh(2))


def begin(scene, seed):
    """Every other seed, the controller is late and dies now and then."""
    scene.start(crashes=4 if seed % 2 else 0, late=bool(seed % 2))


def pool(seed, **wish):
    """One pod of a workload on n1, which is full; room for four more on n2, held by one Reservation."""
    scene = Scene({"n1": 1, "n2": 4}, seed=seed).workload(nodes=["n1"])
    begin(scene, seed)
    scene.held_room("pool", node="n2", cpu="4", allocateOnce=False, **wish)
    return scene


def at_rest(scene):
    scene.advance(30.0)
    assert scene.faults == []


def strangers(scene, node):
    return [p for p in scene.pods("crowd") if spec(p).get("nodeName") == node]


@pytest.mark.crossed
@seeds
@pytest.mark.parametrize("priority_class", ["", "patient"])
def test_parts_are_handed_out_and_the_rest_stays_held(seed, priority_class):
    scene = pool(seed)
    scene.crowd(8, priority_class=priority_class)
    scene.advance(2.0)
    scene.scale(4)
    scene.until(lambda: len(scene.on("n2")) == 3)
    at_rest(scene)
    found = scene.state("pool")
    assert found["phase"] == "Available"
    assert (found["allocated"]["cpu"], found["allocatable"]["cpu"]) == ("3", "4")
    assert len(found["currentOwners"]) == 3
    assert not strangers(scene, "n2")
    scene.scale(5)
    scene.until(lambda: len(scene.on("n2")) == 4)
    at_rest(scene)
    full = scene.state("pool")
    assert (full["phase"], full["allocated"]["cpu"], full["allocatable"]["cpu"]) == ("Available", "4", "4")
    assert scene.leftovers() == []


@seeds
def test_more_pods_than_parts_and_owners_that_end(seed):
    scene = pool(seed)
    scene.scale(3)
    scene.until(lambda: len(scene.on("n2")) == 2)
    scene.crowd(8)
    scene.advance(10.0)
    kept = {p["metadata"]["name"] for p in scene.on("n2")}
    scene.scale(2)  # a workload controller takes away what is youngest
    scene.until(lambda: len(scene.on("n2")) == 1)
    at_rest(scene)
    gone = kept - {p["metadata"]["name"] for p in scene.on("n2")}
    found = scene.state("pool")
    assert not gone & {owner["name"] for owner in found["currentOwners"]}
    scene.scale(7)
    scene.until(lambda: scene.state("pool")["allocated"]["cpu"] == "4")
    at_rest(scene)
    assert len(scene.on("n2")) >= 3
    assert scene.leftovers() == []


@pytest.mark.crossed
@seeds
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_what_owners_leave_goes_back_to_the_room_and_no_stranger_gets_it(seed, kind):
    """Each owner is restarted while many pods want every free place; each comes back into the room, which keeps its size.

    A Deployment makes the new pod while the old one still ends, a StatefulSet afterwards.
    """
    scene = Scene({"n1": 1, "n2": 8}, seed=seed).workload(kind, nodes=["n1"])
    begin(scene, seed)
    scene.held_room("pool", kind=kind, node="n2", cpu="8", allocateOnce=False)
    scene.scale(4, kind=kind)
    scene.until(lambda: len(scene.on("n2")) == 3)
    scene.crowd(16)
    for before in scene.on("n2"):
        scene.advance(10.0)
        scene.api.delete(before)
        old = before["metadata"]["uid"]
        scene.until(lambda old=old: old not in (now := uids(scene.on("n2"))) and len(now) == 3)
    at_rest(scene)
    found = scene.state("pool")
    assert (found["phase"], found["allocated"]["cpu"], found["allocatable"]["cpu"]) == ("Available", "3", "8")
    assert sum(float(spec(p)["containers"][0]["resources"]["requests"]["cpu"]) for p in held_by(scene)) == 5
    assert not strangers(scene, "n2")
    assert not any(spec(node).get("taints") for node in scene.api.list(NODE))


def uids(pods):
    return {pod["metadata"]["uid"] for pod in pods}


def held_by(scene):
    """Placeholders that are bound."""
    return [p for p in scene.placeholders() if spec(p).get("nodeName")]


def preallocated(seed, *, room_on_n2=4):
    """n2 is full of pods that run; a crowd of the same priority has waited for longer than the Reservations."""
    scene = Scene({"n1": 1, "n2": room_on_n2}, seed=seed).workload(nodes=["n1"])
    scene.workload("ReplicaSet", "old", ["n2"] * 4)
    return scene


@seeds
def test_preallocated_rooms_become_available_piece_by_piece_and_disturb_nobody(seed):
    scene = preallocated(seed)
    scene.crowd(8)
    scene.advance(5.0)
    begin(scene, seed)
    for name in ("first", "second"):
        scene.room(name, node="n2", cpu="2", preAllocation=True)
        scene.advance(1.5)
    scene.until(lambda: scene.phase("first") == scene.phase("second") == "Waiting")
    scene.advance(10.0)
    assert len(scene.on("n2", "old")) == 4
    scene.scale(2, kind="ReplicaSet", name="old")
    scene.until(lambda: scene.phase("first") == "Available")
    assert scene.phase("second") == "Waiting"
    scene.advance(10.0)
    scene.scale(0, kind="ReplicaSet", name="old")
    scene.until(lambda: scene.phase("second") == "Available")
    assert not strangers(scene, "n2")
    assert not scene.calls.of(lambda c: c.evicts)
    at_rest(scene)


def waiting_for_n2(seed):
    """A room that waits for all pods of n2 to leave; n3 has more pods."""
    scene = Scene({"n1": 1, "n2": 5, "n3": 5}, seed=seed).workload(nodes=["n1"])
    scene.workload("ReplicaSet", "old", ["n2"] * 3)
    scene.workload("ReplicaSet", "other", ["n3"] * 4)
    begin(scene, seed)
    scene.room("room", cpu="5", preAllocation=True)
    scene.until(lambda: nominated(scene) == ["n2"])
    return scene


@seeds
def test_a_preallocation_goes_to_a_node_that_becomes_empty_and_frees_what_it_kept(seed):
    scene = waiting_for_n2(seed)
    scene.scale(0, kind="ReplicaSet", name="other")
    scene.until(lambda: scene.phase("room") == "Available", limit_s=60.0)
    assert scene.state("room")["nodeName"] == "n3"
    scene.crowd(2)
    scene.until(lambda: len(strangers(scene, "n2")) == 2)
    at_rest(scene)
    assert not strangers(scene, "n3")
    assert len(scene.on("n2", "old")) == 3


@seeds
def test_a_preallocation_stays_while_another_node_has_room_for_a_moment_only(seed):
    scene = waiting_for_n2(seed)
    for _ in range(4):
        scene.scale(0, kind="ReplicaSet", name="other")
        scene.advance(4.0)
        scene.scale(3, kind="ReplicaSet", name="other")
        scene.advance(8.0)
    assert nominated(scene) == ["n2"]
    assert scene.faults == []


def beside_a_hand_over(seed):
    """One free CPU on n2 is held by a room, and a preallocated Reservation waits there for two more."""
    scene = preallocated(seed, room_on_n2=5)
    begin(scene, seed)
    scene.held_room("room", node="n2")
    scene.crowd(8)
    scene.room("later", node="n2", cpu="2", preAllocation=True)
    scene.until(lambda: scene.phase("later") == "Waiting")
    return scene


def nominated(scene):
    """Where the placeholder that waits is nominated to."""
    waiting = [p for p in scene.placeholders() if not spec(p).get("nodeName")]
    return [status(p).get("nominatedNodeName", "") for p in waiting]


@seeds
def test_a_preallocation_gives_way_while_another_room_on_its_node_is_handed_over(seed):
    scene = beside_a_hand_over(seed)
    scene.until(lambda: nominated(scene) == ["n2"])
    scene.scale(2)
    scene.until(lambda: scene.phase("room") == "Succeeded")
    at_rest(scene)
    assert len(scene.on("n2")) == 1
    assert nominated(scene) == ["n2"], "again"


@seeds
def test_what_becomes_free_while_a_preallocation_gives_way_is_not_lost(seed):
    scene = beside_a_hand_over(seed)
    scene.until(lambda: nominated(scene) == ["n2"])
    scene.scale(2)
    scene.until(lambda: nominated(scene) in ([""], []))
    scene.scale(2, kind="ReplicaSet", name="old")
    scene.until(lambda: scene.phase("later") == "Available")
    at_rest(scene)
    assert scene.phase("room") == "Succeeded"
    assert not strangers(scene, "n2")
    assert not any(spec(node).get("taints") for node in scene.api.list(NODE)), "the node stays shut"


@seeds
def test_two_rooms_for_several_on_one_node_are_handed_out_together(seed):
    scene = Scene({"n1": 2, "n2": 8}, seed=seed).workload(nodes=["n1"])
    scene.workload(name="api", nodes=["n1"])
    begin(scene, seed)
    scene.room("one", node="n2", cpu="4", allocateOnce=False)
    scene.room("two", app="api", node="n2", cpu="4", allocateOnce=False)
    both = lambda: {scene.phase("one"), scene.phase("two")}  # noqa: E731
    scene.until(lambda: both() == {"Available"})
    scene.crowd(8)
    scene.advance(2.0)
    scene.scale(3)
    scene.scale(4, name="api")
    landed = lambda: (len(scene.on("n2")), len(scene.on("n2", "api")))  # noqa: E731
    scene.until(lambda: landed() == (2, 3))
    at_rest(scene)
    assert both() == {"Available"}
    assert [scene.state(name)["allocated"]["cpu"] for name in ("one", "two")] == ["2", "3"]
    assert not strangers(scene, "n2")
