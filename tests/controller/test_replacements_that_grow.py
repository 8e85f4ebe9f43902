"""Replacements that are larger than the pods that are evicted, with the whole controller on the sandbox in virtual time.

Admission begins to add a sidecar, or a template grows, after the pods were created. Nothing is evicted for a room that is
too small, whether a dry-run creation shows it or a sibling and the template.
"""

import json

import pytest
from scenes import KINDS, Scene, refusal

from harness.histories.admission import policy, sidecar
from rescheduler.kube.transport import Response
from rescheduler.replacements.replacement import Replacements

NO_RIGHT = 'pods is forbidden: User "rescheduler" cannot create resource "pods" in API group ""'


def scene(nodes=None, **options):
    return Scene(nodes or {"n1": 4, "n2": 4}, **options)


def without_the_right(world):
    status = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 403, "message": NO_RIGHT}
    answer = Response(403, json.dumps(status).encode(), {"content-type": "application/json"})
    world.calls.answer(lambda call: call.tries_creation, lambda _: answer)


def add_sidecars(world):
    for obj in policy(sidecar(500)):
        world.api.create(obj)


def grow(world, kind, cpu="2"):
    """The template of the workload asks for more; pods that are there stay."""
    owner = world.api.get(KINDS[kind], "default", "web")
    container = owner["spec"]["template"]["spec"]["containers"][0]
    grown = {**container, "resources": {"requests": {**container["resources"]["requests"], "cpu": cpu}}}
    world.api.patch(owner, {"spec": {"template": {"spec": {"containers": [grown]}}}})
    world.advance(1.0)


def requested(world, name):
    """CPU of the room that a move has reserved; None if it reserved none."""
    (room,) = [
        call.body["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        for call in world.calls.sent
        if call.method == "POST" and call.path.endswith("/reservations")
        if call.body["metadata"]["annotations"]["rescheduler.dev/migration"] == f"default/{name}"
    ] or [None]
    return room


def evicted(world):
    return world.calls.of(lambda call: call.evicts)


def noted(world, name):
    found = [c for c in world.state(name)["conditions"] if c["type"] == "ReplacementAdmitted"]
    return found[0]["status"], found[0]["reason"]


def landed(world, name, node="n2"):
    world.until(lambda: world.over(name))
    state = world.state(name)
    assert (state["phase"], state["nodeName"]) == ("Succeeded", node), state
    assert len(world.on(node)) == 1
    assert not world.faults


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_room_has_place_for_a_sidecar_that_admission_has_begun_to_add(kind):
    world = scene()
    world.workload(kind)
    add_sidecars(world)
    world.start()
    (pod,) = world.pods()
    name = world.move(pod, "n2")
    landed(world, name)
    assert requested(world, name) == "1500m"
    assert noted(world, name) == ("True", "DryRun")
    assert not world.leftovers()


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_in_a_tight_cluster_nothing_is_evicted_for_a_sidecar_that_has_no_place(kind):
    world = scene({"n1": 4, "n2": 1})
    world.workload(kind)
    add_sidecars(world)
    world.start()
    (pod,) = world.pods()
    name = world.move(pod, "n2", ttl="20s")
    world.until(lambda: world.over(name))
    assert world.state(name)["reason"] == "Timeout"
    assert "Insufficient cpu" in world.state(name)["message"]
    assert not evicted(world)
    assert [p["metadata"]["uid"] for p in world.ready()] == [pod["metadata"]["uid"]]


def test_plans_know_what_a_move_has_found_out():
    world = scene({"n1": 4, "n2": 1})
    world.workload()
    add_sidecars(world)
    program = world.start()
    name = world.move(world.pods()[0], "n2", ttl="10s")
    world.until(lambda: world.over(name))
    snapshot = program.loop.snapshot()
    (pod,) = [p for p in snapshot.pods.values() if p.controller is not None and p.namespace == "default"]
    assert Replacements(snapshot).of(pod).pod.spec.requests.cpu_milli == 1500


def test_moves_of_one_template_share_their_dry_run_creations():
    world = scene({"n1": 8, "n2": 8})
    world.workload(nodes=("n1", "n1", "n1", "n1"))
    world.start()
    names = [world.move(pod, "n2") for pod in world.pods()]
    world.until(lambda: world.over(*names))
    assert [world.phase(name) for name in names] == ["Succeeded"] * 4
    # One before the rooms are reserved, and one right before each eviction.
    assert len(world.calls.of(lambda call: call.tries_creation)) <= len(names) + 2


@pytest.mark.crossed
@pytest.mark.parametrize("right", [True, False], ids=["dry run", "template"])
@pytest.mark.parametrize(("kind", "strategy"), [
    ("ReplicaSet", {}),
    ("StatefulSet", {"updateStrategy": {"type": "OnDelete"}}),
], ids=["bare ReplicaSet", "OnDelete"])  # fmt: skip
def test_room_is_sized_by_a_template_that_grew(kind, strategy, right):
    world = scene()
    world.workload(kind, **strategy)
    if not right:
        without_the_right(world)
    grow(world, kind)
    world.start()
    (pod,) = world.pods()
    name = world.move(pod, "n2")
    landed(world, name)
    assert requested(world, name) == "2"
    assert noted(world, name) == (("True", "DryRun") if right else ("Unknown", "Template"))


def blocked(world, kind="Deployment"):
    """A move that holds its room and waits for its budget."""
    world.workload(kind)
    world.budget(maxUnavailable=1)
    world.advance(1.0)
    world.calls.answer(
        lambda call: call.rehearses and world.blocks, lambda _: refusal(429, "TooManyRequests")
    )
    world.blocks = True
    world.start()
    (pod,) = world.pods()
    name = world.move(pod, "n2")
    world.until(lambda: world.phase(name) == "Evicting")
    return name


def test_a_sidecar_that_is_added_since_the_room_was_reserved_is_seen_before_the_eviction():
    world = scene()
    name = blocked(world)
    add_sidecars(world)
    world.blocks = False
    world.until(lambda: world.over(name))
    state = world.state(name)
    assert (state["phase"], state["reason"]) == ("Failed", "ReplacementChanged"), state
    assert "cpu: 1 held, 1500m needed" in state["message"]
    assert not evicted(world)
    world.advance(5.0)
    assert not world.leftovers()
    again = world.move(world.pods()[0], "n2", name="again")
    landed(world, again)
    assert requested(world, again) == "1500m"


@pytest.mark.parametrize("right", [True, False], ids=["dry run", "template"])
def test_a_template_that_has_grown_since_the_room_was_reserved_is_seen_before_the_eviction(right):
    world = scene()
    if not right:
        without_the_right(world)
    name = blocked(world, "ReplicaSet")
    grow(world, "ReplicaSet")
    world.blocks = False
    world.until(lambda: world.over(name))
    assert world.state(name)["reason"] == "ReplacementChanged"
    assert not evicted(world)


def test_nothing_is_evicted_while_a_webhook_fails_and_the_move_goes_on_afterwards():
    world = scene()
    world.workload()
    world.fails = True
    world.calls.answer(
        lambda call: call.tries_creation and world.fails, lambda _: refusal(500, "InternalError")
    )
    world.start()
    name = world.move(world.pods()[0], "n2")
    world.advance(30.0)
    assert world.state(name)["reason"] == "ReplacementUnknown"
    assert not evicted(world)
    assert 3 <= len(world.calls.of(lambda call: call.tries_creation)) <= 8
    world.fails = False
    landed(world, name)


def test_without_the_right_one_replacement_shows_what_admission_adds_before_others_are_evicted():
    world = scene({"n1": 3, **{f"t{index}": 1 for index in range(3)}})
    world.workload(nodes=("n1", "n1", "n1"))
    world.advance(61.0)
    world.cordon("n1")
    without_the_right(world)
    add_sidecars(world)
    world.start()
    names = [world.move(pod, f"t{index}", ttl="30s") for index, pod in enumerate(world.pods())]
    world.until(lambda: world.over(*names))
    assert len(evicted(world)) == 1
    assert len(world.ready()) == 2


def test_a_right_that_is_missing_is_asked_for_once_a_minute_and_said():
    world = scene({"n1": 8, "n2": 8})
    world.workload(nodes=("n1", "n1", "n1"))
    without_the_right(world)
    world.start()
    names = [world.move(pod, "n2") for pod in world.pods()]
    world.until(lambda: world.over(*names))
    assert [world.phase(name) for name in names] == ["Succeeded"] * 3
    assert len(world.calls.of(lambda call: call.tries_creation)) <= 3
    condition = next(c for c in world.state(names[0])["conditions"] if c["type"] == "ReplacementAdmitted")
    assert (condition["status"], condition["reason"]) == ("Unknown", "Sibling")
    assert "manifests/base/dry-run-creation.yaml" in condition["message"]
