"""What is to be done for Reservations. Values only; ``controller.call_table`` says what is sent for each.

Every action names its object with the uid it was decided on, so that a late one misses instead of
hitting a successor. Each is idempotent.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rescheduler.model.names import API_VERSION
from rescheduler.model.records import Node, ObjectKey, Pod, Toleration
from rescheduler.model.reservation import ObjectRef, Reservation, ReservationStatus
from rescheduler.reservations.placeholder import WHOLE, Part


class CreatePlaceholder(msgspec.Struct, frozen=True, tag=True):
    """Make the placeholder pod, pinned to ``node``."""

    reservation: Reservation
    node: str
    part: Part = WHOLE


class TryTemplate(msgspec.Struct, frozen=True, tag=True):
    """Create a pod of the template in a dry run, to see whether the API server takes it."""

    reservation: Reservation


class Nominate(msgspec.Struct, frozen=True, tag=True):
    """Write ``status.nominatedNodeName``: the scheduler then counts the pod on ``node``. An empty ``node`` takes it back."""

    pod: ObjectKey
    uid: str
    node: str


class DeletePlaceholder(msgspec.Struct, frozen=True, tag=True):
    """Delete with uid precondition and one second of grace: with none the kubelet could still hold the room.

    The API server is asked for each pod of ``nominated`` right before. If one is not nominated any more, it is nominated
    again and nothing is deleted: without its placeholder and without the nomination the room would be free for any pod.
    The cache may still show a nomination that was withdrawn, if the answer to the withdrawal was lost.
    """

    pod: ObjectKey
    uid: str
    nominated: tuple[Nominate, ...] = ()


class RemovePlaceholder(msgspec.Struct, frozen=True, tag=True):
    """Delete a terminating placeholder without waiting for its kubelet, which does not answer (uid precondition)."""

    pod: ObjectKey
    uid: str


class WriteReservationStatus(msgspec.Struct, frozen=True, tag=True):
    """Write the status if the Reservation is still as it was seen (compare and swap).

    A claim is such a write: two claimants cannot both win.
    """

    seen: Reservation
    status: ReservationStatus

    @property
    def name(self) -> str:
        """Of the Reservation."""
        return self.seen.name


class TakeBackNomination(msgspec.Struct, frozen=True, tag=True):
    """Empty ``status.nominatedNodeName``, but only while the placeholder ``holder`` surely stands.

    The server is asked, for the cache may not show yet that the room was given up: then nothing else holds it.
    """

    pod: ObjectKey
    uid: str
    holder: ObjectKey
    holder_uid: str


class Ungate(msgspec.Struct, frozen=True, tag=True):
    """Take our gate off the claimant in one patch, with the name of its Reservation.

    ``tolerations``: None leaves them; otherwise the whole list (the API replaces it), ours included.
    """

    pod: ObjectKey
    uid: str
    reservation: str
    tolerations: tuple[Toleration, ...] | None = None


class Tolerate(msgspec.Struct, frozen=True, tag=True):
    """Let a pending pod without a gate tolerate the hand-over taint, before it claims the Reservation of that name.

    ``tolerations``: the whole list, ours included; the API server takes no list that lacks one that the pod has.
    """

    pod: ObjectKey
    uid: str
    resource_version: str
    reservation: str
    tolerations: tuple[Toleration, ...]


class AdmitPlaceholder(msgspec.Struct, frozen=True, tag=True):
    """Take the gate off a placeholder whose room is free now."""

    pod: ObjectKey
    uid: str


class CreateKoordinatorReservation(msgspec.Struct, frozen=True, tag=True):
    """Let Koordinator hold the room, on ``node``."""

    reservation: Reservation
    node: str


class DeleteKoordinatorReservation(msgspec.Struct, frozen=True, tag=True):
    """Delete Koordinator's Reservation (uid precondition)."""

    name: str
    uid: str


class Steer(msgspec.Struct, frozen=True, tag=True):
    """Take our gate off the claimant, and name Koordinator's Reservation ``holder`` as the one it must use.

    One patch, so that its scheduler never sees it ungated without the affinity.
    """

    pod: ObjectKey
    uid: str
    reservation: str
    holder: str


class Unsteer(msgspec.Struct, frozen=True, tag=True):
    """Take the name of a room that is lost off a pending pod: it would wait for it for ever."""

    pod: ObjectKey
    uid: str


class ReleasePod(msgspec.Struct, frozen=True, tag=True):
    """Take our gate off a pod that gets no room: the scheduler may bind it to any node."""

    pod: ObjectKey
    uid: str
    why: str
    """For the log."""


class TaintNode(msgspec.Struct, frozen=True, tag=True):
    """Put the hand-over taint on a node that is still as it was seen: it keeps contenders off the room."""

    node: Node


class UntaintNode(msgspec.Struct, frozen=True, tag=True):
    """Take every hand-over taint off a node that is still as it was seen."""

    node: Node


class DeleteReservation(msgspec.Struct, frozen=True, tag=True):
    """Delete the Reservation object, by its uid.

    ``unchanged``: only if it is still as it was seen, so that one that was claimed in the meantime is not hit.
    """

    seen: Reservation
    unchanged: bool = False
    why: str = ""
    """Why its room is given back, for the log."""


class RecordEvent(msgspec.Struct, frozen=True, tag=True):
    """Record an Event on the object that people look at."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    reason: str
    message: str
    warning: bool = False
    pod: ObjectRef | None = None
    """The pod that the Event is about too, where the object is another one."""


ReservationAction = (
    TryTemplate
    | CreatePlaceholder
    | DeletePlaceholder
    | RemovePlaceholder
    | WriteReservationStatus
    | Nominate
    | TakeBackNomination
    | Ungate
    | Tolerate
    | AdmitPlaceholder
    | CreateKoordinatorReservation
    | DeleteKoordinatorReservation
    | Steer
    | Unsteer
    | ReleasePod
    | TaintNode
    | UntaintNode
    | DeleteReservation
    | RecordEvent
)


def delete_placeholder(pod: Pod, claimants: Iterable[Pod] = (), node: str = "") -> DeletePlaceholder:
    """The action for that placeholder. ``claimants`` must still be nominated to ``node`` when it is carried out."""
    return DeletePlaceholder(
        pod.key, pod.uid, tuple(Nominate(claimant.key, claimant.uid, node) for claimant in claimants)
    )


def unreadable(kind: str, name: str, uid: str, message: str, *, namespace: str = "") -> RecordEvent:
    """The Event of a Reservation or PodMigration that cannot be read in full."""
    return RecordEvent(
        api_version=API_VERSION,
        kind=kind,
        namespace=namespace,
        name=name,
        uid=uid,
        reason="Damaged",
        message=f"no step is taken, and what it holds stays held, until these fields are mended: {message}",
        warning=True,
    )
