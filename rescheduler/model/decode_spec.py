"""A pod spec from the wire to the shared ``PodSpec`` record.

Exact for kube-scheduler 1.37: requests, host ports, affinity, spread, volumes, images, gates, and the
node features that the spec needs (component-helpers ``nodedeclaredfeatures``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from sys import intern
from typing import Final

from rescheduler.model.decode_affinity import (
    pod_terms,
    preferred_node_terms,
    spread_constraints,
    tolerations,
    weighted_pod_terms,
)
from rescheduler.model.decode_pod_volumes import pod_volumes
from rescheduler.model.decode_selectors import node_selector
from rescheduler.model.pod_requests import Requests
from rescheduler.model.records import HostPort, PodSpec
from rescheduler.model.selectors import LabelSet
from rescheduler.model.wire_pod import (
    AffinityWire,
    ContainerWire,
    NodeAffinityWire,
    PodAffinityWire,
    PodSpecWire,
)

_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - what an empty hostIP means; nothing is bound here
_DEFAULT_GRACE_S: Final = 30


class SpecError(ValueError):
    """A pod spec that no API server would hold."""


def pod_spec(wire: PodSpecWire, requests: Requests, merge: LabelSet | None = None) -> PodSpec:
    """The scheduling view of a spec that asks for ``requests``.

    ``merge``: the labels of a template, None for a stored pod.

    Raises:
        SpecError: no containers.
    """
    if not wire.containers:
        raise SpecError("spec.containers is empty")
    affinity = wire.affinity or AffinityWire()
    node = affinity.node_affinity or NodeAffinityWire()
    near = affinity.pod_affinity or PodAffinityWire()
    apart = affinity.pod_anti_affinity or PodAffinityWire()
    images = tuple(_images(wire))
    grace = wire.termination_grace_period_seconds
    return PodSpec(
        requests=requests.resources,
        score_cpu_milli=requests.score_cpu_milli,
        score_memory_bytes=requests.score_memory_bytes,
        fit_score=requests.fit_score,
        priority=wire.priority or 0,
        preempts=wire.preemption_policy != "Never",
        scheduler_name=intern(wire.scheduler_name or "default-scheduler"),
        node_selector=tuple(sorted((key, value or "") for key, value in (wire.node_selector or {}).items())),
        node_affinity=node_selector(node.required),
        node_affinity_preferred=preferred_node_terms(node.preferred),
        pod_affinity=pod_terms(near.required, merge),
        pod_affinity_preferred=weighted_pod_terms(near.preferred, merge),
        pod_anti_affinity=pod_terms(apart.required, merge),
        pod_anti_affinity_preferred=weighted_pod_terms(apart.preferred, merge),
        tolerations=tolerations(wire.tolerations),
        spread=spread_constraints(wire.topology_spread_constraints),
        host_ports=tuple(_host_ports(wire)),
        volumes=pod_volumes(wire.volumes),
        images=images,
        image_containers=len(images),
        gates=tuple(gate.name or "" for gate in wire.scheduling_gates or ()),
        required_features=tuple(_required_features(wire)),
        resource_claims=bool(wire.resource_claims),
        scheduling_group=(wire.scheduling_group.pod_group_name or "") if wire.scheduling_group else "",
        host_network=bool(wire.host_network),
        termination_grace_s=_DEFAULT_GRACE_S if grace is None else max(grace, 0),
    )


def _long_running(wire: PodSpecWire) -> Iterator[ContainerWire]:
    """Sidecars, then containers: those that live as long as the pod."""
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
