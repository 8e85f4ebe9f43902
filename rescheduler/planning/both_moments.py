"""A replacement must fit at two moments: once the old pod is gone, and while it still ends. Pure.

Terminating pods count for required anti-affinity and for ReadWriteOncePod claims, and a replacement may be
judged by kube-scheduler before the old pod has ended. They do not count for topology spread, and the old
pod takes no room on any other node.
"""

from __future__ import annotations

from rescheduler.model.names import HOSTNAME
from rescheduler.model.records import ObjectKey, Pod, VolumeKind
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.replacement import starts_after_the_old_ended

_READ_WRITE_ONCE_POD = "ReadWriteOncePod"


def may_stand_in_the_way(snapshot: Snapshot, pod: Pod, replacement: Pod) -> bool:
    """False if the second moment cannot differ from the first on any other node; cheap."""
    if starts_after_the_old_ended(pod):
        return False
    return reaches_other_nodes(pod, replacement) or claims_alone(snapshot, replacement)


def reaches_other_nodes(pod: Pod, replacement: Pod) -> bool:
    """True if either has required anti-affinity over more than a node."""
    terms = (*pod.spec.pod_anti_affinity, *replacement.spec.pod_anti_affinity)
    return any(term.topology_key != HOSTNAME for term in terms)


def claims_alone(snapshot: Snapshot, pod: Pod) -> bool:
    """True if a claim of the pod may be used by one pod at a time."""
    names = (v.source for v in pod.spec.volumes if v.kind is VolumeKind.CLAIM)
    claims = (snapshot.claims.get(ObjectKey(pod.namespace, name)) for name in names)
    return any(c is not None and _READ_WRITE_ONCE_POD in c.access_modes for c in claims)
