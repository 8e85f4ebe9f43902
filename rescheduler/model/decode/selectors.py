"""Decodes label and node selectors, affinity, tolerations and spread. A malformed selector keeps its error and matches nothing.

Validation and error texts are those of apimachinery's ``LabelSelectorAsSelector`` and of component-helpers'
``nodeaffinity``. The API server merges matchLabelKeys into the selectors when it stores a pod. A template still has the keys: they are
merged here with the labels of the template, so that the record is that of the pods made from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from sys import intern
from typing import Final

import msgspec

from rescheduler.errors import ReschedulerError
from rescheduler.model.decode.pod_wire_types import (
    PodAffinityTermWire,
    PreferredNodeTermWire,
    SpreadWire,
    TolerationWire,
    WeightedPodAffinityTermWire,
)
from rescheduler.model.decode.wire_types import (
    LabelSelectorWire,
    NodeSelectorTermWire,
    NodeSelectorWire,
    RequirementWire,
    Wire,
)
from rescheduler.model.records import (
    PodAffinityTerm,
    PreferredNodeTerm,
    SpreadConstraint,
    Toleration,
    WeightedPodAffinityTerm,
)
from rescheduler.model.selectors import (
    LabelSelector,
    LabelSet,
    NodeSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    int64,
    key_error,
    value_error,
)

_NO_INTEGER: Final = "for 'Gt', 'Lt' operators, the value must be an integer"
_SETS: Final = frozenset({Operator.IN, Operator.NOT_IN})
_PRESENCE: Final = frozenset({Operator.EXISTS, Operator.DOES_NOT_EXIST})
_ORDER: Final = frozenset({Operator.GT, Operator.LT})
_TOLERATIONS: Final = 1024
_SELECTORS: Final = 1 << 14


class TopologyRequirementWire(Wire):
    """v1.TopologySelectorLabelRequirement."""

    key: str | None = None
    values: list[str] | None = None


class TopologyTermWire(Wire):
    """v1.TopologySelectorTerm."""

    match_label_expressions: list[TopologyRequirementWire] | None = None


class SelectorError(ReschedulerError, ValueError):
    """A requirement that the API server would reject."""


def label_selector(wire: LabelSelectorWire | None) -> LabelSelector | None:
    """A metav1.LabelSelector; None stays None (it matches nothing)."""
    if wire is None:
        return None
    labels = tuple((wire.match_labels or {}).items())
    return _selector(labels, wire.match_expressions) if wire.match_expressions else _of_labels(labels)


@lru_cache(maxsize=_SELECTORS)
def _of_labels(labels: tuple[tuple[str, str | None], ...]) -> LabelSelector:
    """A controller and the rules of its pods mostly have the same one."""
    return _selector(labels, ())


def forget_selectors() -> None:
    """Keep none to share it with what is read later: the text of a selector takes more memory than the record."""
    _of_labels.cache_clear()


def _selector(
    labels: Iterable[tuple[str, str | None]], expressions: Iterable[RequirementWire]
) -> LabelSelector:
    try:
        found = [_checked(key, Operator.IN, [value or ""]) for key, value in labels]
        found.extend(map(_label_requirement, expressions))
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
    errors: list[str] = []
    expressions = [_node_requirement(item, errors) for item in wire.match_expressions or ()]
    fields = [_field_requirement(item, errors) for item in wire.match_fields or ()]
    if errors:
        return NodeSelectorTerm(invalid=_aggregate(errors))
    return NodeSelectorTerm(_sorted(expressions), _sorted(fields))


def topology_term(wire: TopologyTermWire) -> NodeSelectorTerm:
    """A v1.TopologySelectorTerm: requirements on labels."""
    return NodeSelectorTerm(
        tuple(
            Requirement(item.key or "", Operator.IN, tuple(sorted(item.values or ())))
            for item in wire.match_label_expressions or ()
        )
    )


def _sorted(requirements: Iterable[Requirement | None]) -> tuple[Requirement, ...]:
    known = (requirement for requirement in requirements if requirement is not None)
    return tuple(sorted(known, key=lambda r: (r.key, r.operator, r.values)))


def _checked(key: str, operator: Operator, values: list[str]) -> Requirement:
    """A requirement on labels; the error lists every mistake, as in Kubernetes."""
    # kube-scheduler reports all errors of a requirement in this order: key, number of values, each value. The text is
    # the reason of a pod's condition, so it has to be the same here.
    errors: list[str] = []
    if wrong := key_error(key):
        errors.append(_invalid("key", key, wrong))
    if operator in _SETS and not values:
        errors.append(_invalid("values", None, "for 'in', 'notin' operators, values set can't be empty"))
    elif operator in _PRESENCE and values:
        errors.append(_invalid("values", values, "values set must be empty for exists and does not exist"))
    elif operator in _ORDER:
        if len(values) != 1:
            rule = "for 'Gt', 'Lt' operators, exactly one value is required"
            errors.append(_invalid("values", values or None, rule))
        errors.extend(
            _invalid(f"values[{i}]", value, _NO_INTEGER)
            for i, value in enumerate(values)
            if int64(value) is None
        )
    for i, value in enumerate(values):
        if wrong := value_error(value):
            errors.append(_invalid(f"values[{i}][{key}]", value, wrong))
    if errors:
        raise SelectorError(_aggregate(errors))
    return Requirement(intern(key), operator, tuple(sorted(map(intern, values))))


def _label_requirement(wire: RequirementWire) -> Requirement:
    operator = _operator(wire)
    if operator is None or operator in _ORDER:
        raise SelectorError(f'"{wire.operator or ""}" is not a valid label selector operator')
    return _checked(wire.key or "", operator, wire.values or [])


def _node_requirement(wire: RequirementWire, errors: list[str]) -> Requirement | None:
    operator = _operator(wire)
    if operator is None:
        errors.append(f'"{wire.operator or ""}" is not a valid node selector operator')
        return None
    try:
        return _checked(wire.key or "", operator, wire.values or [])
    except SelectorError as error:
        errors.append(str(error))
        return None


def _field_requirement(wire: RequirementWire, errors: list[str]) -> Requirement | None:
    operator, values = _operator(wire), wire.values or []
    if operator not in _SETS or operator is None:
        errors.append(f'"{wire.operator or ""}" is not a valid field selector operator')
        return None
    if len(values) != 1:
        errors.append(_invalid("values", values or None, "must have one element"))
    return Requirement(wire.key or "", operator, tuple(values))


def _operator(wire: RequirementWire) -> Operator | None:
    try:
        return Operator(wire.operator or "")
    except ValueError:
        return None


def _invalid(place: str, value: str | list[str] | None, rule: str) -> str:
    return f"{place}: Invalid value: {msgspec.json.encode(value).decode()}: {rule}"


def _aggregate(errors: list[str]) -> str:
    """Several errors as Kubernetes prints an aggregate: each once, in brackets if there are several."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""


def preferred_node_terms(wires: Iterable[PreferredNodeTermWire] | None) -> tuple[PreferredNodeTerm, ...]:
    """Weighted node selector terms."""
    return tuple(PreferredNodeTerm(w.weight or 0, node_selector_term(w.preference)) for w in wires or ())


def pod_terms(
    wires: Iterable[PodAffinityTermWire] | None, merge: LabelSet | None
) -> tuple[PodAffinityTerm, ...]:
    """Required terms. ``merge``: labels of the template; None for a stored pod."""
    return tuple(_pod_term(w, merge) for w in wires or ())


def weighted_pod_terms(
    wires: Iterable[WeightedPodAffinityTermWire] | None, merge: LabelSet | None
) -> tuple[WeightedPodAffinityTerm, ...]:
    """Preferred terms; ``merge`` as for ``pod_terms``."""
    return tuple(
        WeightedPodAffinityTerm(w.weight or 0, _pod_term(w.pod_affinity_term or PodAffinityTermWire(), merge))
        for w in wires or ()
    )


def tolerations(wires: Iterable[TolerationWire] | None) -> tuple[Toleration, ...]:
    """Tolerations in their order; an empty operator is Equal."""
    return tuple(
        _toleration(w.key or "", w.operator or "Equal", w.value or "", w.effect or "", w.toleration_seconds)
        for w in wires or ()
    )


@lru_cache(maxsize=_TOLERATIONS)
def _toleration(key: str, operator: str, value: str, effect: str, seconds: int | None) -> Toleration:
    """Nearly all pods have the same two."""
    return Toleration(key, operator, value, effect, seconds)


def spread_constraints(wires: Iterable[SpreadWire] | None) -> tuple[SpreadConstraint, ...]:
    """Topology spread constraints with the scheduler's defaults."""
    return tuple(
        SpreadConstraint(
            max_skew=w.max_skew or 0,
            topology_key=intern(w.topology_key or ""),
            hard=w.when_unsatisfiable != "ScheduleAnyway",
            selector=label_selector(w.label_selector),
            min_domains=1 if w.min_domains is None else w.min_domains,
            node_affinity_honor=w.node_affinity_policy in (None, "Honor"),
            node_taints_honor=w.node_taints_policy == "Honor",
            match_label_keys=tuple(w.match_label_keys or ()),
        )
        for w in wires or ()
    )


def _pod_term(wire: PodAffinityTermWire, merge: LabelSet | None) -> PodAffinityTerm:
    selector = label_selector(wire.label_selector)
    if merge is not None and selector is not None:
        selector = _merged(selector, wire, merge)
    return PodAffinityTerm(
        selector=selector,
        topology_key=intern(wire.topology_key or ""),
        namespaces=tuple(sorted(wire.namespaces or ())),
        namespace_selector=label_selector(wire.namespace_selector),
    )


def _merged(selector: LabelSelector, wire: PodAffinityTermWire, labels: LabelSet) -> LabelSelector:
    extra = [
        Requirement(key, operator, (labels[key],))
        for keys, operator in (
            (wire.match_label_keys, Operator.IN),
            (wire.mismatch_label_keys, Operator.NOT_IN),
        )
        for key in keys or ()
        if key in labels
    ]
    if not extra:
        return selector
    merged = sorted({*selector.requirements, *extra}, key=lambda r: (r.key, r.operator, r.values))
    return LabelSelector(tuple(merged), selector.invalid)
