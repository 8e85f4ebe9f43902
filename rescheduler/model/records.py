"""Compact records of the Kubernetes objects that decisions read.

A record has the fields that a decision reads and no others; parts that many pods share (spec, labels,
owner) are one interned object. Records are immutable: an update is a new record. Times are seconds
since the epoch; a missing time is 0.0. A missing name is an empty string.
"""

from __future__ import annotations

import enum
from operator import attrgetter
from typing import Annotated, Any, Final, NamedTuple, TypeVar, cast

import msgspec
from msgspec import field

from rescheduler.model.forms import Keys, Says
from rescheduler.model.job_state import JobState
from rescheduler.model.kept_empty import Hold, KeptEmpty
from rescheduler.model.names import LEAVING_TAINTS, UNREACHABLE_TAINT
from rescheduler.model.node_status import AvoidEntry, Image, NodeCondition
from rescheduler.model.pod_volumes import PodVolume
from rescheduler.model.resources import NO_RESOURCES, Resources
from rescheduler.model.selectors import (
    NO_LABELS,
    LabelSelector,
    LabelSet,
    NodeSelector,
    NodeSelectorTerm,
    Pairs,
)

T = TypeVar("T")


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


_TERMINAL: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)


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

    def tolerates(self, taint: Taint) -> bool:
        """As ``Toleration.ToleratesTaint`` of k8s.io/component-helpers; a toleration for a limited time counts too."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        # Gt and Lt are behind an alpha gate that is off in 1.37: such a toleration tolerates nothing.
        return self.operator == "Exists" or (self.operator in ("", "Equal") and self.value == taint.value)


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
    """A term of pod (anti-)affinity."""

    selector: LabelSelector | None
    """None matches no pod."""
    topology_key: str
    namespaces: tuple[str, ...] = ()
    """Without namespaces and ``namespace_selector`` the term is about the pod's own namespace."""
    namespace_selector: LabelSelector | None = None


class WeightedPodAffinityTerm(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A preferred term of pod (anti-)affinity."""

    weight: int
    term: PodAffinityTerm


class SpreadConstraint(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """One topology spread constraint."""

    max_skew: int
    topology_key: str
    hard: bool
    """whenUnsatisfiable is DoNotSchedule."""
    selector: LabelSelector | None
    min_domains: int = 1
    node_affinity_honor: bool = True
    node_taints_honor: bool = False
    match_label_keys: tuple[str, ...] = ()


class PodSpec(msgspec.Struct, frozen=True, gc=False, cache_hash=True, kw_only=True):
    """What scheduling reads of a pod's spec; one object for all pods with the same content."""

    requests: Resources = NO_RESOURCES
    """Effective request of an incoming pod: containers, sidecars, init containers, pod-level resources, overhead."""
    score_cpu_milli: int = 0
    """Requested CPU as scores count it: a container without a request counts 100m."""
    score_memory_bytes: int = 0
    """Requested memory as scores count it: a container without a request counts 200 MiB."""
    fit_score: Resources | None = None
    """What NodeResourcesFit's score counts for the incoming pod if it has pod-level resources, which that score ignores.

    None: ``requests`` with ``score_cpu_milli`` and ``score_memory_bytes``.
    """
    priority: int = 0
    priority_class: str = ""
    deadline_s: int | None = None
    """activeDeadlineSeconds: a quota with scopes counts a pod that has one as terminating."""
    restarts_always: bool = True
    """restartPolicy is Always. False: it runs to its end (Never, OnFailure)."""
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
    """Number of images that ImageLocality divides its thresholds by."""
    gates: tuple[str, ...] = ()
    required_features: tuple[str, ...] = ()
    """Features that a node must declare for this pod, sorted."""
    resource_claims: bool = False
    """The spec has resourceClaims (dynamic resource allocation)."""
    scheduling_group: str = ""
    """Name of its PodGroup."""
    host_network: bool = False
    termination_grace_s: int = 30
    responders: tuple[str, ...] = ()
    """Names of spec.evictionResponders that go before ours: other ones than the controller take the pod off its node (KEP-4563)."""


class OwnerRef(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """The controlling owner of an object."""

    api_version: str
    kind: str
    name: str
    uid: str


class FieldWriter(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """One entry of metadata.managedFields."""

    manager: str
    fields: bytes
    """fieldsV1, as JSON."""


class Namespaced(msgspec.Struct, frozen=True, gc=False):
    """An object that has a namespace."""

    namespace: str
    name: str

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return tuple.__new__(ObjectKey, (self.namespace, self.name))  # as ObjectKey(...), in half the time


class PodState(msgspec.Struct, frozen=True, gc=False, cache_hash=True, kw_only=True):
    """What a pod is like now, but for what tells it apart; one object for all pods that are alike in this."""

    owner_pods: tuple[OwnerRef, ...] = ()
    """Its owners if all of them are pods: the garbage collector deletes it with the last one."""
    held: Resources = NO_RESOURCES
    """Resources that the pod occupies on its node; they differ from its request during an in-place resize."""
    held_score_cpu_milli: int = 0
    """``held`` CPU as scores count it (see ``PodSpec``)."""
    held_score_memory_bytes: int = 0
    """``held`` memory as scores count it."""
    phase: PodPhase = PodPhase.PENDING
    ready: bool = False
    deleting: bool = False
    restarts: int = 0
    """Of its containers together, those of init containers left out."""
    init_restarts: int = 0
    """Of its init containers together, sidecars among them."""
    unschedulable_message: str = ""
    """Message of the condition PodScheduled=False with reason Unschedulable."""
    unschedulable_since_s: float = 0.0
    """Since when that condition says so; 0.0: it does not."""
    not_taken: str = ""
    """Why the kubelet of its node did not take it, such as OutOfcpu: its phase is Failed; "": nothing of the kind."""
    disruption_reason: str = ""
    """Reason of the DisruptionTarget condition while it is True, for example EvictionByEvictionAPI."""
    finalizers: tuple[str, ...] = ()
    writers: tuple[FieldWriter, ...] = ()
    """metadata.managedFields, of placeholders only."""


_NEW: Final = PodState()


def _of_state(name: str, like: T) -> T:
    """Reads that field of the state, of the type of ``like``."""
    del like
    return cast("T", property(attrgetter(f"state.{name}")))


class Pod(Namespaced, frozen=True, gc=False, kw_only=True):
    """A pod."""

    uid: str
    resource_version: str = ""
    """Empty for one of a dump."""
    node: str = ""
    nominated_node: str = ""
    spec: PodSpec
    labels: LabelSet = NO_LABELS
    annotations: LabelSet = NO_LABELS
    controller: OwnerRef | None = None
    owns: str = ""
    """An object that the garbage collector deletes with this pod, such as ``StatefulSet shop/llm-0``; a Snapshot shows it."""
    ready_since_s: float = 0.0
    created_at_s: float = 0.0
    started_at_s: float = 0.0
    state: PodState = _NEW

    owner_pods = _of_state("owner_pods", _NEW.owner_pods)
    held = _of_state("held", _NEW.held)
    held_score_cpu_milli = _of_state("held_score_cpu_milli", _NEW.held_score_cpu_milli)
    held_score_memory_bytes = _of_state("held_score_memory_bytes", _NEW.held_score_memory_bytes)
    phase = _of_state("phase", _NEW.phase)
    ready = _of_state("ready", _NEW.ready)
    deleting = _of_state("deleting", _NEW.deleting)
    restarts = _of_state("restarts", _NEW.restarts)
    init_restarts = _of_state("init_restarts", _NEW.init_restarts)
    unschedulable_message = _of_state("unschedulable_message", _NEW.unschedulable_message)
    unschedulable_since_s = _of_state("unschedulable_since_s", _NEW.unschedulable_since_s)
    not_taken = _of_state("not_taken", _NEW.not_taken)
    disruption_reason = _of_state("disruption_reason", _NEW.disruption_reason)
    finalizers = _of_state("finalizers", _NEW.finalizers)
    writers = _of_state("writers", _NEW.writers)

    @property
    def terminal(self) -> bool:
        """True if Succeeded or Failed: the pod occupies no resources any more."""
        return self.state.phase in _TERMINAL

    def with_state(self, **fields: Any) -> Pod:
        """The same pod with other values of these fields of its state."""
        return msgspec.structs.replace(self, state=msgspec.structs.replace(self.state, **fields))


class Node(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A node."""

    name: str
    uid: str = ""
    resource_version: str = ""
    labels: LabelSet = NO_LABELS
    taints: tuple[Taint, ...] = ()
    taints_added_s: tuple[float, ...] = ()
    """When each was added (timeAdded), 0.0 where that is not said; empty if of none."""
    unschedulable: bool = False
    ready: bool = True
    conditions: tuple[NodeCondition, ...] = ()
    """Those besides Ready."""
    allocatable: Resources = NO_RESOURCES
    """All zero if the status has neither allocatable nor capacity."""
    images: tuple[Image, ...] = ()
    declared_features: tuple[str, ...] = ()
    avoid: tuple[AvoidEntry, ...] = ()
    do_not_disrupt: bool = False
    """Annotation karpenter.sh/do-not-disrupt: its pods do not move, and nobody takes it away."""
    scale_down_disabled: bool = False
    """Annotation of cluster-autoscaler: its pods may move, and nobody takes it away."""
    kept_empty: KeptEmpty | None = None
    """The note of the controller that it has cordoned or tainted the node, which it empties or has emptied."""
    has_annotations: bool = True
    """False: a JSON patch has to create the map before it can add one."""
    deleting: bool = False
    created_at_s: float = 0.0

    @property
    def may_be_taken_away(self) -> bool:
        """False: emptying it gains nothing, for no autoscaler removes it."""
        return not (self.do_not_disrupt or self.scale_down_disabled)

    @property
    def held_empty(self) -> bool:
        """True if nothing but the controller, which empties it or has emptied it, keeps pods away."""
        kept = self.kept_empty
        if kept is None or kept.hold is Hold.GIVEN_BACK or not self.ready or self.deleting:
            return False
        return kept.hold is Hold.CORDONED or not self.unschedulable

    @property
    def ends_pods(self) -> bool:
        """False: its kubelet does not answer, and a pod that is evicted there may be terminating for ever."""
        return self.ready and not any(taint.key == UNREACHABLE_TAINT for taint in self.taints)

    @property
    def usable(self) -> bool:
        """True if pods may be moved here as far as the node itself goes; taints and room are not looked at."""
        return self.ready and not self.unschedulable and not self.deleting

    @property
    def leaving(self) -> str:
        """The taint by which an autoscaler says that it is about to delete the node; "": none."""
        return next((taint.key for taint in self.taints if taint.key in LEAVING_TAINTS), "")

    @property
    def emptied_by_others(self) -> bool:
        """True if somebody else than this controller has cordoned it, or an autoscaler is about to delete it."""
        return (self.unschedulable and self.kept_empty is None) or bool(self.leaving)

    @property
    def unusable_because(self) -> str:
        """Why the node is not ``usable``, as the end of a sentence; empty if it is usable."""
        if self.deleting:
            return "is being deleted"
        if not self.ready:
            return "is not Ready"
        return "is unschedulable" if self.unschedulable else ""


class Namespace(msgspec.Struct, frozen=True, gc=False):
    """A namespace and its labels."""

    name: str
    labels: LabelSet = NO_LABELS
    deleting: bool = False


class Workload(Namespaced, frozen=True, gc=False, kw_only=True):
    """A controller of pods: ReplicaSet, ReplicationController, Deployment, StatefulSet, DaemonSet or Job."""

    kind: str
    uid: str
    api_version: str = "apps/v1"
    resource_version: str = ""
    generation: int = 0
    """Grows with each change of the spec, template included; 0: not known."""
    controller: OwnerRef | None = None
    owner_pods: tuple[OwnerRef, ...] = ()
    """Its owners if all of them are pods."""
    selector: LabelSelector | None = None
    replicas: int = 0
    """Desired number of pods; 0 for a DaemonSet."""
    ready_replicas: int = 0
    template: PodSpec | None = None
    """Spec of the pods that the controller would create now; None if it cannot be decoded."""
    template_labels: LabelSet = NO_LABELS
    annotations: LabelSet = NO_LABELS
    surge: bool = False
    """A Deployment whose rollout may run more pods than ``replicas``."""
    paused: bool = False
    rolling_out: bool = False
    """Pods of an older template are still being replaced."""
    stalled: bool = False
    """A Deployment whose rollout has exceeded its progress deadline."""
    deleting: bool = False
    min_ready_s: int = 0
    template_node: str = ""
    """spec.nodeName of the template: its pods ask no scheduler."""
    revision: str = ""
    """A StatefulSet's update revision; the revision annotation of the others."""
    current_revision: str = ""
    """A StatefulSet's current revision, from which pods below its partition are created."""
    update_strategy: str = ""
    """A StatefulSet's: RollingUpdate or OnDelete; empty if it was not set."""
    partition: int | None = None
    """That of a StatefulSet's rolling update; None without ``rollingUpdate``."""
    current_replicas: int = 0
    """Pods of a StatefulSet's current revision."""
    first_ordinal: int = 0
    """spec.ordinals.start of a StatefulSet."""
    in_order: bool = False
    """A StatefulSet with podManagementPolicy OrderedReady: it creates a pod once all before it are available."""
    job: JobState | None = None
    """Of a Job only."""
    creation_refused: str = ""
    """Why the API server refuses its pods now, as its condition ReplicaFailure says; of a ReplicaSet or ReplicationController."""
    created_at_s: float = 0.0

    @property
    def changes_pods(self) -> bool:
        """True while a rollout replaces its pods; one that is paused or stalled does not until somebody acts."""
        return self.rolling_out and not (self.paused or self.stalled)


class DisruptionBudget(Namespaced, frozen=True, gc=False, kw_only=True):
    """A PodDisruptionBudget."""

    uid: str = ""
    generation: int = 0
    observed_generation: int = field(default=0, name="status.observedGeneration")
    selector: LabelSelector | None = field(default=None, name="spec.selector")
    disruptions_allowed: int = field(default=0, name="status.disruptionsAllowed")
    current_healthy: int = field(default=0, name="status.currentHealthy")
    desired_healthy: int = field(default=0, name="status.desiredHealthy")
    expected_pods: int = field(default=0, name="status.expectedPods")
    always_allow_unhealthy: Annotated[bool, Says("AlwaysAllow")] = field(
        default=False, name="spec.unhealthyPodEvictionPolicy"
    )
    disrupted_pods: Keys = field(default=(), name="status.disruptedPods")

    @property
    def observed(self) -> bool:
        """True if the status is of the current generation."""
        return self.observed_generation >= self.generation

    @property
    def never_allows(self) -> bool:
        """True if all pods that it selects must be healthy."""
        return self.observed and self.desired_healthy >= self.expected_pods > 0


class DeviceClass(msgspec.Struct, frozen=True, gc=False):
    """A DeviceClass (resource.k8s.io)."""

    name: str
    extended_resource: str = field(default="", name="spec.extendedResourceName")
    """extendedResourceName: pods request devices of the class by this resource. Empty: not set."""


class PriorityClass(msgspec.Struct, frozen=True, gc=False):
    """A PriorityClass."""

    name: str
    value: int = field(default=0, name=".value")
    preempts: Annotated[bool, Says("Never", meant=False)] = field(default=True, name=".preemptionPolicy")
    default: bool = field(default=False, name=".globalDefault")


class Service(Namespaced, frozen=True, gc=False):
    """A Service; the default spread constraints of a pod use its selector."""

    selector: Pairs | None = field(default=None, name="spec.selector")
    """None: the Service has no selector."""
    owner_pods: tuple[OwnerRef, ...] = ()
    """Its owners if all of them are pods."""
