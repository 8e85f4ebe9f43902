"""PodMigrations as people apply them: every field, and every way to ask for nonsense; on both clusters."""

import pytest
from reserving import SANDBOX

from harness import documents
from harness.controlplane.world import RESERVATIONS, World, is_ready, node_of

MOVES = "rescheduler.dev/v1alpha1"


@pytest.fixture
def world(api):
    with World(api, "ask") as world:
        world.node("a", cpu="4")
        yield world


@pytest.fixture
def web(world):
    """One pod of a Deployment on node a, and a node b to go to."""
    world.workload("Deployment", "web", 1)
    pod = world.wait_ready("web", 1)[0]
    world.node("b", cpu="4")
    return pod


def move(world, name, **spec):
    body = documents.own("PodMigration", name, spec)
    return world.api.create(world.path("podmigrations", group=MOVES), body).expect().body


def wait_reason(world, name, reason, phase=""):
    def look():
        found = world.move_status(name)
        return found if found.get("reason") == reason and phase in ("", found.get("phase")) else None

    try:
        return world.wait(look, 60.0)
    except AssertionError as error:
        raise AssertionError(f"{error}; {world.move_status(name)}") from error


def node(world, name):
    return f"{world.namespace}-{name}"


def undisturbed(world, pod):
    found = world.get_pod(pod["metadata"]["name"])
    return found["metadata"]["uid"] == pod["metadata"]["uid"] and is_ready(found) and not world.rooms()


def name_of(pod):
    return pod["metadata"]["name"]


def test_a_move_with_every_field_lands_on_the_named_node(world, web):
    move(
        world, "full", podRef={"name": name_of(web)}, target={"nodeName": node(world, "b")},
        mode="ReserveFirst", ttl="1m", deleteOptions={"gracePeriodSeconds": 0}, reason="asked for",
        policy="Manual",
    )  # fmt: skip
    done = wait_reason(world, "full", "Landed")
    assert (done["phase"], done["sourceNode"], done["nodeName"]) == (
        "Succeeded",
        node(world, "a"),
        node(world, "b"),
    )
    assert node_of(world.get_pod(done["replacement"]["name"])) == node(world, "b")
    assert done["conditions"][0]["reason"] == "Landed"
    stored = world.api.get(world.path("podmigrations", "full", group=MOVES)).body
    assert stored["spec"]["podRef"]["uid"] == web["metadata"]["uid"]
    assert stored["status"]["mode"] == "ReserveFirst"


@SANDBOX
def test_a_paused_move_rests_until_it_is_let_go(world, web):
    move(world, "rest", podRef={"name": name_of(web)}, target={"nodeName": node(world, "b")}, paused=True)
    assert "paused" in wait_reason(world, "rest", "Paused")["message"]
    assert undisturbed(world, web)
    path = world.path("podmigrations", "rest", group=MOVES)
    world.api.patch(path, {"spec": {"paused": False}}).expect()
    assert wait_reason(world, "rest", "Landed")["nodeName"] == node(world, "b")


@SANDBOX
def test_a_move_into_an_existing_room(world, web):
    owner = world.api.get(world.path("replicasets", group="apps/v1")).expect().items[0]
    template = {"spec": {**world.spec("1"), "nodeName": node(world, "b")}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "uid": owner["metadata"]["uid"]}
    wish = {"template": template, "owners": [{"controller": {**owner, "namespace": world.namespace}}]}
    room = documents.own("Reservation", f"room-{world.namespace}", wish)
    name = world.api.create(RESERVATIONS, room).expect().body["metadata"]["name"]
    move(world, "into", podRef={"name": name_of(web)}, reservationRef={"name": name})
    done = wait_reason(world, "into", "Landed")
    assert (done["nodeName"], done["reservationName"]) == (node(world, "b"), name)


def test_it_waits_for_the_budget_in_words_until_its_time_is_over(world, web):
    world.budget("web", "web", maxUnavailable=0)
    world.wait(
        lambda: (
            world.api.get(world.path("poddisruptionbudgets", "web", group="policy/v1"))
            .body["status"]
            .get("expectedPods")
            == 1
        )
    )
    move(world, "held", podRef={"name": name_of(web)}, target={"nodeName": node(world, "b")}, ttl="4s")
    assert "web allows 0 of 1 disruptions" in wait_reason(world, "held", "DisruptionBudget")["message"]
    assert "web allows 0 of 1" in wait_reason(world, "held", "Timeout")["message"]
    world.wait(lambda: undisturbed(world, web))


@SANDBOX
def test_a_target_without_room_is_said_in_words(world, web):
    world.node("full", cpu="500m")
    move(world, "tight", podRef={"name": name_of(web)}, target={"nodeName": node(world, "full")}, ttl="1m")
    assert "NodeResourcesFit" in wait_reason(world, "tight", "TargetUnschedulable")["message"]
    assert undisturbed(world, web)


@SANDBOX
@pytest.mark.parametrize(("spec", "reason"), [
    ({"podRef": {"name": "nobody"}}, "PodGone"),
    ({"podRef": {"uid": "another-uid"}}, "PodReplaced"),
    ({"target": {"nodeName": "no-such-node"}}, "TargetNotFound"),
    ({"target": {"nodeName": "A"}}, "AlreadyOnTarget"),
    ({"reservationRef": {"name": "no-such-room"}}, "ReservationFailed"),
    ({"mode": "Soft"}, "ModeNotSupported"),
    ({"mode": "StartFirst"}, "ModeNotSupported"),
])  # fmt: skip
def test_nonsense_ends_with_its_reason_and_nobody_is_disturbed(world, web, spec, reason):
    target = spec.get("target", {"nodeName": node(world, "b")})
    if target["nodeName"] == "A":
        target = {"nodeName": node_of(web)}
    wanted = {**spec, "podRef": {"name": name_of(web), **spec.get("podRef", {})}, "target": target}
    if "reservationRef" in spec:
        del wanted["target"]
    move(world, "bad", **wanted)
    assert wait_reason(world, "bad", reason, "Failed")["message"]
    assert undisturbed(world, web)


@SANDBOX
def test_a_pod_without_a_controller_is_not_moved(world):
    world.pod("alone")
    world.wait(lambda: is_ready(world.get_pod("alone")))
    world.node("b", cpu="4")
    move(world, "alone", podRef={"name": "alone"}, target={"nodeName": node(world, "b")})
    assert (
        "has no controller that would bring it back" in wait_reason(world, "alone", "NotMovable")["message"]
    )


def test_a_pod_that_was_recreated_under_its_name_is_left_alone(world):
    world.workload("StatefulSet", "db", 1)
    old = world.wait_ready("db", 1)[0]
    world.node("b", cpu="4")
    world.delete_pod(old)
    world.wait_gone(old)
    new = world.wait_ready("db", 1)[0]
    ref = {"name": "db-0", "uid": old["metadata"]["uid"]}
    move(world, "late", podRef=ref, target={"nodeName": node(world, "b")})
    assert "was replaced by another pod" in wait_reason(world, "late", "PodReplaced")["message"]
    assert undisturbed(world, new)
