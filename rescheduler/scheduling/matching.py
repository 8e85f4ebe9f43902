"""Which pods a term of pod affinity or a spread constraint talks about, and indexes to find them fast.

A ``Matcher`` is a label selector over a scope of namespaces. Indexes answer "which of these selectors
could match this pod" by one label that the selector demands, so that a thousand applications with a
selector each cost a few look-ups and not a thousand comparisons.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from rescheduler.model.records import Namespace, PodAffinityTerm
from rescheduler.model.selectors import NO_LABELS, LabelSelector, LabelSet, Operator

T = TypeVar("T")


class NamespaceScope(NamedTuple):
    """Namespaces by name, or by a selector on their labels (None: none by labels)."""

    names: frozenset[str]
    selector: LabelSelector | None = None

    def covers(self, namespace: str, known: Mapping[str, Namespace], *, own: bool) -> bool:
        """True if the namespace belongs to it.

        ``own``: the term is the asked pod's; kube-scheduler then resolves the selector to the namespaces
        that exist, otherwise a missing namespace counts as one without labels.
        """
        if namespace in self.names:
            return True
        if self.selector is None:
            return False
        if self.selector.empty:
            return True
        record = known.get(namespace)
        if record is None and own:
            return False
        return self.selector.matches(record.labels if record else NO_LABELS)


class Matcher(NamedTuple):
    """Pods of a scope that a selector matches."""

    scope: NamespaceScope
    selector: LabelSelector | None

    def matches(self, namespace: str, labels: LabelSet, known: Mapping[str, Namespace], *, own: bool) -> bool:
        """True if it talks about a pod of this namespace with these labels."""
        return (
            self.selector is not None
            and self.scope.covers(namespace, known, own=own)
            and self.selector.matches(labels)
        )


def matcher_of(term: PodAffinityTerm, namespace: str) -> Matcher:
    """The matcher of a term that stands on a pod of ``namespace``."""
    if not term.namespaces and term.namespace_selector is None:
        return Matcher(NamespaceScope(frozenset((namespace,))), term.selector)
    return Matcher(NamespaceScope(frozenset(term.namespaces), term.namespace_selector), term.selector)


def parsed(terms: Iterable[PodAffinityTerm]) -> bool:
    """True if all terms of a group could be parsed; else kube-scheduler counts none of them for a running pod."""
    selectors = (selector for term in terms for selector in (term.selector, term.namespace_selector))
    return not any(selector is not None and selector.invalid for selector in selectors)


def demanded_label(selector: LabelSelector | None) -> tuple[str, str] | None:
    """A label that every matching pod carries, if the selector demands one value of some key."""
    if selector is None:
        return None
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None


class MatcherIndex(Generic[T]):
    """Finds items by a pod that their matcher may match; callers still ask ``Matcher.matches``."""

    def __init__(self) -> None:
        self._buckets: dict[tuple[str, tuple[str, str] | None], list[T]] = {}

    def add(self, matcher: Matcher, item: T) -> None:
        """Put an item where pods that it may match will find it."""
        if matcher.selector is None or matcher.selector.invalid:
            return
        label = demanded_label(matcher.selector)
        narrow = matcher.scope.selector is None
        for namespace in matcher.scope.names if narrow else ("",):
            self._buckets.setdefault((namespace, label), []).append(item)

    def candidates(self, namespace: str, labels: LabelSet) -> Iterator[T]:
        """Items whose matcher may match; each at most once."""
        buckets = self._buckets
        for scope in (namespace, ""):
            yield from buckets.get((scope, None), ())
            for label in labels.items():
                yield from buckets.get((scope, label), ())


class PodIndex(Generic[T]):
    """Finds kinds of pods by a matcher that may match them; the mirror of ``MatcherIndex``."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], list[T]] = {}
        self._by_namespace: dict[str, list[T]] = {}
        self._all: list[T] = []

    def add(self, namespace: str, labels: LabelSet, item: T) -> None:
        """Put an item where matchers that may match it will find it."""
        for label in labels.items():
            self._by_label.setdefault(label, []).append(item)
        self._by_namespace.setdefault(namespace, []).append(item)
        self._all.append(item)

    def candidates(self, matcher: Matcher) -> Iterator[T]:
        """Items that may match; each once."""
        if matcher.selector is None or matcher.selector.invalid:
            return
        label = demanded_label(matcher.selector)
        if label is not None:
            yield from self._by_label.get(label, ())
        elif matcher.scope.selector is None:
            for namespace in matcher.scope.names:
                yield from self._by_namespace.get(namespace, ())
        else:
            yield from self._all
