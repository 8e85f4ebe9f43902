"""Which nodes are waited on for rooms, and which are left."""

import pytest

from rescheduler.model.reservation import Reservation, ReservationStatus
from rescheduler.room_sets.gathering import WAITS_ON, GatherStep, gather
from rescheduler.room_sets.places import WHOLE, Outlook, Place
from rescheduler.room_sets.rooms import Child


def child(node, number=0, rooms=1):
    room = Reservation(name=f"{node}-{number}", template_node=node, status=ReservationStatus(node_name=node))
    return Child(room, rooms, "")


def likely(*names, free=0, hopes=True):
    return [Outlook(name, free=free, lacks=WHOLE - free, hopes=hopes) for name in names]


def nodes(found: GatherStep):
    return [place.node for place in found.create]


def test_where_all_is_certain_no_other_node_is_waited_on():
    found = gather([Outlook("a", rooms=2), Outlook("b", rooms=1), *likely("c")], [], held=0, wanted=3)
    assert found == GatherStep((Place("a", 2), Place("b", 1)))


def test_for_a_room_that_is_not_certain_several_nodes_are_waited_on():
    found = gather([Outlook("a", rooms=1), *likely(*"bcdefgh")], [], held=0, wanted=2)
    assert nodes(found) == ["a", *"bcde"]
    assert len(found.create) == 1 + WAITS_ON


def test_what_can_come_nowhere_waits_without_a_node():
    found = gather([Outlook("a", rooms=1), *likely("b", hopes=False)], [], held=0, wanted=3)
    assert nodes(found) == ["a", "", ""]


def test_the_rest_is_left_once_a_room_is_certain():
    waiting = [child(name) for name in "bcde"]
    found = gather([Outlook("c", free=WHOLE, rooms=1), *likely(*"bde")], waiting, held=1, wanted=2)
    assert [c.room.template_node for c in found.leave] == ["e", "d", "b"]
    assert not found.create


def test_a_room_that_is_free_elsewhere_is_taken():
    found = gather(
        [*likely("a", free=500), Outlook("z", free=WHOLE, rooms=1)], [child("a")], held=0, wanted=1
    )
    assert (nodes(found), [c.room.template_node for c in found.leave]) == (["z"], ["a"])


def test_equal_nodes_are_not_changed_for_each_other():
    waiting = [child(name) for name in "wxyz"]
    assert gather(likely(*"abcdwxyz"), waiting, held=0, wanted=1) == GatherStep()


def test_together_they_never_keep_more_than_one_room_above_what_is_needed():
    waiting = [child(name) for name in "abcd"]
    outlooks = [*likely("a", "b", free=900), *likely("c", free=300), *likely("d")]
    found = gather(outlooks, waiting, held=4, wanted=5)
    assert [c.room.template_node for c in found.leave] == ["c"], (
        "the least likely of those that keep something"
    )
    assert gather(outlooks, [*waiting[:2], waiting[3]], held=4, wanted=5) == GatherStep(), (
        "it is not waited on again"
    )


@pytest.mark.parametrize("held", [0, 2, 5])
def test_a_second_look_changes_nothing(held):
    outlooks = [Outlook("a", rooms=2), *likely(*"bcdef")]
    first = gather(outlooks, [], held=held, wanted=5)
    waiting = [child(place.node, n) for n, place in enumerate(first.create) for _ in range(place.rooms)]
    assert gather(outlooks, waiting, held=held, wanted=5) == GatherStep()


def test_within_a_share_a_node_that_becomes_certain_is_taken_for_another_one():
    waiting = [child(name) for name in "abc"]
    outlooks = [*likely(*"abcd"), Outlook("z", rooms=1)]
    assert gather(likely(*"abcd"), waiting, held=0, wanted=2, more=False) == GatherStep()
    found = gather(outlooks, waiting, held=0, wanted=2, more=False)
    assert (nodes(found), [c.room.template_node for c in found.leave]) == (["z"], ["c"])
