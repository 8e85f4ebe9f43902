"""Reserve before scaling (K5, K13): room for every new pod first, all or nothing, then the scale.

The steps: create Reservations for the controller of the new pods; wait until all are Available; verify the gate, so
that the new pods wait for their rooms; write the scale subresource; wait until every pod is bound. On an error before
the scale is written all Reservations are released and nothing has changed. After that no Reservation is released that
a pod may still claim. The caller passes in the clock, the pause and the random word.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rescheduler.cli.errors import CommandError
from rescheduler.cli.following import NO_CONTROLLER_AFTER_S, follow
from rescheduler.cli.reservation_client import (
    ReservationClient,
    manifests,
    release_summary,
    room_template,
    stem_of,
)
from rescheduler.cli.workload import FoundWorkload, read_workload
from rescheduler.kube.answers import read_field
from rescheduler.kube.errors import AccessError, ConflictError, ForbiddenError, RejectedError, TryLaterError
from rescheduler.kube.gate import Gate
from rescheduler.kube.transport import TransportError
from rescheduler.model.names import LABEL_GROUP
from rescheduler.model.reservation import ControllerRef, Reservation, ReservationOwner, ReservationPhase
from rescheduler.reports.reservation_words import is_unobserved, status_message
from rescheduler.reservations.reservation_lifecycle import FINISHED

_GATE_LIMIT_S: Final = 15.0
_CONFLICTS: Final = 20
_PAUSE_S: Final = 0.2

Found = tuple[Reservation, ...]


class ScaleResult(NamedTuple):
    """The result of a scale-up."""

    landed: Found
    """Reservations whose pod is bound."""
    missed: Found
    """The other Reservations."""


@dataclass(slots=True, kw_only=True)
class ScaleUp:
    """One scale-up of ``workload`` to ``replicas``. ``show`` gets how far it is after every read."""

    rooms: ReservationClient
    workload: FoundWorkload
    replicas: int
    group: str
    timeout_s: float
    earlier: Sequence[str] = ()
    """Reservations that are held for new pods of the workload already."""
    show: Callable[[str], object] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[], None] = lambda: time.sleep(_PAUSE_S)
    _names: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many pods are added."""
        return self.replicas - self.workload.replicas

    def reserve(self) -> Found:
        """Hold room for every new pod, and verify the gate.

        Raises:
            CommandError: not all became Available in time; all Reservations are released.
                A note on this and every other error lists those that could not be released.
        """
        # Long enough for reserving, verifying and landing; if the command is killed, the Reservations expire.
        room = room_for(self.workload, self.group, 2 * self.timeout_s + 60.0)
        bodies = manifests(room, self.count - len(self.earlier), self.group)
        self._names = [str(body["metadata"]["name"]) for body in bodies]
        began_s = self.clock()
        try:
            self.rooms.create(bodies)
        except BaseException as error:
            error.add_note("Nothing was scaled.")
            raise
        try:
            found = self._follow(self._decided, _reserving, began_s)
            self._check_held(found)
            self._verify_gate()
        except BaseException as error:
            error.add_note(self.release())
            raise
        return found

    def scale(self) -> None:
        """Write the number of replicas through the scale subresource, if nobody changed it meanwhile.

        Raises:
            CommandError: it was changed meanwhile, or not all rooms are held any more. After this and after every
                rejected request nothing was written, and the Reservations are released.
            TransportError, TryLaterError: unknown whether it was written: the Reservations are kept until they expire.
        """
        try:
            self._write_with_retries()
        except (CommandError, AccessError, RejectedError) as error:
            error.add_note(self.release())
            raise
        except (TransportError, TryLaterError) as error:
            error.add_note(
                f"It is unknown whether {self.workload.name} was scaled. Its new pods may need the rooms, which are held "
                f"until they expire. If it was not scaled: rescheduler reserve release -l {LABEL_GROUP}={self.group}"
            )
            raise

    def land(self) -> ScaleResult:
        """Wait until every Reservation has a bound pod, or the time limit is over."""
        found = self._follow(
            lambda rooms, _: all(r.status.phase in FINISHED for r in rooms), _landing, self.clock()
        )
        landed = tuple(r for r in found if r.status.phase is ReservationPhase.SUCCEEDED)
        return ScaleResult(landed, tuple(r for r in found if r not in landed))

    def release(self) -> str:
        """Release all Reservations of this scale-up after an error; returns the message for the user."""
        left = self.rooms.release(dict.fromkeys(self._names, ""))
        return f"Nothing was scaled. {release_summary(left, self.group)}"

    def _follow(
        self, done: Callable[[Found, float], bool], progress: Callable[[Found], str], began_s: float
    ) -> Found:
        return follow(
            self._rooms,
            done,
            ends_s=began_s + self.timeout_s,
            show=lambda rooms: self.show(progress(rooms)),
            clock=self.clock,
            pause=self.pause,
        )

    def _rooms(self) -> Found:
        """Those of this command, and those that were held already."""
        return (*self.rooms.group(self.group), *self.rooms.again(self.earlier))

    def _all_held(self, rooms: Found) -> bool:
        return sum(_held(room) and not room.status.current_owners for room in rooms) == self.count

    def _check_held(self, rooms: Found) -> None:
        if not self._all_held(rooms):
            raise CommandError(self._why_not(rooms))

    def _decided(self, rooms: Found, answered_s: float) -> bool:
        if self._all_held(rooms) or any(room.status.phase in FINISHED for room in rooms):
            return True
        return answered_s >= NO_CONTROLLER_AFTER_S and all(map(is_unobserved, rooms))

    def _why_not(self, rooms: Found) -> str:
        if rooms and all(map(is_unobserved, rooms)):
            return (
                "no controller has processed the Reservations: is the controller running (rescheduler run)?"
            )
        head = f"room for {sum(map(_held, rooms))} of {self.count} new pods of {self.workload.name}"
        return "\n".join([head, *reasons(rooms)])

    def _verify_gate(self) -> None:
        owner, namespace = self.workload.owner, self.workload.name.namespace
        gate = Gate(self.rooms.api)
        try:
            # A key names the first by name of several Reservations with one owner; it holds the pods of all of them.
            holds = follow(
                lambda: gate.holds_for(owner, namespace),
                lambda holds, _: bool(holds),
                ends_s=self.clock() + _GATE_LIMIT_S,
                clock=self.clock,
                pause=self.pause,
            )
        except ForbiddenError as error:
            message = f"the gate cannot be verified without permission to create pods in {namespace}: {error.message}"
            raise CommandError(message) from error
        if not holds:
            raise CommandError(
                f"new pods of {self.workload.name} would not wait for their rooms: is the gate policy installed?"
            )

    def _write_with_retries(self) -> None:
        for _ in range(_CONFLICTS):
            self._check_held(self._rooms())
            try:
                self._write_scale()
            except (
                ConflictError
            ):  # the status of the workload changed, or the response to our first attempt was lost
                self.pause()
                continue
            return
        raise CommandError(f"{self.workload.name} is changed too often: {_CONFLICTS} conflicts in a row")

    def _write_scale(self) -> None:
        path = f"{self.workload.name.path}/scale"
        scale = self.rooms.api.get(path)
        if (replicas := read_field(scale, "spec.replicas", int, 0)) == self.replicas:
            return
        self._check_unchanged(replicas)
        self.rooms.api.merge_patch(
            path,
            {
                "metadata": {"resourceVersion": read_field(scale, "metadata.resourceVersion", str, "")},
                "spec": {"replicas": self.replicas},
            },
        )

    def _check_unchanged(self, replicas: int) -> None:
        found = read_workload(self.rooms.api, self.workload.name)
        if replicas != self.workload.replicas:
            raise CommandError(f"{self.workload.name} was scaled to {replicas} meanwhile")
        if found.owner.uid != self.workload.owner.uid:
            raise CommandError(
                f"{self.workload.name} was rolled out meanwhile: {found.owner.name} creates its next pods"
            )


def room_for(workload: FoundWorkload, group: str, ttl_s: float) -> Reservation:
    """The Reservation of one new pod."""
    owner = ControllerRef(
        api_version=workload.owner.api_version,
        kind=workload.owner.kind,
        name=workload.owner.name,
        uid=workload.owner.uid,
        namespace=workload.name.namespace,
    )
    return Reservation(
        name=stem_of(workload.name.name, group),
        template_raw=room_template(workload.template, workload.name.namespace),
        owners=(ReservationOwner(controller=owner),),
        ttl_s=ttl_s,
    )


def _held(room: Reservation) -> bool:
    return room.status.phase is ReservationPhase.AVAILABLE


def _reserving(rooms: Found) -> str:
    waiting = next((status_message(room) for room in rooms if not _held(room)), "")
    return f"room for {sum(map(_held, rooms))} of {len(rooms)}" + (f"; waiting: {waiting}" if waiting else "")


def _landing(rooms: Found) -> str:
    landed = sum(room.status.phase is ReservationPhase.SUCCEEDED for room in rooms)
    return f"landed {landed} of {len(rooms)}"


def reasons(rooms: Sequence[Reservation]) -> list[str]:
    """One line for each reason why rooms are not held, with their number."""
    counts = Counter(f"{room.status.phase}: {status_message(room)}" for room in rooms if not _held(room))
    return [f"  {count} x {text}" for text, count in counts.items()]
