"""Compact records of the Kubernetes objects that decisions rest on.

A record holds what a decision needs and nothing else; whatever many pods share (spec, labels,
owner) is one interned object. Records are immutable: an update is a new record. Times are seconds
since the epoch; a missing time is 0.0. A missing name is "".
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import msgspec

from rescheduler.model.resources import NO_RESOURCES, Resources
from rescheduler.model.selectors import NO_LABELS, LabelSelector, LabelSet, NodeSelector, NodeSelectorTerm


class ObjectKey(NamedTuple):
    """Namespace and name of a namespaced object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class PodPhase(enum.StrEnum):
    """status.phase of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class TaintEffect(enum.StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Taint(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A taint of a node."""

    key: str
    value: str = ""
    effect: str = TaintEffect.NO_SCHEDULE


class Toleration(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A toleration of a pod. ``operator``: Equal (default), Exists, Gt, Lt."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None


class HostPort(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A port that a pod takes on its node. An empty hostIP is 0.0.0.0."""

    protocol: str
    ip: str
    port: int


class PreferredNodeTerm(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A weighted node selector term."""

    weight: int
    term: NodeSelectorTerm


class PodAffinityTerm(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A term of pod (anti-)affinity. ``selector`` None matches no pod.

    ``namespaces`` and ``namespace_selector`` both absent mean the pod's own namespace.
    """

    selector: LabelSelector | None
    topology_key: str
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class WeightedPodAffinityTerm(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A preferred term of pod (anti-)affinity."""

    weight: int
    term: PodAffinityTerm


class SpreadConstraint(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """One topology spread constraint. ``hard``: DoNotSchedule."""

    max_skew: int
    topology_key: str
    hard: bool
    selector: LabelSelector | None
    min_domains: int = 1
    node_affinity_honor: bool = True
    node_taints_honor: bool = False
    match_label_keys: tuple[str, ...] = ()


class VolumeKind(enum.StrEnum):
    """The kinds of pod volumes that scheduling or protections look at."""

    CLAIM = "persistentVolumeClaim"
    EPHEMERAL = "ephemeral"
    EMPTY_DIR = "emptyDir"
    HOST_PATH = "hostPath"
    INLINE_CSI = "csi"
    GCE = "gcePersistentDisk"
    AWS = "awsElasticBlockStore"
    ISCSI = "iscsi"
    RBD = "rbd"
    AZURE_DISK = "azureDisk"
    CINDER = "cinder"
    PORTWORX = "portworxVolume"


class PodVolume(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A volume of a pod.

    ``source``: claim name for CLAIM, volume name for EPHEMERAL (the claim is POD-NAME-source), driver for
    INLINE_CSI, the identity that conflicts are judged by for the old in-tree kinds ("disk", "volume id",
    "iqn", "monitors|pool|image"; monitors are joined by commas). ``driver`` and ``handle``: the CSI
    identity of an old in-tree kind, by which attach limits count it; "" where there is none.
    ``untranslatable``: why an old in-tree kind that should have a CSI identity has none.
    """

    kind: VolumeKind
    source: str = ""
    read_only: bool = False
    driver: str = ""
    handle: str = ""
    untranslatable: str = ""


class PodSpec(msgspec.Struct, frozen=True, gc=False, cache_hash=True, kw_only=True):
    """What scheduling reads of a pod's spec; shared by all pods with the same content.

    ``requests`` is the effective request of an incoming pod: containers, sidecars, init containers,
    pod-level resources, overhead (row M35 ff.). ``score_cpu_milli``/``score_memory_bytes``: the same with
    kube-scheduler's defaults (100m, 200 MiB) for containers that request nothing, which scores use.
    ``fit_score``: what NodeResourcesFit's own score counts for the incoming pod where it differs, that is
    with pod-level resources, which that score leaves out; None: ``requests`` with the two defaults.
    """

    requests: Resources = NO_RESOURCES
    score_cpu_milli: int = 0
    score_memory_bytes: int = 0
    fit_score: Resources | None = None
    priority: int = 0
    preempts: bool = True
    scheduler_name: str = "default-scheduler"
    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: NodeSelector | None = None
    node_affinity_preferred: tuple[PreferredNodeTerm, ...] = ()
    pod_affinity: tuple[PodAffinityTerm, ...] = ()
    pod_affinity_preferred: tuple[WeightedPodAffinityTerm, ...] = ()
    pod_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    pod_anti_affinity_preferred: tuple[WeightedPodAffinityTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    volumes: tuple[PodVolume, ...] = ()
    images: tuple[str, ...] = ()
    image_containers: int = 0
    gates: tuple[str, ...] = ()
    required_features: tuple[str, ...] = ()
    resource_claims: bool = False
    scheduling_group: str = ""
    host_network: bool = False
    termination_grace_s: int = 30


class OwnerRef(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """The controlling owner of an object."""

    api_version: str
    kind: str
    name: str
    uid: str


class Pod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod. ``held``: what it occupies on its node, which differs from the request while it is resized.

    ``held_score_cpu_milli`` and ``held_score_memory_bytes``: the same with the defaults that scores use.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str = ""
    node: str = ""
    nominated_node: str = ""
    spec: PodSpec
    labels: LabelSet = NO_LABELS
    annotations: LabelSet = NO_LABELS
    controller: OwnerRef | None = None
    held: Resources = NO_RESOURCES
    held_score_cpu_milli: int = 0
    held_score_memory_bytes: int = 0
    phase: PodPhase = PodPhase.PENDING
    ready: bool = False
    ready_since_s: float = 0.0
    deleting: bool = False
    created_at_s: float = 0.0
    started_at_s: float = 0.0
    unschedulable_message: str = ""
    disruption_reason: str = ""
    """Reason of the DisruptionTarget condition while it is True, for example EvictionByEvictionAPI."""

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.namespace, self.name)

    @property
    def terminal(self) -> bool:
        """Succeeded or Failed: it holds nothing any more."""
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)


class AvoidEntry(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One PreferAvoidPods hint on a node (rows R53-R58): pods of this controller should avoid it until then."""

    controller_kind: str
    controller_name: str
    controller_uid: str
    namespace: str
    reason: str
    expires_at_s: float


class Image(msgspec.Struct, frozen=True, gc=False):
    """A container image on a node, with all its names."""

    names: tuple[str, ...]
    size_bytes: int


class Node(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A node. ``allocatable`` is all zero where the node does not say."""

    name: str
    uid: str = ""
    resource_version: str = ""
    labels: LabelSet = NO_LABELS
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    allocatable: Resources = NO_RESOURCES
    images: tuple[Image, ...] = ()
    declared_features: tuple[str, ...] = ()
    avoid: tuple[AvoidEntry, ...] = ()
    do_not_disrupt: bool = False
    deleting: bool = False
    created_at_s: float = 0.0


class Namespace(msgspec.Struct, frozen=True, gc=False):
    """A namespace and its labels."""

    name: str
    labels: LabelSet = NO_LABELS
    deleting: bool = False


class Workload(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A controller of pods: ReplicaSet, ReplicationController, Deployment, StatefulSet, DaemonSet or Job.

    ``replicas``: desired (0 for DaemonSets). ``template``: the pods it would create now; None if unreadable.
    ``surge``: a Deployment that may run more pods than its replicas for a while.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str = "apps/v1"
    resource_version: str = ""
    controller: OwnerRef | None = None
    selector: LabelSelector | None = None
    replicas: int = 0
    ready_replicas: int = 0
    template: PodSpec | None = None
    template_labels: LabelSet = NO_LABELS
    annotations: LabelSet = NO_LABELS
    surge: bool = False
    paused: bool = False
    rolling_out: bool = False
    deleting: bool = False
    min_ready_s: int = 0
    revision: str = ""
    created_at_s: float = 0.0

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.namespace, self.name)


class DisruptionBudget(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A PodDisruptionBudget. ``observed``: its status is of its current generation."""

    namespace: str
    name: str
    uid: str = ""
    selector: LabelSelector | None = None
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed: bool = True
    always_allow_unhealthy: bool = False
    disrupted_pods: tuple[str, ...] = ()

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.namespace, self.name)


class PersistentVolume(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A PV. ``driver`` and ``handle``: of CSI volumes, and of in-tree ones that have a CSI identity.

    ``in_tree``: name of the in-tree plugin whose volumes are CSI volumes today, "" for all others. Where a
    node has that plugin migrated, ``migrated_affinity`` counts instead of ``node_affinity``, and a volume
    that is ``untranslatable`` (why) cannot be judged.
    """

    name: str
    labels: LabelSet = NO_LABELS
    node_affinity: NodeSelector | None = None
    claim: ObjectKey | None = None
    claim_uid: str = ""
    storage_class: str = ""
    capacity_bytes: int = 0
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    attributes_class: str = ""
    phase: str = ""
    driver: str = ""
    handle: str = ""
    deleting: bool = False
    in_tree: str = ""
    migrated_affinity: NodeSelector | None = None
    untranslatable: str = ""


class PersistentVolumeClaim(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A PVC. ``storage_class`` None: not given."""

    namespace: str
    name: str
    uid: str = ""
    volume: str = ""
    bound: bool = False
    storage_class: str | None = None
    access_modes: tuple[str, ...] = ()
    request_bytes: int = 0
    selector: LabelSelector | None = None
    volume_mode: str = "Filesystem"
    attributes_class: str = ""
    selected_node: str = ""
    phase: str = ""
    deleting: bool = False
    owner_uid: str = ""

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.namespace, self.name)


class StorageClass(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A StorageClass. ``allowed_topologies``: ORed terms of ``In`` requirements."""

    name: str
    provisioner: str = ""
    wait_for_first_consumer: bool = False
    allowed_topologies: tuple[NodeSelectorTerm, ...] = ()
    default: bool = False


class CSINode(msgspec.Struct, frozen=True, gc=False):
    """Drivers of a node: (driver, allocatable count or None, topology keys), and its migrated plugins."""

    name: str
    drivers: tuple[tuple[str, int | None, tuple[str, ...]], ...] = ()
    migrated_plugins: tuple[str, ...] = ()


class CSIDriver(msgspec.Struct, frozen=True, gc=False):
    """Flags of a CSIDriver that scheduling reads."""

    name: str
    storage_capacity: bool = False
    prevent_scheduling_if_missing: bool = False


class CSIStorageCapacity(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Free storage of a class in a topology segment. ``capacity_bytes``/``maximum_bytes`` None: not said."""

    namespace: str
    name: str
    storage_class: str
    topology: LabelSelector | None = None
    capacity_bytes: int | None = None
    maximum_bytes: int | None = None

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.namespace, self.name)


class VolumeAttachment(msgspec.Struct, frozen=True, gc=False):
    """A volume that is, or is being, attached to a node. ``volume`` "": an inline one, without a PV."""

    name: str
    node: str
    attacher: str
    volume: str = ""


class DeviceClass(msgspec.Struct, frozen=True, gc=False):
    """A class of devices, and the extended resource that it stands behind ("": none by name)."""

    name: str
    extended_resource: str = ""


class PriorityClass(msgspec.Struct, frozen=True, gc=False):
    """A PriorityClass."""

    name: str
    value: int
    preempts: bool = True
    default: bool = False


class Service(msgspec.Struct, frozen=True, gc=False):
    """A Service's selector; default spread constraints take it (None: no selector)."""

    namespace: str
    name: str
    selector: tuple[tuple[str, str], ...] | None = None

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.namespace, self.name)


class NodeUsage(msgspec.Struct, frozen=True, gc=False):
    """Measured usage of a node (metrics.k8s.io)."""

    node: str
    cpu_milli: int
    memory_bytes: int
    measured_at_s: float = 0.0
