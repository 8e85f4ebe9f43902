"""Every constructor makes exactly the calls that are written down in ``calls.txt``."""

import inspect
from pathlib import Path

import msgspec
import pytest
from example_calls import CALLS, HOLDER, MOVE, POD, PODS, SETTINGS, START, WEB, reservation

from rescheduler.calls import nodes, objects, pods
from rescheduler.calls.call import OnError
from rescheduler.calls.pods import take_back_nomination
from rescheduler.errors import OwnerReplacedError
from rescheduler.migrations import creations
from rescheduler.model import names
from rescheduler.reservations import koordinator, node_request, placeholder, scheduler_probe, validation
from rescheduler.reservations.koordinator import create_koordinator_reservation
from rescheduler.reservations.placeholder import create_placeholder
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.reservations.template import reservation_manifest

MADE = Path(__file__).with_name("calls.txt").read_text(encoding="utf-8").splitlines()
BODIES_ELSEWHERE = {
    "create_placeholder",
    "create_koordinator_reservation",
    "ask_scheduler",
    "take_back_nomination",
    "start_replacement",
}


@pytest.mark.parametrize(("call", "made"), list(zip(CALLS, MADE, strict=True)))
def test_a_constructor_makes_this_call(call, made):
    assert (call.line if call.does in BODIES_ELSEWHERE else str(call)) == made


def constructors():
    """The names of all functions that return a call."""
    others = creations, placeholder, koordinator, node_request, scheduler_probe, validation
    modules = (objects, pods, nodes, *others)
    kinds = "Call", "ReadThenCall", "CreationTrial"
    for name, made in ((n, f) for module in modules for n, f in vars(module).items() if n[0] != "_"):
        if inspect.isfunction(made) and made.__annotations__.get("return", "").split(" | ")[0] in kinds:
            yield name


def test_there_is_an_example_of_every_constructor():
    generic = {"create", "delete", "merge_patch"}
    config_maps = {"set_keys", "create_config_map"}
    made = {call.does for call in CALLS} - {"rehearse_eviction", "prove_gate", "record_event"}
    assert set(constructors()) - generic - config_maps == made


def test_a_placeholder_is_that_of_the_settings_in_force():
    def images(settings):
        pod = msgspec.json.decode(create_placeholder(reservation(), "n1", settings).body)
        return [c["image"] for c in pod["spec"]["containers"]]

    assert images(SETTINGS) == ["pause:1"]
    assert images(ReservationSettings(pause_image="pause:2")) == ["pause:2"]


def test_a_reservation_names_the_move_and_the_controller_that_it_is_for():
    made = reservation_manifest(
        name="room", migration=MOVE, migration_uid="m", pod=POD, template=None, volumes=(), node="n1",
        ttl_s=60.0, soft=True,
    )  # fmt: skip
    created = msgspec.json.decode(made)
    assert created["metadata"]["annotations"] == {
        names.ANNOTATION_MIGRATION: "shop/move-1",
        names.ANNOTATION_MIGRATION_UID: "m",
        names.ANNOTATION_MODE: "Soft",
    }
    assert created["spec"]["owners"][0]["controller"]["uid"] == "rs-uid"
    assert created["spec"]["ttl"] == "60s"


def test_koordinators_reservation_is_pinned_to_the_node():
    created = msgspec.json.decode(create_koordinator_reservation(reservation(), "n1", SETTINGS).body)
    assert created["spec"]["template"]["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize(("metadata", "taken_back"), [
    ({"uid": "h"}, True),
    ({"uid": "h", "deletionTimestamp": "2027-01-01T00:00:00Z"}, False),
    ({"uid": "another"}, False),
], ids=["stands", "is terminating", "another"])  # fmt: skip
def test_a_nomination_is_taken_back_only_while_the_server_has_the_placeholder(metadata, taken_back):
    call = take_back_nomination(WEB, HOLDER).then(msgspec.json.encode({"metadata": metadata}))
    empty = f'PATCH(merge) {PODS}/status {{"metadata":{{"uid":"u"}},"status":{{"nominatedNodeName":null}}}}'
    assert (call and str(call)) == (empty if taken_back else None)


def test_a_replacement_is_made_from_the_template_that_was_read():
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "web:2"}]},
    }
    owner = {"metadata": {"uid": "rs-uid"}, "spec": {"template": template}}
    call = START.then(msgspec.json.encode(owner))
    assert call.line == "POST /api/v1/namespaces/shop/pods name=web-new"
    assert msgspec.json.decode(call.body)["spec"]["containers"] == [{"name": "c", "image": "web:2"}]
    assert OnError.RETURN_REFUSAL in call.on_error
    assert OnError.IGNORE_ALREADY_EXISTS in call.on_error


def test_a_replacement_is_not_made_for_another_owner_of_that_name():
    owner = {"metadata": {"uid": "other"}, "spec": {"template": {}}}
    with pytest.raises(OwnerReplacedError, match="ReplicaSet web"):
        START.then(msgspec.json.encode(owner))
