"""Which PodMigration a Reservation serves: by uid in both directions, whatever others name, make or change."""

import itertools
from types import MappingProxyType

import msgspec
import pytest

from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.observe_reservations import links_of
from rescheduler.model.migration import MigrationPhase, MigrationStatus
from rescheduler.model.names import ANNOTATION_MIGRATION, ANNOTATION_MIGRATION_UID, MOVE_SUFFIX
from rescheduler.model.records import ObjectKey, OwnerRef, PodSpec, Workload
from rescheduler.model.reservation import ControllerRef, ReservationOwner
from rescheduler.model.room_of_move import controller_of_move, move_digest, refusal
from rescheduler.model.selectors import LabelSet
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations.template import name_of_reservation
from tests import records
from tests.records import pod_record

PHASE = MigrationPhase


def move(name="m", phase=PHASE.RESERVING, *, ref="", took="", **fields):
    named = {"namespace": "shop", "uid": f"u-{name}", "pod_name": "web-0"}
    rooms = {"reservation_ref": ref, "reservation_name": ref, "reservation_uid": took}
    return records.move(name, phase, **named | rooms | fields)


def room(name="room", *, uid="r", made_for=None, owner=None):
    made = made_for is not None
    marks = {ANNOTATION_MIGRATION: str(made_for.key), ANNOTATION_MIGRATION_UID: made_for.uid} if made else {}
    owners = (ReservationOwner(controller=ControllerRef(kind="ReplicaSet", uid=owner, namespace="shop")),)
    return records.room(name, uid=uid, annotations=marks, owners=owners if owner else ())


def snapshot(*migrations, rooms=(), workloads=(), pods=()):
    return Snapshot(
        taken_at_s=0.0,
        pods=MappingProxyType({p.key: p for p in pods}),
        workloads=MappingProxyType({w.uid: w for w in workloads}),
        reservations=MappingProxyType({r.name: r for r in rooms}),
        migrations=MappingProxyType({m.key: m for m in migrations}),
    )


def links(*migrations, rooms):
    found = links_of(RoundIndex.of(snapshot(*migrations, rooms=rooms)))
    return {name: str(link.key) for name, link in found.items()}


def test_the_room_that_was_made_for_a_move_is_its():
    mine = move()
    own = room(name_of_reservation(mine), made_for=mine)
    assert own.name.endswith(MOVE_SUFFIX)
    assert refusal(mine, own) == ""
    assert links(mine, rooms=[own]) == {own.name: "shop/m"}


def before_suffixes(made_for):
    """The name of its Reservation before such names had a suffix."""
    return f"m-{move_digest(made_for.key, made_for.uid)}"


def unmarked(name, made_for):
    """A Reservation as it was made before Reservations had the uid of their move, by a clock that had been set back."""
    marks = LabelSet({ANNOTATION_MIGRATION: str(made_for.key)})
    return msgspec.structs.replace(room(name), annotations=marks, created_at_s=4.0)


def in_status(mine, name):
    status = msgspec.structs.replace(mine.status, reservation_name=name)
    return msgspec.structs.replace(mine, status=status, created_at_s=5.0)


@pytest.mark.parametrize("named", [before_suffixes, name_of_reservation])
@pytest.mark.parametrize("phase", [PHASE.RESERVING, PHASE.EVICTING, PHASE.HANDING_OVER])
def test_a_room_without_the_uid_of_its_move_is_its_by_annotation_and_status(phase, named):
    name = named(move())
    mine = in_status(move(phase=phase), name)
    assert links(mine, rooms=[unmarked(name, mine)]) == {name: "shop/m"}


OWN, EARLIER = before_suffixes(move()), msgspec.structs.replace(move(), uid="u")


@pytest.mark.parametrize(("mine", "found"), [
    (in_status(move(), OWN), unmarked(OWN, move("another"))),
    (in_status(move(), "m-4567"), unmarked(OWN, move())),
    (in_status(move(), before_suffixes(EARLIER)), unmarked(before_suffixes(EARLIER), EARLIER)),
    (in_status(move(), OWN), room(OWN, made_for=EARLIER)),
], ids=["of another move", "not in the status", "of an earlier move of that name", "another uid"])  # fmt: skip
def test_what_lacks_the_uid_is_no_room_of_the_move_for_less(mine, found):
    assert refusal(mine, found)
    assert not links(mine, rooms=[found])


def test_a_given_room_that_a_move_took_before_there_were_uids_is_still_taken():
    before = move(ref="room")
    taken = msgspec.structs.replace(before, status=msgspec.structs.replace(before.status, reserved_at_s=9.0))
    assert links(taken, rooms=[room()]) == {"room": "shop/m"}


@pytest.mark.parametrize(
    "made_for",
    [None, move("another"), move(namespace="elsewhere"), msgspec.structs.replace(move(), uid="u-earlier")],
    ids=["by hand", "for another move", "of another namespace", "for an earlier move of that name"],
)
@pytest.mark.parametrize("phase", [PHASE.PENDING, PHASE.RESERVING, PHASE.EVICTING, PHASE.HANDING_OVER])
def test_a_room_with_the_computed_name_that_others_made_is_not(made_for, phase):
    mine = move(phase=phase)
    strangers = room(name_of_reservation(mine), made_for=made_for)
    assert "was not made for this move" in refusal(mine, strangers)
    assert links(mine, rooms=[strangers]) == {}


def test_a_room_that_was_made_again_after_the_move_took_it_is_another():
    mine = move(phase=PHASE.EVICTING, took="r")
    name = name_of_reservation(mine)
    assert refusal(mine, room(name, made_for=mine)) == ""
    assert "deleted and made again" in refusal(mine, room(name, uid="r2", made_for=mine))
    into = move(phase=PHASE.EVICTING, ref="room", took="r")
    assert "deleted and made again" in refusal(into, room(uid="r2"))


def test_who_only_names_a_room_has_no_say_in_it():
    for phase in PHASE:
        assert links(move(phase=phase, ref="room", namespace="stranger"), rooms=[room()]) == {}
    assert links(move(ref="room", took="r"), rooms=[room()]) == {"room": "shop/m"}


def test_the_room_of_a_move_cannot_be_named_by_another():
    mine, strangers = move(), move("x", ref="mine.move", took="r")
    own = room("mine.move", made_for=mine)
    assert refusal(strangers, own) == "Reservation mine.move was made for move shop/m"
    assert links(strangers, rooms=[own]) == {}


def test_of_several_moves_that_took_a_room_it_serves_the_one_that_goes_first():
    taken = [
        move("over", PHASE.SUCCEEDED, ref="room", took="r", started_at_s=0.5, eviction_requested_at_s=0.6),
        move("a", ref="room", took="r", started_at_s=1.0),
        move("b", PHASE.EVICTING, ref="room", took="r", started_at_s=2.0, eviction_requested_at_s=3.0),
        move("names", PHASE.PENDING, ref="room"),
    ]
    for order in itertools.permutations(taken):
        assert links(*order, rooms=[room()]) == {"room": "shop/b"}


def controller(migration, **world):
    found = controller_of_move(migration, snapshot(migration, **world))
    return found.uid if found is not None else None


def test_the_controller_of_a_move_is_never_one_that_only_a_room_names():
    owner = OwnerRef("apps/v1", "ReplicaSet", "web", "rs")
    pod = pod_record(namespace="shop", name="web-0", uid="p", spec=PodSpec(), controller=owner)
    into = move(phase=PHASE.HANDING_OVER, ref="room", took="r")
    foreign = room(owner="theirs")
    theirs = Workload(kind="ReplicaSet", namespace="bank", name="db", uid="theirs", replicas=1)
    assert controller(into, rooms=[foreign], workloads=[theirs], pods=[pod]) == "rs"
    assert controller(into, rooms=[foreign], workloads=[theirs]) is None
    assert controller(into, rooms=[foreign]) is None, "a kind that is not read may be anybody's"
    own = Workload(kind="ReplicaSet", namespace="shop", name="web", uid="rs", replicas=1)
    assert controller(into, rooms=[room(owner="rs")], workloads=[own]) == "rs"
    assert (
        controller(msgspec.structs.replace(into, status=MigrationStatus()), rooms=[room(owner="rs")]) is None
    )
    assert ObjectKey("shop", "web-0") == pod.key
