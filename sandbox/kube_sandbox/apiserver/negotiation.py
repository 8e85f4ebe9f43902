"""Content negotiation: objects are returned as they are, as a Table, or as PartialObjectMetadata."""

from __future__ import annotations

import re
from collections.abc import Callable

from kube_sandbox.apiserver.errors import Json, not_acceptable
from kube_sandbox.apiserver.printer_columns import age, at
from kube_sandbox.apiserver.registry import PrinterColumn, ResourceType

_PLAIN = (
    PrinterColumn("Name", "string", at("metadata.name"), format="name"),
    PrinterColumn("Age", "string", age()),
)
_META = "meta.k8s.io/v1"


class ResponseForm:
    """The form of a response. ``one`` is for an object, ``event`` for that of a watch event, ``many`` for a list."""

    def __init__(self, kind: str, resource: ResourceType, now: Callable[[], float], include: str) -> None:
        self.kind = kind
        self._resource = resource
        self._now = now
        self._include = include
        self._sent_columns = False

    def one(self, obj: Json) -> Json:
        """A single object in this form."""
        if self.kind == "Table":
            return self._table([obj], obj["metadata"])
        if self.kind == "PartialObjectMetadata":
            return _partial(obj)
        return obj

    def event(self, obj: Json) -> Json:
        """The object of a watch event: only the first Table has column definitions."""
        shown = self.one(obj)
        if self.kind == "Table":
            if self._sent_columns:
                shown["columnDefinitions"] = None
            self._sent_columns = True
        return shown

    def many(self, items: list[Json], metadata: Json) -> Json:
        """A list in this form."""
        if self.kind == "Table":
            return self._table(items, metadata)
        if self.kind == "PartialObjectMetadata":
            shown = [_partial(obj) for obj in items]
            return {
                "kind": "PartialObjectMetadataList",
                "apiVersion": _META,
                "metadata": metadata,
                "items": shown,
            }
        resource = self._resource
        return {
            "kind": resource.list_kind,
            "apiVersion": resource.api_version,
            "metadata": metadata,
            "items": items,
        }

    def _table(self, items: list[Json], metadata: Json) -> Json:
        columns = self._resource.columns or _PLAIN
        now = self._now()
        return {
            "kind": "Table",
            "apiVersion": _META,
            "metadata": {
                k: metadata[k] for k in ("resourceVersion", "continue", "remainingItemCount") if k in metadata
            },
            "columnDefinitions": [_definition(column) for column in columns],
            "rows": [self._row(obj, columns, now) for obj in items],
        }

    def _row(self, obj: Json, columns: tuple[PrinterColumn, ...], now: float) -> Json:
        row: Json = {"cells": [column.cell(obj, now) for column in columns]}
        if self._include == "Object":
            row["object"] = obj
        elif self._include != "None":
            row["object"] = _partial(obj)
        return row


def _definition(column: PrinterColumn) -> Json:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description or column.name,
        "priority": column.priority,
    }


def _partial(obj: Json) -> Json:
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": obj["metadata"]}


def negotiate(accept: str, resource: ResourceType, now: Callable[[], float], include: str) -> ResponseForm:
    """The first supported form of an Accept header. Raises 406 if none is supported."""
    for part in filter(None, (p.strip() for p in accept.split(","))):
        media, *parameters = [p.strip() for p in part.split(";")]
        if media not in {"application/json", "application/yaml", "application/*", "*/*"}:
            continue
        wanted = dict(p.split("=", 1) for p in parameters if "=" in p)
        kind = wanted.get("as", "")
        if not kind:
            return ResponseForm("", resource, now, include)
        if re.fullmatch(r"Table|PartialObjectMetadata(List)?", kind) and wanted.get("v", "v1") == "v1":
            return ResponseForm(kind.removesuffix("List"), resource, now, include)
    if accept.strip():
        raise not_acceptable()
    return ResponseForm("", resource, now, include)
