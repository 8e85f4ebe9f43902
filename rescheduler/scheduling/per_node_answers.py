"""Answers about nodes that depend on a node and on what it holds alone: only nodes touched since are judged again.

A pod that moves touches two nodes, so the next question of the same kind costs two nodes and not all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

import numpy as np

from rescheduler.scheduling.framework import IntArray, NodeIndices

_QUESTIONS: Final = 192
"""So many are kept; one more lets the oldest go."""
_FEW: Final = 4
"""If more than one in so many nodes was touched, all are judged: that is cheaper than picking them out."""


class PerNodeAnswers:
    """For one set of nodes. A change of what a node holds is told by ``touch``."""

    def __init__(self, size: int) -> None:
        self._everything: NodeIndices = np.arange(size, dtype=np.intp)
        self._answers: dict[Hashable, tuple[IntArray, int]] = {}
        """Question -> the answers, and how many touches they know of."""
        self._touched: list[int] = []
        self._forgotten = 0
        """Touches before the first in the list."""

    def touch(self, node: int) -> None:
        """What the node holds is different now."""
        self._touched.append(node)
        if len(self._touched) > 2 * len(self._everything):
            self._forgotten += len(self._touched)
            self._touched.clear()

    def forget(self) -> None:
        """The nodes themselves are different now."""
        self._answers.clear()

    def of(self, question: Hashable, judge: Callable[[NodeIndices], IntArray]) -> IntArray:
        """The answers for all nodes. Not to be changed, and valid until the next pod comes or goes."""
        now = self._forgotten + len(self._touched)
        known = self._answers.get(question)
        if known is None:
            if len(self._answers) >= _QUESTIONS:
                del self._answers[next(iter(self._answers))]
            answers = judge(self._everything)
        else:
            answers = self._renewed(*known, judge)
        self._answers[question] = answers, now
        return answers

    def _renewed(self, answers: IntArray, since: int, judge: Callable[[NodeIndices], IntArray]) -> IntArray:
        if since < self._forgotten:
            return judge(self._everything)
        fresh = self._touched[since - self._forgotten :]
        if len(fresh) * _FEW > len(self._everything):
            return judge(self._everything)
        if fresh:
            nodes = np.array(fresh, dtype=np.intp)
            answers[nodes] = judge(nodes)
        return answers
