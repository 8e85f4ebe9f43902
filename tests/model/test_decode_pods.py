"""A pod's requests, what it holds, and all that scheduling reads of its spec."""

import msgspec
import pytest

from harness.builders import deployment, pod, replicaset
from rescheduler.model.decode import Decoder, UndecodableError
from rescheduler.model.kinds import Kind
from rescheduler.model.pod_volumes import PodVolume, VolumeKind
from rescheduler.model.records import HostPort, PodPhase, Toleration
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSet, Operator, Requirement

MIB = 1024 * 1024
ANY = "0.0.0.0"  # noqa: S104 - what an empty hostIP means; nothing is bound


def container(name="c", *, limits=None, restart=None, **requests):
    found = {
        "name": name,
        "resources": {"requests": {key.replace("_", "-"): value for key, value in requests.items()}},
    }
    if limits:
        found["resources"]["limits"] = limits
    if restart:
        found["restartPolicy"] = restart
    return found


def spec_of(containers, **fields):
    built = pod("p").set("spec.containers", containers)
    for name, value in fields.items():
        built = built.set(f"spec.{name}", value)
    return built.build().spec


def cpu(containers, **fields):
    return spec_of(containers, **fields).requests.cpu_milli


def test_containers_are_summed_exactly_and_rounded_once():
    assert cpu([container(cpu="500m"), container(cpu="0.5")]) == 1000
    assert cpu([container(cpu="0.5m"), container(cpu="0.5m")]) == 1
    assert (
        spec_of([container(memory="0.5"), container(memory="1.5Gi")]).requests.memory_bytes == 1536 * MIB + 1
    )


def test_init_containers_and_sidecars_follow_their_order():
    main = [container(cpu="200m")]
    assert cpu(main, initContainers=[container(cpu="1")]) == 1000
    assert cpu(main, initContainers=[container(cpu="100m", restart="Always")]) == 300
    sidecar, init = container(cpu="500m", restart="Always"), container(cpu="800m")
    assert cpu(main, initContainers=[sidecar, init]) == 1300
    assert cpu(main, initContainers=[init, sidecar]) == 800
    assert cpu(main, initContainers=[init, sidecar, container("s2", cpu="300m", restart="Always")]) == 1000


def test_overhead_comes_on_top_and_pod_level_resources_replace():
    main = [container(cpu="200m", memory="64Mi", ephemeral_storage="1Gi")]
    assert cpu(main, overhead={"cpu": "50m"}) == 250
    level = spec_of(main, resources={"requests": {"cpu": "2"}}, overhead={"cpu": "50m"}).requests
    assert level == Resources(cpu_milli=2050, memory_bytes=64 * MIB, ephemeral_bytes=1024 * MIB)
    limited = spec_of([container()], resources={"limits": {"cpu": "2", "memory": "1Gi"}}).requests
    assert limited == Resources(cpu_milli=2000, memory_bytes=1024 * MIB)
    assert spec_of(main, resources={"limits": {"cpu": "2"}}).requests.cpu_milli == 200


def test_missing_requests_are_the_limits():
    assert cpu([container(limits={"cpu": "300m"})]) == 300
    assert cpu([container(limits={"cpu": "300m"}, cpu="100m")]) == 100
    assert (
        deployment("d")
        .set("spec.template.spec.containers", [container(limits={"cpu": "300m"})])
        .build()
        .template.requests.cpu_milli
        == 300
    )


def test_names_that_the_scheduler_counts():
    names = {
        "cpu": "1", "memory": "1", "ephemeral-storage": "1", "example.com/gpu": "2", "hugepages-2Mi": "4Mi",
        "attachable-volumes-x": "3", "scheduling.kubernetes.io/foo": "5", "requests.example.com/x": "9", "unprefixed": "9",
        "storage": "9",
    }  # fmt: skip
    found = spec_of([{"name": "c", "resources": {"requests": names}}]).requests
    assert found.scalars == (
        ("attachable-volumes-x", 3),
        ("example.com/gpu", 2),
        ("hugepages-2Mi", 4 * MIB),
        ("scheduling.kubernetes.io/foo", 5),
    )


def test_scores_take_defaults_per_container_that_asks_for_nothing():
    two = spec_of([container(), container(cpu="0", memory="0")])
    assert (two.requests, two.score_cpu_milli, two.score_memory_bytes) == (Resources(), 100, 200 * MIB)
    level = spec_of([container(), container()], resources={"requests": {"cpu": "1"}})
    assert (level.score_cpu_milli, level.score_memory_bytes) == (1000, 400 * MIB)


def resizing(spec, status=None, allocated=None, *, infeasible=False, **pod_level):
    reported = {"name": "c"}
    if status is not None:
        reported["resources"] = {"requests": {"cpu": status}}
    if allocated is not None:
        reported["allocatedResources"] = {"cpu": allocated}
    built = (
        pod("p")
        .on("n")
        .set("spec.containers", [container(cpu=spec)])
        .set("status.containerStatuses", [reported])
    )
    for field, value in pod_level.items():
        built = built.set(f"status.{field}", value)
    if infeasible:
        built = built.condition("PodResizePending", "True", "Infeasible")
    return built.build()


@pytest.mark.parametrize(("reported", "held"), [
    ({}, 500),
    ({"status": "800m", "allocated": "500m"}, 800),
    ({"status": "200m", "allocated": "200m"}, 500),
    ({"allocated": "900m"}, 900),
    ({"status": "200m", "allocated": "300m", "infeasible": True}, 300),
    ({"infeasible": True}, 0),
])  # fmt: skip
def test_a_pod_on_a_node_holds_the_most_of_spec_allocated_and_actual(reported, held):
    record = resizing("500m", **reported)
    assert record.held.cpu_milli == held
    assert record.spec.requests.cpu_milli == 500


def test_the_maximum_is_that_of_three_sums_not_the_sum_of_maxima():
    statuses = [
        {"name": "a", "resources": {"requests": {"cpu": "100m"}}, "allocatedResources": {"cpu": "100m"}},
        {"name": "b", "resources": {"requests": {"cpu": "900m"}}, "allocatedResources": {"cpu": "900m"}},
    ]
    record = (
        pod("p").on("n").set("spec.containers", [container("a", cpu="700m"), container("b", cpu="200m")])
        .set("status.containerStatuses", statuses).build()
    )  # fmt: skip
    assert record.held.cpu_milli == 1000


def test_pod_level_status_replaces_that_of_containers_when_both_parts_are_set():
    level = {"resources": {"requests": {"cpu": "700m"}}, "allocatedResources": {"cpu": "600m"}}
    assert resizing("500m", status="2", allocated="2", **level).held.cpu_milli == 700
    assert resizing("500m", status="2", allocated="2", resources=level["resources"]).held.cpu_milli == 2000


def test_what_is_held_for_scores_has_the_defaults_too():
    record = pod("p").on("n").build()
    assert (record.held_score_cpu_milli, record.held_score_memory_bytes) == (100, 200 * MIB)


def test_host_ports_of_containers_and_sidecars():
    ports = [
        {"containerPort": 80, "hostPort": 8080},
        {"containerPort": 81},
        {"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"},
    ]
    sidecar = {"name": "s", "restartPolicy": "Always", "ports": [{"containerPort": 1, "hostPort": 1}]}
    init = {"name": "i", "ports": [{"containerPort": 2, "hostPort": 2}]}
    found = spec_of([{"name": "c", "ports": ports}], initContainers=[sidecar, init])
    assert found.host_ports == (
        HostPort("TCP", ANY, 1),
        HostPort("TCP", ANY, 8080),
        HostPort("UDP", "10.0.0.1", 53),
    )
    assert spec_of([{"name": "c", "ports": [{"containerPort": 81}]}], hostNetwork=True).host_ports == (
        HostPort("TCP", ANY, 81),
    )


def test_affinity_tolerations_and_spread():
    built = (
        pod("p").requires_node("disk", "ssd", "nvme").requires_node("zone", operator="Exists").prefers_node("cpu", "9", operator="Gt", weight=7)
        .near("zone", app="db").apart("kubernetes.io/hostname", weight=3, app="web").tolerate("a", "b", "NoSchedule").tolerate()
        .spread("zone", 2, hard=False, app="web").node_selector({"os": "linux"})
    )  # fmt: skip
    spec = built.build().spec
    first, second = spec.node_affinity.terms
    assert first.expressions == (Requirement("disk", Operator.IN, ("nvme", "ssd")),)
    assert second.expressions == (Requirement("zone", Operator.EXISTS),)
    assert [(t.weight, t.term.expressions[0].operator) for t in spec.node_affinity_preferred] == [
        (7, Operator.GT)
    ]
    assert spec.pod_affinity[0].selector.matches(LabelSet({"app": "db"}))
    assert [(t.weight, t.term.topology_key) for t in spec.pod_anti_affinity_preferred] == [
        (3, "kubernetes.io/hostname")
    ]
    assert spec.tolerations == (Toleration("a", "Equal", "b", "NoSchedule"), Toleration("", "Exists"))
    (spread,) = spec.spread
    assert (
        spread.max_skew, spread.hard, spread.min_domains, spread.node_affinity_honor,
        spread.node_taints_honor,
    )== (2, False, 1, True, False)  # fmt: skip
    assert spec.node_selector == (("os", "linux"),)


def test_match_label_keys_of_a_template_are_merged_as_its_pods_will_have_them():
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["pod-template-hash", "none"],
        "mismatchLabelKeys": ["tenant"],
    }
    path = "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    owner = (
        replicaset("web")
        .template_label({"pod-template-hash": "h1", "tenant": "t1"})
        .set(f"spec.template.spec.{path}", [term])
    )
    (merged,) = owner.build().template.pod_anti_affinity
    assert merged.selector.matches(LabelSet({"app": "web", "pod-template-hash": "h1", "tenant": "t2"}))
    assert not merged.selector.matches(LabelSet({"app": "web", "pod-template-hash": "h2", "tenant": "t2"}))
    assert not merged.selector.matches(LabelSet({"app": "web", "pod-template-hash": "h1", "tenant": "t1"}))
    (stored,) = owner.pod("web-1").build().spec.pod_anti_affinity
    assert stored.selector.matches(LabelSet({"app": "web", "pod-template-hash": "h2"}))


@pytest.mark.parametrize(("expression", "says"), [
    ({"key": "a", "operator": "Near", "values": ["b"]}, "Near"),
    ({"key": "a", "operator": "In"}, "can't be empty"),
    ({"key": "a", "operator": "Exists", "values": ["b"]}, "must be empty"),
    ({"key": "a", "operator": "Gt", "values": ["1"]}, "Gt"),
    ({"operator": "Exists"}, 'key: Invalid value: "": name part must be non-empty'),
    ({"key": "a/b/c", "operator": "Exists"}, "with an optional DNS subdomain prefix"),
    ({"key": "A.b/c", "operator": "Exists"}, "prefix part a lowercase RFC 1123 subdomain"),
    ({"key": "x" * 64, "operator": "Exists"}, "name part must be no more than 63 bytes"),
    ({"key": "a", "operator": "In", "values": ["b", "x" * 64]}, "must be no more than 63 bytes"),
    ({"key": "a", "operator": "NotIn", "values": ["{bad}"]}, 'values[0][a]: Invalid value: "{bad}": a valid label'),
])  # fmt: skip
def test_a_malformed_selector_matches_nothing_and_says_why(expression, says):
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [expression]}}
    path = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    (found,) = pod("p").set(path, [term]).build().spec.pod_affinity
    assert says in found.selector.invalid
    assert not found.selector.matches(LabelSet({"a": "b"}))


@pytest.mark.parametrize("values", [["x"], ["1", "2"], []])
def test_gt_and_lt_of_node_terms_want_one_integer(values):
    (term,) = pod("p").requires_node("a", *values, operator="Lt").build().spec.node_affinity.terms
    assert term.invalid
    assert not term.matches(LabelSet({"a": "0"}), "n")


VOLUMES = [
    ({"persistentVolumeClaim": {"claimName": "data", "readOnly": True}}, PodVolume(VolumeKind.CLAIM, "data", read_only=True)),
    ({"ephemeral": {"volumeClaimTemplate": {}}}, PodVolume(VolumeKind.EPHEMERAL, "v")),
    ({"emptyDir": {}}, PodVolume(VolumeKind.EMPTY_DIR, "v")),
    ({"hostPath": {"path": "/x"}}, PodVolume(VolumeKind.HOST_PATH, "v")),
    ({"csi": {"driver": "d"}}, PodVolume(VolumeKind.INLINE_CSI, "d")),
    ({"gcePersistentDisk": {"pdName": "g"}}, PodVolume(VolumeKind.GCE, "g", driver="pd.csi.storage.gke.io", handle="projects/UNSPECIFIED/zones/UNSPECIFIED/disks/g")),
    ({"awsElasticBlockStore": {"volumeID": "aws://z1/vol-1"}}, PodVolume(VolumeKind.AWS, "aws://z1/vol-1", driver="ebs.csi.aws.com", handle="vol-1")),
    ({"iscsi": {"iqn": "q", "readOnly": True}}, PodVolume(VolumeKind.ISCSI, "q", read_only=True)),
    ({"rbd": {"monitors": ["a", "b"], "image": "i"}}, PodVolume(VolumeKind.RBD, "a,b|rbd|i")),
    ({"cinder": {"volumeID": "c"}}, PodVolume(VolumeKind.CINDER, "c", driver="cinder.csi.openstack.org", handle="c")),
]  # fmt: skip


@pytest.mark.parametrize(("source", "volume"), VOLUMES)
def test_volumes(source, volume):
    found = (
        pod("p").volume({"name": "t", "projected": {}}).volume({"name": "v", **source}).build().spec.volumes
    )
    assert found == (volume,)


def test_ephemeral_volumes_of_different_names_are_different_specs():
    decoder = Decoder()
    one, two = (
        decoder.record(
            Kind.POD, msgspec.json.encode(pod("p").volume({"name": name, "ephemeral": {}}).manifest())
        )
        for name in ("a", "b")
    )
    assert [v.source for v in (*one.spec.volumes, *two.spec.volumes)] == ["a", "b"]


def test_features_that_nodes_must_declare():
    rules = [{"action": "RestartAllContainers", "exitCodes": {}}]
    mount = {"name": "m", "mountPath": "/m", "bindMountOptions": ["noexec"]}
    assert spec_of([{"name": "c", "restartPolicyRules": rules}]).required_features == (
        "RestartAllContainersOnContainerExits",
    )
    assert spec_of([container()], hostNetwork=True, hostUsers=False).required_features == (
        "UserNamespacesHostNetworkSupport",
    )
    assert spec_of(
        [container()], ephemeralContainers=[{"name": "e", "volumeMounts": [mount]}]
    ).required_features == ("VolumeBindMountOptions",)
    assert spec_of([container()], hostNetwork=True, hostUsers=True).required_features == ()


def test_images_gates_claims_groups_and_priorities():
    found = spec_of(
        [{"name": "c", "image": "b"}], initContainers=[{"name": "i", "image": "a"}],
        volumes=[{"name": "v", "image": {"reference": "c"}}], schedulingGates=[{"name": "g"}],
        resourceClaims=[{"name": "gpu"}], schedulingGroup={"podGroupName": "gang"}, priority=7,
        preemptionPolicy="Never", terminationGracePeriodSeconds=5, schedulerName="other",
    )  # fmt: skip
    assert (found.images, found.image_containers, found.gates) == (("a", "b", "c"), 3, ("g",))
    assert (found.resource_claims, found.scheduling_group) == (True, "gang")
    assert (found.priority, found.preempts, found.termination_grace_s, found.scheduler_name) == (
        7, False, 5, "other",
    )  # fmt: skip


def test_a_group_as_kubernetes_1_35_names_it():
    gang = spec_of([container()], workloadRef={"name": "training", "podGroup": "workers"})
    assert gang.scheduling_group == "workers"


def test_status_annotations_and_owner():
    built = (
        pod("p").on("n").nominated("m").deleting().label(a="b").owner("ReplicaSet", "rs", "u9")
        .annotate({"rescheduler.dev/evict": "false", "other.example/x": "y"})
        .condition("DisruptionTarget", "True", "EvictionByEvictionAPI")
    )  # fmt: skip
    record = built.build()
    assert (record.node, record.nominated_node, record.deleting, record.ready) == ("n", "m", True, True)
    assert dict(record.annotations) == {"rescheduler.dev/evict": "false"}
    assert (record.controller.kind, record.controller.uid) == ("ReplicaSet", "u9")
    assert record.disruption_reason == "EvictionByEvictionAPI"
    assert record.created_at_s == record.started_at_s == record.ready_since_s == 1798761600.0
    pending = pod("p").unschedulable("0/3 nodes").build()
    assert (pending.phase, pending.unschedulable_message, pending.ready_since_s) == (
        PodPhase.PENDING,
        "0/3 nodes",
        0.0,
    )
    assert pod("p").phase("Odd").build().phase is PodPhase.UNKNOWN
    assert not pod("p").on("n").not_ready().build().ready


def test_an_owner_that_is_no_controller_is_none():
    reference = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    assert pod("p").set("metadata.ownerReferences", [reference]).build().controller is None


def test_times_of_other_zones():
    assert pod("p").created("2027-01-01T05:30:00+05:30").build().created_at_s == 1798761600.0
    with pytest.raises(UndecodableError, match="default/p"):
        pod("p").created("2027-01-01T00:00:00").build()


@pytest.mark.parametrize(("reason", "message", "ran", "known"), [
    ("OutOfnvidia.com/gpu", "", False, True),
    ("UnexpectedAdmissionError", "Allocate failed", False, True),
    ("Plugin", "Pod was rejected: no device", False, True),
    ("Evicted", "The node was low on resource: memory", False, False),
    ("OutOfcpu", "", True, False),
])  # fmt: skip
def test_a_pod_that_the_kubelet_did_not_take_says_why(reason, message, ran, known):
    built = pod("p").on("n").phase("Failed").set("status.reason", reason).set("status.message", message)
    if ran:
        built = built.set("status.containerStatuses", [{"name": "c", "restartCount": 0}])
    assert built.build().not_taken == (reason if known else "")
    assert built.phase("Running").build().not_taken == ""
