"""The line of a write in the trace of a history. Pure."""

from __future__ import annotations

from typing import Final

from harness.histories.observed_cluster import gated, node_of, nominated_to, phase, usable
from harness.histories.script import names_of
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.unstructured import Obj, condition, controller_of, deleting, ready, spec, status

_DULL: Final = frozenset({"Event", "Lease", "ControllerRevision", "PodDisruptionBudget"})


def words_on(change: ObjectChange) -> str:
    """The change and the new state of the object; "" for kinds that traces leave out."""
    obj = change.object
    if obj["kind"] in _DULL:
        return ""
    told = _SAYS.get(obj["kind"], _nothing)(obj)
    return f"{change.type.lower():9}{names_of(obj)} {told}"


def _pod(pod: Obj) -> str:
    owner = controller_of(pod)
    told = [
        f"of {owner['name']}" if owner else "",
        f"on {node_of(pod)}" if node_of(pod) else "",
        f"nominated to {nominated_to(pod)}" if nominated_to(pod) else "",
        "gated" if gated(pod) else "",
        "Ready" if ready(pod) else "",
        "deleting" if deleting(pod) else "",
    ]
    refused = condition(pod, "PodScheduled") or {}
    if refused.get("status") == "False" and not gated(pod):
        told.append(f"({refused.get('message', '')})")
    return ", ".join(filter(None, told))


def _phased(obj: Obj) -> str:
    found = status(obj)
    owners = ", ".join(o["name"] for o in found.get("currentOwners") or ())
    told = [phase(obj), found.get("reason", ""), found.get("nodeName", ""), owners]
    told += [c.get("message", "") for c in found.get("conditions") or ()][-1:]
    if not found:
        told.append(str(spec(obj)))
    return ", ".join(filter(None, told))


def _node(node: Obj) -> str:
    taints = " ".join(f"{t['key']}:{t['effect']}" for t in spec(node).get("taints") or ())
    return f"{'usable' if usable(node) else 'not usable'} {taints}"


def _data(obj: Obj) -> str:
    return str(obj.get("data") or {})


def _size(obj: Obj) -> str:
    return f"{status(obj).get('readyReplicas', 0)} of {spec(obj).get('replicas')} Ready"


def _nothing(_: Obj) -> str:
    return ""


_SAYS: Final = {
    "Pod": _pod, "Reservation": _phased, "PodMigration": _phased, "Node": _node, "ConfigMap": _data,
    "Deployment": _size, "ReplicaSet": _size, "StatefulSet": _size,
}  # fmt: skip
