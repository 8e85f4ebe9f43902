"""Whether the owner of a pod is in a state in which mode StartFirst may go on. Pure."""

from __future__ import annotations

from rescheduler.migrations.observed import ObservedSwap


def owner_lost(swap: ObservedSwap) -> str:
    """Why the ReplicaSet is not (any more) the one that its owner wants pods of; "" if it is."""
    replica_set, deployment = swap.replica_set, swap.deployment
    if replica_set is None or replica_set.deleting:
        return "the ReplicaSet is gone"
    if replica_set.controller is None:
        return ""
    if deployment is None or deployment.deleting:
        return "the Deployment is gone"
    if replica_set.revision and deployment.revision and replica_set.revision != deployment.revision:
        return f"a rollout has replaced revision {replica_set.revision} by {deployment.revision}"
    return ""


def owner_moves(swap: ObservedSwap) -> str:
    """Why the owner is in the middle of something and must be waited for; "" if it rests."""
    replica_set, deployment = swap.replica_set, swap.deployment
    if swap.busy:
        return swap.busy
    if replica_set is None:
        return ""
    if deployment is not None and deployment.rolling_out:
        return f"Deployment {deployment.name} is rolling out or scaling"
    if deployment is not None and deployment.replicas != replica_set.replicas:
        return f"Deployment {deployment.name} wants {deployment.replicas} pods, its ReplicaSet {replica_set.replicas}"
    if swap.owned != replica_set.replicas:
        return f"ReplicaSet {replica_set.name} has {swap.owned} pods and wants {replica_set.replicas}"
    return ""


def min_ready_s(swap: ObservedSwap) -> int:
    """How long a pod of this owner must be Ready to count as available."""
    owner = swap.deployment or swap.replica_set
    return owner.min_ready_s if owner is not None else 0
