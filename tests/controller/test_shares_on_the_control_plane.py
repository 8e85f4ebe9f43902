"""How much may be reserved, kept by the controller and by a quota of the API server; when Reservations end."""

import pytest
from reserving import look, of_web, path_of, phase, reserve, told

pytestmark = [pytest.mark.realcluster, pytest.mark.usefixtures("controller")]

QUOTAS = "/api/v1/namespaces/rescheduler/resourcequotas"
LONG_S = 60.0
"""A refused placeholder is tried again after 30 s at the latest."""


SHARES = {"*": {"reservations": 3, "cpu": "3"}}
CONFIGURATION = {"reservations": {"shares": SHARES, "defaultTtl": "2h", "finishedTtl": "2s"}}


@pytest.fixture
def quota(world):
    """The quota of docs/security.md, for less."""
    scope = {
        "scopeName": "PriorityClass",
        "operator": "In",
        "values": ["rescheduler-placeholder", "rescheduler-placeholder-soft"],
    }
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "reserved-room"},
        "spec": {"hard": {"requests.cpu": "3", "pods": "2"}, "scopeSelector": {"matchExpressions": [scope]}},
    }
    world.api.create(QUOTAS, body).expect()
    counted = lambda: world.api.get(f"{QUOTAS}/reserved-room").expect().body["status"].get("used")  # noqa: E731
    try:  # placeholders of other tests go with the garbage collection
        world.wait(lambda: counted() == {"requests.cpu": "0", "pods": "0"}, LONG_S)
        yield counted
    finally:
        world.api.delete(f"{QUOTAS}/reserved-room").expect()


def test_a_quota_limits_all_placeholders_together(world, quota):
    world.node("one", cpu="16")
    names = [{"controller": {"name": "web", "namespace": f"team-{i}"}} for i in range(2)]
    reserve(world, "first", names[0], cpu="2").expect()
    phase(world, "first", "Available")
    world.wait(lambda: quota() == {"requests.cpu": "2", "pods": "1"})
    reserve(world, "second", names[1], cpu="2").expect()
    told(world, "second", text="exceeded quota: reserved-room")
    assert look(world, "second")["phase"] == "Pending"
    bare = {"containers": [{"name": "main", "image": "pause"}]}
    reserve(world, "bare", names[1], template=bare).expect()
    phase(world, "bare", "Available")  # a placeholder names every request: the quota demands one
    world.api.delete(path_of(world, "first")).expect()
    phase(world, "second", "Available", LONG_S)


@pytest.fixture
def row(table, world):
    """row("room"): that of one Reservation."""
    return lambda name, **how: table(path_of(world, name), **how)[0]


def test_kubectl_shows_what_people_look_for(world, row):
    node = world.node("one", cpu="1")
    reserve(world, "room", {"object": {"namespace": world.namespace, "name": "mine"}}, node=node).expect()
    phase(world, "room", "Available")
    held = row("room")
    assert (held["Phase"], held["Node"], held["Owner"]) == ("Available", node, None)
    assert set(held) == {"Name", "Phase", "Node", "Owner", "Expires", "Age"}
    reserve(world, "late", of_web(world), node="nowhere").expect()
    told(world, "late")
    late = row("late", wide=True)
    assert (late["Phase"], late["Scheduling"]) == ("Pending", "node/nowhere: there is no such node")
    world.pod("mine")
    world.wait_bound("mine")
    phase(world, "room", "Succeeded")
    used = row("room", wide=True)
    assert (used["Owner"], used["Reason"]) == ("mine", "Succeeded")
    assert used["Message"] == f"{world.namespace}/mine landed on node/{node}"


def test_kubectl_shows_moves_and_those_that_have_ended_are_collected(world, table):
    node = world.node("one", cpu="1")
    (pod,) = world.running("ReplicaSet", "web", 1)
    name = world.migrate(pod, "nowhere")
    moves, move = (world.path("podmigrations", n, group="rescheduler.dev/v1alpha1") for n in ("", name))
    world.wait(lambda: world.move_status(name).get("phase") == "Failed")
    (shown,) = table(moves)
    assert (shown["Name"], shown["Pod"], shown["Reason"]) == (name, pod["metadata"]["name"], "TargetNotFound")
    assert set(shown) == {"Name", "Phase", "Pod", "From", "To", "Reason", "Age"}
    (wide,) = table(moves, wide=True)
    only_wide = {"Reservation", "Replacement", "Policy", "Requested-By", "From-Avoided-Until", "Message"}
    assert set(wide) - set(shown) == only_wide
    assert "nowhere" in wide["Message"]
    assert world.get_pod(pod["metadata"]["name"])["spec"]["nodeName"] == node
    world.wait(lambda: world.api.get(move).status == 404, 15)
