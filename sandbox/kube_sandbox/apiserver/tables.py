"""The form of what is answered: objects in the version that is asked for; of pods and nodes tables for ``kubectl get``, which shows name and age of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kube_sandbox.apiserver.errors import Json
from kube_sandbox.apiserver.json_values import dig, seconds
from kube_sandbox.apiserver.registry import ResourceType

Cell = Callable[[Json, float], Any]


class ResponseForm:
    """The form of a response: ``one`` for an object, ``many`` for a list."""

    def __init__(self, resource: ResourceType, accept: str, clock: Callable[[], float]) -> None:
        self._resource = resource
        self._columns = _COLUMNS.get(resource.name, ()) if "as=Table" in accept.partition(",")[0] else ()
        self._clock = clock

    def one(self, obj: Json) -> Json:
        """A single object in this form."""
        if self._columns:
            return self._table([obj], obj["metadata"])
        return self._resource.encode(obj) if self._resource.encode else obj

    def many(self, items: list[Json], metadata: Json) -> Json:
        """A list in this form."""
        if self._columns:
            return self._table(items, metadata)
        if self._resource.encode is not None:
            items = [self._resource.encode(obj) for obj in items]
        kind, version = f"{self._resource.kind}List", self._resource.api_version
        return {"kind": kind, "apiVersion": version, "metadata": metadata, "items": items}

    def _table(self, items: list[Json], metadata: Json) -> Json:
        now_s = self._clock()
        known = ("resourceVersion", "continue", "remainingItemCount")
        partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {k: metadata[k] for k in known if k in metadata},
            "columnDefinitions": [
                {"name": name, "type": "string", "format": "", "description": name, "priority": priority}
                for name, priority, _ in self._columns
            ],
            "rows": [
                {
                    "cells": [cell(obj, now_s) for _, _, cell in self._columns],
                    "object": {**partial, "metadata": obj["metadata"]},
                }
                for obj in items
            ],
        }


def _at(*path: str) -> Cell:
    return lambda obj, _now_s: dig(obj, *path) or "<none>"


def _age(obj: Json, now_s: float) -> str:
    age_s = int(now_s - (seconds(dig(obj, "metadata", "creationTimestamp")) or now_s))
    for limit, length, unit in ((120, 1, "s"), (7200, 60, "m"), (172_800, 3600, "h")):
        if age_s < limit:
            return f"{age_s // length}{unit}"
    return f"{age_s // 86_400}d"


def _pod_ready(pod: Json, _now_s: float) -> str:
    statuses = dig(pod, "status", "containerStatuses") or ()
    return f"{sum(bool(s.get('ready')) for s in statuses)}/{len(dig(pod, 'spec', 'containers') or ())}"


def _pod_status(pod: Json, _now_s: float) -> str:
    if dig(pod, "metadata", "deletionTimestamp"):
        return "Terminating"
    gated = dig(pod, "spec", "schedulingGates")
    return "SchedulingGated" if gated else str(dig(pod, "status", "phase") or "Unknown")


def _node_status(node: Json, _now_s: float) -> str:
    conditions = dig(node, "status", "conditions") or ()
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    cordoned = ",SchedulingDisabled" if dig(node, "spec", "unschedulable") else ""
    return ("Ready" if ready else "NotReady") + cordoned


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
    "nodes": (_NAME, ("Status", 0, _node_status), ("Age", 0, _age)),
}
"""Name of a resource -> columns: name, priority (1: only with ``-o wide``), and what stands there for an object."""
