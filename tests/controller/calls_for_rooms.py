"""What the actions about rooms stand for: Reservations, placeholders, claimants, windows and head-rooms; and Events."""

from objects_of_calls import GROUP, NO_BODY, PODS, ROOM, ROOMS, TESTED_BELOW, WEB, reservation

from rescheduler.model import names
from rescheduler.model.records import ObjectKey, Toleration
from rescheduler.model.reservation import ReservationPhase, ReservationStatus
from rescheduler.model.room_sets import HeadRoom, HeadRoomStatus, ReservationWindow, WindowPhase, WindowStatus
from rescheduler.reservations import actions as rooms
from rescheduler.room_sets import actions as room_sets

HOLDER = ObjectKey("rescheduler", "room-x")
PLACEHOLDERS = "/api/v1/namespaces/rescheduler/pods"
KOORDINATOR = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
GATE_OFF = {"schedulingGates": [{"name": "rescheduler.dev/hold", "$patch": "delete"}]}
DELETE_HOLDER = f"DELETE {PLACEHOLDERS}/room-x uid=h gracePeriodSeconds=1"

CALLS_FOR_ROOMS = [
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
                "layout": 1,
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
        rooms.TryTemplate(reservation()),
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
    # Reservations
    (
        rooms.WriteReservationStatus(ROOM, ReservationStatus(phase=ReservationPhase.FAILED)),
        f"PUT {ROOMS}/room/status",
        {
            "apiVersion": "rescheduler.dev/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": "room", "uid": "r", "resourceVersion": "7"},
            "status": {"phase": "Failed", "layout": 1, "observedGeneration": 0},
        },
    ),
    (rooms.DeleteReservation(ROOM), f"DELETE {ROOMS}/room uid=r", NO_BODY),
    (rooms.DeleteReservation(ROOM, unchanged=True), f"DELETE {ROOMS}/room uid=r resourceVersion=7", NO_BODY),
    # Events
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
]
