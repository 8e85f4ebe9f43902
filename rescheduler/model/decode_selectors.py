"""Label and node selectors from the wire. A malformed one keeps its error and matches nothing.

Which selectors are malformed, and what is said of them, follows apimachinery's
``LabelSelectorAsSelector`` and component-helpers' ``nodeaffinity``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rescheduler.model.selectors import (
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    int64,
)
from rescheduler.model.wire import (
    LabelSelectorWire,
    NodeSelectorTermWire,
    NodeSelectorWire,
    RequirementWire,
)

_SETS: Final = frozenset({Operator.IN, Operator.NOT_IN})
_PRESENCE: Final = frozenset({Operator.EXISTS, Operator.DOES_NOT_EXIST})


class SelectorError(ValueError):
    """A requirement that the API server would refuse."""


def label_selector(wire: LabelSelectorWire | None) -> LabelSelector | None:
    """A metav1.LabelSelector; None stays None (it matches nothing)."""
    if wire is None:
        return None
    found = [
        Requirement(key, Operator.IN, (value or "",)) for key, value in (wire.match_labels or {}).items()
    ]
    try:
        found.extend(_label_requirement(item) for item in wire.match_expressions or ())
    except SelectorError as error:
        return LabelSelector(invalid=str(error))
    return LabelSelector(_sorted(found))


def node_selector(wire: NodeSelectorWire | None) -> NodeSelector | None:
    """A v1.NodeSelector; None stays None (no restriction)."""
    if wire is None:
        return None
    return NodeSelector(tuple(node_selector_term(term) for term in wire.node_selector_terms or ()))


def node_selector_term(wire: NodeSelectorTermWire | None) -> NodeSelectorTerm:
    """A v1.NodeSelectorTerm; one without requirements matches nothing."""
    if wire is None:
        return NodeSelectorTerm()
    try:
        return NodeSelectorTerm(
            expressions=_sorted(_requirement(item) for item in wire.match_expressions or ()),
            fields=_sorted(_field_requirement(item) for item in wire.match_fields or ()),
        )
    except SelectorError as error:
        return NodeSelectorTerm(invalid=str(error))


def _sorted(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(requirements, key=lambda r: (r.key, r.operator, r.values)))


def _requirement(wire: RequirementWire) -> Requirement:
    try:
        operator = Operator(wire.operator or "")
    except ValueError:
        raise SelectorError(f'"{wire.operator or ""}" is not a valid selector operator') from None
    values = tuple(sorted(wire.values or ()))
    if not wire.key:
        raise SelectorError("a requirement has no key")
    if operator in _SETS and not values:
        raise SelectorError(f"{wire.key}: for 'in', 'notin' operators, values set can't be empty")
    if operator in _PRESENCE and values:
        raise SelectorError(f"{wire.key}: values set must be empty for exists and does not exist")
    if operator in (Operator.GT, Operator.LT) and not _one_integer(values):
        raise SelectorError(f"{wire.key}: for 'Gt', 'Lt' operators, exactly one integer value is required")
    return Requirement(wire.key, operator, values)


def _label_requirement(wire: RequirementWire) -> Requirement:
    requirement = _requirement(wire)
    if requirement.operator in (Operator.GT, Operator.LT):
        raise SelectorError(f'"{requirement.operator}" is not a valid label selector operator')
    return requirement


def _field_requirement(wire: RequirementWire) -> Requirement:
    requirement = _requirement(wire)
    if requirement.operator not in _SETS:
        raise SelectorError(f'"{requirement.operator}" is not a valid field selector operator')
    if len(requirement.values) != 1:
        raise SelectorError(f"{requirement.key}: must have one element")
    return requirement


def _one_integer(values: tuple[str, ...]) -> bool:
    return len(values) == 1 and int64(values[0]) is not None
