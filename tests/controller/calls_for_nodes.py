"""What the actions about nodes stand for: the taint of a hand-over, hints, and what keeps an emptied node empty."""

import msgspec

from rescheduler.calls.nodes import (
    give_node_back,
    keep_node_empty,
    taint_node,
    untaint_node,
    write_avoid_hints,
)
from rescheduler.model import names
from rescheduler.model.kept_empty import Hold, KeptEmpty
from rescheduler.model.records import AvoidEntry, Taint
from rescheduler.reservations.handover import hand_over_taint
from rescheduler.testing import builders as b

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
TAINT = {"key": "rescheduler.dev/hand-over", "value": "n1", "effect": "NoSchedule"}

CALLS_FOR_NODES = [
    (
        taint_node(NODE, hand_over_taint("n1")),
        "PATCH(json) /api/v1/nodes/n1",
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": "5"},
            {"op": "add", "path": "/spec/taints", "value": [TAINT]},
        ],
    ),
    (
        taint_node(TAINTED, hand_over_taint("n1")),
        "PATCH(json) /api/v1/nodes/n1",
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": "6"},
            {"op": "add", "path": "/spec/taints/-", "value": TAINT},
        ],
    ),
    (
        untaint_node(TAINTED),
        "PATCH(json) /api/v1/nodes/n1",
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": "6"},
            {"op": "remove", "path": "/spec/taints/2"},
            {"op": "remove", "path": "/spec/taints/1"},
        ],
    ),
    (
        write_avoid_hints(NODE, (HINT,)),
        "PATCH(merge) /api/v1/nodes/n1",
        {
            "metadata": {
                "resourceVersion": "5",
                "annotations": {
                    "rescheduler.dev/prefer-avoid-pods": '[{"controllerKind":"ReplicaSet","controllerName":"web",'
                    '"controllerUid":"rs-uid","namespace":"shop","reason":"drained","until":"1970-01-01T00:00:09Z"}]'
                },
            }
        },
    ),
    (
        write_avoid_hints(NODE, ()),
        "PATCH(merge) /api/v1/nodes/n1",
        {"metadata": {"resourceVersion": "5", "annotations": {"rescheduler.dev/prefer-avoid-pods": None}}},
    ),
    (
        keep_node_empty(CORDONED, LONGER),
        "PATCH(merge) /api/v1/nodes/n1",
        {
            "metadata": {
                "resourceVersion": "5",
                "annotations": {"rescheduler.dev/kept-empty": "Cordoned until 1970-01-01T02:00:00Z"},
            }
        },
    ),
    (
        keep_node_empty(NODE, KEPT),
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
        give_node_back(CORDONED, None),
        "PATCH(merge) /api/v1/nodes/n1",
        {
            "metadata": {"resourceVersion": "5", "annotations": {"rescheduler.dev/kept-empty": None}},
            "spec": {"unschedulable": None},
        },
    ),
    (
        keep_node_empty(NODE, TAINTED_NOTE),
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
        keep_node_empty(BARE, TAINTED_NOTE),
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
        give_node_back(KEPT_BY_A_TAINT, None),
        "PATCH(json) /api/v1/nodes/n1",
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": "5"},
            {"op": "remove", "path": "/metadata/annotations/rescheduler.dev~1kept-empty"},
            {"op": "remove", "path": "/spec/taints/1"},
        ],
    ),
    (  # both stand there, whoever has put the taint beside our cordon
        give_node_back(CORDONED_AND_TAINTED, None),
        "PATCH(json) /api/v1/nodes/n1",
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": "5"},
            {"op": "remove", "path": "/metadata/annotations/rescheduler.dev~1kept-empty"},
            {"op": "remove", "path": "/spec/taints/1"},
            {"op": "remove", "path": "/spec/unschedulable"},
        ],
    ),
    (  # the cordon that stands there now is somebody else's
        give_node_back(UNCORDONED, None),
        "PATCH(merge) /api/v1/nodes/n1",
        {"metadata": {"resourceVersion": "5", "annotations": {"rescheduler.dev/kept-empty": None}}},
    ),
]
