"""Required node affinity as JSON, narrowed by more node selectors: terms are ORed, so ANDing is their product (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rescheduler.model.selectors import NodeSelector, NodeSelectorTerm, Requirement

Json = dict[str, Any]

_FIELDS = ("matchExpressions", "matchFields")


def narrowed(terms: list[Json], selectors: Iterable[NodeSelector]) -> list[Json]:
    """Terms for the nodes that one of ``terms`` and all ``selectors`` match; empty and malformed ones match none."""
    for selector in selectors:
        terms = [_both(term, _term(other)) for term in terms for other in selector.terms if _matches(other)]
    return terms


def _matches(term: NodeSelectorTerm) -> bool:
    return not term.invalid and bool(term.expressions or term.fields)


def _both(one: Json, other: Json) -> Json:
    joined = {field: [*(one.get(field) or ()), *(other.get(field) or ())] for field in _FIELDS}
    return {field: found for field, found in joined.items() if found}


def _term(term: NodeSelectorTerm) -> Json:
    return {
        "matchExpressions": [_requirement(r) for r in term.expressions],
        "matchFields": [_requirement(r) for r in term.fields],
    }


def _requirement(requirement: Requirement) -> Json:
    entry: Json = {"key": requirement.key, "operator": str(requirement.operator)}
    if requirement.values:
        entry["values"] = list(requirement.values)
    return entry
