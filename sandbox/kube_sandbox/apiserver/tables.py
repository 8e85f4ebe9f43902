"""Tables for ``kubectl get`` of pods, nodes, deployments, events, and of custom resources with columns of their own.

Other kinds are sent as they are: kubectl shows name and age.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from kube_sandbox.apiserver.errors import Json
from kube_sandbox.apiserver.json_values import dig, parse_time
from kube_sandbox.apiserver.registry import ResourceType

Clock = Callable[[], float]
Cell = Callable[[Json, float], Any]


class ResponseForm:
    """The form of a response: ``one`` for an object, ``event`` for that of a watch event, ``many`` for a list."""

    def __init__(self, resource: ResourceType, accept: str, clock: Clock) -> None:
        self._resource = resource
        self._columns = _columns(resource) if "as=Table" in accept.partition(",")[0] else ()
        self._clock = clock

    def one(self, obj: Json) -> Json:
        """A single object in this form."""
        return self._table([obj], obj["metadata"]) if self._columns else obj

    @property
    def event(self) -> Callable[[Json], Json] | None:
        """How the object of a watch event is shown; None: as it is."""
        return self.one if self._columns else None

    def many(self, items: list[Json], metadata: Json) -> Json:
        """A list in this form."""
        if self._columns:
            return self._table(items, metadata)
        kind, version = self._resource.list_kind, self._resource.api_version
        return {"kind": kind, "apiVersion": version, "metadata": metadata, "items": items}

    def _table(self, items: list[Json], metadata: Json) -> Json:
        now_s = self._clock()
        known = {
            k: metadata[k] for k in ("resourceVersion", "continue", "remainingItemCount") if k in metadata
        }
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": known,
            "columnDefinitions": [
                {"name": name, "type": "string", "format": "", "description": name, "priority": priority}
                for name, priority, _ in self._columns
            ],
            "rows": [
                {"cells": [cell(obj, now_s) for _, _, cell in self._columns], "object": _partial(obj)}
                for obj in items
            ],
        }


def _partial(obj: Json) -> Json:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def _at(*path: str, default: str = "<none>") -> Cell:
    return lambda obj, _now_s: dig(obj, *path) or default


def _age(obj: Json, now_s: float) -> str:
    return _since(dig(obj, "metadata", "creationTimestamp"), now_s)


def _since(moment: Any, now_s: float) -> str:
    seconds = int(now_s - (parse_time(moment) or now_s))
    for limit, length, unit in ((120, 1, "s"), (7200, 60, "m"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds // length}{unit}"
    return f"{seconds // 86_400}d"


def _pod_ready(pod: Json, _now_s: float) -> str:
    statuses = dig(pod, "status", "containerStatuses") or ()
    return f"{sum(bool(s.get('ready')) for s in statuses)}/{len(dig(pod, 'spec', 'containers') or ())}"


def _pod_status(pod: Json, _now_s: float) -> str:
    if dig(pod, "metadata", "deletionTimestamp"):
        return "Terminating"
    conditions = dig(pod, "status", "conditions") or ()
    if any(c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in conditions):
        return "SchedulingGated"
    return str(dig(pod, "status", "phase") or "Unknown")


def _node_status(node: Json, _now_s: float) -> str:
    conditions = dig(node, "status", "conditions") or ()
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    return ("Ready" if ready else "NotReady") + (
        ",SchedulingDisabled" if dig(node, "spec", "unschedulable") else ""
    )


def _of_deployment(field: str) -> Cell:
    return lambda obj, _now_s: str(dig(obj, "status", field) or 0)


def _seen(event: Json, now_s: float) -> str:
    last = dig(event, "series", "lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return _since(last or dig(event, "metadata", "creationTimestamp"), now_s)


def _about(event: Json, _now_s: float) -> str:
    found = event.get("regarding") or event.get("involvedObject") or {}
    return f"{str(found.get('kind', '')).lower()}/{found.get('name', '')}"


def _columns(resource: ResourceType) -> tuple[tuple[str, int, Cell], ...]:
    if not resource.printed:
        return _COLUMNS.get(resource.name, ())
    return (
        _NAME,
        *((name, priority, _printed(kind, path)) for name, kind, path, priority in resource.printed),
    )


def _printed(kind: str, path: str) -> Cell:
    """The cell of a printer column; a JSONPath of names, [N] and [?(@.KEY=="VALUE")]."""

    def cell(obj: Json, now_s: float) -> str:
        found: Any = obj
        for name, index, key, value in _STEP.findall(path):
            if name:
                found = dig(found, name.replace("\\.", "."))
            elif index:
                found = found[int(index)] if isinstance(found, list) and len(found) > int(index) else None
            else:
                found = next((one for one in found or () if one.get(key) == value), None)
        if found is None:
            return ""
        return _since(found, now_s) if kind == "date" else str(found)

    return cell


_STEP: Final = re.compile(r"""\.((?:[^.\[\]\\]|\\.)+)|\[(\d+)\]|\[\?\(@\.(\w+)=="([^"]*)"\)\]""")
_NAME: Final = ("Name", 0, _at("metadata", "name"))
_COLUMNS: Final[dict[str, tuple[tuple[str, int, Cell], ...]]] = {
    "pods": (
        _NAME,
        ("Ready", 0, _pod_ready),
        ("Status", 0, _pod_status),
        ("Age", 0, _age),
        ("Node", 1, _at("spec", "nodeName")),
        ("Nominated Node", 1, _at("status", "nominatedNodeName")),
    ),
    "deployments.apps": (
        _NAME,
        (
            "Ready",
            0,
            lambda obj, _: f"{dig(obj, 'status', 'readyReplicas') or 0}/{dig(obj, 'spec', 'replicas') or 0}",
        ),
        ("Up-to-date", 0, _of_deployment("updatedReplicas")),
        ("Available", 0, _of_deployment("availableReplicas")),
        ("Age", 0, _age),
    ),
    "events": (
        ("Last Seen", 0, _seen),
        ("Type", 0, _at("type")),
        ("Reason", 0, _at("reason")),
        ("Object", 0, _about),
        ("Message", 0, lambda event, _: event.get("note") or event.get("message") or ""),
    ),
    "nodes": (
        _NAME,
        ("Status", 0, _node_status),
        ("Age", 0, _age),
        ("Version", 0, _at("status", "nodeInfo", "kubeletVersion")),
    ),
}
"""Name of a resource -> columns: name, priority (1: only with ``-o wide``), and what stands there for an object at a time."""
