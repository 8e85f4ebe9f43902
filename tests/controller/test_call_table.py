"""Every action stands for exactly the calls that are written down in ``calls_for_rooms``, ``calls_for_nodes`` and ``calls_for_moves``."""

import typing

import msgspec
import pytest
from calls_for_moves import CALLS_FOR_MOVES, MOVE, START
from calls_for_nodes import CALLS_FOR_NODES
from calls_for_rooms import CALLS_FOR_ROOMS, HOLDER
from objects_of_calls import NO_BODY, POD, PODS, SETTINGS, TESTED_BELOW, WEB, reservation

from rescheduler.controller.call_table import CALLS, operation_of
from rescheduler.controller.calls import OnError, TemplateTrial
from rescheduler.controller.effects import Action
from rescheduler.kube.errors import ConflictError
from rescheduler.migrations import actions as moves
from rescheduler.model import names
from rescheduler.reservations import actions as rooms
from rescheduler.reservations.observed import ReservationSettings

CALLS_OF = [*CALLS_FOR_ROOMS, *CALLS_FOR_NODES, *CALLS_FOR_MOVES]


@pytest.mark.parametrize(("action", "line", "expected"), CALLS_OF)
def test_an_action_stands_for_this_call(action, line, expected):
    operation = operation_of(action, SETTINGS)
    assert operation.line == line
    if expected is NO_BODY:
        assert str(operation) == line
    elif expected is not TESTED_BELOW:
        sent = operation.call if isinstance(operation, TemplateTrial) else operation
        assert msgspec.json.decode(sent.body) == expected
        assert str(operation) == f"{line} {sent.body.decode()}"


def test_there_is_a_row_and_an_example_for_every_action():
    every = set(typing.get_args(Action))
    assert set(CALLS) == every
    assert {type(action) for action, _, _ in CALLS_OF} == every


def body(action, settings=SETTINGS):
    return msgspec.json.decode(operation_of(action, settings).body)


def test_a_placeholder_is_that_of_the_settings_in_force():
    action = rooms.CreatePlaceholder(reservation(), "n1")
    pod = body(action)
    assert pod["kind"] == "Pod"
    assert [c["image"] for c in pod["spec"]["containers"]] == ["pause:1"]
    assert (
        body(action, ReservationSettings(pause_image="pause:2"))["spec"]["containers"][0]["image"]
        == "pause:2"
    )


def test_an_event_is_printed_with_its_message():
    event = rooms.RecordEvent("v1", "Pod", "shop", "web-0", "u", "Moved", "to n1")
    assert str(operation_of(event, SETTINGS)) == "EVENT Normal Moved Pod/shop/web-0: to n1"


def test_a_reservation_names_the_move_and_the_controller_that_it_is_for():
    created = body(moves.CreateReservation("room", MOVE, "m", POD, "n1", 60.0, soft=True))
    assert created["metadata"]["annotations"] == {
        names.ANNOTATION_MIGRATION: "shop/move-1",
        names.ANNOTATION_MIGRATION_UID: "m",
        names.ANNOTATION_MODE: "Soft",
    }
    assert created["spec"]["owners"][0]["controller"]["uid"] == "rs-uid"
    assert created["spec"]["ttl"] == "60s"


def test_koordinators_reservation_is_pinned_to_the_node():
    created = body(rooms.CreateKoordinatorReservation(reservation(), "n1"))
    assert created["spec"]["template"]["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize(
    ("metadata", "taken_back"),
    [
        ({"uid": "h"}, True),
        ({"uid": "h", "deletionTimestamp": "2027-01-01T00:00:00Z"}, False),
        ({"uid": "another"}, False),
    ],
    ids=["stands", "is terminating", "another"],
)
def test_a_nomination_is_taken_back_only_while_the_server_has_the_placeholder(metadata, taken_back):
    operation = operation_of(rooms.TakeBackNomination(WEB, "u", HOLDER, "h"), SETTINGS)
    call = operation.then(msgspec.json.encode({"metadata": metadata}))
    empty = f'PATCH(merge) {PODS}/status {{"metadata":{{"uid":"u"}},"status":{{"nominatedNodeName":null}}}}'
    assert (call and str(call)) == (empty if taken_back else None)


def test_a_replacement_is_made_from_the_template_that_was_read():
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "web:2"}]},
    }
    owner = {"metadata": {"uid": "rs-uid"}, "spec": {"template": template}}
    call = operation_of(START, SETTINGS).then(msgspec.json.encode(owner))
    assert call.line == "POST /api/v1/namespaces/shop/pods name=web-new"
    assert msgspec.json.decode(call.body)["spec"]["containers"] == [{"name": "c", "image": "web:2"}]
    assert OnError.RETURN_REFUSAL in call.on_error
    assert OnError.IGNORE_ALREADY_EXISTS in call.on_error


def test_a_replacement_is_not_made_for_another_owner_of_that_name():
    owner = {"metadata": {"uid": "other"}, "spec": {"template": {}}}
    with pytest.raises(ConflictError, match="ReplicaSet web"):
        operation_of(START, SETTINGS).then(msgspec.json.encode(owner))
