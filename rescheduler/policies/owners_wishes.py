"""The preferred node affinity that the owner of a pod wrote, without the hint that admission added to it. Pure."""

from __future__ import annotations

import msgspec

from rescheduler.model.node_marks import is_avoid_hint
from rescheduler.model.records import PodSpec, PreferredNodeTerm
from rescheduler.policies.framework import PolicyView
from rescheduler.scheduling.classes import PodClass


def owners_terms(kind: PodClass, view: PolicyView) -> tuple[PreferredNodeTerm, ...]:
    """The preferred terms of a class of pods. One in the form of a hint is the owner's if the template has it, too."""
    terms = kind.spec.node_affinity_preferred
    if not any(is_avoid_hint(term) for term in terms):
        return terms
    written = _template_terms(kind, view)
    return tuple(term for term in terms if term in written or not is_avoid_hint(term))


def owners_spec(kind: PodClass, view: PolicyView) -> PodSpec:
    """The spec of a class of pods without hints; the same object as long as the template is the same."""
    terms = owners_terms(kind, view)
    if terms == kind.spec.node_affinity_preferred:
        return kind.spec
    return kind.memo.of(
        owners_spec, terms, lambda: msgspec.structs.replace(kind.spec, node_affinity_preferred=terms)
    )


def _template_terms(kind: PodClass, view: PolicyView) -> tuple[PreferredNodeTerm, ...]:
    owner = kind.controller
    workload = view.snapshot.workloads.get(owner.uid) if owner is not None else None
    template = workload.template if workload is not None else None
    return template.node_affinity_preferred if template is not None else ()
