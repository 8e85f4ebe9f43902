"""What one pod counts for of a resource: what it requests, or that with kube-scheduler's defaults for containers without a request.

The defaults are those of the scores of NodeResourcesFit: 100m CPU and 200 MiB of memory for each container that requests none of it.
Filters never count them. Pure.
"""

from __future__ import annotations

from rescheduler.model.records import Pod, PodSpec
from rescheduler.scheduling.classes import PodClass


def held_amount(pod: Pod | PodClass, resource: str, *, defaults: bool = False) -> int:
    """What the pod, or each of the class, holds of a resource on its node, with ``defaults`` or without; every pod takes one of "pods"."""
    match resource:
        case "pods":
            return 1
        case "cpu" if defaults:
            return pod.held_score_cpu_milli
        case "memory" if defaults:
            return pod.held_score_memory_bytes
        case _:
            return pod.held.amount(resource)


def incoming_amount(spec: PodSpec, resource: str, *, defaults: bool) -> int:
    """What a pod with this spec will hold."""
    match resource:
        case "pods":
            return 1
        case "cpu" if defaults:
            return spec.score_cpu_milli
        case "memory" if defaults:
            return spec.score_memory_bytes
        case _:
            return spec.requests.amount(resource)
