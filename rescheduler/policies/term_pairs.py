"""Pairs of pods that a term of pod (anti-)affinity is about: one carries it, it matches the other, and both share a domain.

The number of pairs is a function of where pods stand, whichever of the two came first. A pod is no pair with itself; two
pods that carry a term which matches both are two pairs, one in each direction. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.framework import PolicyView
from rescheduler.scheduling.classes import PodClass, PodGroup, TermCount, TermKind
from rescheduler.scheduling.counts import Counts
from rescheduler.scheduling.framework import IntArray


class PairChange(NamedTuple):
    """How many pairs of one term come (or go, below 0)."""

    term: TermCount
    by_node: IntArray


def matched_by(term: TermCount, view: PolicyView) -> PodGroup:
    """The pods that a term matches."""
    return view.cluster.matched_by(term)


def may_have_pairs(term: TermCount, matched: PodGroup) -> bool:
    """False if no two pods that a term is about stand in one domain: nearly always, and cheaply said."""
    carriers = term.counts.values
    if not carriers:
        return False
    if max(carriers.values()) > 1:
        return True
    # Most terms match just the pods that carry them: then no domain has two of them, and counting is needless.
    strangers = [known for known in matched.classes if known.pods and term not in known.terms]
    codes = term.column.code_list
    return any(codes[node] in carriers for known in strangers for node in known.nodes)


def pairs_of(term: TermCount, view: PolicyView) -> int:
    """All pairs of a term as pods stand now."""
    matched = matched_by(term, view)
    if not may_have_pairs(term, matched):
        return 0
    there = matched.in_domains(term.column).values
    together = sum(count * there.get(domain, 0) for domain, count in term.counts.values.items())
    codes = term.column.codes
    with_themselves = sum(
        known.terms.count(term) * int(np.count_nonzero(codes[known.where] >= 0))
        for known in term.carriers
        if known.pods and matched in known.groups
    )
    return together - with_themselves


def pairs_with(pod: Pod, kinds: frozenset[TermKind], view: PolicyView) -> int:
    """The pairs of these kinds that a pod is one of, where it stands."""
    kind, here = view.cluster.kind_of(pod), view.state.node_index[pod.node]
    return sum(_pairs_with(term, kind, here, view).gone for term in terms_of(kind, kinds, view))


def changes_in_pairs(
    pod: Pod, then: PodClass, kinds: frozenset[TermKind], view: PolicyView
) -> Iterator[PairChange]:
    """By term of these kinds, what a move changes: the pod goes, and one of class ``then`` stands on each node instead.

    The pod's own node is meant like any other here. Terms of which nothing can change are left out.
    """
    kind, here = view.cluster.kind_of(pod), view.state.node_index[pod.node]
    for term in _touched(kind, then, kinds, view):
        found = _change(term, (kind, here), then, view)
        if found is not None:
            yield PairChange(term, found)


def _touched(
    kind: PodClass, then: PodClass, kinds: frozenset[TermKind], view: PolicyView
) -> tuple[TermCount, ...]:
    """The terms that are about pods of either class."""
    terms = terms_of(kind, kinds, view)
    return terms if then is kind else tuple(dict.fromkeys((*terms, *terms_of(then, kinds, view))))


def terms_of(kind: PodClass, kinds: frozenset[TermKind], view: PolicyView) -> tuple[TermCount, ...]:
    """Those that pods of the class carry, and those that match them."""

    def find() -> tuple[TermCount, ...]:
        carried = [term for term in kind.terms if term.key.kind in kinds]
        about = [term for term in view.cluster.terms_about(kind) if term.key.kind in kinds]
        matching = [term for term in about if matched_by(term, view) in kind.groups]
        return tuple(dict.fromkeys((*carried, *matching)))

    return kind.memo.of((terms_of, kinds), view.cluster.terms_version, find)


def _change(
    term: TermCount, leaving: tuple[PodClass, int], then: PodClass, view: PolicyView
) -> IntArray | None:
    pairs = _pairs_with(term, *leaving, view)
    come: IntArray = np.zeros(len(term.column.values), dtype=np.int64)
    for times, counts, own in (
        (then.terms.count(term), pairs.matched, pairs.is_matched),
        (int(matched_by(term, view) in then.groups), term.counts, pairs.carries),
    ):
        if times:
            _add(come, counts, times)
            if pairs.domain >= 0:
                come[pairs.domain] -= times * own
    if not pairs.gone and not come.any():
        return None
    return term.column.spread(come) - pairs.gone


class _Pairs(NamedTuple):
    """What a pod on a node has to do with a term."""

    domain: int
    """Of its node; -1: none."""
    matched: Counts
    """The pods that the term matches, by domain."""
    carries: int
    """How often the pod carries the term."""
    is_matched: int
    """1 if the term matches the pod."""
    gone: int
    """The pairs that the pod is one of."""


def _pairs_with(term: TermCount, kind: PodClass, here: int, view: PolicyView) -> _Pairs:
    matched = matched_by(term, view)
    there = matched.in_domains(term.column)
    source = term.column.code_list[here]
    carries, is_matched = kind.terms.count(term), int(matched in kind.groups)
    gone = 0
    if source >= 0:
        # It is among those counted in its domain, and no pair with itself.
        others, their_carriers = there.at(source) - is_matched, term.counts.at(source) - carries
        gone = carries * others + is_matched * their_carriers
    return _Pairs(source, there, carries, is_matched, gone)


def _add(to: IntArray, counts: Counts, times: int) -> None:
    if len(counts.values) * 8 > len(to):
        to += times * counts.dense()
    else:
        for index, number in counts.values.items():
            to[index] += times * number
