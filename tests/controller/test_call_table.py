"""Every action stands for exactly the calls that are written down here."""

import typing

import msgspec
import pytest

from rescheduler.controller.call_table import CALLS, operation_of
from rescheduler.controller.calls import OnError, TemplateTrial
from rescheduler.controller.effects import Action
from rescheduler.kube.errors import ConflictError
from rescheduler.migrations import actions as moves
from rescheduler.model import names
from rescheduler.model.kept_empty import Hold, KeptEmpty
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, MigrationStatus, PodMigration
from rescheduler.model.records import AvoidEntry, ObjectKey, OwnerRef, Taint, Toleration
from rescheduler.model.replacement_rules import TemplateKey
from rescheduler.model.reservation import ReservationPhase, ReservationStatus
from rescheduler.model.room_sets import HeadRoom, HeadRoomStatus, ReservationWindow, WindowPhase, WindowStatus
from rescheduler.model.selectors import LabelSet
from rescheduler.reservations import actions as rooms
from rescheduler.reservations.observed import ReservationSettings
from rescheduler.room_sets import actions as room_sets
from rescheduler.testing import builders as b

SETTINGS = ReservationSettings(namespace="rescheduler", pause_image="pause:1")
WEB = ObjectKey("shop", "web-0")
HOLDER = ObjectKey("rescheduler", "room-x")
MOVE = ObjectKey("shop", "move-1")
HINT = AvoidEntry("ReplicaSet", "web", "rs-uid", "shop", "drained", 9.0)
REPLICA_SET = OwnerRef("apps/v1", "ReplicaSet", "web", "rs-uid")
NODE = b.node("n1").build()
NODE = msgspec.structs.replace(NODE, resource_version="5", has_annotations=True)
KEPT = KeptEmpty(Hold.CORDONED, 3600.0)
CORDONED = msgspec.structs.replace(NODE, unschedulable=True, kept_empty=KEPT)
TAINTED_NOTE = KeptEmpty(Hold.TAINTED, 3600.0)
BARE = msgspec.structs.replace(NODE, has_annotations=False, taints=(Taint("example.com/rack"),))
KEPT_BY_A_TAINT = msgspec.structs.replace(
    NODE, taints=(Taint("example.com/rack"), Taint("rescheduler.dev/kept-empty")), kept_empty=TAINTED_NOTE
)
CORDONED_AND_TAINTED = msgspec.structs.replace(KEPT_BY_A_TAINT, unschedulable=True, kept_empty=KEPT)
UNCORDONED = msgspec.structs.replace(NODE, unschedulable=True, kept_empty=KeptEmpty(Hold.GIVEN_BACK, 3600.0))
HAND_OVER = names.ANNOTATION_HANDOVER_TAINT
TAINTED = b.node("n1").taint("gpu").taint(HAND_OVER, "room").taint(HAND_OVER, "another").build()
TAINTED = msgspec.structs.replace(TAINTED, resource_version="6")
START = moves.StartReplacement(MOVE, REPLICA_SET, "shop", "web-new", "n1", (("app", "web"),), "rs-uid/u")
POD = b.pod("web-0", "shop").cpu("1").owner("ReplicaSet", "web", "rs-uid").build()


def reservation():
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    spec = {"template": template, "owners": [{"controller": {"kind": "ReplicaSet", "name": "web"}}]}
    return b.object_of(Kind.RESERVATION, "room", spec=spec).build()


ROOM = msgspec.structs.replace(reservation(), uid="r", resource_version="7")
SEEN = PodMigration(namespace="shop", name="move-1", uid="m", resource_version="8", pod_name="web-0")
PODS = "/api/v1/namespaces/shop/pods/web-0"
PLACEHOLDERS = "/api/v1/namespaces/rescheduler/pods"
KOORDINATOR = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
GROUP = "/apis/rescheduler.dev/v1alpha1"
ROOMS = f"{GROUP}/reservations"
MOVES = "/apis/rescheduler.dev/v1alpha1/namespaces/shop/podmigrations"
GATE_OFF = {"schedulingGates": [{"name": "rescheduler.dev/hold", "$patch": "delete"}]}
TAINT = {"key": "rescheduler.dev/hand-over", "value": "n1", "effect": "NoSchedule"}
DELETE_HOLDER = f"DELETE {PLACEHOLDERS}/room-x uid=h gracePeriodSeconds=1"
NO_BODY = None
TESTED_BELOW = ...

CALLS_OF = [
    # Windows and head-rooms
    (
        room_sets.CreateRoom("night-1.room", b'{"metadata":{"name":"night-1.room"}}'),
        f"POST {ROOMS} name=night-1.room",
        {"metadata": {"name": "night-1.room"}},
    ),
    (
        room_sets.WriteWindowStatus(
            ReservationWindow(name="night", uid="w", resource_version="9", status=WindowStatus()),
            WindowStatus(phase=WindowPhase.OPEN, wanted=2, gathered=1),
        ),
        f"PUT {GROUP}/reservationwindows/night/status",
        {
            "apiVersion": "rescheduler.dev/v1alpha1",
            "kind": "ReservationWindow",
            "metadata": {"name": "night", "uid": "w", "resourceVersion": "9"},
            "status": {
                "phase": "Open",
                "observedGeneration": 0,
                "rooms": "1/2",
                "wanted": 2,
                "gathered": 1,
                "placed": 0,
            },
        },
    ),
    (
        room_sets.WriteHeadRoomStatus(
            HeadRoom(name="spare", uid="h", resource_version="9", status=HeadRoomStatus()),
            HeadRoomStatus(wanted=2, standing=2, nodes=("n1", "n1")),
        ),
        f"PUT {GROUP}/headrooms/spare/status",
        {
            "apiVersion": "rescheduler.dev/v1alpha1",
            "kind": "HeadRoom",
            "metadata": {"name": "spare", "uid": "h", "resourceVersion": "9"},
            "status": {
                "observedGeneration": 0,
                "rooms": "2/2",
                "wanted": 2,
                "standing": 2,
                "nodes": ["n1", "n1"],
            },
        },
    ),
    # Placeholders
    (
        rooms.TryTemplate(reservation()),
        f"POST {PLACEHOLDERS}?dryRun=All name=template-",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "template-"},
            "spec": {
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
                "automountServiceAccountToken": False,
            },
        },
    ),
    (rooms.CreatePlaceholder(reservation(), "n1"), f"POST {PLACEHOLDERS} name=room-967a75ed4a", TESTED_BELOW),
    (
        rooms.DeletePlaceholder(HOLDER, "h"),
        DELETE_HOLDER,
        NO_BODY,
    ),
    (
        rooms.DeletePlaceholder(HOLDER, "h", (rooms.Nominate(WEB, "u", "n1"),)),
        f"GET {PODS}, then {DELETE_HOLDER} if uid u is nominated to node n1, else nominate it again",
        NO_BODY,
    ),
    (
        rooms.RemovePlaceholder(HOLDER, "h"),
        f"DELETE {PLACEHOLDERS}/room-x uid=h gracePeriodSeconds=0",
        NO_BODY,
    ),
    (
        rooms.AdmitPlaceholder(HOLDER, "h"),
        f"PATCH(strategic) {PLACEHOLDERS}/room-x",
        {
            "metadata": {"uid": "h"},
            "spec": {"schedulingGates": [{"name": "rescheduler.dev/wait-for-room", "$patch": "delete"}]},
        },
    ),
    (
        rooms.CreateKoordinatorReservation(reservation(), "n1"),
        f"POST {KOORDINATOR} name=room-967a75ed4a",
        TESTED_BELOW,
    ),
    (rooms.DeleteKoordinatorReservation("room-x", "k"), f"DELETE {KOORDINATOR}/room-x uid=k", NO_BODY),
    # Claimants
    (
        rooms.Nominate(WEB, "u", "n1"),
        f"PATCH(merge) {PODS}/status",
        {"metadata": {"uid": "u"}, "status": {"nominatedNodeName": "n1"}},
    ),
    (
        rooms.Nominate(WEB, "u", ""),
        f"PATCH(merge) {PODS}/status",
        {"metadata": {"uid": "u"}, "status": {"nominatedNodeName": None}},
    ),
    (
        rooms.TakeBackNomination(WEB, "u", HOLDER, "h"),
        f"GET {PLACEHOLDERS}/room-x, then PATCH(merge) {PODS}/status if uid h is not terminating",
        TESTED_BELOW,
    ),
    (
        rooms.Ungate(WEB, "u", "room"),
        f"PATCH(strategic) {PODS}",
        {"metadata": {"uid": "u", "annotations": {"rescheduler.dev/reservation": "room"}}, "spec": GATE_OFF},
    ),
    (
        rooms.Ungate(WEB, "u", "room", (Toleration(key="gpu", operator="Exists", effect="NoSchedule"),)),
        f"PATCH(strategic) {PODS}",
        {
            "metadata": {"uid": "u", "annotations": {"rescheduler.dev/reservation": "room"}},
            "spec": GATE_OFF
            | {"tolerations": [{"operator": "Exists", "key": "gpu", "effect": "NoSchedule"}]},
        },
    ),
    (
        rooms.Tolerate(WEB, "u", "7", "room", (Toleration(key="ours", operator="Exists"),)),
        f"PATCH(strategic) {PODS}",
        {
            "metadata": {
                "uid": "u",
                "resourceVersion": "7",
                "annotations": {"rescheduler.dev/reservation": "room"},
            },
            "spec": {"tolerations": [{"operator": "Exists", "key": "ours"}]},
        },
    ),
    (
        rooms.ReleasePod(WEB, "u", "held for 60 s"),
        f"PATCH(strategic) {PODS}",
        {"metadata": {"uid": "u", "annotations": {"rescheduler.dev/reservation": None}}, "spec": GATE_OFF},
    ),
    (
        rooms.Steer(WEB, "u", "room", "room-x"),
        f"PATCH(strategic) {PODS}",
        {
            "metadata": {
                "uid": "u",
                "annotations": {
                    "rescheduler.dev/reservation": "room",
                    "scheduling.koordinator.sh/reservation-affinity": '{"name":"room-x"}',
                },
            },
            "spec": GATE_OFF,
        },
    ),
    (
        rooms.Unsteer(WEB, "u"),
        f"PATCH(merge) {PODS}",
        {
            "metadata": {
                "uid": "u",
                "annotations": {
                    "rescheduler.dev/reservation": None,
                    "scheduling.koordinator.sh/reservation-affinity": None,
                },
            }
        },
    ),
    # Nodes
    (
        rooms.TaintNode(NODE),
        "PATCH(json) /api/v1/nodes/n1",
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": "5"},
            {"op": "add", "path": "/spec/taints", "value": [TAINT]},
        ],
    ),
    (
        rooms.TaintNode(TAINTED),
        "PATCH(json) /api/v1/nodes/n1",
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": "6"},
            {"op": "add", "path": "/spec/taints/-", "value": TAINT},
        ],
    ),
    (
        rooms.UntaintNode(TAINTED),
        "PATCH(json) /api/v1/nodes/n1",
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": "6"},
            {"op": "remove", "path": "/spec/taints/2"},
            {"op": "remove", "path": "/spec/taints/1"},
        ],
    ),
    (
        moves.WriteAvoidHints("n1", "5", (HINT,)),
        "PATCH(merge) /api/v1/nodes/n1",
        {
            "metadata": {
                "resourceVersion": "5",
                "annotations": {
                    "rescheduler.dev/prefer-avoid-pods": '[{"controllerKind":"ReplicaSet","controllerName":"web",'
                    '"controllerUid":"rs-uid","namespace":"shop","reason":"drained","expiresAtS":9.0}]'
                },
            }
        },
    ),
    (
        moves.WriteAvoidHints("n1", "5", ()),
        "PATCH(merge) /api/v1/nodes/n1",
        {"metadata": {"resourceVersion": "5", "annotations": {"rescheduler.dev/prefer-avoid-pods": None}}},
    ),
    (
        moves.KeepNodeEmpty(NODE, KEPT),
        "PATCH(merge) /api/v1/nodes/n1",
        {
            "metadata": {
                "resourceVersion": "5",
                "annotations": {"rescheduler.dev/kept-empty": "Cordoned until 1970-01-01T01:00:00Z"},
            },
            "spec": {"unschedulable": True},
        },
    ),
    (
        moves.GiveNodeBack(CORDONED, None, "why"),
        "PATCH(merge) /api/v1/nodes/n1",
        {
            "metadata": {"resourceVersion": "5", "annotations": {"rescheduler.dev/kept-empty": None}},
            "spec": {"unschedulable": None},
        },
    ),
    (
        moves.KeepNodeEmpty(NODE, TAINTED_NOTE),
        "PATCH(json) /api/v1/nodes/n1",
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": "5"},
            {
                "op": "add",
                "path": "/metadata/annotations/rescheduler.dev~1kept-empty",
                "value": "Tainted until 1970-01-01T01:00:00Z",
            },
            {
                "op": "add",
                "path": "/spec/taints",
                "value": [{"key": "rescheduler.dev/kept-empty", "effect": "NoSchedule"}],
            },
        ],
    ),
    (  # a node without annotations has no map to add one to
        moves.KeepNodeEmpty(BARE, TAINTED_NOTE),
        "PATCH(json) /api/v1/nodes/n1",
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": "5"},
            {
                "op": "add",
                "path": "/metadata/annotations",
                "value": {"rescheduler.dev/kept-empty": "Tainted until 1970-01-01T01:00:00Z"},
            },
            {
                "op": "add",
                "path": "/spec/taints/-",
                "value": {"key": "rescheduler.dev/kept-empty", "effect": "NoSchedule"},
            },
        ],
    ),
    (
        moves.GiveNodeBack(KEPT_BY_A_TAINT, None, "why"),
        "PATCH(json) /api/v1/nodes/n1",
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": "5"},
            {"op": "remove", "path": "/metadata/annotations/rescheduler.dev~1kept-empty"},
            {"op": "remove", "path": "/spec/taints/1"},
        ],
    ),
    (  # both stand there, whoever has put the taint beside our cordon
        moves.GiveNodeBack(CORDONED_AND_TAINTED, None, "why"),
        "PATCH(json) /api/v1/nodes/n1",
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": "5"},
            {"op": "remove", "path": "/metadata/annotations/rescheduler.dev~1kept-empty"},
            {"op": "remove", "path": "/spec/taints/1"},
            {"op": "remove", "path": "/spec/unschedulable"},
        ],
    ),
    (  # the cordon that stands there now is somebody else's
        moves.GiveNodeBack(UNCORDONED, None, ""),
        "PATCH(merge) /api/v1/nodes/n1",
        {"metadata": {"resourceVersion": "5", "annotations": {"rescheduler.dev/kept-empty": None}}},
    ),
    # Reservations and PodMigrations
    (
        rooms.WriteReservationStatus(ROOM, ReservationStatus(phase=ReservationPhase.FAILED)),
        f"PUT {ROOMS}/room/status",
        {
            "apiVersion": "rescheduler.dev/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": "room", "uid": "r", "resourceVersion": "7"},
            "status": {"phase": "Failed", "observedGeneration": 0},
        },
    ),
    (rooms.DeleteReservation(ROOM), f"DELETE {ROOMS}/room uid=r", NO_BODY),
    (rooms.DeleteReservation(ROOM, unchanged=True), f"DELETE {ROOMS}/room uid=r resourceVersion=7", NO_BODY),
    (
        rooms.RecordEvent("v1", "Pod", "shop", "web-0", "u", "Moved", "to n1"),
        "EVENT Normal Moved Pod/shop/web-0",
        TESTED_BELOW,
    ),
    (
        rooms.RecordEvent(
            names.API_VERSION, "Reservation", "", "room", "r", "Damaged", "cannot", warning=True
        ),
        "EVENT Warning Damaged Reservation/room",
        TESTED_BELOW,
    ),
    (moves.CreateReservation("room", MOVE, "m", POD, "n1", 60.0), f"POST {ROOMS} name=room", TESTED_BELOW),
    (
        moves.AdoptPod(MOVE, "m", "8", "u"),
        f"PATCH(merge) {MOVES}/move-1",
        {"metadata": {"uid": "m", "resourceVersion": "8"}, "spec": {"podRef": {"uid": "u"}}},
    ),
    (
        moves.WriteMigrationStatus(SEEN, MigrationStatus(phase=MigrationPhase.EVICTING)),
        f"PUT {MOVES}/move-1/status",
        {
            "apiVersion": "rescheduler.dev/v1alpha1",
            "kind": "PodMigration",
            "metadata": {"namespace": "shop", "name": "move-1", "uid": "m", "resourceVersion": "8"},
            "status": {"phase": "Evicting", "observedGeneration": 0, "mode": "ReserveFirst"},
        },
    ),
    (moves.DeleteMigration(MOVE, "m"), f"DELETE {MOVES}/move-1 uid=m", NO_BODY),
    # Evictions
    (
        moves.ProveGate(MOVE, REPLICA_SET, "shop"),
        "POST pods?dryRun=All owner=ReplicaSet/web uid=rs-uid for namespace shop, until it has the scheduling gate",
        NO_BODY,
    ),
    (
        moves.DryRunCreate(MOVE, POD, REPLICA_SET, TemplateKey("rs-uid")),
        (
            "GET /apis/apps/v1/namespaces/shop/replicasets/web, then POST pods?dryRun=All from its template "
            "if its uid is rs-uid"
        ),
        NO_BODY,
    ),
    (moves.DryRunEvict(MOVE, WEB, "u"), f"EVICT {PODS}/eviction?dryRun=All uid=u", NO_BODY),
    (moves.Evict(MOVE, WEB, "u"), f"EVICT {PODS}/eviction uid=u", NO_BODY),
    (moves.Evict(MOVE, WEB, "u", 5), f"EVICT {PODS}/eviction uid=u gracePeriodSeconds=5", NO_BODY),
    # Replacements of mode StartFirst
    (
        START,
        (
            "GET /apis/apps/v1/namespaces/shop/replicasets/web, then POST its template as pod web-new on node n1 "
            "if its uid is rs-uid"
        ),
        TESTED_BELOW,
    ),
    (
        moves.LabelReplacement(WEB, "u", LabelSet({"pod-template-hash": "1"})),
        f"PATCH(merge) {PODS}",
        {"metadata": {"uid": "u", "labels": {"pod-template-hash": "1"}}},
    ),
    (moves.RemoveReplacement(WEB, "u"), f"DELETE {PODS} uid=u", NO_BODY),
]


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
