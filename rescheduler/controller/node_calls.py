"""The calls that change a node: its hand-over taint, its avoid hints, what keeps it empty (pure).

A node belongs to its administrators and to the kubelet, so every call here names the resourceVersion that its action was
decided on: whatever somebody else has written since makes it miss. ``controller.call_table`` has the row of each action.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rescheduler.controller.calls import Call, Verb
from rescheduler.migrations.actions import GiveNodeBack, KeepNodeEmpty, WriteAvoidHints
from rescheduler.model import names
from rescheduler.model.kept_empty import Hold, KeptEmpty
from rescheduler.model.kinds import Kind
from rescheduler.model.records import Node, ObjectKey, Taint
from rescheduler.reservations.actions import TaintNode, UntaintNode
from rescheduler.reservations.handover import hand_over_taint
from rescheduler.reservations.observed import ReservationSettings

Json = dict[str, Any]


def taint_node(action: TaintNode, _: ReservationSettings) -> Call:
    """Set the hand-over taint."""
    return _patch_seen_node(action.node, _add_taint(action.node, hand_over_taint(action.node.name)))


def untaint_node(action: UntaintNode, _: ReservationSettings) -> Call:
    """Remove every hand-over taint of the node."""
    return _patch_seen_node(action.node, *_removals(action.node, names.ANNOTATION_HANDOVER_TAINT))


def write_avoid_hints(action: WriteAvoidHints, _: ReservationSettings) -> Call:
    """Replace the hints of the node."""
    text = msgspec.json.encode(action.entries).decode() if action.entries else None
    return _annotate(action.node, action.resource_version, names.ANNOTATION_AVOID, text)


def keep_node_empty(action: KeepNodeEmpty, _: ReservationSettings) -> Call:
    """The cordon, or the taint, and the note of it in one request: neither is ever there without the other."""
    node = action.node
    if action.kept.hold is Hold.TAINTED:
        note = _note(node, action.kept)
        return _patch_seen_node(node, note, _add_taint(node, Taint(names.TAINT_KEPT_EMPTY)))
    return _annotate(
        node.name,
        node.resource_version,
        names.ANNOTATION_KEPT_EMPTY,
        action.kept.text,
        {"unschedulable": True},
    )


def give_node_back(action: GiveNodeBack, _: ReservationSettings) -> Call:
    """A cordon that is not ours any more, by the note, stays. The taint is nobody else's."""
    node, left = action.node, action.kept
    ours = node.kept_empty is not None and node.kept_empty.hold is Hold.CORDONED
    tainted = _removals(node, names.TAINT_KEPT_EMPTY)
    if tainted:
        cordon = [{"op": "remove", "path": "/spec/unschedulable"}] if ours and node.unschedulable else []
        return _patch_seen_node(node, _note(node, left), *tainted, *cordon)
    return _annotate(
        node.name,
        node.resource_version,
        names.ANNOTATION_KEPT_EMPTY,
        left.text if left is not None else None,
        {"unschedulable": None} if ours else None,
    )


def _annotate(
    node: str, resource_version: str, annotation: str, text: str | None, spec: Json | None = None
) -> Call:
    """A merge patch. ``text`` None: the annotation is removed."""
    metadata = {"resourceVersion": resource_version, "annotations": {annotation: text}}
    return Call(
        verb=Verb.MERGE_PATCH,
        kind=Kind.NODE,
        key=ObjectKey("", node),
        body=msgspec.json.encode({"metadata": metadata} | ({"spec": spec} if spec else {})),
    )


def _add_taint(node: Node, taint: Taint) -> Json:
    value = {"key": taint.key, "effect": taint.effect} | ({"value": taint.value} if taint.value else {})
    if node.taints:
        return {"op": "add", "path": "/spec/taints/-", "value": value}
    return {"op": "add", "path": "/spec/taints", "value": [value]}


def _removals(node: Node, key: str) -> list[Json]:
    """From the last to the first, because each removal shifts the indexes after it."""
    found = [i for i, taint in enumerate(node.taints) if taint.key == key]
    return [{"op": "remove", "path": f"/spec/taints/{i}"} for i in reversed(found)]


def _note(node: Node, kept: KeptEmpty | None) -> Json:
    """Writes, or with None removes, the note."""
    path = f"/metadata/annotations/{names.ANNOTATION_KEPT_EMPTY.replace('/', '~1')}"
    if kept is None:
        return {"op": "remove", "path": path}
    if node.has_annotations:
        return {"op": "add", "path": path, "value": kept.text}
    return {"op": "add", "path": "/metadata/annotations", "value": {names.ANNOTATION_KEPT_EMPTY: kept.text}}


def _patch_seen_node(node: Node, *operations: Json) -> Call:
    """A JSON patch, because a merge patch replaces the whole list of taints. It fails if the node was written since."""
    unchanged = {"op": "test", "path": "/metadata/resourceVersion", "value": node.resource_version}
    return Call(
        verb=Verb.JSON_PATCH,
        kind=Kind.NODE,
        key=ObjectKey("", node.name),
        body=msgspec.json.encode([unchanged, *operations]),
    )
