"""Decodes affinity, tolerations and topology spread of a pod spec.

The API server merges matchLabelKeys into the selectors when it stores a pod. A template still has the keys: they
are merged here with the labels of the template, so that the record is that of the pods made from it.
"""

from __future__ import annotations

from collections.abc import Iterable

from rescheduler.model.decode.pod_wire_types import (
    PodAffinityTermWire,
    PreferredNodeTermWire,
    SpreadWire,
    TolerationWire,
    WeightedPodAffinityTermWire,
)
from rescheduler.model.decode.selectors import label_selector, node_selector_term
from rescheduler.model.records import (
    PodAffinityTerm,
    PreferredNodeTerm,
    SpreadConstraint,
    Toleration,
    WeightedPodAffinityTerm,
)
from rescheduler.model.selectors import LabelSelector, LabelSet, Operator, Requirement


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
        Toleration(w.key or "", w.operator or "Equal", w.value or "", w.effect or "", w.toleration_seconds)
        for w in wires or ()
    )


def spread_constraints(wires: Iterable[SpreadWire] | None) -> tuple[SpreadConstraint, ...]:
    """Topology spread constraints with the scheduler's defaults."""
    return tuple(
        SpreadConstraint(
            max_skew=w.max_skew or 0,
            topology_key=w.topology_key or "",
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
        topology_key=wire.topology_key or "",
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
