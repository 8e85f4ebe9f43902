"""A small cluster in the middle of everything that the controller does, and what it becomes with anything in any field that we read.

Which fields are read is asked of the wire types of the decoder: a field that it reads from tomorrow on is among them by itself.
"""

import copy
from functools import cache

import msgspec
from hypothesis import strategies as st

from harness import builders as b
from harness.damage import places, plant, put
from rescheduler.model import names
from rescheduler.model.decode import (
    Decoder,
    pod_templates,
    pod_wire_types,
    wire_types,
    workloads,
)
from rescheduler.model.decode.wire_form import manifest
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import PodMigration
from rescheduler.model.reservation import ControllerRef, Reservation, ReservationOwner
from rescheduler.reservations.placeholder import placeholder_name

DECODER = Decoder()
KEYS = [
    value
    for name, value in vars(names).items()
    if name.startswith(("ANNOTATION_", "LABEL_")) and isinstance(value, str)
]
TIMES = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999-12:00", "2026-01-01T00:00:00Z"]
TEXTS = [
    "", "--5", "9" * 5000, "default/m", "no/such", "a/b/c", "/", "Soft", "StartFirst", "Available", "Evicting", "web-1", "rs", "n2",
    "9999999999h", "-1s", "1e999", "1e-999", "0x10", "5m", "\x00", "\ud83d\ude00", "{}", "[]", '[{"controller":7}]', "NaN", *TIMES,
]  # fmt: skip
AMOUNTS = [
    "0", "-1", "1", "500m", "1n", "1e999", "-9223372036854775808", "9223372036854775807", "999999999Ei",
    "50%", "x",
]  # fmt: skip
NUMBERS = [-(2**63), -1, 0, 1, 2, 100, 2**31 - 1, 2**31, 2**53, 2**63 - 1]
WORDS = [
    *TEXTS, *AMOUNTS, "default", "other", "web", "front", "db", "c", "v", "data", "csi.example", "zone", "app", "n1", "In", "NotIn", "Exists",
    "DoesNotExist", "Gt", "Lt", "Equal", "NoSchedule", "NoExecute", "Never", "Always", "OnDelete", "RollingUpdate", "Recreate", "Recreate",
    "DoNotSchedule", "ScheduleAnyway", "Honor", "Ignore", "IfHealthyBudget", "AlwaysAllow", "Terminating", "BestEffort", "PriorityClass",
    "CrossNamespacePodAffinity", "Running", "Pending", "Failed", "Succeeded", "True", "False", "Ready", "PodScheduled", "DisruptionTarget",
    "rescheduler", "kubernetes.io/hostname", "topology.kubernetes.io/zone", "requests.cpu", "cpu", "pods", "WaitForFirstConsumer",
]  # fmt: skip
JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70),
    st.sampled_from([-1, 0, 2**31, 2**63 - 1, 2**63]), st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(TEXTS), st.text(max_size=6), st.lists(st.none() | st.text(max_size=3), max_size=2),
    st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=3), max_size=2),
)  # fmt: skip
RAW = {
    ("PodHead", "spec"): pod_wire_types.PodSpecWire,
    ("PodTemplateWire", "spec"): pod_wire_types.PodSpecWire,
    ("ReservationSpecWire", "template"): pod_templates.PodTemplateWire,
    ("ReservationWindowSpecWire", "template"): pod_templates.PodTemplateWire,
    ("HeadRoomSpecWire", "template"): pod_templates.PodTemplateWire,
    ("ContainerStatusHead", "resources"): pod_wire_types.ContainerStatusWire,
    ("WorkloadSpecWire", "selector"): wire_types.LabelSelectorWire,
    ("WorkloadSpecWire", "podFailurePolicy"): workloads.FailurePolicyWire,
}
"""What is decoded in a second step, or in another form than a first one says, by the wire type that it is a part of."""


def objects():
    """(kind, manifest) of every object of the cluster."""
    owner = b.replicaset("web").label(app="web").replicas(3).cpu("1")
    uid = owner.manifest()["metadata"]["uid"]
    front = b.deployment("front").label(app="front").replicas(2).cpu("1")
    middle = b.replicaset("front-1").label(app="front").replicas(2).cpu("1")
    middle = middle.owner("Deployment", "front", front.manifest()["metadata"]["uid"])
    many = b.statefulset("db").label(app="db").replicas(2).cpu("1")
    daemon, batch = b.daemonset("agent").cpu("100m"), b.job("batch").cpu("100m")
    refs = (ReservationOwner(controller=ControllerRef("apps/v1", "ReplicaSet", "web", uid, "default")),)
    template = {
        "spec": {"nodeName": "n2", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    }
    found = [
        (Kind.NODE, b.node("n1").taint("old").zone("a").manifest()),
        (Kind.NODE, b.node("n2").zone("b").image("i", 5).manifest()),
        (Kind.NAMESPACE, b.namespace("default").label(team="a").manifest()),
        (Kind.REPLICA_SET, owner.manifest()),
        (Kind.DEPLOYMENT, front.manifest()),
        (Kind.REPLICA_SET, middle.manifest()),
        (Kind.STATEFUL_SET, many.manifest()),
        (Kind.DAEMON_SET, daemon.manifest()),
        (Kind.JOB, batch.manifest()),
        (Kind.REPLICATION_CONTROLLER, _of(Kind.REPLICATION_CONTROLLER, "rc", "default", spec={"replicas": 1})),
        (Kind.POD_DISRUPTION_BUDGET, b.pdb("web").allows(1).manifest()),
        (Kind.POD_DISRUPTION_BUDGET, b.pdb("front").selects(app="front").allows(1).manifest()),
        (Kind.PERSISTENT_VOLUME, b.volume("v").manifest()),
        (Kind.PERSISTENT_VOLUME_CLAIM, b.claim("c").bound_to("v").manifest()),
        (Kind.PERSISTENT_VOLUME_CLAIM, b.claim("late").manifest()),
        (Kind.STORAGE_CLASS, b.storage_class("fast").manifest()),
        (Kind.CSI_DRIVER, _of(Kind.CSI_DRIVER, "csi.example", spec={"storageCapacity": True})),
        *((Kind.CSI_NODE, _csi_node(name)) for name in ("n1", "n2")),
        (Kind.CSI_STORAGE_CAPACITY, _capacity()),
        (Kind.VOLUME_ATTACHMENT, _attachment()),
        (Kind.DEVICE_CLASS, _of(Kind.DEVICE_CLASS, "gpu", spec={"extendedResourceName": "example.com/gpu"})),
        (Kind.PRIORITY_CLASS, b.priority_class("high", 1000).manifest()),
        (Kind.SERVICE, b.service("web", app="web").manifest()),
        (Kind.RESOURCE_QUOTA, _quota()),
        (Kind.KOORDINATOR_RESERVATION, _koordinator_room()),
        (Kind.VOLCANO_POD_GROUP, _of(Kind.VOLCANO_POD_GROUP, "group", "default", spec={"minMember": 2})),
        (Kind.COSCHEDULING_POD_GROUP, _of(Kind.COSCHEDULING_POD_GROUP, "group", "default", spec={"minMember": 2})),
        (Kind.POD_GROUP, _of(Kind.POD_GROUP, "group", "default", spec={"schedulingPolicy": {"gang": {"minCount": 2}}})),
        (Kind.POD, owner.pod("web-1").on("n1").claim("c").apart("zone", weight=3, app="web").manifest()),
        (Kind.POD, owner.pod("web-2").on("n1").spread("zone", app="web").host_port(80).manifest()),
        (Kind.POD, owner.pod("web-3").set("spec.schedulingGates", [{"name": names.GATE}]).manifest()),
        (Kind.POD, middle.pod("front-1-a").on("n1").manifest()),
        (Kind.POD, middle.pod("front-1-b").on("n2").apart("kubernetes.io/hostname", app="front").manifest()),
        (Kind.POD, many.pod("db-0").on("n1").claim("late").manifest()),
        (Kind.POD, daemon.pod("agent-1").on("n1").manifest()),
        (Kind.POD, batch.pod("batch-1").on("n1").manifest()),
        (Kind.POD, _unschedulable(b.pod("waits").cpu("1").manifest())),
    ]  # fmt: skip
    return [*found, *_rooms(refs, template), *_room_sets(), *_moves()]


def _rooms(refs, template):
    for name, status in (
        ("asked", {}),
        ("free", {"phase": "Available", "nodeName": "n2"}),
        (
            "claimed",
            {
                "phase": "Available",
                "nodeName": "n2",
                "currentOwners": [{"namespace": "default", "name": "web-3", "uid": "default/web-3"}],
            },
        ),
        ("over", {"phase": "Failed"}),
        (
            "asking",
            {
                "phase": "Waiting",
                "nodeName": "n2",
                "makingRoom": {"nodeName": "n2", "moves": 1, "attempt": "x", "since": TIMES[2]},
            },
        ),
    ):
        room = _identified(
            manifest(
                Reservation(
                    name=name,
                    template_raw=msgspec.json.encode(template),
                    owners=refs,
                    ttl_s=300,
                    make_room=name == "asking",
                )
            )
        ) | {"status": status}
        yield Kind.RESERVATION, room
        if name in ("free", "claimed"):
            held = b.pod(
                placeholder_name(DECODER.record(Kind.RESERVATION, msgspec.json.encode(room))), "rescheduler"
            )
            held = held.cpu("1").on("n2").label(**{names.LABEL_PLACEHOLDER: "x"})
            yield Kind.POD, held.owner("Reservation", name, f"uid-{name}").manifest()


def _room_sets():
    """Windows in and out of their hours, and head-rooms; of one of each the Reservation that it has made."""
    owners = [{"object": {"namespace": "default"}, "labelSelector": {"matchLabels": {"app": "web"}}}]
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    hours = {"cron": "0 * * * *", "timeZone": "Europe/Berlin", "duration": "1h", "startReserveAgo": "10m"}
    for name, more in (
        ("night", {"template": template, "podNumToReserve": 2}),
        ("sum", {"resources": {"cpu": "4"}, "podNumToReserve": 2, "end": "23:00", "duration": None}),
        ("off", {"template": template, "suspend": True}),
    ):
        window = _of(Kind.RESERVATION_WINDOW, name, spec={**hours, "owners": owners, **more})
        status = {"phase": "Gathering", "start": TIMES[2], "end": TIMES[2], "placedPods": ["x"]}
        yield Kind.RESERVATION_WINDOW, _identified(window | {"status": status if name == "night" else {}})
    spec = {"rooms": 2, "template": template, "owners": owners, "spreadOver": "zone", "yieldTo": "AnyPod"}
    yield Kind.HEAD_ROOM, _identified(_of(Kind.HEAD_ROOM, "always", spec=spec, status={"standing": 1}))
    for kind, owner in (("ReservationWindow", "night"), ("HeadRoom", "always")):
        made = manifest(Reservation(name=f"{owner}-1", template_raw=msgspec.json.encode(template), ttl_s=300))
        made["spec"]["owners"] = owners
        made = _identified(made | {"status": {"phase": "Available", "nodeName": "n2"}})
        made["metadata"]["labels"] = {names.LABEL_ROOM_OF: f"uid-{owner}"}
        made["metadata"]["ownerReferences"] = [
            {"apiVersion": "rescheduler.dev/v1alpha1", "kind": kind, "name": owner, "uid": f"uid-{owner}"}
        ]
        yield Kind.RESERVATION, made


def _unschedulable(pod):
    """Refused by the scheduler."""
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    pod["status"] = {"phase": "Pending", "conditions": [refused | {"lastTransitionTime": TIMES[2]}]}
    return pod


def _moves():
    for name, pod, status in (
        ("m", "web-1", {}),
        ("of-a-deployment", "front-1-a", {}),
        ("of-a-set", "db-0", {"phase": "Reserving", "nodeName": "n2", "startedAt": TIMES[2]}),
        ("reserving", "web-2", {"phase": "Reserving", "nodeName": "n2", "startedAt": TIMES[2]}),
        ("evicting", "web-2", {"phase": "Evicting", "nodeName": "n2", "reservationName": "free", "evictionRequestedAt": TIMES[2]}),
        ("landing", "gone", {"phase": "HandingOver", "nodeName": "n2", "reservationName": "claimed", "evictedAt": TIMES[2]}),
        ("first", "web-1", {"phase": "Evicting", "mode": "StartFirst", "replacement": {"namespace": "default", "name": "web-3"}}),
        ("done", "gone", {"phase": "Succeeded", "finishedAt": TIMES[2]}),
    ):  # fmt: skip
        move = PodMigration(namespace="default", name=name, pod_name=pod, ttl_s=300)
        yield Kind.POD_MIGRATION, _identified(manifest(move)) | {"status": status}


def _of(kind, name, namespace="", **fields):
    return b.object_of(kind, name, namespace, **fields).manifest()


def _csi_node(name):
    driver = {"name": "csi.example", "nodeID": name, "allocatable": {"count": 4}, "topologyKeys": ["zone"]}
    return _of(Kind.CSI_NODE, name, spec={"drivers": [driver]})


def _capacity():
    fields = {"storageClassName": "fast", "capacity": "10Gi", "nodeTopology": {"matchLabels": {"zone": "a"}}}
    return _of(Kind.CSI_STORAGE_CAPACITY, "free-a", "default", **fields)


def _attachment():
    spec = {"attacher": "csi.example", "nodeName": "n1", "source": {"persistentVolumeName": "v"}}
    return _of(Kind.VOLUME_ATTACHMENT, "a", spec=spec)


def _quota():
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    spec = {"hard": {"requests.cpu": "10", "pods": "20"}, "scopes": ["NotBestEffort"]}
    spec["scopeSelector"] = {"matchExpressions": [scope]}
    return _of(Kind.RESOURCE_QUOTA, "q", "default", spec=spec, status={"used": {"requests.cpu": "9"}})


def _koordinator_room():
    status = {
        "phase": "Available", "nodeName": "n2", "allocatable": {"cpu": "1"}, "allocated": {"cpu": "500m"},
    }  # fmt: skip
    template = {"spec": {"nodeName": "n2"}}
    body = _of(Kind.KOORDINATOR_RESERVATION, "theirs", spec={"template": template}, status=status)
    return _identified(body)


def _identified(manifest):
    meta = manifest["metadata"]
    meta |= {
        "uid": f"uid-{meta['name']}",
        "resourceVersion": "7",
        "creationTimestamp": TIMES[2],
        "generation": 1,
    }
    return manifest


MANIFESTS = objects()


@cache
def fields_read(kind):
    """(place, type) of each field that the decoder reads of a kind, with the places above it."""
    return tuple(_fields(DECODER._codecs[kind].parse.one.__self__.type, ()))


def _fields(kind, path):
    info = msgspec.inspect.type_info(kind)
    for field in info.fields:
        inner = RAW.get((kind.__name__, field.encode_name))
        yield from _below(
            msgspec.inspect.type_info(inner) if inner else field.type, (*path, field.encode_name)
        )


def _below(info, path):
    yield path, info
    for part in info.types if isinstance(info, msgspec.inspect.UnionType) else (info,):
        match part:
            case msgspec.inspect.StructType():
                yield from _fields(part.cls, path)
            case msgspec.inspect.ListType():
                yield from _below(part.item_type, (*path, 0))
            case msgspec.inspect.DictType():
                yield from _below(part.value_type, (*path, "cpu"))
            case _:
                pass


def value_of(info):
    """A value that the decoder takes for the field in most cases, or what no schema keeps out."""
    kinds = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    names_of = {type(part).__name__ for part in kinds}
    if "IntType" in names_of:
        return st.sampled_from(NUMBERS)
    if "BoolType" in names_of:
        return st.booleans()
    if "ListType" in names_of:
        return st.lists(st.sampled_from(WORDS), max_size=3) | st.just([])
    if "StrType" in names_of:
        return st.sampled_from(WORDS)
    return st.sampled_from(AMOUNTS) | JUNK


@st.composite
def damaged(draw):
    """The cluster with up to eight changes: any value in any field that is read, anything anywhere, or a key of ours."""
    cluster = copy.deepcopy(MANIFESTS)
    for _ in range(draw(st.integers(1, 8))):
        kind, manifest = draw(st.sampled_from(cluster))
        way = draw(st.sampled_from(["read", "read", "place", "key"]))
        if way == "read":
            path, info = draw(st.sampled_from(fields_read(kind)))
            plant(manifest, path, draw(value_of(info) | JUNK))
        elif way == "place":
            put(manifest, draw(st.sampled_from([place for place in places(manifest) if place])), draw(JUNK))
        else:
            part = draw(st.sampled_from(["annotations", "labels"]))
            key = draw(st.sampled_from(KEYS) | st.text(max_size=5))
            plant(manifest, ("metadata", part, key), draw(st.sampled_from(TEXTS) | JUNK))
    return cluster
