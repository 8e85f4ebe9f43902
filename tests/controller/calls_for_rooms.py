"""What the actions about rooms stand for: Reservations, placeholders, claimants, windows and head-rooms; and Events."""

from objects_of_calls import GROUP, NO_BODY, PODS, ROOM, ROOMS, SETTINGS, TESTED_BELOW, WEB, reservation

from rescheduler.calls.call import Event
from rescheduler.calls.objects import create_reservation, delete_reservation, write_status
from rescheduler.calls.pods import (
    admit_placeholder,
    delete_placeholder,
    nominate,
    release,
    remove_gate,
    remove_placeholder,
    say_unschedulable,
    take_back_nomination,
    tolerate,
    unsteer,
    withdraw_request,
)
from rescheduler.model import names
from rescheduler.model.migration import PodMigration
from rescheduler.model.records import ObjectKey, Toleration
from rescheduler.model.reservation import KoordinatorReservation, ReservationPhase, ReservationStatus
from rescheduler.model.room_sets import HeadRoom, HeadRoomStatus, ReservationWindow, WindowPhase, WindowStatus
from rescheduler.reservations.koordinator import (
    create_koordinator_reservation,
    delete_koordinator_reservation,
)
from rescheduler.reservations.node_request import request_key, request_node
from rescheduler.reservations.placeholder import CONTAINER_SECURITY, POD_SECURITY, create_placeholder
from rescheduler.reservations.scheduler_probe import ask_scheduler
from rescheduler.reservations.validation import try_template
from rescheduler.testing import builders as b

HOLDER = b.pod("room-x", "rescheduler").uid("h").build()
ASKS = PodMigration(namespace="shop", name="m", uid="u", pod_name="web-0")
WEB_POD = b.pod("web-0", "shop").cpu("2").build()
PLACEHOLDERS = "/api/v1/namespaces/rescheduler/pods"
KOORDINATOR = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
GATE_OFF = {"schedulingGates": [{"name": "rescheduler.dev/hold", "$patch": "delete"}]}
DELETE_HOLDER = f"DELETE {PLACEHOLDERS}/room-x uid=h gracePeriodSeconds=1"

CALLS_FOR_ROOMS = [
    # Pods that ask the node autoscaler
    (
        say_unschedulable(HOLDER, "no room", 61.5),
        f"PATCH(merge) {PLACEHOLDERS}/room-x/status",
        {
            "metadata": {"uid": "h"},
            "status": {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "no room",
                        "lastTransitionTime": "1970-01-01T00:01:01Z",
                    }
                ]
            },
        },
    ),
    (
        request_node(ASKS, WEB_POD, (), SETTINGS, None),
        f"POST {PLACEHOLDERS} name={request_key(ASKS, 'rescheduler').name}",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": request_key(ASKS, "rescheduler").name,
                "namespace": "rescheduler",
                "labels": {
                    "rescheduler.dev/placeholder": "Node_request",
                    "app.kubernetes.io/created-by": "rescheduler",
                },
                "annotations": {"rescheduler.dev/migration": "shop/m"},
            },
            "spec": {
                "schedulerName": "rescheduler.dev-node-request",
                "priorityClassName": "rescheduler-placeholder",
                "preemptionPolicy": "Never",
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "securityContext": POD_SECURITY,
                "containers": [
                    {
                        "name": "request",
                        "image": "pause:1",
                        "resources": {
                            "requests": {"cpu": "2", "memory": "0", "ephemeral-storage": "0"},
                            "limits": {"cpu": "2001m", "memory": "64Mi", "ephemeral-storage": "64Mi"},
                        },
                        "securityContext": CONTAINER_SECURITY,
                    }
                ],
            },
        },
    ),
    (
        ask_scheduler(ObjectKey("rescheduler", "scheduler-probe-a-1"), "other", "pause:1", reservation()),
        f"POST {PLACEHOLDERS} name=scheduler-probe-a-1",
        TESTED_BELOW,
    ),
    (withdraw_request(HOLDER), f"DELETE {PLACEHOLDERS}/room-x uid=h gracePeriodSeconds=0", NO_BODY),
    # Windows and head-rooms
    (
        create_reservation("night-1.room", b'{"metadata":{"name":"night-1.room"}}'),
        f"POST {ROOMS} name=night-1.room",
        {"metadata": {"name": "night-1.room"}},
    ),
    (
        write_status(
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
                "layout": 1,
                "rooms": "1/2",
                "wanted": 2,
                "gathered": 1,
                "placed": 0,
            },
        },
    ),
    (
        write_status(
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
                "layout": 1,
                "rooms": "2/2",
                "wanted": 2,
                "standing": 2,
                "nodes": ["n1", "n1"],
            },
        },
    ),
    # Placeholders
    (
        try_template(reservation(), SETTINGS),
        f"POST {PLACEHOLDERS}?dryRun=All name=template-",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "template-"},
            "spec": {
                "containers": [
                    {"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}
                ],
                "automountServiceAccountToken": False,
            },
        },
    ),
    (
        create_placeholder(reservation(), "n1", SETTINGS),
        f"POST {PLACEHOLDERS} name=room-967a75ed4a",
        TESTED_BELOW,
    ),
    (
        delete_placeholder(HOLDER),
        DELETE_HOLDER,
        NO_BODY,
    ),
    (
        delete_placeholder(HOLDER, (WEB,), "n1"),
        f"GET {PODS}, then {DELETE_HOLDER} if uid u is nominated to node/n1, else nominate it again",
        NO_BODY,
    ),
    (
        remove_placeholder(HOLDER),
        f"DELETE {PLACEHOLDERS}/room-x uid=h gracePeriodSeconds=0",
        NO_BODY,
    ),
    (
        admit_placeholder(HOLDER),
        f"PATCH(strategic) {PLACEHOLDERS}/room-x",
        {
            "metadata": {"uid": "h"},
            "spec": {"schedulingGates": [{"name": "rescheduler.dev/wait-for-room", "$patch": "delete"}]},
        },
    ),
    (
        create_koordinator_reservation(reservation(), "n1", SETTINGS),
        f"POST {KOORDINATOR} name=room-967a75ed4a",
        TESTED_BELOW,
    ),
    (
        delete_koordinator_reservation(KoordinatorReservation(name="room-x", uid="k")),
        f"DELETE {KOORDINATOR}/room-x uid=k",
        NO_BODY,
    ),
    # Claimants
    (
        nominate(WEB, "n1"),
        f"PATCH(merge) {PODS}/status",
        {"metadata": {"uid": "u"}, "status": {"nominatedNodeName": "n1"}},
    ),
    (
        nominate(WEB, ""),
        f"PATCH(merge) {PODS}/status",
        {"metadata": {"uid": "u"}, "status": {"nominatedNodeName": None}},
    ),
    (
        take_back_nomination(WEB, HOLDER),
        f"GET {PLACEHOLDERS}/room-x, then PATCH(merge) {PODS}/status if uid h is not terminating",
        TESTED_BELOW,
    ),
    (
        remove_gate(WEB, "room"),
        f"PATCH(strategic) {PODS}",
        {"metadata": {"uid": "u", "annotations": {"rescheduler.dev/reservation": "room"}}, "spec": GATE_OFF},
    ),
    (
        remove_gate(WEB, "room", (Toleration(key="gpu", operator="Exists", effect="NoSchedule"),)),
        f"PATCH(strategic) {PODS}",
        {
            "metadata": {"uid": "u", "annotations": {"rescheduler.dev/reservation": "room"}},
            "spec": GATE_OFF
            | {"tolerations": [{"operator": "Exists", "key": "gpu", "effect": "NoSchedule"}]},
        },
    ),
    (
        tolerate(WEB, "room", (Toleration(key="ours", operator="Exists"),)),
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
        release(WEB, "held for 60 s"),
        f"PATCH(strategic) {PODS}",
        {"metadata": {"uid": "u", "annotations": {"rescheduler.dev/reservation": None}}, "spec": GATE_OFF},
    ),
    (
        remove_gate(WEB, "room", steered_to="room-x"),
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
        unsteer(WEB),
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
    # Reservations
    (
        write_status(ROOM, ReservationStatus(phase=ReservationPhase.FAILED)),
        f"PUT {ROOMS}/room/status",
        {
            "apiVersion": "rescheduler.dev/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": "room", "uid": "r", "resourceVersion": "7"},
            "status": {"phase": "Failed", "layout": 1, "observedGeneration": 0},
        },
    ),
    (delete_reservation(ROOM), f"DELETE {ROOMS}/room uid=r", NO_BODY),
    (delete_reservation(ROOM, unchanged=True), f"DELETE {ROOMS}/room uid=r resourceVersion=7", NO_BODY),
    # Events
    (
        Event("v1", "Pod", "shop", "web-0", "u", "Moved", "to n1"),
        "EVENT Normal Moved Pod/shop/web-0",
        TESTED_BELOW,
    ),
    (
        Event(names.API_VERSION, "Reservation", "", "room", "r", "Damaged", "cannot", warning=True),
        "EVENT Warning Damaged Reservation/room",
        TESTED_BELOW,
    ),
]
