"""A topology spread after each of two stages of moves: kept count by count, it says what counting everything anew would."""

import itertools
import random

import numpy as np
import pytest

from rescheduler.planning.problem import Replicas, Spread
from rescheduler.planning.staged_rules import Crowd, StagedSpread
from tests.seeds import seeds


class Recount:
    """The same questions, each answered by carrying out all moves from the start."""

    def __init__(self, spread):
        self.spread, self.moves = spread, []

    def after(self, stage, moves):
        counts = list(self.spread.counts)
        for source, target, when in moves:
            if when <= stage:
                for node, number in ((source, -1), (target, 1)):
                    if self.spread.domains[node] >= 0:
                        counts[self.spread.domains[node]] += number
        return counts

    def too_many(self, counts):
        least = min((counts[domain] for domain in self.spread.valid), default=0)
        return [max(0, count - least - self.spread.max_skew) for count in counts]

    def excess(self):
        found = self.too_many(self.after(2, self.moves))
        return sum(found[domain] for domain in self.spread.valid)

    def crowded(self, node):
        domain = self.spread.domains[node]
        return domain >= 0 and self.too_many(self.after(2, self.moves))[domain] > 0

    def takes(self, source, target, stage):
        domains = self.spread.domains
        if domains[target] < 0:
            return False
        if domains[source] == domains[target]:
            return not self.crowded(source)
        moves = [*self.moves, (source, target, stage)]
        return all(
            not self.too_many(self.after(number, moves))[domains[node]]
            for number in range(stage, 3)
            for come, node, when in moves
            if when == number and domains[node] >= 0 and domains[come] != domains[node]
        )


@pytest.mark.parametrize("seed", seeds(0, 200, 10))
def test_after_any_moves_and_their_undoing_it_says_what_a_recount_says(seed):
    rng = random.Random(seed)  # noqa: S311 -- the same every time
    domains, nodes = rng.randint(1, 5), rng.randint(2, 9)
    spread = Spread(
        domains=np.array([rng.randint(-1, domains - 1) for _ in range(nodes)]),
        counts=[rng.randint(0, 4) for _ in range(domains)],
        valid=sorted(rng.sample(range(domains), rng.randint(0, domains))),
        max_skew=rng.randint(1, 2),
    )
    asked, recount = StagedSpread(spread, 2), Recount(spread)
    for _ in range(30):
        move = rng.randrange(nodes), rng.randrange(nodes), rng.randint(1, 2)
        source, target, stage = move
        taking = asked.restrict(source, np.ones(nodes, dtype=np.bool_), stage)
        assert taking[target] == recount.takes(*move)
        assert asked.excess() == recount.excess()
        assert asked.crowded(move[0]) == recount.crowded(move[0])
        if recount.moves and rng.random() < 0.4:
            undone = recount.moves.pop(rng.randrange(len(recount.moves)))
            asked.move(*undone, -1)
        else:
            recount.moves.append(move)
            asked.move(*move, 1)


def test_replicas_gather_up_to_the_bound_on_a_node_and_in_a_zone():
    """Three of them on nodes 0, 1 (one zone) and 3; node 4 has no zone."""
    crowd = Crowd(Replicas({0: 1, 1: 1, 3: 1}, np.array([0, 0, 1, 1, -1]), most=2))

    def takes(source):
        return crowd.restrict(source, np.ones(5, dtype=np.bool_)).tolist()

    assert takes(3) == [False, False, True, True, True]
    assert takes(0) == [True] * 5
    crowd.move(0, 3)
    assert takes(1) == [True, True, False, False, True]
    crowd.move(3, 4)
    assert takes(1) == [True] * 5


def test_replicas_that_stand_in_one_place_have_no_spread_to_lose():
    crowd = Crowd(Replicas({0: 3}, np.array([0, 0, 1]), most=2))
    assert crowd.restrict(0, np.ones(3, dtype=np.bool_)).all()


def moves_until_even(counts, max_skew):
    """How many moves it takes, each tried."""
    seen, level, number = {counts}, [counts], 0
    while all(max(some) - min(some) > max_skew for some in level):
        moved = {
            tuple(count - (i == source) + (i == target) for i, count in enumerate(some))
            for some in level
            for source, target in itertools.permutations(range(len(some)), 2)
            if some[source]
        }
        level, number = sorted(moved - seen), number + 1
        seen |= moved
    return number


@pytest.mark.parametrize("max_skew", [1, 2, 3])
def test_the_least_moves_are_those_that_it_takes(max_skew):
    for counts in itertools.product(range(5), repeat=3):
        spread = Spread(domains=np.arange(3), counts=counts, valid=(0, 1, 2), max_skew=max_skew)
        assert StagedSpread(spread, 2).least_moves() == moves_until_even(counts, max_skew)
