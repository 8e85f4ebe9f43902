"""Reservations of one node at each step of a hand-over, and what the order on the node decides for them."""

import dataclasses

import msgspec

from rescheduler.coordination.handover_order import NO_LAG, HandoverOrder
from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.kept_tolerations import KeptTolerations
from rescheduler.coordination.memory import Sightings
from rescheduler.model import names
from rescheduler.model.records import Node, PodSpec, Taint
from rescheduler.model.reservation import ObjectRef, Reservation, ReservationPhase, ReservationStatus
from rescheduler.model.resources import Resources
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.settings import ReservationSettings
from tests.records import pod_record

NOW = 1_000_000.0
SETTINGS = ReservationSettings()
SIZE = Resources(cpu_milli=1000)
replace = msgspec.structs.replace

CLAIMED, NOMINATED, GOING, EMPTY, LET_GO, REFUSED, BOUND = (
    "claimed",
    "nominated",
    "going",
    "empty",
    "let go",
    "refused",
    "bound",
)


def room(name, state, node="n1", **fields):
    """A Reservation of which one pod holds the claim, at one step of the hand-over."""
    gated = state in (CLAIMED, NOMINATED, GOING, EMPTY)
    pod = pod_record(
        namespace="default",
        name=f"pod-{name}",
        uid=f"pod-{name}",
        node=node if state == BOUND else "",
        created_at_s=NOW - 5,
        nominated_node="" if state in (CLAIMED, REFUSED) else node,
        unschedulable_message="0/9 nodes" if state == REFUSED else "",
        spec=PodSpec(requests=SIZE, gates=(names.GATE,) if gated else ()),
    )
    holder = None
    if state in (CLAIMED, NOMINATED, GOING):
        holder = pod_record(
            namespace="rescheduler",
            name=f"holder-{name}",
            uid=f"holder-{name}",
            node=node,
            deleting=state == GOING,
            spec=PodSpec(requests=SIZE),
        )
    status = ReservationStatus(
        phase=ReservationPhase.AVAILABLE,
        node_name=node,
        allocatable=SIZE,
        current_owners=(ObjectRef(pod.namespace, pod.name, pod.uid),),
    )
    values = {"template": PodSpec(requests=SIZE), "owners": (), "created_at_s": NOW - 60, "status": status}
    reservation = Reservation(name=name, uid=name, resource_version="1", **{**values, **fields})
    return ObservedReservation(
        reservation=reservation,
        placeholders=(holder,) if holder else (),
        node=Node(name=node, uid=node),
        owners=(pod,),
    )


class Rules:
    """What our own scheduling rules say: preallocations by name that have room, claimants that would be refused."""

    namespace = SETTINGS.namespace

    def __init__(self, fits=(), refused=()):
        self.fits, self.refused = fits, refused

    def has_room(self, holder, node, behind):
        return holder.name in self.fits

    def blocked_by_nominated(self, claimant, node):
        return claimant.name in self.refused


def kept_tolerations(pods, reservations, rules):
    """Those of a round about these pending pods."""
    rooms = {reservation.name: reservation for reservation in reservations}
    snapshot = Snapshot(taken_at_s=NOW, pods={pod.key: pod for pod in pods}, reservations=rooms)
    return KeptTolerations(index=RoundIndex.of(snapshot), placement=rules)


def ordered(*rooms, waiting=(), unseen=(), now=NOW, lag=NO_LAG, rules=None, sightings=None):
    """The rooms as the order on their nodes leaves them, by name."""
    holders = [pod for r in rooms for pod in r.placeholders if not pod.node]
    rules = rules or Rules()
    order = HandoverOrder(
        placement=rules,
        kept=kept_tolerations(waiting, (r.reservation for r in rooms), rules),
        settings=SETTINGS,
        sightings=Sightings() if sightings is None else sightings,
        unbound=(*holders, *waiting),
        waiting=waiting,
        unseen=lambda machine: machine.name in unseen,
        now_s=now,
        lag=lag,
    )
    return order.of({r.reservation.name: r for r in rooms})


def waits(*rooms, **fields):
    """Why each room waits."""
    return {name: r.wait and r.wait.reason for name, r in ordered(*rooms, **fields).items()}


def several(name, state, node="n1"):
    """A room for several, split: one pod of 1 CPU takes its part of 3, a placeholder for the rest is on its way."""
    observed = room(name, state, node, allocate_once=False)
    claimant, nominated = observed.owners[0], state in (NOMINATED, GOING, EMPTY, LET_GO)
    whole = observed.placeholder
    holders = (replace(whole, spec=PodSpec(requests=Resources(cpu_milli=3000))),) if whole else ()
    rest = pod_record(
        namespace="rescheduler",
        name=f"rest-{name}",
        uid=f"rest-{name}",
        nominated_node=node if nominated else "",
        spec=PodSpec(requests=Resources(cpu_milli=2000), gates=() if state == LET_GO else (names.GATE_ROOM,)),
    )
    status = replace(
        observed.reservation.status, allocatable=Resources(cpu_milli=3000), allocated=claimant.spec.requests
    )
    return dataclasses.replace(
        observed,
        reservation=replace(observed.reservation, status=status),
        placeholders=(*holders, rest),
    )


def on_node(observed, **fields):
    return dataclasses.replace(observed, node=replace(observed.node, **fields))


TAINT = Taint(names.ANNOTATION_HANDOVER_TAINT, "a")
