"""The kinds of objects that are read, and where the API server serves them."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Resource(NamedTuple):
    """Group, version and resource name under which a kind is served."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    namespaced: bool
    optional: bool = False
    """A cluster may lack this resource."""
    kind: str = ""
    """``kind`` of its objects where it differs from the name of the ``Kind``."""

    @property
    def collection_path(self) -> str:
        """Path of the collection over all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/{self.plural}"

    def object_path(self, namespace: str, name: str) -> str:
        """Path of one object; ``namespace`` is ignored for cluster-scoped kinds."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        middle = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{root}{middle}/{self.plural}/{name}" if name else f"{root}{middle}/{self.plural}"


class Kind(enum.StrEnum):
    """Kinds that are read: those of RESOURCES, which a Snapshot is made of, those that are only read by name, and Evictions."""

    NODE = "Node"
    POD = "Pod"
    NAMESPACE = "Namespace"
    REPLICA_SET = "ReplicaSet"
    REPLICATION_CONTROLLER = "ReplicationController"
    DEPLOYMENT = "Deployment"
    STATEFUL_SET = "StatefulSet"
    DAEMON_SET = "DaemonSet"
    JOB = "Job"
    POD_DISRUPTION_BUDGET = "PodDisruptionBudget"
    PRIORITY_CLASS = "PriorityClass"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    CSI_DRIVER = "CSIDriver"
    CSI_STORAGE_CAPACITY = "CSIStorageCapacity"
    VOLUME_ATTACHMENT = "VolumeAttachment"
    DEVICE_CLASS = "DeviceClass"
    SERVICE = "Service"
    RESOURCE_QUOTA = "ResourceQuota"
    RESERVATION = "Reservation"
    POD_MIGRATION = "PodMigration"
    RESERVATION_WINDOW = "ReservationWindow"
    HEAD_ROOM = "HeadRoom"
    KOORDINATOR_RESERVATION = "KoordinatorReservation"
    VOLCANO_POD_GROUP = "VolcanoPodGroup"
    COSCHEDULING_POD_GROUP = "CoschedulingPodGroup"
    POD_GROUP = "PodGroup"
    CONFIG_MAP = "ConfigMap"
    CONTROLLER_REVISION = "ControllerRevision"
    REQUESTED_EVICTION = "Eviction"


RESOURCES: dict[Kind, Resource] = {
    Kind.NODE: Resource("", "v1", "nodes", namespaced=False),
    Kind.POD: Resource("", "v1", "pods", namespaced=True),
    Kind.NAMESPACE: Resource("", "v1", "namespaces", namespaced=False),
    Kind.REPLICA_SET: Resource("apps", "v1", "replicasets", namespaced=True),
    Kind.REPLICATION_CONTROLLER: Resource("", "v1", "replicationcontrollers", namespaced=True),
    Kind.DEPLOYMENT: Resource("apps", "v1", "deployments", namespaced=True),
    Kind.STATEFUL_SET: Resource("apps", "v1", "statefulsets", namespaced=True),
    Kind.DAEMON_SET: Resource("apps", "v1", "daemonsets", namespaced=True),
    Kind.JOB: Resource("batch", "v1", "jobs", namespaced=True),
    Kind.POD_DISRUPTION_BUDGET: Resource("policy", "v1", "poddisruptionbudgets", namespaced=True),
    Kind.PRIORITY_CLASS: Resource("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False),
    Kind.PERSISTENT_VOLUME: Resource("", "v1", "persistentvolumes", namespaced=False),
    Kind.PERSISTENT_VOLUME_CLAIM: Resource("", "v1", "persistentvolumeclaims", namespaced=True),
    Kind.STORAGE_CLASS: Resource("storage.k8s.io", "v1", "storageclasses", namespaced=False),
    Kind.CSI_NODE: Resource("storage.k8s.io", "v1", "csinodes", namespaced=False),
    Kind.CSI_DRIVER: Resource("storage.k8s.io", "v1", "csidrivers", namespaced=False),
    Kind.CSI_STORAGE_CAPACITY: Resource("storage.k8s.io", "v1", "csistoragecapacities", namespaced=True),
    Kind.VOLUME_ATTACHMENT: Resource("storage.k8s.io", "v1", "volumeattachments", namespaced=False),
    Kind.DEVICE_CLASS: Resource("resource.k8s.io", "v1", "deviceclasses", namespaced=False, optional=True),
    Kind.SERVICE: Resource("", "v1", "services", namespaced=True),
    Kind.RESOURCE_QUOTA: Resource("", "v1", "resourcequotas", namespaced=True),
    Kind.RESERVATION: Resource(
        "rescheduler.dev", "v1alpha1", "reservations", namespaced=False, optional=True
    ),
    Kind.POD_MIGRATION: Resource(
        "rescheduler.dev", "v1alpha1", "podmigrations", namespaced=True, optional=True
    ),
    Kind.RESERVATION_WINDOW: Resource(
        "rescheduler.dev", "v1alpha1", "reservationwindows", namespaced=False, optional=True
    ),
    Kind.HEAD_ROOM: Resource("rescheduler.dev", "v1alpha1", "headrooms", namespaced=False, optional=True),
    Kind.KOORDINATOR_RESERVATION: Resource(
        "scheduling.koordinator.sh",
        "v1alpha1",
        "reservations",
        namespaced=False,
        optional=True,
        kind="Reservation",
    ),
    Kind.VOLCANO_POD_GROUP: Resource(
        "scheduling.volcano.sh", "v1beta1", "podgroups", namespaced=True, optional=True, kind="PodGroup"
    ),
    Kind.COSCHEDULING_POD_GROUP: Resource(
        "scheduling.x-k8s.io", "v1alpha1", "podgroups", namespaced=True, optional=True, kind="PodGroup"
    ),
    Kind.POD_GROUP: Resource("scheduling.k8s.io", "v1beta1", "podgroups", namespaced=True, optional=True),
}

WORKLOAD_KINDS = (
    Kind.REPLICA_SET,
    Kind.REPLICATION_CONTROLLER,
    Kind.DEPLOYMENT,
    Kind.STATEFUL_SET,
    Kind.DAEMON_SET,
    Kind.JOB,
)
"""Controllers of pods."""
CONFIG_MAPS = Resource("", "v1", "configmaps", namespaced=True)
"""Not of a Snapshot: the controller reads its own by name."""
CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions", namespaced=True)
"""Not of a Snapshot: the templates of a StatefulSet's revisions, read by name."""
BY_NAME: dict[Kind, Resource] = {
    Kind.CONFIG_MAP: CONFIG_MAPS,
    Kind.CONTROLLER_REVISION: CONTROLLER_REVISIONS,
}
"""Kinds that are only read by name."""


def requested_evictions(version: str) -> Resource:
    """The Evictions of lifecycle.k8s.io, in the version that is served. Not of a Snapshot: the guard watches them by itself."""
    return Resource("lifecycle.k8s.io", version, "evictions", namespaced=True)
