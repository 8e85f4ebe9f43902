"""The calls that change a node: its hand-over taint, its avoid hints, what keeps it empty. Pure.

A node belongs to its administrators and to the kubelet, so every call here names the resourceVersion of the node as it was seen:
whatever somebody else has written since makes it miss.
"""

from __future__ import annotations

from rescheduler.calls.call import Call, Json, Verb, encode, merge_patch
from rescheduler.model import names
from rescheduler.model.kept_empty import Hold, KeptEmpty
from rescheduler.model.kinds import Kind
from rescheduler.model.node_status import AvoidEntry
from rescheduler.model.records import Node, ObjectKey, Taint
from rescheduler.model.times import format_seconds


def taint_node(node: Node, taint: Taint) -> Call:
    """Put the hand-over taint on the node: it keeps contenders off the room."""
    return _patch_seen_node("taint_node", node, _add_taint(node, taint))


def untaint_node(node: Node) -> Call:
    """Take every hand-over taint off the node."""
    return _patch_seen_node("untaint_node", node, *_removals(node, names.ANNOTATION_HANDOVER_TAINT))


def write_avoid_hints(node: Node, entries: tuple[AvoidEntry, ...]) -> Call:
    """Replace the PreferAvoidPods hints of the node."""
    text = encode([_hint(entry) for entry in entries]).decode() if entries else None
    return _annotate("write_avoid_hints", node, names.ANNOTATION_AVOID, text)


def _hint(entry: AvoidEntry) -> Json:
    return {
        "controllerKind": entry.controller_kind,
        "controllerName": entry.controller_name,
        "controllerUid": entry.controller_uid,
        "namespace": entry.namespace,
        "reason": entry.reason,
        "until": format_seconds(entry.expires_at_s),
    }


def keep_node_empty(node: Node, kept: KeptEmpty) -> Call:
    """The cordon, or the taint, and the note of it in one request: neither is ever there without the other.

    Where it stands already, only the note is written, with another time.
    """
    does = "keep_node_empty"
    if node.kept_empty is not None and node.kept_empty.hold is kept.hold:
        return _annotate(does, node, names.ANNOTATION_KEPT_EMPTY, kept.text)
    if kept.hold is Hold.TAINTED:
        return _patch_seen_node(
            does, node, _note(node, kept), _add_taint(node, Taint(names.TAINT_KEPT_EMPTY))
        )
    return _annotate(does, node, names.ANNOTATION_KEPT_EMPTY, kept.text, {"unschedulable": True})


def give_node_back(node: Node, left: KeptEmpty | None) -> Call:
    """Take our cordon or taint off. ``left``: the note that stays; None: none.

    A cordon that is not ours any more, by the note, stays. The taint is nobody else's.
    """
    does = "give_node_back"
    ours = node.kept_empty is not None and node.kept_empty.hold is Hold.CORDONED
    tainted = _removals(node, names.TAINT_KEPT_EMPTY)
    if tainted:
        cordon = [{"op": "remove", "path": "/spec/unschedulable"}] if ours and node.unschedulable else []
        return _patch_seen_node(does, node, _note(node, left), *tainted, *cordon)
    text = left.text if left is not None else None
    return _annotate(does, node, names.ANNOTATION_KEPT_EMPTY, text, {"unschedulable": None} if ours else None)


def _annotate(does: str, node: Node, annotation: str, text: str | None, spec: Json | None = None) -> Call:
    """A merge patch. ``text`` None: the annotation is removed."""
    metadata = {"resourceVersion": node.resource_version, "annotations": {annotation: text}}
    patch = {"metadata": metadata} | ({"spec": spec} if spec else {})
    return merge_patch(does, Kind.NODE, ObjectKey("", node.name), patch)


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


def _patch_seen_node(does: str, node: Node, *operations: Json) -> Call:
    """A JSON patch, because a merge patch replaces the whole list of taints. It fails if the node was written since."""
    unchanged = {"op": "test", "path": "/metadata/resourceVersion", "value": node.resource_version}
    body, key = encode([unchanged, *operations]), ObjectKey("", node.name)
    return Call(does=does, verb=Verb.JSON_PATCH, kind=Kind.NODE, key=key, body=body)
