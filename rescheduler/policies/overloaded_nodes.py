"""The pods of an overloaded node that are proposed to relieve it: few that cover what it has too much of, the others as spares. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from operator import attrgetter
from typing import Final

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.objective import Tier, gain
from rescheduler.policies.proposals import Batch, reluctance
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import BoolArray, FloatArray

_EPSILON: Final = 1e-9
_MILLION: Final = 1e6
_NAME: Final = attrgetter("namespace", "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class OverloadedNode:
    """An overloaded node and the pods that could relieve it."""

    node: int
    """Its index."""
    message: str
    """Which resources are above their threshold, for people."""
    measured: bool = False
    """What pods take is measured: so it is said, as nothing else tells."""
    pods: list[Pod]
    kinds: list[PodClass]
    """``pods[i]`` is of class ``kinds[i]``."""
    able: BoolArray
    """Which of the pods may be moved."""
    taken: FloatArray
    """What each pod (row) takes of each resource in excess (column)."""
    excess: FloatArray
    """Share above the threshold, of each resource in excess."""
    capacity: FloatArray
    """What the node can hold of each of them."""
    reliefs: FloatArray
    """By how many nodes its badness falls without each pod."""

    def movable(self) -> Iterator[tuple[Pod, PodClass]]:
        """Those that may be moved."""
        return compress(zip(self.pods, self.kinds, strict=True), self.able)


class ReliefProposals:
    """The pods of one overloaded node that are proposed."""

    def __init__(self, here: OverloadedNode, policy: str, least: float) -> None:
        """``least``: what a move must take off the badness."""
        self._here, self._policy, self._least = here, policy, least
        able: list[bool] = here.able.tolist()
        by_name = sorted(range(len(here.pods)), key=[_NAME(pod) for pod in here.pods].__getitem__)
        need = here.excess * here.capacity
        chosen = cover([i for i in by_name if able[i]], here.kinds, here.taken, need)
        by_age = sorted(by_name, key=[pod.created_at_s for pod in here.pods].__getitem__)
        picked = set(chosen)
        others = [i for i in by_age if able[i] and i not in picked]
        # Where what may move does not cover the excess, what is protected is proposed too, and reported.
        if (here.taken[chosen].sum(axis=0) < need - _EPSILON).any():
            chosen, others = [*chosen, *(i for i in by_age if not able[i]), *others], []
        self.needed = [self._batch(i, spare=False) for i in chosen]
        self._others = others

    @cached_property
    def spares(self) -> list[Batch]:
        """Those that could go instead; made once they are asked for."""
        return [self._batch(i, spare=True) for i in self._others]

    def _uses(self, number: int) -> str:
        """How much of the node the pod uses, in the resource where that is most of what is too much."""
        here = self._here
        shares = here.taken[number] / np.maximum(here.capacity, 1.0)
        return f", {shares[np.argmax(shares / here.excess)]:.0%} by this pod"

    def _batch(self, number: int, *, spare: bool) -> Batch:
        here = self._here
        return Batch(
            kind=here.kinds[number],
            pods=(here.pods[number],),
            policy=self._policy,
            reason="NodeOverloaded",
            message=here.message + (self._uses(number) if here.measured else ""),
            gain=gain(Tier.BALANCE, float(here.reliefs[number])),
            tier=Tier.BALANCE,
            spare=spare,
            least=self._least,
        )


def cover(
    by_name: Sequence[int], kinds: Sequence[PodClass], taken: FloatArray, need: FloatArray
) -> list[int]:
    """Few pods that cover the need: the smallest that covers all of the rest, else the largest.

    ``by_name``: the pods that may be chosen, as positions in ``kinds`` and ``taken``, by name. ``taken``: what each pod takes of each
    resource that is needed. The first of equals goes: the less reluctant, then the smaller, then by name; a pod that asks to
    be left alone goes only if no other helps.
    """
    dislikes = [reluctance(kinds[i]) for i in by_name]
    rows = taken[by_name]
    sizes = (rows / np.maximum(need, 1.0)).sum(axis=1)
    order = np.lexsort((sizes, [cost for _, _, cost in dislikes], [priority for _, priority, _ in dislikes]))
    willing = [not dislikes[i][0] for i in order.tolist()]
    ranked = [by_name[i] for i in order.tolist()]
    return [ranked[i] for i in _greedy(rows[order].tolist(), need.tolist(), willing)]


def _greedy(rows: Sequence[Sequence[float]], need: Sequence[float], willing: Sequence[bool]) -> list[int]:
    """The first row that covers most of what is left, again and again; rows that are willing go first."""
    # Rows that are equal are judged once: mostly pods of a few sizes stand on a node.
    alike: dict[tuple[bool, tuple[float, ...]], list[int]] = {}
    for number in reversed(range(len(rows))):
        alike.setdefault((willing[number], tuple(rows[number])), []).append(number)
    left = list(need)
    chosen: list[int] = []
    while True:
        open_ = [(i, amount) for i, amount in enumerate(left) if amount > _EPSILON]
        if not open_:
            return chosen
        best, most = None, (False, 0, 0)
        for kind, numbers in alike.items():
            worth = kind[0], _covered(kind[1], open_), -numbers[-1]
            if worth[1] > 0 and (best is None or worth > most):
                best, most = kind, worth
        if best is None:
            return chosen
        chosen.append(alike[best].pop())
        if not alike[best]:
            del alike[best]
        left = [max(amount - gone, 0.0) for amount, gone in zip(left, best[1], strict=True)]


def _covered(row: tuple[float, ...], open_: Sequence[tuple[int, float]]) -> int:
    """The mean share of what is left of each resource that a row covers."""
    total = 0.0
    for i, amount in open_:
        share = row[i] / amount
        total += min(1.0, share)
    # In whole millionths, so that equals are equal whatever order they were added up in.
    return round(total / len(open_) * _MILLION)
