"""The Protocol through which the machines ask where a pod fits. ``rules_placement`` implements it.

The answers are predictions: kube-scheduler decides about every placeholder and every replacement.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from rescheduler.coordination.assumed import Written
from rescheduler.migrations.observed import Permission
from rescheduler.model.records import Pod
from rescheduler.model.reservation import Reservation
from rescheduler.planning.higher_priority import HigherPriorityWaits
from rescheduler.planning.single_pod import Choice
from rescheduler.replacements.replacement import Replacements


class Placement(Protocol):
    """Applies the scheduler's rules to the snapshot of one round."""

    def begin(self, replacements: Replacements, written: Written) -> None:
        """A new round begins with the snapshot of ``replacements``, to which ``written`` is still to be added."""
        ...

    def for_reservation(self, reservation: Reservation, *, waits_on: str = "") -> Choice:
        """A node for a Reservation; never one whose only free room is being handed over.

        With preAllocation: a node that could take it once other pods have left, whether the template names it or not.
        ``waits_on``: the node that its placeholder waits on; if that is chosen again, nothing more counts as taken there.
        """
        ...

    def has_room(self, holder: Pod, node: str, behind: Sequence[Pod]) -> bool:
        """True if this pending placeholder would fit on ``node`` now without the nominations of those ``behind`` it."""
        ...

    def would_take(self, pod: Pod, node: str, holder: Pod | None) -> Permission:
        """Whether the scheduler would bind this pod, pending without a gate, to ``node`` once ``holder`` is gone.

        Placeholders that are nominated there do not count: their nominations are withdrawn for a hand-over.
        """
        ...

    def blocked_by_nominated(self, claimant: Pod, node: str) -> bool:
        """True if the scheduler would refuse the claimant on ``node`` only because of pods that are nominated there.

        It counts nominated pods of the same or higher priority as if they were bound, while they wait for victims to end.
        """
        ...

    def landable(self, rooms: Sequence[Reservation], claimed: Sequence[Reservation]) -> frozenset[str]:
        """Names of the ``rooms`` that may be assigned now, so that no pod is refused because of the order of binding.

        ``claimed``: rooms that were assigned a moment ago, which the snapshot does not show yet.
        """
        ...

    def for_migration(self, pod: Pod, *, starts_first: bool = False) -> Choice:
        """A node to move the pod to, for a move that names none; with ``starts_first`` beside the running pod."""
        ...

    def movable(self, pod: Pod, *, drained: bool = False) -> Permission:
        """Whether this pod may be moved at all: it has a controller, and no protection applies.

        ``drained``: its node is being emptied, so that protections of the configuration do not keep it there.
        """
        ...

    def fits(self, pod: Pod, node: str, reservation: Reservation | None) -> Permission:
        """Whether the replacement fits on ``node`` without its placeholder, both while the old pod ends and once it is gone."""
        ...

    def fits_beside(self, pod: Pod, node: str) -> Permission:
        """Whether the replacement of mode StartFirst fits on ``node`` while ``pod`` runs, and may stay once it is gone."""
        ...

    def taken_from_replacement(
        self, pod: Pod, node: str, reservation: Reservation | None
    ) -> HigherPriorityWaits | None:
        """The pending pod of higher priority that would take the capacity on ``node`` from the replacement of ``pod``."""
        ...

    def taken_from_owners(
        self, pods: Sequence[Pod], node: str, holder: Pod | None, served: Collection[str]
    ) -> HigherPriorityWaits | None:
        """The same for owners that take the capacity which ``holder`` holds. ``served``: uids of pods with capacity of their own."""
        ...

    def other_node(self, pod: Pod, node: str) -> str:
        """A usable node other than ``node`` that would take the gated ``pod`` now, once it is released; "": there is none."""
        ...
