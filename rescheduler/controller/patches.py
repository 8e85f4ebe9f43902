"""The exact patches of the hand-over (pure). Each carries the uid that it was decided on.

A wrong uid answers 422, a stale resource version 409: a late patch misses instead of hitting a successor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from rescheduler.model import names
from rescheduler.model.records import AvoidEntry, Node, Taint, Toleration
from rescheduler.reservations.koordinator import affinity
from rescheduler.reservations.template import toleration_json

Json = dict[str, Any]

_GATE_OFF: Final[Json] = {"schedulingGates": [{"name": names.GATE, "$patch": "delete"}]}


def nominate(uid: str, node: str) -> Json:
    """Merge patch of ``pods/status``; ``node`` "": no nomination any more."""
    return {"metadata": {"uid": uid}, "status": {"nominatedNodeName": node or None}}


def admit(uid: str) -> Json:
    """Strategic patch of a placeholder: it waits for its room no longer."""
    return {
        "metadata": {"uid": uid},
        "spec": {"schedulingGates": [{"name": names.GATE_ROOM, "$patch": "delete"}]},
    }


def ungate(uid: str, reservation: str | None, tolerations: tuple[Toleration, ...] | None) -> Json:
    """Strategic patch of the pod: our gate off, other gates stay. ``reservation`` None: it got no room.

    The list of tolerations is replaced as a whole by the API server, so it must be complete.
    """
    spec = dict(_GATE_OFF)
    if tolerations is not None:
        spec["tolerations"] = [toleration_json(t) for t in tolerations]
    metadata: Json = {"uid": uid, "annotations": {names.ANNOTATION_RESERVATION: reservation}}
    return {"metadata": metadata, "spec": spec}


def steer(uid: str, reservation: str, holder: str) -> Json:
    """Strategic patch of the pod: our gate off, and Koordinator's Reservation that it must use."""
    annotations = {names.ANNOTATION_RESERVATION: reservation, names.KOORDINATOR_AFFINITY: affinity(holder)}
    return {"metadata": {"uid": uid, "annotations": annotations}, "spec": dict(_GATE_OFF)}


def unsteer(uid: str) -> Json:
    """Merge patch of the pod: it may use any room again."""
    annotations = {names.ANNOTATION_RESERVATION: None, names.KOORDINATOR_AFFINITY: None}
    return {"metadata": {"uid": uid, "annotations": annotations}}


def taint_on(node: Node, value: str) -> list[Json]:
    """JSON patch that adds the hand-over taint to a node that is still as we saw it."""
    taint = {"key": names.ANNOTATION_HANDOVER_TAINT, "value": value, "effect": "NoSchedule"}
    guard: Json = {"op": "test", "path": "/metadata/resourceVersion", "value": node.resource_version}
    if node.taints:
        return [guard, {"op": "add", "path": "/spec/taints/-", "value": taint}]
    return [guard, {"op": "add", "path": "/spec/taints", "value": [taint]}]


def taint_off(node: Node) -> list[Json]:
    """JSON patch that takes every hand-over taint off a node that is still as we saw it."""
    guard: Json = {"op": "test", "path": "/metadata/resourceVersion", "value": node.resource_version}
    ours = [index for index, taint in enumerate(node.taints) if is_hand_over(taint)]
    return [guard, *({"op": "remove", "path": f"/spec/taints/{index}"} for index in reversed(ours))]


def is_hand_over(taint: Taint) -> bool:
    """True for the taint that keeps contenders off a node during a hand-over."""
    return taint.key == names.ANNOTATION_HANDOVER_TAINT


def label(uid: str, labels: Mapping[str, str]) -> Json:
    """Merge patch of a pod: these labels besides those that it has."""
    return {"metadata": {"uid": uid, "labels": dict(labels)}}


def avoid(version: str, entries: tuple[AvoidEntry, ...]) -> Json:
    """Merge patch of a node that is still of ``version``: its whole list of PreferAvoidPods hints."""
    text = msgspec.json.encode(entries).decode() if entries else None
    return {"metadata": {"resourceVersion": version, "annotations": {names.ANNOTATION_AVOID: text}}}


def adopt_pod(uid: str, version: str, pod_uid: str) -> Json:
    """Merge patch of a PodMigration: from now on it is about this very pod."""
    return {"metadata": {"uid": uid, "resourceVersion": version}, "spec": {"podRef": {"uid": pod_uid}}}
