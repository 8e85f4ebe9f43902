"""A Reservation that has ended while its pod is still on the way: it goes last, and it takes nothing from anybody."""

import pytest
from test_rooms_by_the_rules import actions, holder, room

from harness import builders as b
from rescheduler.model import names
from rescheduler.model.times import format_timestamp

NODE = b.node("n1").cpu("1")
LONG_AGO = format_timestamp(b.NOW_S - 90_000)


def ended(phase, *, claimant=True, **more):
    """It ended a day ago."""
    ready = {"type": "Ready", "status": "False", "reason": "Expired", "lastProbeTime": LONG_AGO}
    owners = [{"namespace": "shop", "name": "web-0", "uid": "web-0"}] if claimant else []
    status = {"phase": phase, "nodeName": "n1", "currentOwners": owners, "conditions": [ready], **more}
    return room("ended", node="n1", status=status)


def claimant(*, gated=False):
    """The pod that had claimed it, without a node."""
    pod = b.pod("web-0", "shop").uid("web-0").cpu("1")
    return pod.set("spec.schedulingGates", [{"name": names.GATE}]) if gated else pod


def done(*objects):
    """What is done, by kind; events and ConfigMaps aside."""
    kinds = ("create_placeholder", "delete_placeholder", "delete_reservation", "release", "write_status")
    return [action.does for action in actions(NODE, *objects) if action.does in kinds]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_it_stays_as_long_as_its_pod_is_pending_and_is_not_written_to(phase):
    assert done(ended(phase), claimant()) == []


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_it_is_collected_once_its_pod_is_bound_gone_or_going(phase):
    assert done(ended(phase), claimant().on("n1")) == ["delete_reservation"]
    assert done(ended(phase)) == ["delete_reservation"]
    assert done(ended(phase), claimant().deleting()) == ["delete_reservation"]
    assert done(ended(phase, claimant=False), claimant()) == ["delete_reservation"], "it was never its pod"


def test_a_pod_that_still_waits_at_the_gate_is_let_go_before_anything_is_collected():
    assert done(ended("Failed"), claimant(gated=True)) == ["release"], "once, and not as a surplus besides"


def test_a_placeholder_that_is_left_goes_although_the_pod_is_pending():
    gone = ended("Failed")
    assert done(gone, holder(gone, "n1"), claimant()) == ["delete_placeholder"]


def test_its_pending_pod_keeps_no_room_from_others():
    assert "create_placeholder" in done(ended("Failed"), claimant(), room("next", node="n1"))
