"""Placeholders that others change, with the whole controller on the sandbox in virtual time.

No pod is evicted for a room that is smaller than asked, elsewhere, or whose placeholder cannot be removed.
"""

import pytest
from scenes import TAINTS, Scene

from harness.histories.admission import HARMLESS, REFUSED, SPOILED, placeholder_policy
from kube_sandbox.controllers.unstructured import condition, deleting, spec
from rescheduler.model.names import GATE

FINALIZER = {"metadata": {"finalizers": ["example.com/audit"]}}


def scene():
    return Scene({"n1": 4, "n2": 4}).workload()


def admit(world, expression):
    for obj in placeholder_policy(expression):
        world.api.create(obj)


def evicted(world):
    return world.calls.of(lambda call: call.evicts)


def created(world):
    return world.calls.of(lambda c: c.method == "POST" and c.path.endswith("/rescheduler/pods") and not c.dry)


@pytest.mark.parametrize("what", SPOILED)
def test_nobody_is_evicted_for_a_placeholder_that_is_not_as_asked(what):
    world = scene()
    admit(world, SPOILED[what])
    world.start()
    name = world.move(world.pods()[0], "n2")
    world.until(lambda: world.over(name))
    state = world.state(name)
    assert (state["phase"], state["reason"]) == ("Failed", "ReservationFailed"), state
    assert "is not as asked" in state["message"] or "another program keeps" in state["message"]
    assert not evicted(world)
    world.advance(60.0)
    assert len(created(world)) == 1, "what is refused is not created again and again"
    assert not [p for p in world.placeholders() if not deleting(p)]
    assert not world.faults


@pytest.mark.parametrize("what", HARMLESS)
def test_what_changes_no_promise_changes_no_move(what):
    world = scene()
    admit(world, HARMLESS[what])
    world.start()
    name = world.move(world.pods()[0], "n2")
    world.until(lambda: world.over(name))
    assert world.state(name)["phase"] == "Succeeded", world.state(name)


@pytest.mark.parametrize("what", REFUSED)
def test_nobody_is_evicted_where_the_policies_let_the_placeholder_not_be_made(what):
    world = scene()
    admit(world, REFUSED[what])
    world.start()
    name = world.move(world.pods()[0], "n2")
    world.advance(60.0)
    assert created(world)
    assert not world.placeholders()
    assert not evicted(world)
    assert world.state(name)["phase"] != "Succeeded"
    assert not world.faults


def test_planned_moves_back_off_while_their_placeholders_are_spoiled():
    world = scene()
    admit(world, SPOILED["finalizer"])
    world.taint("n1")
    world.start(document=TAINTS)
    world.advance(150.0)
    assert 1 <= len(created(world)) <= 3
    assert not evicted(world)


def test_a_room_of_people_fails_with_what_was_stored():
    world = scene()
    world.start()
    room = world.room(node="n2")
    world.until(lambda: world.state(room).get("phase") == "Available")
    (holder,) = world.placeholders()
    world.api.patch(holder, FINALIZER)
    world.until(lambda: world.state(room).get("phase") == "Failed")
    ready = condition({"status": world.state(room)}, "Ready")
    assert ready["reason"] == "PlaceholderChanged"
    assert "metadata.finalizers is example.com/audit instead of none" in ready["message"]


def test_a_room_for_several_ends_when_admission_makes_its_rest_smaller():
    world = scene()
    world.start()
    room = world.room(node="n2", cpu="3", allocateOnce=False)
    world.until(lambda: world.state(room).get("phase") == "Available")
    admit(world, SPOILED["requests"])
    begun_s = world.now_s
    world.scale(2)
    world.until(lambda: world.state(room).get("phase") == "Failed" and len(world.ready()) == 2)
    assert world.reason(room) == "PlaceholderChanged"
    assert world.now_s < begun_s + 15.0, "its claimant does not stay gated up to its limit"


def test_a_finalizer_that_comes_before_the_eviction_ends_the_move():
    world = scene()
    world.start()
    name = world.move(world.pods()[0], "n2")
    world.until(lambda: [p for p in world.placeholders() if spec(p).get("nodeName")])
    (holder,) = world.placeholders()
    world.api.patch(holder, FINALIZER)
    world.until(lambda: world.over(name))
    assert not evicted(world)
    assert "example.com/audit" in world.state(name)["message"]


def test_a_claimant_is_not_kept_for_a_placeholder_that_cannot_be_removed():
    world = scene()
    world.start()
    name = world.move(world.pods()[0], "n2")
    world.until(lambda: evicted(world))
    (holder,) = world.placeholders()
    world.api.patch(holder, FINALIZER)
    begun_s = world.now_s
    world.until(lambda: world.over(name) and len(world.ready()) == 1)
    assert world.now_s < begun_s + 15.0, "it does not stay gated up to its limit"
    assert not [
        p for p in world.pods() if any(g["name"] == GATE for g in spec(p).get("schedulingGates") or ())
    ]
    assert "example.com/audit" in world.state(name)["message"]


def test_who_preempts_a_placeholder_is_named():
    world = Scene({"n1": 4, "n2": 6})
    world.workload()
    world.start()
    room = world.room(node="n2", cpu="5")
    world.until(lambda: world.phase(room) == "Available")
    world.crowd(1, cpu_milli=5000, priority_class="system-node-critical", name="dns")
    world.until(lambda: world.over(room))
    ready = next(c for c in world.state(room)["conditions"] if c["type"] == "Ready")
    assert ready["reason"] == "PlaceholderLost"
    assert ready["message"] == (
        "the placeholder on node/n2 was preempted by pod default/dns-0, whose priority is 2000001000: "
        "the room is not held any more"
    )
