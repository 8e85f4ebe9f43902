"""A Reservation, its placeholder and its claimant, and one look of the machine at them."""

import msgspec

from rescheduler.model import names
from rescheduler.model.own_objects import condition
from rescheduler.model.records import Node, OwnerRef, PodSpec
from rescheduler.model.reservation import (
    ControllerRef,
    ObjectRef,
    ReservationOwner,
    ReservationPhase,
)
from rescheduler.model.resources import Resources, parse_resources
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.reservation_machine import step
from rescheduler.reservations.settings import ReservationSettings
from tests import records
from tests.records import pod_record

replace = msgspec.structs.replace
NOW = 1_000_000.0
SETTINGS = ReservationSettings()
ROOM = Resources(cpu_milli=1000)
OWNER = ReservationOwner(controller=ControllerRef(uid="rs"))
NODE = Node(name="n2", uid="n2")


def reservation(phase=ReservationPhase.PENDING, *, current=(), created=NOW - 10, **fields):
    base = {
        "template": PodSpec(requests=ROOM),
        "owners": (OWNER,),
        "template_node": "n2",
        "resource_version": "7",
    }
    base |= {"node_name": "" if phase is ReservationPhase.PENDING else "n2", "allocatable": ROOM}
    return records.room("r", phase, created_at_s=created, current_owners=current, **base | fields)


def pod(name="p", *, gated=True, node="", nominated="", deleting=False, created=NOW - 5, **fields):
    gates = (names.GATE,) if gated else ()
    return pod_record(
        namespace="default",
        name=name,
        uid=f"{name}-uid",
        node=node,
        nominated_node=nominated,
        deleting=deleting,
        created_at_s=created,
        spec=PodSpec(requests=ROOM, gates=gates),
        controller=OwnerRef("apps/v1", "ReplicaSet", "web", "rs"),
        **fields,
    )


def placeholder(node="n2", **fields):
    return pod("holder", gated=False, node=node, **fields)


def observed(r, *, placeholder=None, claimant=None, **fields):
    return ObservedReservation(
        reservation=r,
        placeholders=(placeholder,) if placeholder else (),
        owners=(claimant,) if claimant else (),
        **{"node": NODE, **fields},
    )


def look(r, **fields):
    return step(observed(r, **fields), NOW, SETTINGS)


def kinds(outcome):
    return [a.does for a in outcome.calls if a.does != "record_event"]


def ready(outcome):
    return condition(outcome.status.conditions, "Ready")


CLAIMED = (ObjectRef(namespace="default", name="p", uid="p-uid"),)


def sent(call):
    """The body of a call."""
    return msgspec.json.decode(call.body)


def part(call):
    """What a new placeholder holds if that is noted there, and whether it waits."""
    noted = sent(call)["metadata"]["annotations"].get(names.ANNOTATION_PART)
    size = parse_resources(msgspec.json.decode(noted)) if noted else None
    return size, "schedulingGates" in sent(call)["spec"]
