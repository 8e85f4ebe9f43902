"""A Reservation for which others step aside: the steps of its machine."""

from harness import builders as b
from rescheduler.model import names
from rescheduler.model.own_objects import condition
from rescheduler.model.records import PodSpec
from rescheduler.model.reservation import MakingRoom, ObjectRef, ReservationOwner, ReservationPhase
from rescheduler.model.selectors import LabelSet, NodeSelector, NodeSelectorTerm, Operator, Requirement
from rescheduler.reservations.observed_reservation import Choice, ObservedMaking, ObservedReservation
from rescheduler.reservations.reservation_machine import step
from rescheduler.reservations.waits import PlaceholderTurn
from tests.reservations import looks
from tests.reservations.looks import NODE, NOW, ROOM, SETTINGS, part, placeholder, ready, replace

MAKING = MakingRoom(node="n2", moves=2, attempt="abc", since_s=NOW - 5)
PENDING, WAITING, AVAILABLE = ReservationPhase.PENDING, ReservationPhase.WAITING, ReservationPhase.AVAILABLE


def reservation(phase=PENDING, *, making=MAKING, node="", **fields):
    given = {"make_room": True, "template_node": "", **fields}
    return looks.reservation(phase, created=NOW - 99, node_name=node, making_room=making, **given)


def holder(pinned="n2", *, node="", gated=True, created=NOW - 2, nominated=""):
    term = NodeSelectorTerm(fields=(Requirement("metadata.name", Operator.IN, (pinned,)),))
    gates = (names.GATE_ROOM,) if gated else ()
    spec = PodSpec(requests=ROOM, gates=gates, node_affinity=NodeSelector((term,)))
    return replace(placeholder(node, created=created, nominated=nominated), spec=spec)


def look(room, *placeholders, **fields):
    return step(
        ObservedReservation(reservation=room, placeholders=placeholders, **{"node": NODE, **fields}),
        NOW,
        SETTINGS,
    )


def did(found):
    return [one.does for one in found.calls if one.does != "record_event"][1:]


def test_its_placeholder_waits_on_the_chosen_node_from_the_first_moment():
    found = look(reservation(), choice=Choice(message="no node has room"))
    (made,) = [one for one in found.calls if one.does == "create_placeholder"]
    assert (made.holds_on, part(made)[1]) == ("n2", True)


def test_it_says_who_steps_aside():
    found = look(
        reservation(),
        holder(),
        turn=PlaceholderTurn.NOMINATE,
        making=ObservedMaking(step_aside=("shop/a (to n3)", "shop/b (to n4)")),
    )
    assert (found.status.phase, found.status.node_name) == (WAITING, "n2")
    assert ready(found).message.endswith("; 2 pods step aside: shop/a (to n3), shop/b (to n4)")
    assert did(found) == ["nominate"]


def test_a_placeholder_from_before_keeps_nothing():
    assert did(look(reservation(), holder("n1"))) == ["delete_placeholder"]
    assert did(look(reservation(), holder(gated=False, created=NOW - 60))) == ["delete_placeholder"]
    admitted = look(reservation(WAITING, node="n2"), holder(gated=False))
    assert "delete_placeholder" not in did(admitted), "its gate was removed because the room is free"


def test_a_preallocated_one_goes_to_the_node_where_others_step_aside():
    found = look(reservation(WAITING, node="n1", pre_allocation=True), holder("n1", nominated="n1"))
    assert (found.status.phase, found.status.node_name) == (WAITING, "n2")
    assert did(found) == ["delete_placeholder"]


def test_once_the_room_is_held_nobody_steps_aside_any_more():
    for phase, node in ((PENDING, ""), (WAITING, "n2")):
        found = look(reservation(phase, node=node), holder(node="n2"))
        assert (found.status.phase, found.status.making_room) == (AVAILABLE, None)


def test_what_is_given_up_waits_again_and_is_told():
    for phase, node in ((PENDING, ""), (WAITING, "n2")):
        found = look(
            reservation(phase, node=node),
            holder(),
            making=ObservedMaking(given_up="move shop/a failed (Expired)"),
        )
        assert (found.status.phase, found.status.making_room, found.status.node_name) == (PENDING, None, "")
        assert condition(found.status.conditions, "Scheduled").reason == "Unschedulable"
        told = [one for one in found.calls if one.does == "record_event"]
        assert ("RoomGivenUp", "move shop/a failed (Expired)") in [(one.reason, one.message) for one in told]
        assert did(found) == ["delete_placeholder"]


def test_a_room_that_is_there_is_not_given_up():
    found = look(
        reservation(WAITING, node="n2"),
        holder(node="n2"),
        making=ObservedMaking(given_up="move shop/a failed"),
    )
    assert found.status.phase is AVAILABLE


def test_beyond_its_share_nobody_steps_aside():
    found = look(reservation(), beyond_quota="20 of 20 CPUs are reserved")
    assert (found.status.phase, found.status.making_room) == (PENDING, None)


def test_it_is_never_soft():
    marks = LabelSet({names.ANNOTATION_MODE: "Soft"})
    assert ready(look(reservation(making=None, annotations=marks))).reason == "NotSupported"


def test_if_a_pod_stays_the_node_is_kept_and_others_are_looked_for():
    found = look(
        reservation(WAITING, node="n2"),
        holder(nominated="n2"),
        making=ObservedMaking(others_wanted="move shop/b failed (Expired)"),
    )
    making = found.status.making_room
    assert (found.status.phase, found.status.node_name) == (WAITING, "n2")
    assert (making.node, making.moves, making.since_s) == ("n2", 0, NOW)
    assert ready(found).message.endswith("; other pods are looked for that could step aside for the rest")
    assert "LooksForOthers" in [one.reason for one in found.calls if one.does == "record_event"]
    assert "delete_placeholder" not in did(found)


def test_the_room_of_a_pending_pod_is_kept_in_the_same_way_and_the_pod_is_told():
    mine = reservation(
        WAITING,
        node="n2",
        making=None,
        make_room=False,
        pre_allocation=True,
        template_node="n2",
        annotations=LabelSet(
            {names.ANNOTATION_PENDING_POD: "shop/big", names.ANNOTATION_PENDING_POD_MOVES: "2"}
        ),
        owners=(ReservationOwner(object=ObjectRef("shop", "big", "uid-big")),),
    )
    found = look(
        mine, holder(nominated="n2"), making=ObservedMaking(others_wanted="move shop/b failed (Expired)")
    )
    making = found.status.making_room
    assert (found.status.phase, making.node, making.moves, making.since_s) == (WAITING, "n2", 0, NOW)
    (told,) = [one for one in found.calls if one.does == "record_event"]
    assert (told.regarding.kind, told.regarding.name, told.reason) == ("Pod", "big", "LooksForOthers")
    assert "delete_placeholder" not in did(found)


def test_a_room_that_fits_nowhere_says_who_asks_for_a_node():
    def told(**fields):
        waiting = ObservedReservation(
            reservation=reservation(making=None), choice=Choice(message="no node fits"), **fields
        )
        decided = step(waiting, NOW, SETTINGS)
        return condition(decided.status.conditions, "Scheduled").message

    assert told() == "no node fits"
    request = b.pod("node-for-big", "rescheduler").build()
    assert told(node_request=request) == (
        "no node has room; pending pod rescheduler/node-for-big asks the node autoscaler for one: no node fits"
    )
    assert told(node_request_refused="exceeded quota") == (
        "no node fits; the node autoscaler cannot be asked for a node: exceeded quota"
    )
