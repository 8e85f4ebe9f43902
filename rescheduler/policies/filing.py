"""Things that belong to label selectors, filed so that those of one pod are found without asking all. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Generic, TypeVar

from rescheduler.model.selectors import LabelSelector, LabelSet, Operator

T = TypeVar("T")


class Filed(Generic[T]):
    """Things that belong to selectors, found by the labels that they could match."""

    def __init__(self) -> None:
        self._by_label: defaultdict[tuple[str, str], list[T]] = defaultdict(list)
        self._elsewhere: list[T] = []

    def file(self, selector: LabelSelector | None, thing: T) -> None:
        """File it; what has no selector is never found."""
        if selector is None:
            return
        by_label = next((r for r in selector.requirements if r.operator is Operator.IN), None)
        if by_label is None:
            self._elsewhere.append(thing)
            return
        for value in by_label.values:
            self._by_label[by_label.key, value].append(thing)

    def near(self, labels: LabelSet) -> Iterator[T]:
        """Everything that could match the labels, and no more than once."""
        for item in labels.items():
            yield from self._by_label.get(item, ())
        yield from self._elsewhere
