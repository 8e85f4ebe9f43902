"""Extended resources: which names they have, and which of them devices stand behind (DRAExtendedResource).

On a node that does not offer such a resource itself (no device plugin does), kube-scheduler allocates
devices for it. That allocation is not reproduced here: ``DynamicResources`` says so on those nodes.
"""

from __future__ import annotations

from rescheduler.scheduling.cluster import Cluster

_DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


def is_extended(resource: str) -> bool:
    """True for extended resources: a domain that is not kubernetes.io's, as the API defines them."""
    if "/" not in resource or "kubernetes.io/" in resource:
        return False
    return not resource.startswith("requests.")


def may_be_devices(resource: str) -> bool:
    """True for names behind which a DeviceClass can stand."""
    return is_extended(resource) or resource.startswith(_DEVICE_CLASS_PREFIX)


def is_devices(resource: str, cluster: Cluster) -> bool:
    """True if a DeviceClass of the cluster stands behind the resource."""
    classes = cluster.snapshot.device_classes
    if not classes or not may_be_devices(resource):
        return False
    if resource.startswith(_DEVICE_CLASS_PREFIX):
        return resource.removeprefix(_DEVICE_CLASS_PREFIX) in classes
    return any(known.extended_resource == resource for known in classes.values())
