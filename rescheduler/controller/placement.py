"""Where rooms go: the questions that the reconciler asks our own scheduling rules (a seam).

The answers are advice: kube-scheduler has the last word on every placeholder and every replacement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rescheduler.controller.under_way import Written
from rescheduler.migrations.observed import Verdict
from rescheduler.model.records import Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.target import Choice


class Placement(Protocol):
    """Judges by the scheduler's rules on the snapshot of one round."""

    def begin(self, snapshot: Snapshot, written: Written) -> None:
        """A new round begins with this snapshot, to which ``written`` is still to be added."""
        ...

    def for_reservation(self, reservation: Reservation) -> Choice:
        """A node for a Reservation that names none; never one where only room in hand-over would do.

        For one with preAllocation, a node that could take it once its pods have left, named by the template or not.
        """
        ...

    def has_room(self, holder: Pod, node: str, behind: Sequence[Pod]) -> bool:
        """Could this waiting placeholder be bound to ``node`` now, if those ``behind`` it were not nominated?"""
        ...

    def crowded_out(self, claimant: Pod, node: str) -> bool:
        """Would the scheduler refuse the claimant on ``node`` only for pods that are nominated there?

        Those of the same or higher priority that wait until others have ended: it counts them as if they were there.
        """
        ...

    def landable(self, rooms: Sequence[Reservation], claimed: Sequence[Reservation]) -> frozenset[str]:
        """Names of the ``rooms`` to which pods may be sent now, so that none is refused for the order of landing.

        ``claimed``: rooms to which pods were sent a moment ago, and the snapshot does not show it.
        """
        ...

    def for_migration(self, pod: Pod) -> Choice:
        """A better node for the pod, where the user named none."""
        ...

    def movable(self, pod: Pod) -> Verdict:
        """May this pod be moved at all: controller, protections."""
        ...

    def fits(self, pod: Pod, node: str, reservation: Reservation | None) -> Verdict:
        """Would the pod's replacement fit on ``node`` with its own placeholder gone: the old pod ending, and gone."""
        ...

    def fits_beside(self, pod: Pod, node: str) -> Verdict:
        """Would one pod more like ``pod`` fit on ``node`` while ``pod`` stays."""
        ...
