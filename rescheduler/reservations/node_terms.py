"""Required node affinity that several selectors ask for together, as terms of the API (pure).

The terms of one selector are ORed, so selectors are ANDed by the product of their terms. What tenants write (node affinity of a
pod, volumes) decides how many there are. Promises: the result has at most ``MOST_TERMS`` terms and ``MOST_CHARACTERS`` of
them, whatever comes in, and is found without ever building more. Of one key the values are intersected instead, terms that
contradict themselves are left out, and equal ones are one.

A selector with which the result would be larger is left out. The result then matches more nodes, never fewer: who names the
node has judged it by every selector, and kube-scheduler judges the pod itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from rescheduler.model.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement

Json = dict[str, Any]

MOST_TERMS: Final = 128
MOST_CHARACTERS: Final = 64 * 1024

_Term: TypeAlias = "tuple[frozenset[Requirement], frozenset[Requirement]]"
"""Requirements on labels, and on fields."""
_EVERY_NODE: Final[_Term] = (frozenset(), frozenset())


def all_of(selectors: Iterable[NodeSelector], pin: Requirement | None = None) -> list[Json] | None:
    """Terms for the nodes that all ``selectors`` match, each with the requirement on fields ``pin``; None: every node.

    Empty and malformed terms match no node. No terms: a selector has none that are well formed.
    """
    terms: list[_Term] = [_EVERY_NODE]
    for selector in dict.fromkeys(selectors):
        others = _usable(selector)
        if others is None:
            continue
        narrowed = _product(terms, others)
        if narrowed is not None:
            terms = narrowed
    pinned = frozenset((pin,)) if pin is not None else frozenset()
    if terms == [_EVERY_NODE] and not pinned:
        return None
    return [_json(labels, fields | pinned) for labels, fields in terms]


def _usable(selector: NodeSelector) -> list[_Term] | None:
    """Its terms, those that differ in the values of one key as one; None: too many."""
    if sum(map(_size, selector.terms)) > MOST_CHARACTERS:
        return None
    found = [
        (frozenset(term.expressions), frozenset(term.fields))
        for term in selector.terms
        if not term.invalid and (term.expressions or term.fields)
    ]
    joined = _joined(dict.fromkeys(found))
    return joined if len(joined) <= MOST_TERMS else None


def _joined(terms: Iterable[_Term]) -> list[_Term]:
    """Terms that differ only in the values which they list of one key, as one term with all of them."""
    found: dict[tuple[str, _Term], set[str]] = {}
    rest: list[_Term] = []
    for labels, fields in terms:
        listed = sorted((r for r in labels if r.operator is Operator.IN), key=lambda r: (r.key, r.values))
        if not listed:
            rest.append((labels, fields))
            continue
        found.setdefault((listed[-1].key, (labels - {listed[-1]}, fields)), set()).update(listed[-1].values)
    made = [
        (labels | {Requirement(key, Operator.IN, tuple(sorted(values)))}, fields)
        for (key, (labels, fields)), values in found.items()
    ]
    return [*made, *rest]


def _product(terms: Sequence[_Term], others: Sequence[_Term]) -> list[_Term] | None:
    """Both at once; None: more than the bounds allow."""
    found: dict[_Term, None] = {}
    size = 0
    nowhere: _Term | None = None
    for one in terms:
        for other in others:
            joined = (one[0] | other[0], one[1] | other[1])
            both = _intersected(joined)
            if both is None:
                nowhere = nowhere or joined
            elif both not in found:
                found[both] = None
                size += sum(map(_length, (*both[0], *both[1])))
            if len(found) > MOST_TERMS or size > MOST_CHARACTERS:
                return None
    if not found and nowhere is not None:
        return [nowhere]  # well formed, and no node matches it
    return list(found)


def _intersected(term: _Term) -> _Term | None:
    """The term with one list of values for each key; None: no value is in all lists of a key."""
    labels, fields = _one_list_per_key(term[0]), _one_list_per_key(term[1])
    return None if labels is None or fields is None else (labels, fields)


def _one_list_per_key(requirements: frozenset[Requirement]) -> frozenset[Requirement] | None:
    listed: dict[str, set[str]] = {}
    kept: set[Requirement] = set()
    for requirement in requirements:
        if requirement.operator is not Operator.IN:
            kept.add(requirement)
        elif requirement.key in listed:
            listed[requirement.key] &= set(requirement.values)
        else:
            listed[requirement.key] = set(requirement.values)
    if not all(listed.values()):
        return None
    return frozenset(
        kept | {Requirement(key, Operator.IN, tuple(sorted(values))) for key, values in listed.items()}
    )


def _size(term: NodeSelectorTerm) -> int:
    return sum(map(_length, (*term.expressions, *term.fields)))


def _length(requirement: Requirement) -> int:
    return 40 + len(requirement.key) + sum(len(value) + 3 for value in requirement.values)


def _json(labels: frozenset[Requirement], fields: frozenset[Requirement]) -> Json:
    both = {"matchExpressions": _requirements(labels), "matchFields": _requirements(fields)}
    return {field: found for field, found in both.items() if found}


def _requirements(requirements: frozenset[Requirement]) -> list[Json]:
    return [_requirement(r) for r in sorted(requirements, key=lambda r: (r.key, str(r.operator), r.values))]


def _requirement(requirement: Requirement) -> Json:
    entry: Json = {"key": requirement.key, "operator": str(requirement.operator)}
    if requirement.values:
        entry["values"] = list(requirement.values)
    return entry
