"""A pod that asks a scheduler whether it is up to date: it fits nowhere, and the scheduler's refusal is the answer.

A scheduler is told of everything in the order in which it happened; what a new list brings comes before anything
newer. So one that has judged a pod has heard of all that was written before that pod was made. Pure: a manifest and
what to make of what became of it. It must never be placed, weigh anything, or be taken for a pod of a workload.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rescheduler.calls.call import Call, create
from rescheduler.model import names
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.resources import OF_PROBES
from rescheduler.reservations.placeholder import CONTAINER_SECURITY, POD_SECURITY

Json = dict[str, Any]

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
    """Make the pod."""
    body = probe_manifest(
        key.name, namespace=key.namespace, scheduler=scheduler, image=image, asks_for=asks_for
    )
    return create("ask_scheduler", Kind.POD, key, body)


def probe_manifest(name: str, *, namespace: str, scheduler: str, image: str, asks_for: Reservation) -> bytes:
    """The pod as JSON. It goes at the latest when the Reservation ``asks_for`` goes."""
    owner = {
        "apiVersion": names.API_VERSION,
        "kind": "Reservation",
        "name": asks_for.name,
        "uid": asks_for.uid,
        "controller": False,  # it is none of its placeholders
        "blockOwnerDeletion": False,
    }
    metadata = {
        "name": name,
        "namespace": namespace,
        # A selector that leaves placeholders out leaves probes out too.
        "labels": {names.LABEL_PLACEHOLDER: names.SCHEDULER_PROBE, names.LABEL_CREATED_BY: names.CREATED_BY},
        "ownerReferences": [owner],
    }
    return msgspec.json.encode(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _spec(scheduler, image)}
    )


def _spec(scheduler: str, image: str) -> Json:
    nowhere = {"nodeSelectorTerms": [{"matchFields": _TWO_NODES_AT_ONCE}]}
    return {
        "schedulerName": scheduler,
        "priorityClassName": names.PRIORITY_CLASS,  # judged before the pods that wait
        "preemptionPolicy": "Never",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": nowhere}},
        "securityContext": POD_SECURITY,
        "containers": [
            {
                "name": "probe",
                "image": image,
                "resources": OF_PROBES,
                "securityContext": CONTAINER_SECURITY,
            }
        ],
    }
