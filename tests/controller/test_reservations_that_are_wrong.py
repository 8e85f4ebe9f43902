"""Reservations that are wrong, impossible, or changed at the wrong moment: a clear state with a reason, and nobody disturbed."""

import pytest
from reserving import SANDBOX, of_web, on, path_of, phase, placeholders, reserve, scale

from harness.controlplane.world import World, condition, gates_of, node_of

pytestmark = SANDBOX


@pytest.fixture
def world(api):
    """One node of 4 CPU with pods that must still be there in the end."""
    with World(api, "wrong") as world:
        node = world.node("one", cpu="4")
        before = {p["metadata"]["uid"] for p in (world.pod(f"there-{i}", nodeName=node) for i in range(2))}
        yield world
        alive = {p["metadata"]["uid"] for p in world.pods() if "deletionTimestamp" not in p["metadata"]}
        assert before <= alive, "somebody was disturbed"


def container(limits=None, **requests):
    resources = {"requests": requests, "limits": limits or {}}
    return {"containers": [{"name": "main", "image": "pause", "resources": resources}]}


@pytest.mark.parametrize(("template", "spec", "words"), [
    (container(cpu="-1"), {}, "containers[0].resources.requests.cpu: quantity '-1' is negative"),
    (container(cpu="much"), {}, "containers[0].resources.requests.cpu: quantity 'much' is not"),
    (container(), {"allocateOnce": False}, "several pods cannot share a room of no size"),
    ({"containers": [{"name": "main"}], "volumes": "none"}, {},
        "spec.template.spec.volumes: Expected `array | null`, got `str` (see kubectl explain pod.spec.volumes)"),
])  # fmt: skip
def test_what_cannot_be_served_fails_with_words(world, template, spec, words):
    reserve(world, "room", of_web(world), template=template, **spec).expect()
    ready = condition({"status": phase(world, "room", "Failed")}, "Ready")
    assert ready["reason"] == "Invalid"
    assert words in ready["message"]
    assert placeholders(world, "room") == []


def test_devices_are_refused(world):
    claims = {**container(cpu="1"), "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}
    reserve(world, "room", of_web(world), template=claims).expect()
    assert condition({"status": phase(world, "room", "Failed")}, "Ready")["reason"] == "NotSupported"


def test_a_template_without_requests_holds_a_slot(world):
    reserve(world, "room", of_web(world), template=container()).expect()
    assert phase(world, "room", "Available")["nodeName"] == f"{world.namespace}-one"


def test_an_end_in_the_past_is_an_end(world):
    reserve(world, "room", of_web(world), expires="2020-01-01T00:00:00Z").expect()
    ready = condition({"status": phase(world, "room", "Failed")}, "Ready")
    assert (ready["reason"], ready["message"]) == ("Expired", "expired before a pod used it")
    assert placeholders(world, "room") == []


def test_owners_that_match_nothing_wait_for_their_end(world):
    nobody = {"controller": {"kind": "Deployment", "name": "nobody", "namespace": world.namespace}}
    reserve(world, "room", nobody, ttl="6s").expect()
    phase(world, "room", "Available")
    world.running("Deployment", "web", 1)
    assert condition({"status": phase(world, "room", "Failed")}, "Ready")["reason"] == "Expired"
    world.wait(lambda: placeholders(world, "room") == [])


def test_a_reservation_that_is_deleted_while_it_is_claimed_lets_its_pod_go(world):
    node = f"{world.namespace}-one"
    world.workload("Deployment", "web", 0)
    reserve(world, "room", of_web(world), node=node, cpu="2").expect()
    phase(world, "room", "Available")
    scale(world, 1)
    world.wait(lambda: world.pods("web"))
    world.api.delete(path_of(world, "room")).expect()
    world.wait(lambda: on(world, node), 40)
    (pod,) = world.pods("web")
    assert gates_of(pod) == []
    world.wait(lambda: placeholders(world, "room") == [], 60)


def test_two_with_the_same_owners_are_both_used(world):
    world.workload("Deployment", "web", 0)
    for name in ("first", "second"):
        reserve(world, name, of_web(world), node=f"{world.namespace}-one").expect()
        phase(world, name, "Available")
    scale(world, 2)
    for name in ("first", "second"):
        phase(world, name, "Succeeded")
    assert {node_of(p) for p in world.pods("web")} == {f"{world.namespace}-one"}
