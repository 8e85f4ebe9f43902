"""The placeholder's manifest: the weight of the pods that it stands for, and nothing of their identity."""

import json

from rescheduler.model import names
from rescheduler.model.records import HostPort, ObjectKey, OwnerRef, PodSpec, Toleration
from rescheduler.model.reservation import Reservation, ReservationStatus
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSet, NodeSelector, NodeSelectorTerm, Operator, Requirement
from rescheduler.reservations.placeholder import label_value, placeholder_manifest, placeholder_name
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.reservations.template import reservation_manifest
from tests.records import pod_record

RAW = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "x", "operator": "Exists"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        "topologySpreadConstraints": [{"maxSkew": 1}],
        "affinity": {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]},
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                        {"matchExpressions": [{"key": "b", "operator": "Exists"}]},
                    ]
                }
            },
        },
    },
}


def manifest(raw=RAW, annotations=None):
    terms = tuple(NodeSelectorTerm(expressions=(Requirement(key, Operator.EXISTS),)) for key in "ab")
    reservation = Reservation(
        name="r",
        uid="u1",
        template_raw=json.dumps(raw).encode(),
        status=ReservationStatus(),
        annotations=LabelSet(annotations or {}),
        template=PodSpec(
            requests=Resources(cpu_milli=250, memory_bytes=2**20, scalars=(("gpu.io/a", 2),)),
            host_ports=(HostPort("TCP", "", 80),),
            node_affinity=NodeSelector(terms) if "spec" in raw else None,
        ),
    )
    return json.loads(placeholder_manifest(reservation, "n2", ReservationSettings()))


def test_it_is_pinned_in_every_term():
    terms = manifest()["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    pins = [t["matchFields"] for t in terms["nodeSelectorTerms"]]
    assert pins == [[{"key": "metadata.name", "operator": "In", "values": ["n2"]}]] * 2
    bare = manifest({})["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert len(bare["nodeSelectorTerms"]) == 1


def test_it_has_the_weight_and_none_of_the_identity():
    pod = manifest()
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    asked = {"cpu": "250m", "memory": "1Mi", "gpu.io/a": "2", "ephemeral-storage": "0"}
    assert container["resources"]["requests"] == asked
    assert container["resources"]["limits"]["gpu.io/a"] == "2"
    assert container["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert spec["tolerations"] == RAW["spec"]["tolerations"]
    assert "volumes" not in spec
    assert "topologySpreadConstraints" not in spec
    assert set(spec["affinity"]) == {"nodeAffinity"}
    assert "app" not in pod["metadata"]["labels"]


def test_it_can_be_neither_preempted_nor_misused():
    pod = manifest()
    assert pod["spec"]["priorityClassName"] == names.PRIORITY_CLASS
    assert pod["spec"]["preemptionPolicy"] == "Never"
    assert pod["spec"]["terminationGracePeriodSeconds"] == 1
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["metadata"]["annotations"] == {names.SAFE_TO_EVICT: "false", names.DO_NOT_DISRUPT: "true"}
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "u1"


def test_a_soft_one_yields():
    assert (
        manifest(annotations={names.ANNOTATION_MODE: "Soft"})["spec"]["priorityClassName"]
        == names.PRIORITY_CLASS_SOFT
    )


def test_names_are_deterministic_and_legal():
    one = Reservation(name="A.very_long-" * 10, uid="u", status=ReservationStatus())
    assert placeholder_name(one) == placeholder_name(one)
    assert len(placeholder_name(one)) <= 63
    assert len(label_value(one.name)) <= 63
    assert label_value("short") == "short"


def test_the_reservation_of_a_move_joins_the_affinity_of_pod_and_volumes():
    def term(key):
        return NodeSelectorTerm(expressions=(Requirement(key, Operator.EXISTS),))

    pod = pod_record(
        namespace="default",
        name="p",
        uid="u",
        controller=OwnerRef("apps/v1", "ReplicaSet", "web", "rs"),
        spec=PodSpec(
            requests=Resources(cpu_milli=100),
            tolerations=(Toleration("k", "Exists"),),
            node_affinity=NodeSelector((term("a"), term("b"))),
        ),
    )
    body = json.loads(
        reservation_manifest(
            name="r",
            migration=ObjectKey("default", "m"),
            migration_uid="u-m",
            pod=pod,
            template=None,
            volumes=(NodeSelector((term("zone"),)),),
            node="n2",
            ttl_s=90.0,
            soft=False,
        )
    )
    terms = body["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    keys = [
        [e["key"] for e in t["matchExpressions"]]
        for t in terms["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    ]
    assert keys == [["a", "zone"], ["b", "zone"]]
    assert body["spec"]["template"]["spec"]["nodeName"] == "n2"
    assert body["spec"]["owners"][0]["controller"]["uid"] == "rs"
    assert body["metadata"]["annotations"][names.ANNOTATION_MIGRATION] == "default/m"
    assert body["metadata"]["annotations"][names.ANNOTATION_MIGRATION_UID] == "u-m"
    assert body["spec"]["ttl"] == "90s"
