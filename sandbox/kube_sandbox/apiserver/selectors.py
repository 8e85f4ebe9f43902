"""Label and field selectors of list and watch requests.

Grammar and errors are those of apimachinery: equality-based, set-based and existence requirements for labels;
``=``, ``==`` and ``!=`` for the fields that a kind supports.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kube_sandbox.apiserver.errors import Json, bad_request
from kube_sandbox.apiserver.json_values import dig
from rescheduler.model.selectors import LabelQueryError, Operator, Requirement, label_query

_OPERATORS = frozenset(Operator)
_GENERIC_FIELDS = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True, slots=True)
class SelectionPredicate:
    """The namespace, label and field selectors of a request. An empty predicate matches everything."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[tuple[str, bool, str], ...] = ()
    namespace: str = ""

    @property
    def everything(self) -> bool:
        """True if every object matches."""
        return not (self.labels or self.fields or self.namespace)

    def matches(self, obj: Json) -> bool:
        """True if the object matches."""
        metadata = obj["metadata"]
        if self.namespace and metadata.get("namespace") != self.namespace:
            return False
        labels: Any = metadata.get("labels") or {}
        if not all(r.matches(labels) for r in self.labels):
            return False
        return all((_field(obj, path) == value) is equal for path, equal, value in self.fields)

    @property
    def single_name(self) -> str:
        """The name, if ``metadata.name=`` selects one object."""
        for path, equal, value in self.fields:
            if path == "metadata.name" and equal:
                return value
        return ""


Query = Mapping[str, str]
"""The query parameters of a request."""


def parse_predicate(query: Query, namespace: str, field_names: Iterable[str]) -> SelectionPredicate:
    """The predicate of a request. Raises 400 for selectors that are malformed or not supported."""
    return SelectionPredicate(
        labels=parse_label_selector(query.get("labelSelector", "")),
        fields=_parse_fields(query.get("fieldSelector", ""), {*_GENERIC_FIELDS, *field_names}),
        namespace=namespace,
    )


def parse_label_selector(text: str) -> tuple[Requirement, ...]:
    """Requirements of ``a=b,c in (d,e),!f``. Raises 400."""
    try:
        return label_query(text)
    except LabelQueryError as error:
        message = f'unable to parse requirement: found unexpected text in "{text}"'
        raise bad_request(message) from error


def _parse_fields(text: str, supported: set[str]) -> tuple[tuple[str, bool, str], ...]:
    found: list[tuple[str, bool, str]] = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        match = re.fullmatch(r"([A-Za-z0-9_.\[\]-]+)\s*(!=|==|=)\s*(.*)", part)
        if match is None:
            raise bad_request(f"invalid field selector: {part}")
        if match[1] not in supported:
            raise bad_request(f"field label not supported: {match[1]}")
        found.append((match[1], match[2] != "!=", match[3].replace("\\,", ",").replace("\\=", "=")))
    return tuple(found)


def _field(obj: Json, path: str) -> str:
    value = dig(obj, *path.split("."))
    if value is None:
        return _FIELD_DEFAULTS.get(path, "")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


_FIELD_DEFAULTS = {"spec.unschedulable": "false", "spec.hostNetwork": "false", "status.successful": "0"}


def selects(selector: Any, labels: Json | None) -> bool:
    """True if a ``metav1.LabelSelector`` in JSON matches the labels; None matches nothing."""
    if not isinstance(selector, dict):
        return False
    have: Any = labels or {}
    if any(have.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(
        one.get("operator") in _OPERATORS
        and Requirement(one["key"], Operator(one["operator"]), tuple(one.get("values") or ())).matches(have)
        for one in selector.get("matchExpressions") or ()
    )
