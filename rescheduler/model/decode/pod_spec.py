"""Decodes a pod spec into the shared ``PodSpec`` record.

Exact for kube-scheduler 1.37: requests, host ports, affinity, spread, volumes, images, gates, and the
node features that the spec needs (component-helpers ``nodedeclaredfeatures``). Of the volumes it keeps those
that scheduling or protections read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from sys import intern
from typing import Any, Final, NamedTuple

import msgspec

from rescheduler.errors import ReschedulerError
from rescheduler.model.csi_translation import (
    CSIVolume,
    aws_volume,
    azure_volume,
    cinder_volume,
    gce_volume,
    portworx_volume,
)
from rescheduler.model.decode.interning import InternTable
from rescheduler.model.decode.pod_requests import Requests
from rescheduler.model.decode.pod_wire_types import (
    AffinityWire,
    ContainerWire,
    EvictionResponderWire,
    NodeAffinityWire,
    PodAffinityWire,
    PodSpecWire,
    SpreadWire,
    VolumeWire,
)
from rescheduler.model.decode.selectors import (
    node_selector,
    pod_terms,
    preferred_node_terms,
    spread_constraints,
    tolerations,
    weighted_pod_terms,
)
from rescheduler.model.names import RESPONDER
from rescheduler.model.pod_volumes import PodVolume, VolumeKind
from rescheduler.model.records import (
    HostPort,
    PodAffinityTerm,
    PodSpec,
    PreferredNodeTerm,
    SpreadConstraint,
    WeightedPodAffinityTerm,
)
from rescheduler.model.selectors import LabelSet, NodeSelector

_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - what an empty hostIP means; nothing is bound here
_DEFAULT_GRACE_S: Final = 30
_ALWAYS: Final = (None, "", "Always")
LABEL_KEYS: Final = b"atchLabelKeys"
"""A spec with matchLabelKeys or mismatchLabelKeys contains this text: its record depends on the pod's labels."""


class SpecError(ReschedulerError, ValueError):
    """A pod spec that the API server would reject."""


class _Affinity(NamedTuple):
    """The fields of a PodSpec that come from its affinity."""

    node_affinity: NodeSelector | None = None
    node_affinity_preferred: tuple[PreferredNodeTerm, ...] = ()
    pod_affinity: tuple[PodAffinityTerm, ...] = ()
    pod_affinity_preferred: tuple[WeightedPodAffinityTerm, ...] = ()
    pod_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    pod_anti_affinity_preferred: tuple[WeightedPodAffinityTerm, ...] = ()


_NO_AFFINITY: Final = _Affinity()


class SpecParts:
    """Parts that a template has in common with its pods: made once per distinct content. For one thread."""

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder().encode
        self._affinities: InternTable[bytes, _Affinity] = InternTable()
        self._spreads: InternTable[bytes, tuple[SpreadConstraint, ...]] = InternTable()
        self._listed: InternTable[tuple[Any, ...], tuple[Any, ...]] = InternTable()

    def affinity(self, wire: AffinityWire | None, merge: LabelSet | None) -> _Affinity:
        """Affinity to nodes and pods; ``merge`` as for ``pod_spec``."""
        if wire is None:
            return _NO_AFFINITY
        text = self._encode(wire)
        if merge and LABEL_KEYS in text:
            return _affinity(wire, merge)
        return self._affinities.get(text, lambda _: _affinity(wire, None))

    def spread(self, wires: list[SpreadWire] | None) -> tuple[SpreadConstraint, ...]:
        """Topology spread constraints."""
        return self._spreads.get(self._encode(wires), lambda _: spread_constraints(wires)) if wires else ()

    def listed(self, found: tuple[Any, ...]) -> tuple[Any, ...]:
        """The one shared tuple with this content."""
        return self._listed.get(found, lambda same: same) if found else ()


def pod_spec(
    wire: PodSpecWire, requests: Requests, parts: SpecParts, merge: LabelSet | None = None
) -> PodSpec:
    """The record of a spec whose effective request is ``requests``.

    ``merge``: the labels of a template, None for a stored pod.

    Raises:
        SpecError: no containers.
    """
    if not wire.containers:
        raise SpecError("spec.containers is empty")
    affinity = parts.affinity(wire.affinity, merge)
    images = parts.listed(tuple(_images(wire)))
    grace = wire.termination_grace_period_seconds
    return PodSpec(
        requests=requests.resources,
        score_cpu_milli=requests.score_cpu_milli,
        score_memory_bytes=requests.score_memory_bytes,
        fit_score=requests.fit_score,
        priority=wire.priority or 0,
        priority_class=intern(wire.priority_class_name or ""),
        deadline_s=wire.active_deadline_seconds,
        restarts_always=wire.restart_policy in _ALWAYS,
        preempts=wire.preemption_policy != "Never",
        scheduler_name=intern(wire.scheduler_name or "default-scheduler"),
        node_selector=tuple(sorted((key, value or "") for key, value in (wire.node_selector or {}).items())),
        node_affinity=affinity.node_affinity,
        node_affinity_preferred=affinity.node_affinity_preferred,
        pod_affinity=affinity.pod_affinity,
        pod_affinity_preferred=affinity.pod_affinity_preferred,
        pod_anti_affinity=affinity.pod_anti_affinity,
        pod_anti_affinity_preferred=affinity.pod_anti_affinity_preferred,
        tolerations=parts.listed(tolerations(wire.tolerations)),
        spread=parts.spread(wire.topology_spread_constraints),
        host_ports=tuple(_host_ports(wire)),
        volumes=parts.listed(pod_volumes(wire.volumes)),
        images=images,
        image_containers=len(images),
        gates=tuple(gate.name or "" for gate in wire.scheduling_gates or ()),
        required_features=tuple(_required_features(wire)),
        resource_claims=bool(wire.resource_claims),
        scheduling_group=_scheduling_group(wire),
        host_network=bool(wire.host_network),
        termination_grace_s=_DEFAULT_GRACE_S if grace is None else max(grace, 0),
        responders=_responders_before_ours(wire.eviction_responders or ()),
    )


def _affinity(wire: AffinityWire, merge: LabelSet | None) -> _Affinity:
    node = wire.node_affinity or NodeAffinityWire()
    near = wire.pod_affinity or PodAffinityWire()
    apart = wire.pod_anti_affinity or PodAffinityWire()
    return _Affinity(
        node_affinity=node_selector(node.required),
        node_affinity_preferred=preferred_node_terms(node.preferred),
        pod_affinity=pod_terms(near.required, merge),
        pod_affinity_preferred=weighted_pod_terms(near.preferred, merge),
        pod_anti_affinity=pod_terms(apart.required, merge),
        pod_anti_affinity_preferred=weighted_pod_terms(apart.preferred, merge),
    )


def _responders_before_ours(wires: Iterable[EvictionResponderWire]) -> tuple[str, ...]:
    """By priority, the first one first; all of them if ours is not among them."""
    line = sorted(wires, key=lambda one: -(one.priority or 0))
    ours = next((one.priority or 0 for one in line if one.name == RESPONDER), 0)
    return tuple(one.name or "" for one in line if one.name != RESPONDER and (one.priority or 0) >= ours)


def _long_running(wire: PodSpecWire) -> Iterator[ContainerWire]:
    """Sidecars, then containers: those that run as long as the pod."""
    yield from (c for c in wire.init_containers or () if c.restart_policy == "Always")
    yield from wire.containers or ()


def _host_ports(wire: PodSpecWire) -> Iterator[HostPort]:
    for container in _long_running(wire):
        for port in container.ports or ():
            number = port.host_port or (port.container_port if wire.host_network else 0) or 0
            if number > 0:
                yield HostPort(port.protocol or "TCP", port.host_ip or _ANY_ADDRESS, number)


def _images(wire: PodSpecWire) -> Iterator[str]:
    """Images of init containers, containers and image volumes: what ImageLocality scores, in its order."""
    for container in (*(wire.init_containers or ()), *(wire.containers or ())):
        yield container.image or ""
    for volume in wire.volumes or ():
        if volume.image is not None:
            yield volume.image.reference or ""


def _scheduling_group(wire: PodSpecWire) -> str:
    named = wire.scheduling_group.pod_group_name if wire.scheduling_group else None
    return named or (wire.workload_ref.pod_group if wire.workload_ref else None) or ""


def _required_features(wire: PodSpecWire) -> Iterator[str]:
    """Features that a node must declare for this spec, sorted."""
    ordinary = (*(wire.containers or ()), *(wire.init_containers or ()))
    if any(rule.action == "RestartAllContainers" for c in ordinary for rule in c.restart_policy_rules or ()):
        yield "RestartAllContainersOnContainerExits"
    if wire.host_network and wire.host_users is False:
        yield "UserNamespacesHostNetworkSupport"
    if _mount_options((*ordinary, *(wire.ephemeral_containers or ()))):
        yield "VolumeBindMountOptions"


def _mount_options(containers: Iterable[ContainerWire]) -> bool:
    return any(mount.bind_mount_options for c in containers for mount in c.volume_mounts or ())


def pod_volumes(wires: Iterable[VolumeWire] | None) -> tuple[PodVolume, ...]:
    """Volumes in their order. Kinds that nothing reads (configMap, projected, ...) are omitted."""
    return tuple(volume for wire in wires or () if (volume := _volume(wire)) is not None)


def _volume(wire: VolumeWire) -> PodVolume | None:
    if wire.persistent_volume_claim is not None:
        claim = wire.persistent_volume_claim
        return PodVolume(VolumeKind.CLAIM, claim.claim_name or "", bool(claim.read_only))
    if wire.ephemeral is not None:
        return PodVolume(VolumeKind.EPHEMERAL, wire.name or "")
    if wire.empty_dir is not None:
        return PodVolume(VolumeKind.EMPTY_DIR, wire.name or "")
    if wire.host_path is not None:
        return PodVolume(VolumeKind.HOST_PATH, wire.name or "")
    if wire.csi is not None:
        return PodVolume(VolumeKind.INLINE_CSI, wire.csi.driver or "", bool(wire.csi.read_only))
    return _network_disk(wire) or _cloud_disk(wire)


def _network_disk(wire: VolumeWire) -> PodVolume | None:
    if wire.iscsi is not None:
        return PodVolume(VolumeKind.ISCSI, wire.iscsi.iqn or "", bool(wire.iscsi.read_only))
    if wire.rbd is not None:
        source = f"{','.join(wire.rbd.monitors or ())}|{wire.rbd.pool or 'rbd'}|{wire.rbd.image or ''}"
        return PodVolume(VolumeKind.RBD, source, bool(wire.rbd.read_only))
    return None


def _cloud_disk(wire: VolumeWire) -> PodVolume | None:
    if (gce := wire.gce_persistent_disk) is not None:
        name = gce.pd_name or ""
        return _migrated(wire, VolumeKind.GCE, name, gce_volume(name), read_only=gce.read_only)
    if (aws := wire.aws_elastic_block_store) is not None:
        identity = aws.volume_id or ""
        return _migrated(wire, VolumeKind.AWS, identity, aws_volume(identity), read_only=aws.read_only)
    if (azure := wire.azure_disk) is not None:
        uri = azure.disk_uri or ""
        migrated = azure_volume(uri, azure.kind)
        return _migrated(wire, VolumeKind.AZURE_DISK, uri, migrated, read_only=azure.read_only)
    if (cinder := wire.cinder) is not None:
        identity = cinder.volume_id or ""
        disk = cinder_volume(identity)
        return _migrated(wire, VolumeKind.CINDER, identity, disk, read_only=cinder.read_only)
    if (portworx := wire.portworx_volume) is not None:
        identity = portworx.volume_id or ""
        disk = portworx_volume(identity)
        return _migrated(wire, VolumeKind.PORTWORX, identity, disk, read_only=portworx.read_only)
    return None


def _migrated(
    wire: VolumeWire, kind: VolumeKind, source: str, csi: CSIVolume, *, read_only: bool | None
) -> PodVolume:
    error = f"converting volume({wire.name or ''}) from inline to csi: {csi.error}" if csi.error else ""
    return PodVolume(kind, source, bool(read_only), csi.driver, csi.handle, error)
