"""A pod that asks a scheduler whether it is up to date: it fits nowhere, and the scheduler's refusal is the answer.

A scheduler is told of everything in the order in which it happened; what a new list brings comes before anything
newer. So one that has judged a pod has heard of all that was written before that pod was made. Pure: a manifest and
what to make of what became of it. It must never be placed, weigh anything, or be taken for a pod of a workload.
"""

from __future__ import annotations

from typing import Final

from rescheduler.calls.call import Call, create, encode
from rescheduler.model import names
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.resources import OF_PROBES
from rescheduler.reservations.placeholder import owner_reference, pause_spec

_TWO_NODES_AT_ONCE: Final = [
    {"key": "metadata.name", "operator": "In", "values": [name]} for name in ("neither-here", "nor-there")
]
"""Refused before any node is looked at, on a cluster of any size; no node that an autoscaler may add can help."""


def is_probe(pod: Pod) -> bool:
    """True for any probe, our own or that of a former process."""
    return pod.labels.get(names.LABEL_PLACEHOLDER) == names.SCHEDULER_PROBE


def answered(pod: Pod) -> bool:
    """True once its scheduler has judged it. It is bound only if admission has changed it."""
    return bool(pod.unschedulable_message or pod.node)


def ask_scheduler(key: ObjectKey, scheduler: str, image: str, asks_for: Reservation) -> Call:
    """Make the pod. It goes at the latest when the Reservation ``asks_for`` goes."""
    metadata = {
        "name": key.name,
        "namespace": key.namespace,
        # A selector that leaves placeholders out leaves probes out too.
        "labels": {names.LABEL_PLACEHOLDER: names.SCHEDULER_PROBE, names.LABEL_CREATED_BY: names.CREATED_BY},
        "ownerReferences": [owner_reference(asks_for, controller=False)],  # it is none of its placeholders
    }
    nowhere = {"nodeSelectorTerms": [{"matchFields": _TWO_NODES_AT_ONCE}]}
    spec = {
        # Its class lets it be judged before the pods that wait.
        **pause_spec("probe", image, OF_PROBES),
        "schedulerName": scheduler,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": nowhere}},
    }
    body = encode({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return create("ask_scheduler", Kind.POD, key, body)
