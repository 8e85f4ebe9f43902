"""Whether a node autoscaler is at work, as the objects of the cluster show it. Pure."""

from __future__ import annotations

import enum
from typing import Final

from rescheduler.model.kinds import Kind
from rescheduler.model.names import KUBE_SYSTEM
from rescheduler.model.snapshot import Snapshot

KARPENTER_NODE_POOL: Final = "karpenter.sh/nodepool"
"""Label of nodes that Karpenter has made."""
CLUSTER_AUTOSCALER: Final = "cluster-autoscaler"
"""How the names of its Deployments end, whoever installs it."""


class NodeAutoscaler(enum.StrEnum):
    """What the configuration says of it."""

    AUTO = "Auto"
    PRESENT = "Present"
    ABSENT = "Absent"


def may_be_asked(said: NodeAutoscaler, snapshot: Snapshot) -> bool:
    """True if a pending pod is to ask it for a node. ``said``: ``reservations.nodeAutoscaler``."""
    return said is NodeAutoscaler.PRESENT or (said is NodeAutoscaler.AUTO and node_autoscaler_works(snapshot))


def node_autoscaler_works(snapshot: Snapshot) -> bool:
    """True if one reports that it is at work, or the objects show that one may add nodes.

    Only kube-system counts: elsewhere anybody may give a Deployment that name, and with it hold up the pods of others.
    """
    if snapshot.node_autoscaler:
        return True
    if any(KARPENTER_NODE_POOL in node.labels for node in snapshot.nodes.values()):
        return True
    return any(
        workload.replicas > 0 and workload.name.endswith(CLUSTER_AUTOSCALER)
        for workload in snapshot.workloads.values()
        if workload.namespace == KUBE_SYSTEM and workload.kind == Kind.DEPLOYMENT
    )
