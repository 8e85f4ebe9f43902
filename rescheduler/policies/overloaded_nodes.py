"""The pods of an overloaded node that are proposed to relieve it: few that cover what it has too much of, the others as spares. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from operator import attrgetter, itemgetter
from typing import Final

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.objective import Tier, gain
from rescheduler.policies.proposals import Batch, reluctance
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import BoolArray, FloatArray

_EPSILON: Final = 1e-9
_NAME: Final = attrgetter("namespace", "name")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OverloadedNode:
    """An overloaded node and the pods that could relieve it. Equal ones get the same proposals."""

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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OverloadedNode) and self._proposed_by() == other._proposed_by()

    __hash__ = None  # type: ignore[assignment]

    def _proposed_by(self) -> tuple[object, ...]:
        arrays = (self.able, self.taken, self.excess, self.capacity)
        return self.message, self.pods, *(array.tobytes() for array in arrays)

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
        reluctances = {id(kind): reluctance(kind) for kind in here.kinds}
        chosen: list[int] = []
        # Numbers of a few resources each: lists are faster than arrays.
        left: list[float] = (here.excess * here.capacity).tolist()
        taken: list[list[float]] = here.taken.tolist()
        order = [(reluctances[id(here.kinds[i])], -float(here.reliefs[i]), i) for i in by_name if able[i]]
        for _, _, i in sorted(order, key=itemgetter(0, 1)):
            if any(rest > _EPSILON and part > 0 for rest, part in zip(left, taken[i], strict=True)):
                chosen.append(i)
                left = [rest - part for rest, part in zip(left, taken[i], strict=True)]
        by_age = sorted(by_name, key=[pod.created_at_s for pod in here.pods].__getitem__)
        picked = set(chosen)
        others = [i for i in by_age if able[i] and i not in picked]
        # Where what may move does not cover the excess, what is protected is proposed too, and reported.
        if any(rest > _EPSILON for rest in left):
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
