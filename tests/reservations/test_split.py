"""A room for several pods, one look at a time; and what is said of what cannot be held or served."""

import msgspec
import pytest

from rescheduler.calls.pods import delete_placeholder
from rescheduler.controller.effects import NO_EFFECT
from rescheduler.errors import TransitionError
from rescheduler.model import names
from rescheduler.model.config_map import MISSING
from rescheduler.model.own_objects import condition
from rescheduler.model.pod_volumes import PodVolume, VolumeKind
from rescheduler.model.records import HostPort, Node, OwnerRef, PodPhase, PodSpec
from rescheduler.model.reservation import (
    ControllerRef,
    ObjectRef,
    ReservationOwner,
    ReservationPhase,
)
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSelector, LabelSet, Operator, Requirement
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.single_pod import Choice
from rescheduler.reservations import reservation_machine
from rescheduler.reservations.gate_keys import keys_of_owner, keys_of_pod
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.placeholder import placeholder_name
from rescheduler.reservations.reservation_machine import step
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.reservations.waits import HandoverWait, PlaceholderTurn, Wait
from tests import records
from tests.one_round import reconciler
from tests.records import pod_record
from tests.reservations.looks import part

NOW = 1_000_000.0
NODE = Node(name="n2", uid="n2")
replace = msgspec.structs.replace


def cpu(milli):
    return Resources(cpu_milli=milli)


def pod(name, milli=1000, *, gated=True, node="", **fields):
    spec = PodSpec(requests=cpu(milli), gates=(names.GATE,) if gated else ())
    return pod_record(
        namespace="default", name=name, uid=name, node=node, created_at_s=NOW - 5, spec=spec, **fields
    )


def holder(name, milli, *, node="n2", waits=False, **fields):
    spec = PodSpec(requests=cpu(milli), gates=(names.GATE_ROOM,) if waits else ())
    owner = OwnerRef(names.API_VERSION, "Reservation", "r", "r")
    return pod_record(
        namespace="rescheduler", name=name, uid=name, node=node, spec=spec, controller=owner, **fields
    )


def shared(owners=(), *, allocated=0, allocatable=4000, phase=ReservationPhase.AVAILABLE, **fields):
    refs = tuple(ObjectRef(p.namespace, p.name, p.uid) for p in owners)
    base = {
        "resource_version": "7",
        "template": PodSpec(requests=cpu(4000)),
        "owners": (ReservationOwner(controller=ControllerRef(uid="rs")),),
        "template_node": "n2",
        "allocate_once": False,
        "created_at_s": NOW - 60,
        "node_name": "n2",
        "allocatable": cpu(allocatable),
        "allocated": cpu(allocated),
    }
    return records.room("r", phase, current_owners=refs, **base | fields)


def look(reservation, **fields):
    observed = ObservedReservation(reservation=reservation, **{"node": NODE, **fields})
    return step(observed, NOW, ReservationSettings())


def does(outcome):
    skipped = ("record_event", "write_status")
    return [a.does for a in outcome.calls if a.does not in skipped]


def held(*holders, **fields):
    return {"placeholders": holders, **fields}


def test_all_that_fit_claim_in_one_write():
    outcome = look(shared(), **held(holder("x", 4000)), assigned=(pod("a"), pod("b")))
    assert [o.name for o in outcome.status.current_owners] == ["a", "b"]
    assert (outcome.status.allocated, outcome.status.allocatable) == (cpu(2000), cpu(4000))
    assert does(outcome) == []


def test_the_order_of_the_split():
    a = pod("a")
    room, x = shared((a,), allocated=1000), holder("x", 4000)
    first = look(room, owners=(a,), **held(x))
    assert does(first) == ["create_placeholder"]
    made = next(action for action in first.calls if action.does == "create_placeholder")
    assert part(made) == (cpu(3000), True)
    rest = holder("w", 3000, node="", waits=True)
    assert does(look(room, owners=(a,), **held(x, rest))) == ["nominate", "nominate"]
    a, rest = replace(a, nominated_node="n2"), replace(rest, nominated_node="n2")
    assert does(look(room, owners=(a,), **held(x, rest))) == ["delete_placeholder"]
    assert does(look(room, owners=(a,), **held(x.with_state(deleting=True), rest))) == []
    assert does(look(room, owners=(a,), **held(rest))) == ["admit_placeholder", "remove_gate"]
    landed = look(room, owners=(replace(a, node="n2"),), **held(replace(rest, node="n2")))
    assert landed.status.phase is ReservationPhase.AVAILABLE
    assert landed.status.allocatable - landed.status.allocated == cpu(3000)


@pytest.mark.parametrize("reason", [r for r in HandoverWait if r is not HandoverWait.NODE_NOT_USABLE])
def test_while_the_split_waits_nothing_is_given_up(reason):
    a = pod("a", nominated_node="n2")
    rest = holder("w", 3000, node="", waits=True, nominated_node="n2")
    room = shared((a,), allocated=1000)
    waits = look(room, owners=(a,), wait=Wait(reason=reason), **held(holder("x", 4000), rest))
    back = (
        ["take_back_nomination"] * 2
        if reason in (HandoverWait.SCHEDULER_BEHIND, HandoverWait.FOREIGN_GATE)
        else []
    )
    assert does(waits) == back
    assert {a.read.key.name for a in waits.calls if a.does == "take_back_nomination"} <= {"x"}
    assert does(look(room, owners=(a,), wait=Wait(reason=reason), **held(rest))) == []
    assert "; waiting: " in condition(waits.status.conditions, "Ready").message
    (made,) = does(look(room, owners=(a,), wait=Wait(reason=reason), **held(holder("x", 4000))))
    assert made == "create_placeholder", "what the split needs is made meanwhile"


def test_a_rest_that_was_admitted_and_refused_goes_for_a_hand_over_and_is_preallocated_again_afterwards():
    small = pod("a", gated=False, node="n2")
    refused = holder("w", 3000, node="", unschedulable_message="0/3 nodes")
    room = shared((small,), allocated=1000)
    gone = look(room, owners=(small,), turn=PlaceholderTurn.GIVE_WAY, **held(refused))
    assert does(gone) == ["delete_placeholder"]
    assert condition(gone.status.conditions, "Ready").reason == "WaitingForRoom"
    room = replace(room, status=gone.status)
    assert does(look(room, owners=(small,), turn=PlaceholderTurn.GIVE_WAY, **held())) == []
    again = look(room, owners=(small,), **held())
    assert again.status.phase is ReservationPhase.WAITING
    made = next(action for action in again.calls if action.does == "create_placeholder")
    assert part(made) == (cpu(3000), True)


def test_a_rest_that_was_waited_for_counts_as_what_it_holds():
    """Its claimants are gone; the part of the template that they were to have is taken back afterwards."""
    waiting = look(
        shared(allocatable=3000), **held(holder("w", 3000, node="", unschedulable_message="0/3 nodes"))
    )
    assert waiting.status.phase is ReservationPhase.WAITING
    room = shared(allocatable=3000, phase=ReservationPhase.WAITING)
    bound = look(room, **held(holder("w", 3000)))
    assert (bound.status.phase, bound.status.allocatable) == (ReservationPhase.AVAILABLE, cpu(3000))
    goes_on = look(replace(room, status=bound.status), **held(holder("w", 3000)))
    assert goes_on.status.phase is ReservationPhase.AVAILABLE
    (made,) = [call for call in goes_on.calls if call.does == "create_placeholder"]
    assert part(made) == (cpu(1000), True)


def test_what_an_owner_that_ends_leaves_is_waited_for_and_counts_once_it_is_held():
    a, b = pod("a", gated=False, node="n2"), pod("b", gated=False, node="n2")
    rest, used = holder("w", 2000), shared((a, b), allocated=2000)
    ending = look(used, owners=(a, b.with_state(deleting=True)), **held(rest))
    assert does(ending) == ["create_placeholder"], "as soon as it begins to end, it still counts"
    made = next(action for action in ending.calls if action.does == "create_placeholder")
    assert part(made) == (cpu(1000), True)
    assert ending.status.allocatable == cpu(4000)
    done = b.with_state(phase=PodPhase.SUCCEEDED)
    waits = holder(placeholder_name(used, "back-1"), 1000, node="", waits=True)
    outcome = look(used, owners=(a, done), turn=PlaceholderTurn.NOMINATE, **held(rest, waits))
    assert does(outcome) == ["nominate"]
    assert [o.name for o in outcome.status.current_owners] == ["a"]
    assert (outcome.status.allocated, outcome.status.allocatable) == (cpu(1000), cpu(3000))
    assert "what an owner leaves is waited for" in condition(outcome.status.conditions, "Ready").message
    back = look(replace(used, status=outcome.status), owners=(a,), **held(rest, replace(waits, node="n2")))
    assert (does(back), back.status.allocatable) == ([], cpu(4000))


def test_the_last_part_comes_back_though_nothing_was_left():
    a, b = pod("a", 3000, gated=False, node="n2"), pod("b", gated=False, node="n2", deleting=True)
    outcome = look(shared((a, b), allocated=4000), owners=(a, b), **held())
    assert does(outcome) == ["create_placeholder"]
    assert outcome.status.phase is ReservationPhase.AVAILABLE


def test_a_part_that_came_back_is_split_with_the_rest():
    a, new = pod("a", gated=False, node="n2"), pod("c", 3000)
    room, two = shared((a, new), allocated=4000), (holder("w", 2000), holder("r", 1000))
    first = look(room, owners=(a, new), **held(*two))
    assert does(first) == ["nominate"], "nothing is left, so no placeholder of a rest is needed"
    nominated = replace(new, nominated_node="n2")
    assert does(look(room, owners=(a, nominated), **held(*two))) == ["delete_placeholder"] * 2
    assert does(look(room, owners=(a, nominated), **held())) == ["remove_gate"]


def test_for_a_hand_over_the_placeholder_of_a_part_goes_when_everything_else_is_ready():
    """It goes last, because it keeps the part; then the taint does."""
    a, new = pod("a", gated=False, node="n2"), pod("c", 500)
    room = shared((a, new), allocated=1500, allocatable=3000)
    part = holder(placeholder_name(room, "back-1"), 1000, node="", waits=True, nominated_node="n2")
    whole, rest = holder("w", 2000), holder("v", 1500, node="", waits=True, nominated_node="n2")
    assert does(look(room, owners=(a, new), **held(whole, part))) == ["create_placeholder"]
    assert does(look(room, owners=(a, new), **held(whole, part, rest))) == ["nominate"]
    ready = a, replace(new, nominated_node="n2")
    settling = look(
        room, owners=ready, wait=Wait(reason=HandoverWait.TAINT_SETTLING), **held(whole, part, rest)
    )
    assert does(settling) == []
    going = look(room, owners=ready, **held(whole, part, rest))
    assert delete_placeholder(part) in going.calls
    assert does(going) == ["delete_placeholder"]
    after = look(room, owners=ready, **held(whole, rest))
    assert delete_placeholder(whole, (rest, ready[1]), "n2") in after.calls


def test_what_is_left_beside_a_resource_that_is_used_up_stays_held():
    mixed = Resources(cpu_milli=4000, memory_bytes=8 << 30)
    a = pod("a", gated=False, node="n2")
    a = replace(a, spec=PodSpec(requests=Resources(cpu_milli=4000, memory_bytes=1 << 30)))
    rest = replace(holder("w", 0), spec=PodSpec(requests=Resources(memory_bytes=7 << 30)))
    room = shared((a,), template=PodSpec(requests=mixed))
    status = replace(room.status, allocatable=mixed, allocated=a.spec.requests)
    outcome = look(replace(room, status=status), owners=(a,), **held(rest))
    assert outcome.status.phase is ReservationPhase.AVAILABLE
    assert does(outcome) == []


def test_one_that_is_full_stays_available_and_takes_back_what_its_only_owner_leaves():
    a = pod("a", 4000, gated=False, node="n2")
    room = shared((a,), allocated=4000)
    full = look(room, owners=(a,), **held())
    assert full.status.phase is ReservationPhase.AVAILABLE
    assert condition(full.status.conditions, "Ready").message == "all of it on node/n2 is used by 1 pod"
    leaving = look(room, owners=(a.with_state(deleting=True),), **held())
    assert does(leaving) == ["create_placeholder"]
    waits = holder(f"{placeholder_name(room)}-back-1", 4000, node="", waits=True, nominated_node="n2")
    gone = look(room, owners=(), **held(waits))
    assert gone.status.phase is ReservationPhase.WAITING
    assert does(gone) == []
    again = replace(room, status=gone.status)
    assert does(look(again, turn=PlaceholderTurn.ADMIT, **held(waits))) == ["admit_placeholder"]
    bound = look(again, **held(replace(waits, node="n2")))
    assert (bound.status.phase, bound.status.allocatable) == (ReservationPhase.AVAILABLE, cpu(4000))


def test_one_that_is_full_is_waited_for_again_where_its_owner_vanished_in_one_look():
    a = pod("a", 4000, gated=False, node="n2")
    gone = look(shared((a,), allocated=4000), owners=(), **held())
    assert (gone.status.phase, does(gone)) == (ReservationPhase.WAITING, ["create_placeholder"])
    made = next(action for action in gone.calls if action.does == "create_placeholder")
    assert part(made)[1]


def test_a_claimant_that_goes_before_the_split_gives_its_part_back():
    outcome = look(shared((pod("a"),), allocated=1000), owners=(), **held(holder("x", 4000)))
    assert (outcome.status.allocated, outcome.status.allocatable) == (cpu(0), cpu(4000))


def test_a_room_that_was_used_does_not_say_that_nobody_came():
    def end(room, *owners, name="w"):
        return condition(look(room, owners=owners, **held(holder(name, 2000))).status.conditions, "Ready")

    a = pod("a", gated=False, node="n2")
    used = end(shared((a,), allocated=1000, ttl_s=5.0), a)
    assert (
        used.message == "expired; the pods that use it stay, and the rest of the room on node/n2 is released"
    )
    before = shared((), allocated=0, ttl_s=5.0)
    smaller = replace(before, status=replace(before.status, allocatable=cpu(1000)))
    assert end(smaller).message == "expired after pods had used parts of it; the rest is released"
    assert end(before).message == "expired after pods had used parts of it; the rest is released", "split"
    assert end(before, name=placeholder_name(before)).message == "expired before a pod used it"


def test_a_lost_rest_is_failure():
    small = pod("a", gated=False, node="n2")
    lost = look(shared((small,), allocated=1000), owners=(small,), **held())
    assert condition(lost.status.conditions, "Ready").reason == "PlaceholderLost"


def test_it_does_not_expire_while_a_claimant_is_on_its_way_and_leaves_owners_alone_when_it_does():
    a = pod("a", nominated_node="n2")
    late = look(shared((a,), allocated=1000, ttl_s=5.0), owners=(a,), **held(holder("x", 4000)))
    assert late.status.phase is ReservationPhase.AVAILABLE
    b = pod("b", gated=False, node="n2")
    ended = look(shared((b,), allocated=1000, ttl_s=5.0), owners=(b,), **held(holder("w", 3000)))
    assert condition(ended.status.conditions, "Ready").reason == "Expired"
    assert does(ended) == ["delete_placeholder"]
    assert [o.name for o in ended.status.current_owners] == ["b"]


@pytest.mark.parametrize(("fields", "words"), [
    ({"template": PodSpec()}, "requests nothing"),
    ({"template": PodSpec(requests=cpu(1), host_ports=(HostPort("TCP", "", 80),))}, "host ports"),
    ({"template": PodSpec(requests=cpu(1), resource_claims=True)}, "resourceClaims"),
    ({"annotations": LabelSet({names.ANNOTATION_MODE: "Soft"})}, "soft"),
])  # fmt: skip
def test_rooms_that_cannot_be_shared_are_refused_with_words(fields, words):
    outcome = look(shared(phase=ReservationPhase.PENDING, **fields))
    assert outcome.status.phase is ReservationPhase.FAILED
    assert words in condition(outcome.status.conditions, "Ready").message


def test_what_a_placeholder_cannot_hold_is_said():
    template = PodSpec(requests=cpu(4000), volumes=(PodVolume(kind=VolumeKind.CLAIM, source="data"),))
    pending = shared(phase=ReservationPhase.PENDING, template=template)
    outcome = look(pending, **held(holder("x", 4000)))
    assert outcome.status.phase is ReservationPhase.AVAILABLE
    assert "attach limits" in condition(outcome.status.conditions, "HeldCompletely").message


def test_host_ports_that_are_forbidden_are_said():
    template = PodSpec(requests=cpu(1), host_ports=(HostPort("TCP", "", 80),))
    pending = shared(phase=ReservationPhase.PENDING, template=template, allocate_once=True)
    outcome = look(pending, choice=Choice(message='pods "x" is forbidden: violates PodSecurity'))
    assert "cannot be held" in condition(outcome.status.conditions, "Scheduled").message


@pytest.mark.parametrize("phase", [ReservationPhase.WAITING, ReservationPhase.AVAILABLE])
def test_a_deleted_node_fails_waiting_and_available_rooms(phase):
    outcome = look(shared(phase=phase), node=None, **held(holder("x", 4000)))
    assert condition(outcome.status.conditions, "Ready").reason == "NodeDeleted"


ANY_VALUE = LabelSelector(
    (Requirement("a", Operator.NOT_IN, ("x",)), Requirement("example.org/who", Operator.EXISTS))
)
WHO = LabelSelector((Requirement("example.org/who", Operator.IN, ("a", "b")),))


@pytest.mark.parametrize(("owner", "keys"), [
    (ReservationOwner(object=ObjectRef("ns", "p")), ("object.ns.p",)),
    (ReservationOwner(object=ObjectRef("", "p")), ("object..p",)),
    (ReservationOwner(label_selector=WHO), ("label..example.org__who.a", "label..example.org__who.b")),
    (ReservationOwner(object=ObjectRef("ns"), label_selector=WHO), ("label.ns.example.org__who.a", "label.ns.example.org__who.b")),
    (ReservationOwner(object=ObjectRef("ns"), label_selector=ANY_VALUE), ("labelled.ns.example.org__who",)),
    (ReservationOwner(label_selector=WHO, controller=ControllerRef(uid="u")), ()),
    (ReservationOwner(label_selector=ANY_VALUE), ("labelled..example.org__who",)),
    (ReservationOwner(label_selector=LabelSelector((Requirement("a", Operator.DOES_NOT_EXIST),))), ()),
])  # fmt: skip
def test_owners_without_a_controller_are_found_by_name_or_label(owner, keys):
    assert keys_of_owner(owner) == keys
    found = keys_of_pod("ns", "p", {"example.org/who": "b"}.items())
    assert not keys or set(keys) & set(found)
    elsewhere = keys_of_pod("other", "p", {"example.org/who": "b"}.items())
    confined = owner.object is not None and owner.object.namespace
    assert not confined or not set(keys) & set(elsewhere), "pods of another namespace are left alone"


class Nothing:
    """A cluster in which nothing can be written; it notes what was tried."""

    namespace = "rescheduler"

    def __init__(self):
        self.events = []

    def read(self):
        return MISSING

    def write(self, stored, add, remove, valid_until_s):
        raise AssertionError("nothing to write")

    def begin(self, replacements, written, intent_s):
        pass

    def send(self, action):
        self.events.append(action)
        return NO_EFFECT


def test_one_damaged_object_does_not_stop_the_others(monkeypatch):
    stepped = []

    def broken(observed, now_s, settings):
        stepped.append(observed.reservation.name)
        if observed.reservation.name == "a":
            raise TransitionError("a Reservation that is Waiting cannot meet Nonsense")
        return reservation_machine.ReservationStep(status=observed.reservation.status)

    monkeypatch.setattr(reservation_machine, "step", broken)
    nothing = Nothing()
    work = reconciler(nothing, nothing, placement=nothing)
    rooms = {name: replace(shared(phase=ReservationPhase.FAILED), name=name) for name in "ab"}
    work.reconcile(Snapshot(taken_at_s=NOW, reservations=rooms), NOW)
    assert stepped == ["a", "b"]
    assert [(e.regarding.name, e.reason) for e in nothing.events] == [("a", "Damaged")]


def test_an_end_in_the_past_is_an_expiry_at_the_first_look():
    outcome = look(shared(phase=ReservationPhase.PENDING, expires_at_s=NOW - 1))
    assert outcome.status.phase is ReservationPhase.FAILED
    assert condition(outcome.status.conditions, "Ready").reason == "Expired"
    assert does(outcome) == []


def test_deleted_while_being_claimed_lets_everybody_go():
    a = pod("a", nominated_node="n2")
    rest = holder("w", 3000, node="", waits=True, nominated_node="n2")
    outcome = look(shared((a,), allocated=1000, deleting=True), owners=(a,), **held(holder("x", 4000), rest))
    assert does(outcome) == ["release", "delete_placeholder", "delete_placeholder"]
    assert [action.does for action in outcome.calls][-1:] == ["write_status"], "gates and room come first"
    assert (outcome.status.phase, outcome.status.conditions[-1].reason) == ("Failed", "Abandoned")


def test_a_claimant_that_is_held_too_long_goes_and_its_part_comes_back():
    a = replace(pod("a"), created_at_s=NOW - 61)
    outcome = look(shared((a,), allocated=1000), owners=(a,), **held(holder("x", 4000)))
    assert does(outcome) == ["release"]
    assert (outcome.status.allocated, outcome.status.allocatable) == (cpu(0), cpu(4000))
    assert outcome.status.phase is ReservationPhase.AVAILABLE


def test_a_bad_node_keeps_the_claimants_gated():
    a, wait = pod("a"), Wait(reason=HandoverWait.NODE_NOT_USABLE)
    outcome = look(shared((a,), allocated=1000), owners=(a,), wait=wait, **held(holder("x", 4000)))
    assert does(outcome) == []
    assert "schedulable" in condition(outcome.status.conditions, "Ready").message
