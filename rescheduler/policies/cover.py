"""Which pods of an overloaded node should go, so that few of them together cover what it holds too much. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.classes import PodClass
from rescheduler.policies.order import reluctance
from rescheduler.scheduling.framework import BoolArray, FloatArray

EPSILON: Final = 1e-9
_MILLION: Final = 1e6
_FIRST: Final = 2 * _MILLION
_NAME: Final = attrgetter("namespace", "name")


def cover(pods: Sequence[Pod], kinds: Sequence[PodClass], taken: FloatArray, need: FloatArray) -> list[int]:
    """Positions of few pods that cover the need: the smallest that covers all of the rest, else the largest.

    ``taken``: what each pod takes of each resource that is needed. The first of equals goes: the less
    reluctant, then the smaller, then by name; who asks to be left alone goes only if nobody else helps.
    """
    by_name = sorted(range(len(pods)), key=lambda i: _NAME(pods[i]))
    dislikes = [reluctance(kinds[i]) for i in by_name]
    sizes = (taken / np.maximum(need, 1.0)).sum(axis=1)[by_name]
    ranked = np.lexsort((sizes, [cost for _, _, cost in dislikes], [priority for _, priority, _ in dislikes]))
    order = np.array(by_name, dtype=np.intp)[ranked]
    willing = np.array([not asked for asked, _, _ in dislikes], dtype=np.bool_)[ranked]
    return [int(order[i]) for i in _greedy(taken[order], need, willing)]


def _greedy(taken: FloatArray, need: FloatArray, willing: BoolArray) -> list[int]:
    """The first row that covers most of what is left, again and again; rows that are willing go first."""
    bonus = np.where(willing, _FIRST, 0.0)
    left = need
    chosen: list[int] = []
    while True:
        open_ = left > EPSILON
        number = int(np.count_nonzero(open_))
        if not number:
            return chosen
        part = taken if number == len(left) else taken[:, open_]
        # In whole millionths, so that equals are equal whatever order they were added up in.
        covered = np.rint(np.minimum(part / left[open_], 1.0).sum(axis=1) / number * _MILLION)
        worth = np.where(covered > 0, covered + bonus, 0.0)
        best = int(worth.argmax()) if len(worth) else -1
        if best < 0 or worth[best] <= 0:
            return chosen
        chosen.append(best)
        bonus[best] = -2 * _FIRST
        left = np.maximum(left - taken[best], 0.0)
