"""Nodes, workloads, budgets, volumes: what the records keep of them, and the defaults of the API server."""

import json

import pytest

from harness.builders import (
    claim,
    daemonset,
    deployment,
    job,
    namespace,
    node,
    object_of,
    pdb,
    pod,
    priority_class,
    replicaset,
    service,
    statefulset,
    storage_class,
    volume,
)
from rescheduler.model.csi_translation import AZURE, GCE, aws_volume, gce_volume, migrated_affinity
from rescheduler.model.kinds import Kind
from rescheduler.model.node_status import Image
from rescheduler.model.records import ObjectKey, Taint
from rescheduler.model.resource_quota import ScopeRequirement
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSet, NodeSelector, NodeSelectorTerm, Operator, Requirement

GIB = 1 << 30


def test_a_node():
    built = (
        node("n1").cpu(8).memory("32Gi").pods(20).allocatable({"example.com/gpu": "2"}).zone("a").image("x:1", 5)
        .taint("t", "v", "NoExecute").set("status.declaredFeatures", ["b", "a"]).annotate({"karpenter.sh/do-not-disrupt": "true"})
    )  # fmt: skip
    record = built.build()
    assert record.allocatable == Resources(
        cpu_milli=8000,
        memory_bytes=32 * GIB,
        ephemeral_bytes=100 * GIB,
        pods=20,
        scalars=(("example.com/gpu", 2),),
    )
    assert record.labels["topology.kubernetes.io/zone"] == "a"
    assert record.taints == (Taint("t", "v", "NoExecute"),)
    assert record.images == (Image(("x:1",), 5),)
    assert record.declared_features == ("a", "b")
    assert (record.ready, record.unschedulable, record.do_not_disrupt) == (True, False, True)
    assert not record.may_be_taken_away
    disabled = node("n1").annotate({"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}).build()
    assert (disabled.scale_down_disabled, disabled.may_be_taken_away) == (True, False)
    assert (
        node("n1")
        .annotate({"cluster-autoscaler.kubernetes.io/scale-down-disabled": "false"})
        .build()
        .may_be_taken_away
    )
    assert not node("n1").not_ready().build().ready
    assert node("n1").cordoned().build().unschedulable


def test_missing_allocatable_is_capacity_and_missing_capacity_nothing():
    capacity = {"cpu": "2", "pods": "10"}
    assert object_of(Kind.NODE, "n", status={"capacity": capacity}).build().allocatable == Resources(
        cpu_milli=2000, pods=10
    )
    assert (
        object_of(Kind.NODE, "n", status={"capacity": capacity, "allocatable": {}}).build().allocatable
        == Resources()
    )
    assert object_of(Kind.NODE, "n").build().allocatable == Resources()


def test_hints_on_a_node_that_are_not_ours_are_no_hints():
    entry = {
        "controllerKind": "ReplicaSet",
        "controllerName": "w",
        "controllerUid": "u",
        "namespace": "s",
        "reason": "r",
    }
    key = "rescheduler.dev/prefer-avoid-pods"
    for ends in ({"until": "1970-01-01T00:00:05Z"}, {"expiresAtS": 5.0}):  # the second: before 0.2.0
        (hint,) = node("n").annotate({key: json.dumps([entry | ends])}).build().avoid
        assert (hint.controller_uid, hint.namespace, hint.expires_at_s) == ("u", "s", 5.0)
    late = json.dumps([entry | {"until": "tomorrow"}])
    for text in ("", "no json", "{}", "[5]", '[{"namespace": "s"}]', late):
        assert node("n").annotate({key: text}).build().avoid == ()


def test_namespace_and_priority_class_and_service():
    assert namespace("shop").build().labels == LabelSet({"kubernetes.io/metadata.name": "shop"})
    found = (
        priority_class("high", 7).set("preemptionPolicy", "Never").set("globalDefault", value=True).build()
    )
    assert (found.value, found.preempts, found.default) == (7, False, True)
    assert service("s", app="web").build().selector == (("app", "web"),)
    assert service("s").build().selector is None


def test_a_deployment():
    record = deployment("web").replicas(3, ready=2).cpu("100m").set("spec.minReadySeconds", 9).build()
    assert (record.kind, record.api_version, record.replicas, record.ready_replicas) == (
        "Deployment", "apps/v1", 3, 2,
    )  # fmt: skip
    assert (record.surge, record.paused, record.rolling_out, record.min_ready_s) == (True, False, False, 9)
    assert record.template.requests.cpu_milli == 100
    assert record.template_labels == LabelSet({"app": "web"})
    assert record.selector.matches(LabelSet({"app": "web"}))
    assert deployment("web").set("spec.replicas", None).build().replicas == 1


@pytest.mark.parametrize(("strategy", "surge"), [
    (None, True),
    ({"type": "Recreate"}, False),
    ({"type": "RollingUpdate"}, True),
    ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}, False),
    ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "0%"}}, False),
    ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "10%"}}, True),
])  # fmt: skip
def test_who_may_surge(strategy, surge):
    assert deployment("web").set("spec.strategy", strategy).build().surge is surge
    assert not statefulset("web").build().surge


@pytest.mark.parametrize(
    ("built", "rolling"),
    [
        (deployment("d").replicas(3).set("status.updatedReplicas", 1), True),
        (deployment("d").replicas(3).set("status.replicas", 4), True),
        (deployment("d").replicas(3).set("metadata.generation", 2), True),
        (deployment("d").replicas(3).set("status", {}), False),
        (statefulset("s").set("status.currentRevision", "a").set("status.updateRevision", "b"), True),
        (statefulset("s").set("status.currentRevision", "a").set("status.updateRevision", "b").set("spec.updateStrategy", {"type": "OnDelete"}), False),
        (daemonset("s").set("status", {"observedGeneration": 1, "desiredNumberScheduled": 3, "updatedNumberScheduled": 2}), True),
        (replicaset("r").replicas(3).set("status.replicas", 1), False),
    ],
)  # fmt: skip
def test_who_is_rolling_out(built, rolling):
    assert built.build().rolling_out is rolling
    assert built.build().changes_pods is rolling


@pytest.mark.parametrize(
    ("spec", "conditions", "changes"),
    [
        ({"paused": True}, [], False),
        ({}, [("Progressing", "False", "ProgressDeadlineExceeded")], False),
        ({}, [("Progressing", "True", "ReplicaSetUpdated"), ("Available", "False", "MinimumReplicasUnavailable")], True),
        ({}, [("Progressing", "False", "ReplicaSetCreateError")], True),
    ],
)  # fmt: skip
def test_a_rollout_that_is_paused_or_late_changes_no_pods(spec, conditions, changes):
    found = [{"type": t, "status": s, "reason": r} for t, s, r in conditions]
    built = deployment("d").replicas(3).set("status.updatedReplicas", 1).set("status.conditions", found)
    for field, value in spec.items():
        built = built.set(f"spec.{field}", value=value)
    record = built.build()
    assert record.rolling_out
    assert record.changes_pods is changes


def test_other_workloads():
    assert daemonset("d").build().replicas == 0
    found = (
        job("j")
        .set("spec.parallelism", 4)
        .set("spec.suspend", value=True)
        .set("status", {"ready": 2})
        .build()
    )
    assert (found.kind, found.api_version, found.replicas, found.ready_replicas, found.paused) == (
        "Job", "batch/v1", 4, 2, True,
    )  # fmt: skip
    old = object_of(Kind.REPLICATION_CONTROLLER, "rc", spec={"selector": {"app": "x"}}).build()
    assert (old.api_version, old.template) == ("v1", None)
    assert old.selector.requirements == (Requirement("app", Operator.IN, ("x",)),)
    owned = (
        replicaset("web-abc")
        .owned_by(deployment("web"))
        .annotate({"deployment.kubernetes.io/revision": "3", "x": "y"})
        .build()
    )
    assert (owned.controller.uid, owned.revision, dict(owned.annotations)) == (
        "deployment-default-web",
        "3",
        {},
    )


def test_a_workload_whose_template_cannot_be_read_is_kept_without_it():
    found = (
        deployment("web")
        .set("spec.template.spec.containers", [{"name": "c", "resources": {"requests": {"cpu": "x"}}}])
        .build()
    )
    assert found.template is None
    assert found.replicas == 1


def test_names_link_what_has_no_uid():
    owner = replicaset("web").uid("")
    assert owner.build().uid == "ReplicaSet/default/web"
    reference = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}]
    assert pod("p").set("metadata.ownerReferences", reference).build().controller.uid == owner.build().uid


def test_a_budget():
    found = (
        pdb("web")
        .allows(2, healthy=5)
        .set("status.disruptedPods", {"b": "2027-01-01T00:00:00Z", "a": None})
        .build()
    )
    assert (found.disruptions_allowed, found.current_healthy, found.desired_healthy) == (2, 5, 3)
    assert (found.observed, found.always_allow_unhealthy, found.disrupted_pods) == (True, False, ("a", "b"))
    assert not pdb("web").set("metadata.generation", 2).build().observed
    assert pdb("web").set("spec.unhealthyPodEvictionPolicy", "AlwaysAllow").build().always_allow_unhealthy
    assert pdb("web").set("spec.selector", {}).build().selector.empty
    assert pdb("web").set("spec.selector", None).build().selector is None


def test_volumes_and_claims():
    affinity = {
        "required": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
        }
    }
    reference = {"namespace": "s", "name": "c", "uid": "u"}
    found = (
        volume("v", "5Gi")
        .set("spec.nodeAffinity", affinity)
        .set("spec.claimRef", reference)
        .set("spec.storageClassName", "fast")
        .build()
    )
    assert (found.capacity_bytes, found.claim, found.claim_uid, found.storage_class) == (
        5 * GIB, ObjectKey("s", "c"), "u", "fast",
    )  # fmt: skip
    assert found.node_affinity.matches(LabelSet({"zone": "a"}), "n")
    assert (found.driver, found.handle, found.volume_mode) == ("csi.example", "v", "Filesystem")
    assert (
        volume("v").annotate({"volume.beta.kubernetes.io/storage-class": "old"}).build().storage_class
        == "old"
    )
    bound = (
        claim("c")
        .bound_to("v")
        .annotate({"volume.kubernetes.io/selected-node": "n"})
        .owner("Pod", "p", "u7")
        .build()
    )
    assert (bound.bound, bound.volume, bound.selected_node, bound.owner_uid) == (True, "v", "n", "u7")
    assert not claim("c").set("spec.volumeName", "v").build().bound
    assert claim("c").build().storage_class is None
    assert claim("c").set("spec.storageClassName", "").build().storage_class == ""


@pytest.mark.parametrize(("labels", "handle"), [
    ({}, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
    ({"topology.kubernetes.io/zone": "us-c1-a"}, "projects/UNSPECIFIED/zones/us-c1-a/disks/d"),
    ({"topology.kubernetes.io/zone": "us-c1-a__us-c1-b"}, "projects/UNSPECIFIED/regions/us-c1/disks/d"),
    ({"topology.kubernetes.io/zone": "us-c1-a__eu-c1-b"}, ""),
])  # fmt: skip
def test_handles_of_migrated_disks(labels, handle):
    assert gce_volume("d", LabelSet(labels)).handle == handle


def test_storage_classes_and_csi_objects():
    topology = [{"matchLabelExpressions": [{"key": "zone", "values": ["b", "a"]}]}]
    found = (
        storage_class("s")
        .set("allowedTopologies", topology)
        .annotate({"storageclass.kubernetes.io/is-default-class": "true"})
        .build()
    )
    assert (found.wait_for_first_consumer, found.default, found.provisioner) == (True, True, "csi.example")
    assert found.allowed_topologies[0].expressions == (Requirement("zone", Operator.IN, ("a", "b")),)
    drivers = [
        {"name": "d", "allocatable": {"count": 5}, "topologyKeys": ["zone"]},
        {"name": "e", "allocatable": None},
    ]
    assert object_of(Kind.CSI_NODE, "n", spec={"drivers": drivers}).build().drivers == (
        ("d", 5, ("zone",)),
        ("e", None, ()),
    )
    driver = object_of(
        Kind.CSI_DRIVER, "d", spec={"storageCapacity": True, "preventPodSchedulingIfMissing": True}
    ).build()
    assert (driver.storage_capacity, driver.prevent_scheduling_if_missing) == (True, True)
    capacity = object_of(
        Kind.CSI_STORAGE_CAPACITY,
        "c",
        nodeTopology={"matchLabels": {"zone": "a"}},
        storageClassName="s",
        capacity="1Gi",
    ).build()
    assert (capacity.storage_class, capacity.capacity_bytes, capacity.maximum_bytes) == ("s", GIB, None)
    assert capacity.topology.matches(LabelSet({"zone": "a"}))


def test_csi_nodes_say_which_plugins_are_migrated():
    annotation = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd,kubernetes.io/cinder"}
    found = object_of(Kind.CSI_NODE, "n", spec={"drivers": []}).annotate(annotation).build()
    assert found.migrated_plugins == ("kubernetes.io/gce-pd", "kubernetes.io/cinder")
    assert object_of(Kind.CSI_NODE, "n", spec={"drivers": []}).build().migrated_plugins == ()


def test_attachments_and_device_classes():
    spec = {"attacher": "one.csi", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    found = object_of(Kind.VOLUME_ATTACHMENT, "a", spec=spec).build()
    assert (found.name, found.node, found.attacher, found.volume) == ("a", "n", "one.csi", "v")
    inline = object_of(Kind.VOLUME_ATTACHMENT, "a", spec={"source": {"inlineVolumeSpec": {}}}).build()
    assert (inline.node, inline.volume) == ("", "")
    gpus = object_of(Kind.DEVICE_CLASS, "gpus", spec={"extendedResourceName": "x/gpu"}).build()
    assert (gpus.name, gpus.extended_resource) == ("gpus", "x/gpu")
    assert object_of(Kind.DEVICE_CLASS, "gpus", spec={}).build().extended_resource == ""


@pytest.mark.parametrize(("volume_id", "handle", "translates"), [
    ("vol-1", "vol-1", True),
    ("aws://z1/vol-1", "vol-1", True),
    ("aws://z1/vol-1/", "vol-1", True),
    ("anything", "anything", True),
    ("aws://z1/disk-1", "", False),
    ("aws://z1/vol-1/2", "", False),
    ("aws://[", "", False),
])  # fmt: skip
def test_handles_of_migrated_aws_disks(volume_id, handle, translates):
    found = aws_volume(volume_id)
    assert (found.handle, bool(found.driver), not found.error) == (handle, translates, translates)


REGION = "failure-domain.beta.kubernetes.io/region"
BETA = "failure-domain.beta.kubernetes.io/zone"
ZONE = "topology.kubernetes.io/zone"
GKE = "topology.gke.io/zone"


def among(*requirements):
    """A node selector of one term; requirements as (key, values)."""
    expressions = tuple(Requirement(key, Operator.IN, values) for key, values in requirements)
    return NodeSelector((NodeSelectorTerm(expressions),))


@pytest.mark.parametrize(
    ("plugin", "affinity", "labels", "expected"),
    [
        (GCE, None, {}, None),
        (GCE, None, {ZONE: "z1__ z2__"}, among((GKE, ("z1", "z2")))),
        (GCE, None, {ZONE: "__"}, None),
        (GCE, None, {BETA: "z1"}, among((GKE, ("z1",)))),
        (GCE, among((ZONE, ("z1",))), {ZONE: "z2"}, among((GKE, ("z1",)))),
        (GCE, among(("host", ("a",))), {ZONE: "z2"}, among(("host", ("a",)), (GKE, ("z2",)))),
        (GCE, among((BETA, ("z1",)), (REGION, ("r",))), {}, among((GKE, ("z1",)), ("topology.kubernetes.io/region", ("r",)))),
        (AZURE, among((ZONE, ("z1",))), {ZONE: "z2"}, among((ZONE, ("z1",)))),
    ],
)  # fmt: skip
def test_migrated_volumes_are_placed_by_the_topology_of_their_driver(plugin, affinity, labels, expected):
    assert migrated_affinity(plugin, affinity, LabelSet(labels)) == expected


def quota(hard, used=None, **spec):
    manifest = object_of(
        Kind.RESOURCE_QUOTA, "own", "shop", spec={"hard": hard, **spec}, status={"used": used}
    )
    return manifest.build()


def test_a_resource_quota_limits_requests_and_pods():
    hard = {"requests.cpu": "4", "memory": "1Gi", "count/pods": "9", "requests.example.com/gpu": "2"}
    hard |= {"limits.cpu": "8", "services": "3", "count/secrets": "3", "requests.storage": "1Ti"}
    built = quota(hard, {"requests.cpu": "1500m", "count/pods": 3})
    assert (built.key, built.limits) == (
        ("shop", "own"),
        (("pods", 9, 3), ("memory", 1 << 30, 0), ("cpu", 4000, 1500), ("example.com/gpu", 2, 0)),
    )


def test_the_scopes_of_a_quota_are_requirements_on_pods():
    hard = {"cpu": "4"}
    built = quota(hard, scopes=["NotTerminating", "NotBestEffort"])
    assert built.limits == (("cpu", 4000, 0),)
    assert built.scopes == tuple(map(ScopeRequirement, ("NotTerminating", "NotBestEffort")))
    chosen = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    assert quota(hard, scopeSelector=chosen).scopes == (ScopeRequirement("PriorityClass", "In", ("high",)),)
    assert quota(None).limits == ()
