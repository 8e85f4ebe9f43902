"""Answers that are kept until what they depend on changes: the one way in which results outlive a question.

An answer is kept with a stamp: versions or epochs of everything that it was worked out from. With another
stamp it is worked out again. So no change has to know which answers it makes void.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Memo:
    """Kept answers by question. It belongs to what they are about, and goes with it."""

    __slots__ = ("_answers",)

    def __init__(self) -> None:
        self._answers: dict[Hashable, tuple[object, Any]] = {}

    def of(self, question: Hashable, stamp: object, answer: Callable[[], T]) -> T:
        """The answer: the kept one if its stamp equals this one. Do not change what it gives."""
        kept = self._answers.get(question)
        if kept is None or kept[0] != stamp:
            kept = self._answers[question] = stamp, answer()
        found: T = kept[1]
        return found

    def clear(self) -> None:
        """Forget all answers."""
        self._answers.clear()
