"""PendingPods: pods that kube-scheduler cannot place, though they would fit a node if pods there stood elsewhere.

The pod itself does not move: it has no node. Its candidates are what others step aside for; room is searched for and reserved for
them by the planner and the controller (docs/design/06-room-for-pending-pods.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Annotated, ClassVar, Final

import msgspec

from rescheduler.model.names import ANNOTATION_RESERVATION, LABEL_START_FIRST
from rescheduler.model.never_moves import NeverMoves, never_moves
from rescheduler.model.node_autoscaler import NodeAutoscaler, node_autoscaler_works
from rescheduler.model.records import Pod
from rescheduler.model.reservation import ReservationPhase
from rescheduler.model.written import document_key
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import Tier, nothing, unchanged
from rescheduler.policies.proposals import Batch, Proposals, by_gain
from rescheduler.policies.wire import Age, ArgumentProblem, PolicyArgs
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import IntArray

MOST_DEPTH: Final = 3
MOST_MOVES: Final = 8
_NEED_NO_ROOM: Final = frozenset({NeverMoves.STATIC_POD, NeverMoves.PLACEHOLDER})
"""A static pod asks no scheduler. A pod of a DaemonSet does: pods step aside for it on its one node."""


class PendingPodsArgs(PolicyArgs, frozen=True, kw_only=True, rename=document_key):
    """``after_s``: for how long the scheduler must have called a pod unschedulable.

    ``after_node_autoscaler_s``: the same where a node autoscaler is at work, which gets the time to add a node.
    ``node_autoscaler``: whether one is; Auto: if Karpenter made a node, or cluster-autoscaler runs in kube-system.
    ``depth``, ``most_moves``, ``move_higher_priorities``: how far the search for one pod goes. Depth 1: pods leave a node
    and go where there is room; 2: for one of them another one makes room; and so on.
    """

    after_s: Age = 60.0
    after_node_autoscaler_s: Age = 600.0
    node_autoscaler: NodeAutoscaler = NodeAutoscaler.AUTO
    depth: Annotated[int, msgspec.Meta(ge=1, le=MOST_DEPTH)] = MOST_DEPTH
    most_moves: Annotated[int, msgspec.Meta(ge=1, le=MOST_MOVES)] = 6
    move_higher_priorities: bool = False

    def problems(self) -> Iterator[ArgumentProblem]:
        """Value errors."""
        yield from super().problems()
        if self.mode is not None:
            yield ("mode",), "is not taken here: pods that make way always have their room reserved first"


class PendingPods:
    """Gain = 1: a pod that can start is worth the disruption of others.

    Badness: the pods that have waited for long enough and have no room.
    """

    name: str = "PendingPods"
    tier: ClassVar[Tier] = Tier.PENDING

    def __init__(self, args: PendingPodsArgs) -> None:
        self.args = args
        self._scope = args.scope()
        self._after_s = args.after_s
        self._after_autoscaler_s = max(self._after_s, args.after_node_autoscaler_s)
        self._autoscaler = args.node_autoscaler

    def candidates(self, view: PolicyView) -> Proposals:
        """The pods, those of one kind together."""
        by_kind: defaultdict[PodClass, list[Pod]] = defaultdict(list)
        for pod in self._waiting(view):
            by_kind[view.cluster.kind_of(pod)].append(pod)
        return by_gain(
            Batch.of(self.name, kind, pods, why=("Unschedulable", "no node has room for it"), tier=self.tier)
            for kind, pods in by_kind.items()
        )

    def badness(self, view: PolicyView) -> IntArray:
        """How many wait."""
        total = nothing()
        total[Tier.PENDING] = sum(1 for _ in self._waiting(view))
        return total

    def change(self, pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
        """A move alone places no pod that waits."""
        del pod, replacement
        return unchanged(view.nodes.size)

    def _waits_s(self, view: PolicyView) -> float:
        """For how long a pod must have waited."""
        present = self._autoscaler is NodeAutoscaler.PRESENT
        if self._autoscaler is NodeAutoscaler.AUTO:
            present = view.memo.of(
                (self, "node autoscaler"), None, lambda: node_autoscaler_works(view.snapshot)
            )
        return self._after_autoscaler_s if present else self._after_s

    def _waiting(self, view: PolicyView) -> Iterator[Pod]:
        """Pods that fit nowhere in the state, were refused for long enough, and that no hand-over is under way for."""
        now_s = view.snapshot.taken_at_s
        since_s = now_s - self._waits_s(view)
        for pod in view.state.unplaced.values():
            if (
                waits_for_room(pod)
                # No autoscaler adds a node for a pod of a DaemonSet, which is for a node that exists.
                and pod.unschedulable_since_s <= (now_s - self._after_s if of_daemon_set(pod) else since_s)
                and self._scope.admits(pod)
                and view.state.profile.judges(pod.spec.scheduler_name)
                and not _is_handed_room(pod, view)
            ):
                yield pod


def waits_for_room(pod: Pod) -> bool:
    """True for a pod that a scheduler refused, that nothing else holds back, and whose rules are all judged here."""
    if (
        not pod.unschedulable_message
        or pod.node
        or pod.nominated_node
        or pod.deleting
        or never_moves(pod) in _NEED_NO_ROOM
    ):
        return False
    spec = pod.spec
    return not (
        spec.gates or spec.resource_claims or spec.scheduling_group or LABEL_START_FIRST in pod.labels
    )


def of_daemon_set(pod: Pod) -> bool:
    """True for a pod that only one node, which exists, is to run."""
    return never_moves(pod) is NeverMoves.DAEMON_POD


def _is_handed_room(pod: Pod, view: PolicyView) -> bool:
    """True while it waits to be bound in a room that it has claimed."""
    reservation = view.snapshot.reservations.get(pod.annotations.get(ANNOTATION_RESERVATION) or "")
    return reservation is not None and reservation.status.phase not in (
        ReservationPhase.SUCCEEDED,
        ReservationPhase.FAILED,
    )
