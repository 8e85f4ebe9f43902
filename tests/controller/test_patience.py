"""Claimants stay at the gate while the scheduler would count the room of another pod twice, and not for ever."""

import pytest
from test_rooms_by_the_rules import actions, room

from harness import builders as b
from rescheduler.model import names
from rescheduler.model.times import format_timestamp

NODE = b.node("n1").cpu("2")


def claimed(**status):
    """A room of 1 CPU on n1 that was given up for web-0."""
    owners = [{"namespace": "shop", "name": "web-0", "uid": "web-0"}]
    ready = {"type": "Ready", "status": "True", "reason": "Available", "lastProbeTime": at(0)}
    status = {"phase": "Available", "nodeName": "n1", "currentOwners": owners, "conditions": [ready]}
    return room(status={**status, "allocatable": {"cpu": "1"}})


def at(ago_s):
    return format_timestamp(b.NOW_S - ago_s)


def claimant(ago_s=10):
    pod = b.pod("web-0", "shop").uid("web-0").cpu("1").set("status.nominatedNodeName", "n1")
    pod = pod.set("metadata.creationTimestamp", at(ago_s))
    return pod.set("spec.schedulingGates", [{"name": names.GATE}])


def preemptor(priority=0):
    """It is nominated to the room of ``victim``."""
    return (
        b.pod("other", "shop").cpu("1").set("status.nominatedNodeName", "n1").set("spec.priority", priority)
    )


def victim():
    return b.pod("victim", "shop").cpu("1").on("n1").deleting()


def let_go(*objects):
    return any(action.does == "remove_gate" for action in actions(NODE, claimed(), *objects))


def test_it_is_let_go_once_its_room_is_empty():
    assert let_go(claimant())


def test_it_waits_while_a_preemptor_on_its_node_waits_for_a_victim():
    assert not let_go(claimant(), preemptor(), victim())
    assert let_go(claimant(), preemptor()), "the victim has ended: both have room"
    assert let_go(claimant(), victim()), "nobody else is nominated"


def test_who_is_counted_is_for_the_scheduler_to_say():
    assert let_go(claimant(), preemptor(priority=-1), victim()), "lower ones are not counted"
    assert not let_go(claimant(), preemptor(priority=1), victim())


def test_what_would_keep_it_out_in_any_case_is_no_reason_to_wait():
    assert let_go(claimant(), preemptor(), victim(), b.pod("lasting", "shop").cpu("1").on("n1"))


@pytest.mark.parametrize(("ago_s", "waits"), [(44, True), (46, False)])
def test_it_does_not_wait_until_it_may_not_be_held_any_more(ago_s, waits):
    assert let_go(claimant(ago_s), preemptor(), victim()) is not waits
