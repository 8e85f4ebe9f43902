"""What a policy is: it finds badly placed pods and says what a move would gain.

A policy decides nothing about targets, budgets or order: the planner does, by the scheduler's own rules.
Adding one is one module and one line in the registry.

Some want more than single moves: nodes emptied (``EmptyingPolicy``, searched by planning/empty.py), overloaded nodes relieved
(``LowNodeUtilization``, planning/relieve.py), room for pods that have no node (``PendingPods``, planning/pending_rooms.py). They say
what it is worth, and what may receive; the planner looks for the moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from rescheduler.model.records import Pod, PodSpec
from rescheduler.model.snapshot import Snapshot
from rescheduler.policies.measurement import Unmeasured
from rescheduler.policies.objective import Tier, unchanged
from rescheduler.policies.planned_moves import PlannedMoves
from rescheduler.policies.proposals import Candidate, Proposals
from rescheduler.scheduling.amounts import held_amount
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray
from rescheduler.scheduling.memo import Memo
from rescheduler.scheduling.nodes import NodeTable
from rescheduler.scheduling.state import SchedulingState


def _anything(_: Pod) -> bool:
    return True


def _nothing(_: Pod) -> float:
    return 0.0


def _unknown(_: PodClass) -> bool | None:
    return None


@dataclass(frozen=True, slots=True)
class PodColumns:
    """All pods on nodes as columns, so that a question about the whole cluster is a few operations on arrays.

    Valid for one version of the cluster. Pods of one class stand together.
    """

    classes: tuple[PodClass, ...]
    pods: list[Pod]
    nodes: npt.NDArray[np.int32]
    """``pods[i]`` stands on the node with the index ``nodes[i]``."""
    kinds: npt.NDArray[np.int32]
    """``pods[i]`` is of class ``classes[kinds[i]]``."""

    @classmethod
    def of(cls, cluster: Cluster) -> PodColumns:
        """The pods of a cluster as they stand now."""
        classes = tuple(known for known in cluster.classes if known.pods)
        sizes = [len(known.nodes) for known in classes]
        nodes = list(chain.from_iterable([known.nodes for known in classes]))
        return cls(
            classes=classes,
            pods=list(chain.from_iterable([known.pods for known in classes])),
            nodes=np.array(nodes, dtype=np.int32),
            kinds=np.repeat(np.arange(len(classes), dtype=np.int32), sizes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyView:
    """What a policy looks at: the snapshot as it was, and the what-if state with all moves planned so far."""

    snapshot: Snapshot
    """The cluster before any planned move."""
    state: SchedulingState
    """The cluster with all planned moves made."""
    planned: PlannedMoves
    """Those moves."""
    movable: Callable[[Pod], bool] = _anything
    """True if no protection holds the pod back.

    Policies count all pods, and propose a pod that is not movable only where no movable one could take its
    place: the planner then reports what protects it.
    """
    movable_class: Callable[[PodClass], bool | None] = _unknown
    """The same for all pods of a class at once; None if each must be asked."""
    disruption: Callable[[Pod], float] = _nothing
    """What a move of the pod costs, 0 to 1: of pods of which any may leave, the one goes whose move disturbs least."""
    spares: bool = True
    """False once nothing more may be moved; spares are then not looked at and may be left out."""
    settled: bool = False
    """True: the planned moves are taken as done long ago, as the next decision will see them."""
    memo: Memo = field(default_factory=Memo)
    """What policies found out in this decision."""

    @property
    def cluster(self) -> Cluster:
        """Pods by class, groups of pods that a selector matches, (anti-)affinity terms."""
        return self.state.cluster

    @property
    def nodes(self) -> NodeTable:
        """The nodes as columns."""
        return self.state.cluster.nodes

    @property
    def columns(self) -> PodColumns:
        """All pods as columns, as they stand now."""
        cluster = self.state.cluster
        return self.memo.of(PodColumns, cluster.version, lambda: PodColumns.of(cluster))

    def movable_rows(self, rows: IntArray) -> BoolArray:
        """Which of the pods in these rows of ``columns`` may be moved; asked once for each class where that is enough."""
        columns = self.columns
        kinds = columns.kinds[rows]
        present = np.flatnonzero(np.bincount(kinds))
        answers = [self.movable_class(columns.classes[kind]) for kind in present.tolist()]
        # Of most classes either all pods may be moved or none; only where they differ is each pod asked.
        table = np.zeros(len(columns.classes), dtype=np.bool_)
        table[present] = [answer is True for answer in answers]
        able: BoolArray = table[kinds]
        table[present] = [answer is None for answer in answers]
        for i in np.flatnonzero(table[kinds]).tolist():
            able[i] = self.movable(columns.pods[rows[i]])
        return able

    def arrived(self, resource: str) -> IntArray:
        """What the planned moves bring to each node; nothing once they are settled. Do not change the array."""
        return self._none if self.settled else self.planned.arrived(resource)

    def departed(self, resource: str) -> IntArray:
        """What they take from each node."""
        return self._none if self.settled else self.planned.departed(resource)

    @property
    def _none(self) -> IntArray:
        none: IntArray = unchanged(self.nodes.size)[0]
        return none

    def may_move(self, pod: Pod, kind: PodClass) -> bool:
        """``movable`` of a pod whose class is known."""
        answer = self.movable_class(kind)
        return self.movable(pod) if answer is None else answer

    @classmethod
    def of(
        cls, snapshot: Snapshot, state: SchedulingState, movable: Callable[[Pod], bool] = _anything
    ) -> PolicyView:
        """A fresh view without any planned move; ``state`` follows the snapshot."""
        return cls(
            snapshot=snapshot,
            state=state,
            planned=PlannedMoves(state.nodes.size),
            movable=movable,
        )


class Policy(Protocol):
    """One way of being badly placed."""

    name: str
    """As plans call it: the registered name; in a profile ``PROFILE/NAME``, which whoever builds it sets."""

    @property
    def tier(self) -> Tier:
        """The first tier of the objective in which it counts: policies of earlier tiers are planned first."""
        ...

    def candidates(self, view: PolicyView) -> Proposals:
        """Badly placed pods in the state of ``view``, in a deterministic order."""
        ...

    def badness(self, view: PolicyView) -> IntArray:
        """How bad the placement of ``view.state`` is: whole numbers by tier, shape (tiers,).

        A function of where pods stand, not of how they came there: with the same pods on the same nodes it is the same.
        """
        ...

    def change(self, pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
        """What ``badness`` would change by if ``pod``, which still stands, left and ``replacement`` stood on each node instead.

        Shape (tiers, nodes). Exact: ``badness`` after the move less ``badness`` before it, for every node, whether the
        scheduler allows it or not; 0 for the pod's own node. ``objective.unchanged(nodes)`` if the policy has nothing to
        say of the pod. Asked for pods outside the policy's scope, too. Do not change the array.
        """
        ...


@runtime_checkable
class ChoosesReceivers(Protocol):
    """A policy that moves pods not to every node where its badness falls."""

    def receivers(self, candidate: Candidate, view: PolicyView) -> BoolArray:
        """The nodes that the candidate may go to for this policy, in the order of the nodes."""
        ...


def by_tier(policies: Sequence[Policy]) -> tuple[Policy, ...]:
    """In the order in which they are planned: those of the same tier as they are given."""
    return tuple(sorted(policies, key=first_tier))


def first_tier(policy: Policy) -> Tier:
    """``policy.tier``. A policy of another package may have been written before there was an order."""
    found: Tier = getattr(policy, "tier", Tier.SOFT)
    return found


class PolicyWarning(NamedTuple):
    """What a plan says of a policy that the cluster as a whole hinders or misleads."""

    message: str
    """One sentence, which names the policy."""
    unmeasured: Unmeasured | None = None
    """The nodes that it leaves out because their usage is not measured, if that is what it says."""


@runtime_checkable
class WarnsOfCluster(Protocol):
    """A policy that the cluster as a whole can hinder or mislead."""

    name: str

    def warnings(self, view: PolicyView) -> Iterator[PolicyWarning]:
        """What to say of the cluster before any move."""
        ...


@runtime_checkable
class CountsNodes(Protocol):
    """A policy whose badness is about nodes."""

    @property
    def tier(self) -> Tier:
        """That in which it counts."""
        ...

    def nodes_counted(self, view: PolicyView) -> int:
        """How many nodes its badness counts: those above their targets, or those in use."""
        ...


class NodeFilling(NamedTuple):
    """How much more of a resource nodes may take before a policy finds them too full."""

    left: IntArray
    """By node."""
    takes: Callable[[PodSpec], int] | None = None
    """What a pod with this spec takes of it; None: what it requests."""


class GroupWorth(NamedTuple):
    """What it means that a group leaves its node."""

    price: int
    """What it is worth, at least 1; only proportions count."""
    takes: Mapping[str, int] | None = None
    """By resource, what could come to the node and may not any more; None: nothing may come."""
    parts: tuple[int, ...] = (0,)
    """Parts of the node that are emptied. Of two groups with a part in common, or a pod, one at most goes."""


@runtime_checkable
class EmptyingPolicy(Policy, Protocol):
    """A policy whose groups leave nodes together. All arrays are in the order of the nodes, for the what-if state now."""

    def receives(self, view: PolicyView) -> BoolArray:
        """Nodes that may receive at all: those in use that it does not find too full already."""
        ...

    def left(self, view: PolicyView) -> Mapping[str, NodeFilling]:
        """By resource, how much more of it nodes may take; resources that are not named may be filled up."""
        ...

    def worth(self, members: Sequence[Candidate], view: PolicyView) -> GroupWorth:
        """What it means that this group leaves."""
        ...


def with_room(policy: EmptyingPolicy, pod: Pod, view: PolicyView) -> BoolArray:
    """Nodes that may receive the pod beside what stands there. A new array."""
    found = policy.receives(view).copy()
    for resource, filling in policy.left(view).items():
        takes = held_amount(pod, resource) if filling.takes is None else filling.takes(pod.spec)
        found &= filling.left >= takes
    return found


@dataclass(frozen=True, slots=True)
class Overload:
    """All arrays are in the order of the nodes, for the what-if state now."""

    above: FloatArray
    """How much each node holds above its target, in the resource's own unit; below 0: less. Shape (resources, nodes)."""
    capacity: FloatArray
    """What each node can hold. Shape (resources, nodes)."""
    receives: BoolArray
    """Nodes that pods may go to, as long as none of them comes above its target."""
    weights: tuple[int, ...]
    """What a share of a node above its target counts for, by resource."""
    least: float
    """What a move must relieve at least: the fall of ``utilization.overload`` of its node, as a share of a node."""
