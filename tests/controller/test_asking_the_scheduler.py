"""A scheduler's answer to a probe, on both clusters; and a room that is not given up while the scheduler is away."""

import json

import pytest
from reserving import look, of_web, on, phase, reserve, scale

from harness.controlplane.world import PLACEHOLDERS, World, node_of, placeholders
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import Reservation
from rescheduler.reservations.scheduler_probe import answered, ask_scheduler, is_probe


def decoded(wire):
    return Decoder().record(Kind.POD, json.dumps(wire).encode())


def probes(world):
    pods = [decoded(wire) for wire in placeholders(world.api)]
    return [pod for pod in pods if is_probe(pod)]


def question(name):
    room, image = Reservation(name="room", uid="uid-of-room"), "registry.k8s.io/pause:3.10"
    body = json.loads(ask_scheduler(ObjectKey("rescheduler", name), "default-scheduler", image, room).body)
    del body["metadata"]["ownerReferences"]  # it is to stay although there is no such Reservation
    return body


@pytest.mark.parametrize("cluster", ["embedded_api", pytest.param("real_api", marks=pytest.mark.realcluster)])
def test_a_probe_is_let_in_refused_at_once_and_never_placed(cluster, request):
    """Without a controller, which deletes probes that it does not know."""
    with World(request.getfixturevalue(cluster), "probe") as world:
        world.node("empty")
        body = question(f"probe-{world.namespace}")
        made = world.api.create(PLACEHOLDERS, body).expect().body
        path = f"{PLACEHOLDERS}/{made['metadata']['name']}"
        assert is_probe(decoded(made))
        assert not answered(decoded(made))
        seen = world.wait(lambda: answered(decoded(b := world.api.get(path).expect().body)) and b)
        assert not node_of(seen)
        world.api.delete(path)


EVENTS = "/apis/events.k8s.io/v1/namespaces/rescheduler/events"


def event(name, pod, kind="Warning"):
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "rescheduler"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "test",
        "reportingInstance": "test",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "type": kind,
        "regarding": {"kind": "Pod", "namespace": "rescheduler", "name": pod},
    }


@pytest.mark.realcluster
def test_the_refusal_of_a_probe_is_no_warning(real_api):
    with World(real_api, "quiet") as world:
        world.node("empty")
        name = f"scheduler-probe-{world.namespace}"
        made = world.api.create(PLACEHOLDERS, question(name)).expect().body
        uid = made["metadata"]["uid"]

        def told():
            found = world.api.get(EVENTS).expect().items
            return [
                e for e in found if e["regarding"].get("uid") == uid and e["reason"] == "FailedScheduling"
            ]

        events = world.wait(told, 120)
        world.api.delete(f"{PLACEHOLDERS}/{name}")
        assert {found["type"] for found in events} == {"Normal"}
        others = world.api.create(EVENTS, event(f"other.{world.namespace}", "web-1")).expect(201).body
        assert others["type"] == "Warning"


@pytest.mark.realcluster
def test_a_room_is_not_given_up_while_the_scheduler_is_away(control_plane, controller, world):
    node = world.node("to", cpu="1")
    world.workload("Deployment", "web", 0)
    reserve(world, "room", of_web(world), node=node, cpu="1").expect()
    phase(world, "room", "Available")
    control_plane.kill_scheduler()
    try:
        scale(world, 1)
        world.wait(lambda: look(world, "room").get("currentOwners"))
        world.wait(lambda: probes(world))
        nominated = [p for p in world.pods("web") if p["status"].get("nominatedNodeName")]
        holders = [p for p in placeholders(world.api) if node_of(p) == node]
        assert (len(nominated), len(holders)) == (0, 1)
        assert "deletionTimestamp" not in holders[0]["metadata"]
    finally:
        control_plane.start_scheduler()
    world.wait(lambda: on(world, node, "web"), 60)
    phase(world, "room", "Succeeded")
    world.wait(lambda: not probes(world))
