"""Pods that want others near: whose pod affinity holds where they stand, and what a move changes in that.

A wish holds if each of its terms has another pod that matches in the domain of the node. The required terms of a pod are one
wish, met only by pods that match all of them; each preferred term is one of its own. A pod that matches its own terms and finds
no other in the whole cluster may be anywhere (kube-scheduler's rule for the first pod of a kind: InterPodAffinity, PreFilter).
What a wish costs is a function of where pods stand, so changes are exact. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import ONE
from rescheduler.scheduling.classes import PodClass, PodGroup, TermKey, TermKind
from rescheduler.scheduling.framework import MAX_NODE_SCORE, BoolArray, IntArray, NodeIndices
from rescheduler.scheduling.inter_pod_affinity import InterPodAffinity
from rescheduler.scheduling.nodes import Column


class Nearness(NamedTuple):
    """How a pod stands on some nodes with regard to a wish."""

    labelled: BoolArray
    """Whether the node has all topology keys."""
    near: BoolArray
    """By topology key whether another pod that meets the wish is in the domain. Shape (keys, nodes)."""
    alone: bool
    """The pod meets the wish itself, and no other pod of the cluster does."""

    @property
    def joined(self) -> BoolArray:
        """Where the pod is near others by all keys."""
        return self.labelled & self.near.all(axis=0)

    @property
    def met(self) -> BoolArray:
        """Where the wish holds."""
        return self.labelled if self.alone else self.joined


@dataclass(frozen=True, slots=True, eq=False)
class PodWish:
    """One wish, and the pods that have it."""

    group: PodGroup
    """The pods that meet it."""
    columns: tuple[Column, ...]
    """Its topology keys: one of these pods must be in the domain of each."""
    carriers: tuple[PodClass, ...]
    """The classes that have it, but for terminating pods."""
    weight: int
    """What a pod that misses it costs: 1 if it is required, else millionths of a pod."""

    def meets_itself(self, kind: PodClass) -> bool:
        """True if pods of the class count for it."""
        return self.group in kind.groups

    def nearness(
        self, kind: PodClass, nodes: NodeIndices | slice, counts: Sequence[IntArray], own: int
    ) -> Nearness:
        """How a pod of the class stands on each of the nodes. ``own``: 1 if ``counts`` count that pod itself there."""
        pairs = [
            (column.present[nodes], column.spread(count)[nodes] - own, int(count.sum()) - own)
            for column, count in zip(self.columns, counts, strict=True)
        ]
        labelled = np.logical_and.reduce([present for present, _, _ in pairs])
        near = np.stack([others > 0 for _, others, _ in pairs])
        alone = self.meets_itself(kind) and all(total <= 0 for _, _, total in pairs)
        return Nearness(labelled, near, alone)

    def counts(self) -> list[IntArray]:
        """The pods that meet it, by domain of each key. Do not change the arrays."""
        return [self.group.in_domains(column).dense() for column in self.columns]


@dataclass(frozen=True, slots=True)
class PodWishes:
    """All wishes of one kind."""

    kind: TermKind
    of_term: dict[TermKey, tuple[PodWish, ...]]
    """By each of their terms."""

    @classmethod
    def of(cls, kind: TermKind, view: PolicyView) -> PodWishes:
        """Those of pods that stand: of TermKind REQUIRED or PREFERRED."""
        return view.memo.of(
            (PodWishes, kind), _stamp(view), lambda: cls(kind, {} if _off(view) else _found(kind, view))
        )

    def __iter__(self) -> Iterator[PodWish]:
        return iter(dict.fromkeys(wish for wishes in self.of_term.values() for wish in wishes))

    def about(self, kind: PodClass, view: PolicyView) -> tuple[PodWish, ...]:
        """Those that pods of the class have, or meet."""

        def find() -> tuple[PodWish, ...]:
            terms = [term.key for term in (*kind.terms, *view.cluster.terms_about(kind))]
            wishes = dict.fromkeys(wish for key in dict.fromkeys(terms) for wish in self.of_term.get(key, ()))
            return tuple(wish for wish in wishes if kind in wish.carriers or wish.meets_itself(kind))

        return view.memo.of((PodWishes, self.kind, kind), _stamp(view), find)


def _stamp(view: PolicyView) -> tuple[int, int]:
    """Another one once pods of a new class, or new terms, are known."""
    return view.cluster.terms_version, len(view.cluster.classes)


def _off(view: PolicyView) -> bool:
    return InterPodAffinity.name in view.cluster.profile.disabled


def _found(kind: TermKind, view: PolicyView) -> dict[TermKey, tuple[PodWish, ...]]:
    """A required wish is all required terms of a class together; a preferred one is a single term."""
    cluster = view.cluster
    alike: dict[tuple[TermKey, ...], list[PodClass]] = {}
    for term in list(cluster.carried_terms):
        if term.key.kind is not kind:
            continue
        for carrier in dict.fromkeys(term.carriers):
            together = [one.key for one in carrier.terms if one.key.kind is kind]
            key = tuple(dict.fromkeys(together)) if kind is TermKind.REQUIRED else (term.key,)
            if key[0] == term.key and not carrier.deleting:
                alike.setdefault(key, []).append(carrier)
    found: dict[TermKey, list[PodWish]] = {}
    for keys, carriers in alike.items():
        matchers = tuple(one.matcher for one in keys)
        weight = 1 if kind is TermKind.REQUIRED else ONE * keys[0].weight // MAX_NODE_SCORE
        columns = tuple(cluster.nodes.column(key) for key in dict.fromkeys(one.topology_key for one in keys))
        wish = PodWish(cluster.group(matchers, living=False), columns, tuple(carriers), weight)
        for one in keys:
            found.setdefault(one, []).append(wish)
    return {key: tuple(wishes) for key, wishes in found.items()}


def missed(wish: PodWish) -> Iterator[tuple[PodClass, NodeIndices]]:
    """By class, the positions (in ``PodClass.pods``) of the pods for which the wish does not hold."""
    counts = wish.counts()
    for kind in wish.carriers:
        if kind.pods:
            met = wish.nearness(kind, kind.where, counts, int(wish.meets_itself(kind))).met
            if not met.all():
                yield kind, np.flatnonzero(~met)


def missing(wish: PodWish) -> int:
    """For how many pods it does not hold."""
    return sum(len(which) for _, which in missed(wish))


def cost(wishes: PodWishes) -> int:
    """What all wishes that do not hold cost."""
    return sum(wish.weight * missing(wish) for wish in wishes)


def change(wishes: PodWishes, pod: Pod, then: PodClass, view: PolicyView) -> IntArray | None:
    """What a move of the pod to each node changes in ``cost``; ``then``: the class of its replacement. None: nothing.

    Shape (nodes,). The pod's own node is meant like any other here.
    """
    kind, here = view.cluster.kind_of(pod), view.state.node_index[pod.node]
    touched = wishes.about(kind, view)
    if then is not kind:
        touched = tuple(dict.fromkeys((*touched, *wishes.about(then, view))))
    total: IntArray | None = None
    for wish in touched:
        found = wish.weight * _change(wish, (kind, here), then, view)
        total = found if total is None else total + found
    return total


def without(wish: PodWish, kind: PodClass, here: int) -> list[IntArray]:
    """The counts once a pod of the class has left the node."""
    counts = wish.counts()
    if not wish.meets_itself(kind):
        return counts
    left = list[IntArray]()
    for column, count in zip(wish.columns, counts, strict=True):
        code = column.code_list[here]
        left.append(count if code < 0 else count - (np.arange(len(count)) == code))
    return left


def _change(wish: PodWish, leaving: tuple[PodClass, int], then: PodClass, view: PolicyView) -> IntArray:
    counts, size = without(wish, *leaving), view.nodes.size
    after: IntArray = np.full(size, -missing(wish), dtype=np.int64)
    if then in wish.carriers:
        after += ~wish.nearness(then, slice(None), counts, 0).met
    seen = np.logical_or.reduce([column.present for column in wish.columns])
    for kind in wish.carriers:
        where = kind.where
        if kind is leaving[0]:
            where = np.delete(where, np.flatnonzero(where == leaving[1])[:1])
        stands = wish.nearness(kind, where, counts, int(wish.meets_itself(kind)))
        lonely = ~stands.joined
        if not lonely.any():
            continue
        # Without the replacement those are met that are alone in the cluster; with it, those that it comes near to.
        without_it = int((lonely & ~stands.met).sum())
        if wish.meets_itself(then):
            met = _met_by_one_more(wish, where[lonely], stands.near[:, lonely], size)
            after += np.where(seen, int(lonely.sum()) - met, without_it)
        else:
            after += without_it
    return after


def _met_by_one_more(wish: PodWish, where: NodeIndices, near: BoolArray, size: int) -> IntArray:
    """By node, for how many of the pods on ``where`` the wish holds once a pod that meets it comes to that node."""
    met: IntArray = np.zeros(size, dtype=np.int64)
    codes = np.stack([column.codes[where] for column in wish.columns])
    if len(wish.columns) == 1:
        (column,) = wish.columns
        found = codes[0][codes[0] >= 0]
        return column.spread(np.bincount(found, minlength=len(column.values)))
    # Pods that lack another one in the same domains are counted together.
    lacks = Counter(
        tuple(zip(of_pod.tolist(), has.tolist(), strict=True))
        for of_pod, has in zip(codes.T, near.T, strict=True)
    )
    for domains, pods in lacks.items():
        if any(code < 0 for code, _ in domains):
            continue
        there = [
            column.codes == code for column, (code, has) in zip(wish.columns, domains, strict=True) if not has
        ]
        met += pods * np.logical_and.reduce(there)
    return met
