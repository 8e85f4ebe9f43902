"""Partial msgspec Structs for the JSON of a pod, in two stages.

Stage one (``*Head``) is decoded for every pod; parts that the pods of one template share stay ``Raw``.
Without the fields in which those pods differ it is encoded again: these bytes are the key of the shared spec.
Stage two (``*Wire``) is decoded from that key, once per distinct content. Of what both have, stage one is derived from stage two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

import msgspec
from msgspec import Raw

from rescheduler.model.decode.wire_types import (
    ABSENT,
    ConditionWire,
    LabelSelectorWire,
    NodeSelectorTermWire,
    NodeSelectorWire,
    ResourceList,
    ResourcesWire,
    Time,
    Wire,
)
from rescheduler.model.names import KEPT_POD_ANNOTATIONS

KEPT_ANNOTATIONS: dict[str, str] = {f"kept{i}": key for i, key in enumerate(sorted(KEPT_POD_ANNOTATIONS))}
"""Field of ``PodAnnotationsHead`` -> annotation key."""

PodAnnotationsHead = msgspec.defstruct(
    "PodAnnotationsHead",
    [(field, str | None, None) for field in KEPT_ANNOTATIONS],
    rename=KEPT_ANNOTATIONS,
    gc=False,
)
"""The annotations that a Pod record keeps; all others are skipped by the JSON decoder."""


class PodMetaHead(Wire):
    """metadata of a pod. ``annotations`` is a ``PodAnnotationsHead``."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: Raw = ABSENT
    annotations: PodAnnotationsHead | None = None  # type: ignore[valid-type]
    owner_references: Raw = ABSENT
    finalizers: list[str] | None = None
    managed_fields: Raw = ABSENT


class PortWire(Wire):
    """v1.ContainerPort."""

    container_port: int | None = None
    host_port: int | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None


class RestartRuleWire(Wire):
    """v1.ContainerRestartRule."""

    action: str | None = None


class MountWire(Wire):
    """v1.VolumeMount."""

    bind_mount_options: list[str] | None = None


class ContainerWire(Wire):
    """v1.Container."""

    name: str | None = None
    image: str | None = None
    resources: ResourcesWire | None = None
    ports: list[PortWire] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[RestartRuleWire] | None = None
    volume_mounts: list[MountWire] | None = None


class ClaimVolumeWire(Wire):
    """v1.PersistentVolumeClaimVolumeSource."""

    claim_name: str | None = None
    read_only: bool | None = None


class VolumeSourceWire(Wire):
    """The fields of the old in-tree volume sources, of csi and of image, that identify a volume."""

    driver: str | None = None
    pd_name: str | None = None
    volume_id: str | None = msgspec.field(default=None, name="volumeID")
    iqn: str | None = None
    monitors: list[str] | None = None
    pool: str | None = None
    image: str | None = None
    disk_uri: str | None = msgspec.field(default=None, name="diskURI")
    kind: str | None = None
    reference: str | None = None
    read_only: bool | None = None


class VolumeWire(Wire):
    """v1.Volume."""

    name: str | None = None
    persistent_volume_claim: ClaimVolumeWire | None = None
    ephemeral: Wire | None = None
    empty_dir: Wire | None = None
    host_path: Wire | None = None
    csi: VolumeSourceWire | None = None
    gce_persistent_disk: VolumeSourceWire | None = None
    aws_elastic_block_store: VolumeSourceWire | None = None
    iscsi: VolumeSourceWire | None = None
    rbd: VolumeSourceWire | None = None
    azure_disk: VolumeSourceWire | None = None
    cinder: VolumeSourceWire | None = None
    portworx_volume: VolumeSourceWire | None = None
    image: VolumeSourceWire | None = None


class PreferredNodeTermWire(Wire):
    """v1.PreferredSchedulingTerm."""

    weight: int | None = None
    preference: NodeSelectorTermWire | None = None


class NodeAffinityWire(Wire):
    """v1.NodeAffinity."""

    required: NodeSelectorWire | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[PreferredNodeTermWire] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTermWire(Wire):
    """v1.PodAffinityTerm."""

    label_selector: LabelSelectorWire | None = None
    topology_key: str | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelectorWire | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTermWire(Wire):
    """v1.WeightedPodAffinityTerm."""

    weight: int | None = None
    pod_affinity_term: PodAffinityTermWire | None = None


class PodAffinityWire(Wire):
    """v1.PodAffinity and v1.PodAntiAffinity."""

    required: list[PodAffinityTermWire] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[WeightedPodAffinityTermWire] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class AffinityWire(Wire):
    """v1.Affinity."""

    node_affinity: NodeAffinityWire | None = None
    pod_affinity: PodAffinityWire | None = None
    pod_anti_affinity: PodAffinityWire | None = None


class TolerationWire(Wire):
    """v1.Toleration."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class SpreadWire(Wire):
    """v1.TopologySpreadConstraint."""

    max_skew: int | None = None
    topology_key: str | None = None
    when_unsatisfiable: str | None = None
    label_selector: LabelSelectorWire | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class NamedWire(Wire):
    """Any object of which only the name matters."""

    name: str | None = None


class SchedulingGroupWire(Wire):
    """v1.PodSchedulingGroup."""

    pod_group_name: str | None = None


class WorkloadReferenceWire(Wire):
    """v1.WorkloadReference, by which Kubernetes 1.35 names the group."""

    pod_group: str | None = None


class EvictionResponderWire(Wire):
    """An entry of spec.evictionResponders."""

    name: str | None = None
    priority: int | None = None


class PodSpecWire(Wire):
    """spec of a pod, stage two."""

    node_name: str | None = None
    containers: list[ContainerWire] | None = None
    init_containers: list[ContainerWire] | None = None
    ephemeral_containers: list[ContainerWire] | None = None
    volumes: list[VolumeWire] | None = None
    affinity: AffinityWire | None = None
    tolerations: list[TolerationWire] | None = None
    topology_spread_constraints: list[SpreadWire] | None = None
    node_selector: dict[str, str | None] | None = None
    scheduling_gates: list[NamedWire] | None = None
    overhead: ResourceList | None = None
    resources: ResourcesWire | None = None
    resource_claims: list[NamedWire] | None = None
    scheduling_group: SchedulingGroupWire | None = None
    workload_ref: WorkloadReferenceWire | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    active_deadline_seconds: int | None = None
    preemption_policy: str | None = None
    restart_policy: str | None = None
    scheduler_name: str | None = None
    host_network: bool | None = None
    host_users: bool | None = None
    termination_grace_period_seconds: int | None = None
    eviction_responders: list[EvictionResponderWire] | None = None


class ContainerStatusWire(Wire):
    """The resources of a container as the kubelet reports them."""

    name: str | None = None
    resources: ResourcesWire | None = None
    allocated_resources: ResourceList | None = None
    restart_count: int | None = None


class HeldWire(Wire):
    """The parts of a pod's status that determine the resources it occupies."""

    containers: list[ContainerStatusWire] | None = None
    init_containers: list[ContainerStatusWire] | None = None
    resources: ResourcesWire | None = None
    allocated: ResourceList | None = None
    infeasible: bool = False


def _head(wire: type[Wire], heads: Mapping[Any, Any] = {}) -> Any:
    """Stage one of ``wire``: scalars as they are, lists of what ``heads`` knows (type -> its stage one), all else raw."""
    fields: list[tuple[str, Any, Any]] = []
    for field in msgspec.structs.fields(wire):
        declared = next(iter(get_args(field.type)), field.type)
        head: Any = heads.get(next(iter(get_args(declared)), None))
        if head is not None:
            fields.append((field.name, list[head] | None, None))
        elif declared in _SCALARS:
            fields.append((field.name, field.type, field.default))
        else:
            fields.append((field.name, Raw, ABSENT))
    return msgspec.defstruct(f"{wire.__name__.removesuffix('Wire')}Head", fields, bases=(Wire,), gc=False)


_SCALARS: Final = (str, int, bool)
_CONTAINER: Final = _head(ContainerWire, {MountWire: _head(MountWire)})
_STATUS: Final = _head(ContainerStatusWire)
PodSpecHead: Final = _head(PodSpecWire, {ContainerWire: _CONTAINER, VolumeWire: _head(VolumeWire)})
HeldHead: Final = _head(HeldWire, {ContainerStatusWire: _STATUS})


class PodStatusHead(Wire):
    """status of a pod, stage one. The resource parts are encoded again as a key."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    nominated_node_name: str | None = None
    start_time: Time | None = None
    conditions: list[ConditionWire] | None = None
    container_statuses: list[_STATUS] | None = None  # type: ignore[valid-type]
    init_container_statuses: list[_STATUS] | None = None  # type: ignore[valid-type]
    resources: Raw = ABSENT
    allocated_resources: Raw = ABSENT


class PodHead(Wire):
    """A pod, stage one."""

    metadata: PodMetaHead | None = None
    spec: PodSpecHead | None = None  # type: ignore[valid-type]
    status: PodStatusHead | None = None
