"""The search of a plan: a large neighbourhood search (Shaw 1998) on numbers, without a clock.

A first solution is made without chance. Then parts of the solution are taken back, as if by chance, and made again in another
order. What is worse is undone; the best is kept, so nothing worse than the first solution is ever given. The
number of repetitions is bounded and the generator seeded, so the same input gives the same result. One repetition looks
at a bounded number of nodes and pods, so it takes no longer on a big cluster. Where nothing better was found for longer than it
took to find the best, and a while more, nothing is sought any longer.

What is wanted, and how a part is made again, are the three operators: ``repair`` (badly placed pods, others step aside),
``relieve`` (overloaded nodes), ``empty`` (whole nodes).
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import ClassVar, Final

from rescheduler.planning.problem import SearchProblem, SearchSolution
from rescheduler.planning.search_state import SearchState

LOOKS_PER_PASS: Final = 500
"""A search ends early once it has looked so often for a node for a pod, for each of its passes: on big clusters one repetition is thousands."""
SOME_NODES: Final = 32
"""Of many nodes, those that are looked at: the likeliest ones."""
SOME_PODS: Final = 8
"""Of many pods, those that are tried: the likeliest ones."""
HALF: Final = 0.5
"""How often chance decides one way, and the part of a solution that it keeps."""
_EPSILON: Final = 1e-9


class SearchOperator(ABC):
    """Changes a search state for one purpose."""

    patience: ClassVar[int] = 4
    """A part of all looks, one in so many, is the while after which nothing is sought any longer."""

    def __init__(self, problem: SearchProblem) -> None:
        self.state = SearchState(problem)
        self.looks = 0.0
        """How often it was looked for a node for a pod."""
        self._rng = random.Random(0)  # noqa: S311 -- chance that is the same every time, no secret

    def search(self, passes: int) -> SearchSolution:
        """The best solution. ``passes``: how long it is tried; 1: hardly longer than the first solution takes."""
        state = self.state
        self._begin()
        best, best_worth = state.solution(), self._worth()
        repetitions, looks = self._repetitions(passes), passes * LOOKS_PER_PASS
        most = self.looks + looks
        until = self.looks + looks / self.patience
        for number in range(repetitions):
            if self.looks >= min(most, until) or self._done():
                break
            before, goes_on = state.solution(), self._goes_on()
            if not self._repeat(number, best):
                state.restore(before)
                continue
            worth = self._worth()
            if worth > best_worth + _EPSILON:
                best, best_worth = state.solution(), worth
                until = 2 * self.looks + looks / self.patience
            if self._goes_on() < goes_on - _EPSILON:
                state.restore(before)
        state.restore(best)
        return best

    @abstractmethod
    def _begin(self) -> None:
        """Make the first solution."""

    @abstractmethod
    def _repetitions(self, passes: int) -> int:
        """How often a part is made again at most."""

    @abstractmethod
    def _repeat(self, number: int, best: SearchSolution) -> bool:
        """Take back a part, and make it again in another order. False: it could not be. ``best``: of those so far."""

    @abstractmethod
    def _worth(self) -> float:
        """More is better."""

    def _goes_on(self) -> float:
        """What must not get less for the search to go on from a repetition."""
        return self._worth()

    @abstractmethod
    def _done(self) -> bool:
        """True if nothing better can be found."""
