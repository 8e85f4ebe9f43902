"""Defragmentation: room that is scattered over nodes in pieces is brought together, so that large pods fit.

A room is what a pod of ``template`` needs, all resources on one node. What is bad is each room that a node could hold and its pods
break. Single moves hardly ever help: a room appears when enough pods have left one node for the remainders of others, where they
break no room. So the candidates are groups: of each node the few pods whose leaving makes one room more, in some ways to choose from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, combinations_with_replacement, islice
from typing import ClassVar, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from rescheduler.model.records import Pod
from rescheduler.model.resources import Amount, QuantityError, is_scalar, milli, units
from rescheduler.policies.framework import GroupWorth, NodeFilling, PolicyView, with_room
from rescheduler.policies.objective import Tier, gain, nothing, unchanged
from rescheduler.policies.proposals import Batch, Candidate, Proposals, least_disturbing
from rescheduler.policies.wire import ArgumentProblem, NodePoolArgs
from rescheduler.scheduling.amounts import held_amount
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import BoolArray, IntArray
from rescheduler.scheduling.nodes import NodeTable

Size = tuple[int, ...]
"""What a pod takes, in the order of the resources of a room."""

MOST_TOGETHER: Final = 3
"""Up to so many pods every choice is looked at; where more must leave, the largest go."""
WAYS: Final = 4
"""Choices of one node for each number of pods."""
_SHAPES: Final = 8
"""Sizes of pods of one node that are combined: the largest."""
_STEPS: Final = 64
"""How finely it is told how near a node is to one room more."""
_GOALS: Final = 2
"""So many templates get one room more each by one group of pods."""


class DefragmentationArgs(
    NodePoolArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """``template``: what the pods request for which there is to be room, by resource, as a pod's ``requests`` has it.

    ``more_templates``: rooms of these count, too, each kind by itself.
    """

    template: dict[str, Amount] = msgspec.field(default_factory=lambda: {"cpu": 4, "memory": "8Gi"})
    more_templates: tuple[dict[str, Amount], ...] = ()

    def rooms(self) -> tuple[dict[str, int], ...]:
        """Of each template, CPU in milli, everything else in its unit."""
        return tuple(
            {r: milli(a) if r == "cpu" else units(a) for r, a in sorted(template.items())}
            for template in (self.template, *self.more_templates)
        )

    def problems(self) -> Iterator[ArgumentProblem]:
        """Value errors."""
        yield from super().problems()
        yield from _template_problems(("template",), self.template)
        for number, template in enumerate(self.more_templates):
            yield from _template_problems(("moreTemplates", number), template)

    def unknown_to(self, nodes: NodeTable) -> Iterator[ArgumentProblem]:
        """Resources that no node offers."""
        yield from super().unknown_to(nodes)
        for resource in sorted(self.template):
            if not self.offered(resource, nodes):
                then = "so there is no room of it" if self.more_templates else "so the policy does nothing"
                yield ("template", resource), f"no node that takes part offers any, {then}"
        for number, template in enumerate(self.more_templates):
            for resource in sorted(template):
                if not self.offered(resource, nodes):
                    path = "moreTemplates", number, resource
                    yield path, "no node that takes part offers any, so there is no room of it"


def _template_problems(
    path: tuple[str | int, ...], template: Mapping[str, Amount]
) -> Iterator[ArgumentProblem]:
    if not template:
        yield path, "is empty: name what the pods request, such as {cpu: 16, memory: 64Gi}"
    for resource, amount in template.items():
        if resource not in ("cpu", "memory", "ephemeral-storage") and not is_scalar(resource):
            yield (
                (*path, resource),
                "is no resource that pods request: use cpu, memory or example.com/gpu",
            )
            continue
        try:
            asked = milli(amount) if resource == "cpu" else units(amount)
        except QuantityError as error:
            yield (*path, resource), str(error)
            continue
        if asked <= 0:
            yield (*path, resource), f"is {amount}: must be more than 0"


class _Goal(NamedTuple):
    """Templates of which one room more is to be on a node, of each of them."""

    templates: tuple[int, ...]
    """Their numbers."""
    room: dict[str, int]
    """The largest of these rooms in each resource."""
    name: str

    @property
    def key(self) -> str:
        """In names of groups."""
        return "+".join(map(str, self.templates))


def _goals(rooms: Sequence[Mapping[str, int]]) -> Iterator[_Goal]:
    """One of each template by itself, and of two together: pods that are large in both leave room for both."""
    for number in range(1, min(len(rooms), _GOALS) + 1):
        for templates in combinations(range(len(rooms)), number):
            room: dict[str, int] = {}
            for resource, size in (item for template in templates for item in rooms[template].items()):
                room[resource] = max(room.get(resource, 0), size)
            numbers = " and ".join(str(template + 1) for template in templates)
            name = "the template" if len(rooms) == 1 else f"template{'s' if number > 1 else ''} {numbers}"
            yield _Goal(templates, room, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fragmented:
    """A node that could hold one room more."""

    node: int
    """Its index."""
    goal: _Goal
    pods: list[Pod]
    kinds: npt.NDArray[np.int32]
    """Of each of them, which of the classes of the columns."""
    able: BoolArray
    """Which of the pods the policy may propose, and may be moved."""
    missing: Size
    """What must be freed for one room more; 0 or less where enough is free."""


class Defragmentation:
    """Badness: the rooms that pods break."""

    name: str = "Defragmentation"
    tier: ClassVar[Tier] = Tier.FRAGMENTATION

    def __init__(self, args: DefragmentationArgs) -> None:
        self._args = args
        self._scope = args.scope()
        rooms = args.rooms()
        self._counts = all(rooms)
        self._templates = tuple({**room, "pods": 1} for room in rooms)
        self._resources = sorted({resource for room in self._templates for resource in room})
        self._goals = tuple(_goals(self._templates))

    def badness(self, view: PolicyView) -> IntArray:
        """In tier FRAGMENTATION the rooms that pods break; in tier EMPTYING how far nodes are from one room more."""
        found = nothing()
        part = self._taking_part(view)
        if not part.any():
            return found
        rooms, far = self._rooms(view), self._distances(view)
        found[Tier.FRAGMENTATION] = (self._whole(view) - rooms)[:, part].sum()
        found[Tier.EMPTYING] = far[:, part].sum()
        return found

    def change(self, pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
        """What that would change by."""
        part = self._taking_part(view)
        if not part.any():
            return unchanged(view.nodes.size)
        here = view.state.node_index[pod.node]
        free = self._free(view)
        after = {}
        for resource, left in free.items():
            after[resource] = left - held_amount(replacement, resource)
            after[resource][here] = left[here] + held_amount(pod, resource)
        change = np.zeros_like(unchanged(view.nodes.size))
        rooms = self._rooms_of(after)
        far = self._far(after, rooms, view)
        change[Tier.FRAGMENTATION] = np.where(part, (self._rooms(view) - rooms).sum(axis=0), 0)
        change[Tier.EMPTYING] = np.where(part, (far - self._distances(view)).sum(axis=0), 0)
        # So far each column tells of one node alone: of the one that receives, and of the one that is left.
        change += change[:, [here]]
        change[:, here] = 0
        return change

    def candidates(self, view: PolicyView) -> Proposals:
        """For each node that could have one room more, groups of pods to choose from; all but the first are spares."""
        if not self._counts:
            return Proposals([])
        open_ = self._taking_part(view) & (self._rooms(view) < self._whole(view))
        found: list[tuple[Batch]] = []
        for goal in self._goals:
            nodes = np.flatnonzero(open_[list(goal.templates)].all(axis=0))
            for here in self._fragmented(goal, nodes, view):
                found.extend((batch,) for batch in self._proposed_on(here, view))
        return Proposals(found)

    def receivers(self, candidate: Candidate, view: PolicyView) -> BoolArray:
        """Those where the pod breaks no room."""
        return with_room(self, candidate.pod, view)

    def receives(self, view: PolicyView) -> BoolArray:
        """All that take part and have no fault. A new array."""
        receives: BoolArray = self._taking_part(view) & view.nodes.healthy
        return receives

    def left(self, view: PolicyView) -> dict[str, NodeFilling]:
        """What may come to each node without breaking one of its rooms."""
        kept = dict.fromkeys(self._resources, np.zeros(view.nodes.size, dtype=np.int64))
        for room, number in zip(self._templates, self._rooms(view), strict=True):
            for resource, size in room.items():
                kept[resource] = np.maximum(kept[resource], number * size)
        return {resource: NodeFilling(self._free(view)[resource] - held) for resource, held in kept.items()}

    def worth(self, members: Sequence[Candidate], view: PolicyView) -> GroupWorth:
        """By the rooms that it makes: of what it frees, they take a part; what they lack they take of what was free."""
        node = view.state.node_index[members[0].pod.node]
        free = {r: int(left[node]) for r, left in self._free(view).items()}
        freed = {r: sum(held_amount(one.pod, r) for one in members) for r in self._resources}
        after = {r: np.array([free[r] + freed[r]]) for r in self._resources}
        more = self._rooms_of(after)[:, 0] - self._rooms(view)[:, node]
        takes = dict.fromkeys(self._resources, 0)
        for room, number in zip(self._templates, more.tolist(), strict=True):
            for resource, size in room.items():
                takes[resource] = max(takes[resource], number * size - freed[resource])
        parts = tuple(np.flatnonzero(more).tolist())
        return GroupWorth(max(int(more.sum()), 1), takes, parts)

    def _free(self, view: PolicyView) -> dict[str, IntArray]:
        """By resource of a room, what is left on each node; below 0 on one that is too full."""

        def find() -> dict[str, IntArray]:
            state = view.state
            return {r: state.allocatable(r) - state.requested(r) for r in self._resources}

        return view.memo.of((self, "free"), view.cluster.version, find)

    def _rooms(self, view: PolicyView) -> IntArray:
        """Rooms on each node now."""

        def find() -> IntArray:
            return self._rooms_of(self._free(view))

        return view.memo.of((self, "rooms"), view.cluster.version, find)

    def _distances(self, view: PolicyView) -> IntArray:
        """How far each node is from one room more now."""

        def find() -> IntArray:
            return self._far(self._free(view), self._rooms(view), view)

        return view.memo.of((self, "far"), view.cluster.version, find)

    def _rooms_of(self, free: dict[str, IntArray]) -> IntArray:
        """(templates, nodes): rooms of each, counted by itself, on nodes with so much left there."""
        found = [np.min([free[r] // size for r, size in room.items()], axis=0) for room in self._templates]
        rooms: IntArray = np.maximum(np.stack(found), 0)
        return rooms

    def _far(self, free: dict[str, IntArray], rooms: IntArray, view: PolicyView) -> IntArray:
        """How far each node is from one room more: the nearer, the more a step counts, so that one node is finished first."""
        parts = [
            np.min([free[r] * _STEPS // size for r, size in room.items() if r != "pods"], axis=0)
            for room in self._templates
        ]
        near = np.clip(np.stack(parts) - _STEPS * rooms, 0, _STEPS)
        far: IntArray = np.where(self._whole(view) > 0, _STEPS * _STEPS - near * near, 0)
        return far

    def _whole(self, view: PolicyView) -> IntArray:
        """Rooms on each node if it were empty."""

        def find() -> IntArray:
            return self._rooms_of({r: view.state.allocatable(r) for r in self._resources})

        return view.memo.of((self, "whole"), None, find)

    def _taking_part(self, view: PolicyView) -> BoolArray:
        """Nodes of the policy on which new pods may come to stand at all, and that can hold a room."""

        def find() -> BoolArray:
            able = self._args.nodes(view.nodes) & view.nodes.usable
            part: BoolArray = able & (self._whole(view) > 0).any(axis=0)
            return part if self._counts else np.zeros_like(part)

        return view.memo.of((self, "taking part"), None, find)

    def _fragmented(self, goal: _Goal, open_: IntArray, view: PolicyView) -> Iterator[_Fragmented]:
        """These nodes by name, with the pods on them."""
        columns, free = view.columns, self._free(view)
        rooms = self._rooms(view)
        # All pods of all these nodes in one pass, those of each node next to each other.
        among = np.zeros(view.nodes.size, dtype=np.bool_)
        among[open_] = True
        rows = np.flatnonzero(among[columns.nodes])
        rows = rows[np.argsort(columns.nodes[rows], kind="stable")]
        proposed = np.array([self._scope.proposes(known) for known in columns.classes], dtype=np.bool_)
        nodes, kinds = columns.nodes[rows], columns.kinds[rows]
        able = proposed[kinds] & view.movable_rows(rows)
        pods = list(map(columns.pods.__getitem__, rows.tolist()))
        ordered = open_[np.argsort(view.nodes.ranks[open_], kind="stable")]
        starts = np.searchsorted(nodes, ordered, side="left").tolist()
        ends = np.searchsorted(nodes, ordered, side="right").tolist()
        left = {resource: free[resource][ordered].tolist() for resource in goal.room}
        whole = rooms[:, ordered].tolist()
        for number, (node, start, end) in enumerate(zip(ordered.tolist(), starts, ends, strict=True)):
            here = slice(start, end)
            wanted = dict.fromkeys(goal.room, 0)
            for template in goal.templates:
                for resource, size in self._templates[template].items():
                    wanted[resource] = max(wanted[resource], (whole[template][number] + 1) * size)
            missing = tuple(amount - left[resource][number] for resource, amount in wanted.items())
            yield _Fragmented(
                node=node, goal=goal, pods=pods[here], kinds=kinds[here], able=able[here], missing=missing
            )

    def _proposed_on(self, here: _Fragmented, view: PolicyView) -> list[Batch]:
        """What is proposed of a node, from an earlier decision if nothing that matters is different."""
        key = here.missing, here.able.tobytes(), view.spares, here.pods
        return view.cluster.memo.of(
            (self, here.node, here.goal.templates), key, lambda: list(self._broken_up(here, view))
        )

    def _broken_up(self, here: _Fragmented, view: PolicyView) -> Iterator[Batch]:
        for number, pods in enumerate(self._ways(here, view)):
            if (number or len(here.goal.templates) > 1) and not view.spares:
                return
            for pod, kind in pods:
                yield self._batch(pod, kind, view.nodes.names[here.node], here.goal, number)

    def _ways(self, here: _Fragmented, view: PolicyView) -> Iterator[Sequence[tuple[Pod, PodClass]]]:
        """Smallest sets of pods whose leaving frees what is missing, the fewest pods first, then the least that is moved."""
        room = here.goal.room
        by_size: dict[Size, list[tuple[Pod, PodClass]]] = {}
        needs = here.missing
        wanted = [at for at, amount in enumerate(needs) if amount > 0]
        for one in _leaving(here, view):
            by_size.setdefault(tuple(held_amount(one[0], r) for r in room), []).append(one)
        sizes = sorted(by_size, key=lambda size: [-size[at] for at in wanted])
        sizes = [size for size in sizes if any(size[at] for at in wanted)]
        shown = False
        for number in range(1, MOST_TOGETHER + 1):
            fit = [
                some
                for some in combinations_with_replacement(sizes[:_SHAPES], number)
                if _frees(some, needs) and all(some.count(size) <= len(by_size[size]) for size in some)
            ]
            fit.sort(key=partial(_in_rooms, room))
            for some in islice((s for s in fit if not _too_many(s, needs)), WAYS):
                shown = True
                yield [by_size[size][some[:i].count(size)] for i, size in enumerate(some)]
        if not shown:
            yield from _largest(by_size, sizes, needs)

    def _batch(self, pod: Pod, kind: PodClass, name: str, goal: _Goal, number: int) -> Batch:
        return Batch(
            kind=kind,
            pods=(pod,),
            policy=self.name,
            reason="NodeFragmented",
            message=f"node/{name} could hold one pod more of {goal.name}",
            gain=gain(Tier.FRAGMENTATION, 1),
            group=f"{self.name}/{name}/{goal.key}/{number}",
            spare=number > 0 or len(goal.templates) > 1,
            tier=Tier.FRAGMENTATION,
        )


def _in_rooms(room: Mapping[str, int], some: Sequence[Size]) -> float:
    """How much they take, in rooms of each resource."""
    return sum(amount / whole for size in some for amount, whole in zip(size, room.values(), strict=True))


def _leaving(here: _Fragmented, view: PolicyView) -> list[tuple[Pod, PodClass]]:
    """Pods of a node that may leave it, those that are better left alone last."""
    classes = view.columns.classes
    pods = [(here.pods[i], classes[here.kinds[i]]) for i in np.flatnonzero(here.able).tolist()]
    return sorted(pods, key=least_disturbing(view.disruption))


def _largest(
    by_size: Mapping[Size, Sequence[tuple[Pod, PodClass]]], sizes: Sequence[Size], needs: Size
) -> Iterator[Sequence[tuple[Pod, PodClass]]]:
    """The largest pods, until they free enough; nothing if all of them do not."""
    missing = list(needs)
    pods: list[tuple[Pod, PodClass]] = []
    for size in sizes:
        for one in by_size[size]:
            pods.append(one)
            missing = [left - amount for left, amount in zip(missing, size, strict=True)]
            if max(missing) <= 0:
                yield pods
                return


def _frees(some: Sequence[Size], needs: Size) -> bool:
    """True if these free what is missing."""
    return all(sum(column) >= need for column, need in zip(zip(*some, strict=True), needs, strict=True))


def _too_many(some: Sequence[Size], needs: Size) -> bool:
    """True if one of them need not leave."""
    others = ([*some[:i], *some[i + 1 :]] for i in range(len(some)))
    return len(some) > 1 and any(_frees(left, needs) for left in others)
