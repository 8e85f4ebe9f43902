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

_REQUIREMENT = re.compile(
    r"""\s*(?:
      (?P<absent>!)\s*(?P<akey>[A-Za-z0-9./_-]+)
    | (?P<key>[A-Za-z0-9./_-]+)\s*(?:
          (?P<op>==|=|!=)\s*(?P<value>[A-Za-z0-9._-]*)
        | (?P<set>in|notin)\s*\((?P<values>[^)]*)\)
        | (?P<exists>(?=\s*(?:,|$)))
      )
    )\s*(?:,|$)""",
    re.VERBOSE,
)

_GENERIC_FIELDS = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True, slots=True)
class _Requirement:
    key: str
    operator: str
    values: tuple[str, ...]

    def matches(self, labels: Json) -> bool:
        value = labels.get(self.key)
        if self.operator == "in":
            return value is not None and value in self.values
        if self.operator == "notin":
            return value is None or value not in self.values
        if self.operator == "exists":
            return value is not None
        return value is None


@dataclass(frozen=True, slots=True)
class SelectionPredicate:
    """The namespace, label and field selectors of a request. An empty predicate matches everything."""

    labels: tuple[_Requirement, ...] = ()
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
        if self.labels:
            labels = metadata.get("labels") or {}
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


def parse_label_selector(text: str) -> tuple[_Requirement, ...]:
    """Requirements of ``a=b,c in (d,e),!f``. Raises 400."""
    found: list[_Requirement] = []
    position = 0
    while position < len(text):
        match = _REQUIREMENT.match(text, position)
        if match is None or match.end() == position:
            raise bad_request(f'unable to parse requirement: found unexpected text in "{text}"')
        found.append(_requirement(match))
        position = match.end()
    return tuple(found)


def _requirement(match: re.Match[str]) -> _Requirement:
    if match["absent"]:
        return _Requirement(match["akey"], "absent", ())
    key = match["key"]
    if match["op"]:
        operator = "notin" if match["op"] == "!=" else "in"
        return _Requirement(key, operator, (match["value"],))
    if match["set"]:
        return _Requirement(key, match["set"], tuple(v.strip() for v in match["values"].split(",")))
    return _Requirement(key, "exists", ())


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
    labels = labels or {}
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for expression in selector.get("matchExpressions") or ():
        operator = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}.get(
            expression.get("operator", "")
        )
        if operator is None:
            return False
        requirement = _Requirement(expression["key"], operator, tuple(expression.get("values") or ()))
        if not requirement.matches(labels):
            return False
    return True
