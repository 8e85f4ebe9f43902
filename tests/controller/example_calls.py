"""An example of everything that constructors of calls make; ``calls.txt`` has what each stands for, in the same order."""

import msgspec

from harness import builders as b
from rescheduler.calls.call import GateProbe
from rescheduler.calls.nodes import (
    give_node_back,
    keep_node_empty,
    taint_node,
    untaint_node,
    write_avoid_hints,
)
from rescheduler.calls.objects import (
    adopt_pod,
    create_reservation,
    delete_migration,
    delete_reservation,
    write_status,
)
from rescheduler.calls.pods import (
    admit_placeholder,
    delete_placeholder,
    evict,
    evict_by_request,
    label_replacement,
    measure_watch,
    nominate,
    release,
    remove_gate,
    remove_placeholder,
    remove_replacement,
    say_unschedulable,
    take_back_nomination,
    tolerate,
    unsteer,
    withdraw_eviction_request,
    withdraw_request,
)
from rescheduler.migrations.creations import start_replacement, try_creation
from rescheduler.model import names
from rescheduler.model.event import Event, ObjectReference, about
from rescheduler.model.kept_empty import Hold, KeptEmpty
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, MigrationStatus, PodMigration
from rescheduler.model.node_status import AvoidEntry
from rescheduler.model.records import ObjectKey, OwnerRef, Taint, Toleration
from rescheduler.model.replacement_rules import TemplateKey
from rescheduler.model.reservation import KoordinatorReservation, ReservationPhase, ReservationStatus
from rescheduler.model.room_sets import HeadRoom, HeadRoomStatus, ReservationWindow, WindowPhase, WindowStatus
from rescheduler.model.selectors import LabelSet
from rescheduler.reservations.handover import hand_over_taint
from rescheduler.reservations.koordinator import (
    create_koordinator_reservation,
    delete_koordinator_reservation,
)
from rescheduler.reservations.node_request import request_node
from rescheduler.reservations.placeholder import create_placeholder
from rescheduler.reservations.scheduler_probe import ask_scheduler
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.reservations.validation import try_template

SETTINGS = ReservationSettings(namespace="rescheduler", pause_image="pause:1")
WEB = msgspec.structs.replace(b.pod("web-0", "shop").uid("u").build(), resource_version="7")
REPLICA_SET = OwnerRef("apps/v1", "ReplicaSet", "web", "rs-uid")
POD = b.pod("web-0", "shop").cpu("1").owner("ReplicaSet", "web", "rs-uid").build()
PODS = "/api/v1/namespaces/shop/pods/web-0"


def reservation():
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    spec = {"template": template, "owners": [{"controller": {"kind": "ReplicaSet", "name": "web"}}]}
    return b.object_of(Kind.RESERVATION, "room", spec=spec).build()


ROOM = msgspec.structs.replace(reservation(), uid="r", resource_version="7")

HOLDER = b.pod("room-x", "rescheduler").uid("h").build()
ASKS = PodMigration(namespace="shop", name="m", uid="u", pod_name="web-0")
WEB_POD = b.pod("web-0", "shop").cpu("2").build()
HINT = AvoidEntry("ReplicaSet", "web", "rs-uid", "shop", "drained", 9.0)
NODE = b.node("n1").build()
NODE = msgspec.structs.replace(NODE, resource_version="5", has_annotations=True)
KEPT = KeptEmpty(Hold.CORDONED, 3600.0)
LONGER = KeptEmpty(Hold.CORDONED, 7200.0)
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
MOVE = ObjectKey("shop", "move-1")
START = start_replacement(
    ObjectKey("shop", "web-new"), REPLICA_SET, MOVE, node="n1", labels={"app": "web"}, replaces="rs-uid/u"
)
SEEN = PodMigration(namespace="shop", name="move-1", uid="m", resource_version="8", pod_name="web-0")

CALLS = [
    # Pods that ask the node autoscaler
    say_unschedulable(HOLDER, "no room", 61.5),
    request_node(ASKS, WEB_POD, (), SETTINGS, None),
    ask_scheduler(ObjectKey("rescheduler", "scheduler-probe-a-1"), "other", "pause:1", reservation()),
    withdraw_request(HOLDER),
    # Windows and head-rooms
    create_reservation("night-1.room", b'{"metadata":{"name":"night-1.room"}}'),
    write_status(
        ReservationWindow(name="night", uid="w", resource_version="9", status=WindowStatus()),
        WindowStatus(phase=WindowPhase.OPEN, wanted=2, gathered=1),
    ),
    write_status(
        HeadRoom(name="spare", uid="h", resource_version="9", status=HeadRoomStatus()),
        HeadRoomStatus(wanted=2, standing=2, nodes=("n1", "n1")),
    ),
    # Placeholders
    try_template(reservation(), SETTINGS),
    create_placeholder(reservation(), "n1", SETTINGS),
    delete_placeholder(HOLDER),
    delete_placeholder(HOLDER, (WEB,), "n1"),
    remove_placeholder(HOLDER),
    admit_placeholder(HOLDER),
    create_koordinator_reservation(reservation(), "n1", SETTINGS),
    delete_koordinator_reservation(KoordinatorReservation(name="room-x", uid="k")),
    # Claimants
    nominate(WEB, "n1"),
    nominate(WEB, ""),
    take_back_nomination(WEB, HOLDER),
    remove_gate(WEB, "room"),
    remove_gate(WEB, "room", (Toleration(key="gpu", operator="Exists", effect="NoSchedule"),)),
    tolerate(WEB, "room", (Toleration(key="ours", operator="Exists"),)),
    release(WEB, "held for 60 s"),
    remove_gate(WEB, "room", steered_to="room-x"),
    unsteer(WEB),
    # Reservations
    write_status(ROOM, ReservationStatus(phase=ReservationPhase.FAILED)),
    delete_reservation(ROOM),
    delete_reservation(ROOM, unchanged=True),
    # Events
    Event(ObjectReference("Pod", "web-0", "shop", "u"), "Moved", "to n1"),
    Event(about(ROOM), "Damaged", "cannot", warning=True),
    # Nodes
    taint_node(NODE, hand_over_taint("n1")),
    taint_node(TAINTED, hand_over_taint("n1")),
    untaint_node(TAINTED),
    write_avoid_hints(NODE, (HINT,)),
    write_avoid_hints(NODE, ()),
    keep_node_empty(CORDONED, LONGER),
    keep_node_empty(NODE, KEPT),
    give_node_back(CORDONED, None),
    keep_node_empty(NODE, TAINTED_NOTE),
    # a node without annotations has no map to add one to
    keep_node_empty(BARE, TAINTED_NOTE),
    give_node_back(KEPT_BY_A_TAINT, None),
    # both stand there, whoever has put the taint beside our cordon
    give_node_back(CORDONED_AND_TAINTED, None),
    # the cordon that stands there now is somebody else's
    give_node_back(UNCORDONED, None),
    # PodMigrations
    adopt_pod(SEEN, "u"),
    write_status(SEEN, MigrationStatus(phase=MigrationPhase.EVICTING)),
    delete_migration(SEEN),
    # Evictions
    GateProbe(REPLICA_SET, "shop"),
    try_creation(POD, REPLICA_SET, TemplateKey("rs-uid")),
    evict(WEB, dry_run=True),
    evict(WEB),
    evict_by_request(WEB, SEEN),
    withdraw_eviction_request(WEB, SEEN),
    evict(WEB, 5),
    # Replacements of mode StartFirst
    START,
    label_replacement(WEB, LabelSet({"pod-template-hash": "1"})),
    measure_watch(WEB, 5.25),
    remove_replacement(WEB),
]
