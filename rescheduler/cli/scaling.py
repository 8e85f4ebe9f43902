"""Reserve before scaling (rows K5, K13): room for every new pod first, all or nothing, then the scale.

The order: Reservations for the controller of the new pods; all Available; the gate proven, so that the new
pods wait for their rooms; the scale subresource; every pod bound. Until the scale is written any failure
gives everything back and changes nothing; afterwards nothing is given back that a pod may still claim.
Clock, pause and the random word are handed in.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from rescheduler.cli.errors import CommandError
from rescheduler.cli.rooms import Order, Rooms, end_of_release, manifests, untouched, words
from rescheduler.cli.waiting import NOBODY_ACTS_S, wait_for
from rescheduler.cli.workload import FoundWorkload, read_workload
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import AccessError, ConflictError, ForbiddenError, RejectedError, TryLaterError
from rescheduler.kube.gate import Gate
from rescheduler.kube.transport import TransportError
from rescheduler.model.names import LABEL_GROUP
from rescheduler.model.reservation import ControllerRef, Reservation, ReservationOwner, ReservationPhase
from rescheduler.reservations.lifecycle import FINISHED

_GATE_LIMIT_S: Final = 15.0
_CONFLICTS: Final = 20

Found = tuple[Reservation, ...]


class Stage(enum.StrEnum):
    """What is under way, for people."""

    RESERVING = "reserving"
    LANDING = "landing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What the procedure works with. ``show``: told after every look."""

    api: KubeApi
    rooms: Rooms
    clock: Callable[[], float]
    pause: Callable[[], None]
    show: Callable[[Stage, Found], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """The end of a scale-up: Reservations that were used, and the others."""

    landed: Found
    missed: Found


@dataclass(slots=True, kw_only=True)
class ScaleUp:
    """One scale-up of ``workload`` to ``replicas``; each limit is in seconds."""

    workload: FoundWorkload
    replicas: int
    group: str
    timeout_s: float
    tools: Tools
    _names: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many pods are added."""
        return self.replicas - self.workload.replicas

    def reserve(self) -> Found:
        """Room for every new pod, and the gate proven.

        Raises:
            CommandError: not all became Available in time; everything is given back, the reasons are told.
                A note on this and every other error says what could not be given back.
        """
        wanted = manifests(self._order())
        self._names = [str(body["metadata"]["name"]) for body in wanted]
        began_s = self.tools.clock()
        self._create(wanted)
        try:
            found = wait_for(
                lambda: self.tools.rooms.group(self.group),
                self._decided,
                ends_s=began_s + self.timeout_s,
                clock=self.tools.clock,
                pause=self.tools.pause,
                show=lambda rooms: self.tools.show(Stage.RESERVING, rooms),
            )
            self._check_held(found)
            self._prove_gate()
        except BaseException as error:
            error.add_note(self.give_back())
            raise
        return found

    def scale(self) -> None:
        """Write the number of replicas through the scale subresource, if it is still what it was.

        Raises:
            CommandError: somebody else changed it, or the rooms are not all held any more. It, and every refusal
                of the server, means that nothing was written; the rooms are given back.
            TransportError, TryLaterError: unknown whether it was written: the rooms stay until they expire.
        """
        try:
            self._write_until_taken()
        except (CommandError, AccessError, RejectedError) as error:
            error.add_note(self.give_back())
            raise
        except (TransportError, TryLaterError) as error:
            error.add_note(
                f"Unknown whether {self.workload.name} was scaled. Its new pods may need the rooms, which are held "
                f"until they expire; if it was not: rescheduler reserve release -l {LABEL_GROUP}={self.group}"
            )
            raise

    def land(self) -> Landing:
        """Wait until every Reservation was used by a pod that is bound, or the time is over."""
        found = wait_for(
            lambda: self.tools.rooms.group(self.group),
            lambda rooms, _: all(r.status.phase in FINISHED for r in rooms),
            ends_s=self.tools.clock() + self.timeout_s,
            clock=self.tools.clock,
            pause=self.tools.pause,
            show=lambda rooms: self.tools.show(Stage.LANDING, rooms),
        )
        landed = tuple(r for r in found if r.status.phase is ReservationPhase.SUCCEEDED)
        return Landing(landed=landed, missed=tuple(r for r in found if r not in landed))

    def give_back(self) -> str:
        """Release every room of this scale-up, for nothing was scaled; what people are told of it."""
        left = self.tools.rooms.release(dict.fromkeys(self._names, ""))
        return f"Nothing was scaled. {end_of_release(left, self.group)}"

    def _create(self, wanted: Sequence[Mapping[str, Any]]) -> None:
        try:
            self.tools.rooms.create(wanted)
        except BaseException as error:
            error.add_note("Nothing was scaled.")
            raise

    def _order(self) -> Order:
        found = self.workload
        owner = ControllerRef(
            api_version=found.owner.api_version,
            kind=found.owner.kind,
            name=found.owner.name,
            uid=found.owner.uid,
            namespace=found.name.namespace,
        )
        return Order(
            base=found.name.name,
            group=self.group,
            count=self.count,
            template=found.template,
            namespace=found.name.namespace,
            owner=ReservationOwner(controller=owner),
            # Must outlast reserving, the proof and landing; a command that is killed leaves them to expire.
            ttl_s=2 * self.timeout_s + 60.0,
        )

    def _all_held(self, rooms: Found) -> bool:
        held = [
            r for r in rooms if r.status.phase is ReservationPhase.AVAILABLE and not r.status.current_owners
        ]
        return len(held) == self.count

    def _check_held(self, rooms: Found) -> None:
        if not self._all_held(rooms):
            raise CommandError(self._why_not(rooms))

    def _decided(self, rooms: Found, answered_s: float) -> bool:
        if self._all_held(rooms) or any(r.status.phase in FINISHED for r in rooms):
            return True
        nobody = all(untouched(r) for r in rooms)
        return nobody and answered_s >= NOBODY_ACTS_S

    def _why_not(self, rooms: Found) -> str:
        if rooms and all(untouched(r) for r in rooms):
            return "nobody acts on the Reservations: is the controller running (rescheduler run)?"
        held = sum(r.status.phase is ReservationPhase.AVAILABLE for r in rooms)
        head = f"room for {held} of {self.count} new pods of {self.workload.name}"
        return "\n".join([head, *reasons(rooms)])

    def _prove_gate(self) -> None:
        owner, namespace = self.workload.owner, self.workload.name.namespace
        gate = Gate(self.tools.api)
        ends_s = self.tools.clock() + _GATE_LIMIT_S
        try:
            while gate.holds_for(owner, namespace) not in self._names:
                if self.tools.clock() >= ends_s:
                    raise CommandError(
                        f"new pods of {self.workload.name} are not held for their rooms (is the gate policy "
                        "installed, and does another Reservation serve the same controller?)"
                    )
                self.tools.pause()
        except ForbiddenError as error:
            message = (
                f"the gate cannot be proven without the right to create pods in {namespace}: {error.message}"
            )
            raise CommandError(message) from error

    def _write_until_taken(self) -> None:
        for _ in range(_CONFLICTS):
            self._check_held(self.tools.rooms.group(self.group))
            try:
                self._write_scale()
            except (
                ConflictError
            ):  # its status has changed; or this is our own first try, whose answer was lost
                self.tools.pause()
                continue
            return
        raise CommandError(f"{self.workload.name} changes all the time")

    def _write_scale(self) -> None:
        path = f"{self.workload.name.path}/scale"
        scale = msgspec.json.decode(self.tools.api.get(path), type=_ScaleWire)
        if scale.spec.replicas == self.replicas:
            return
        self._check_unchanged(scale.spec.replicas)
        self.tools.api.merge_patch(
            path,
            {
                "metadata": {"resourceVersion": scale.metadata.resourceVersion},
                "spec": {"replicas": self.replicas},
            },
        )

    def _check_unchanged(self, replicas: int) -> None:
        found = read_workload(self.tools.api, self.workload.name)
        if replicas != self.workload.replicas:
            raise CommandError(f"{self.workload.name} was scaled to {replicas} meanwhile")
        if found.owner.uid != self.workload.owner.uid:
            raise CommandError(
                f"{self.workload.name} was rolled out meanwhile: its next pods are made by {found.owner.name}"
            )


def reasons(rooms: Sequence[Reservation]) -> list[str]:
    """One line per reason why rooms are not held, with how many."""
    counts: dict[str, int] = {}
    for room in rooms:
        if room.status.phase is not ReservationPhase.AVAILABLE:
            text = f"{room.status.phase}: {words(room)}"
            counts[text] = counts.get(text, 0) + 1
    return [f"  {count} x {text}" for text, count in counts.items()]


class _ScaleSpec(msgspec.Struct):
    replicas: int = 0


class _ScaleMeta(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815 - the name on the wire


class _ScaleWire(msgspec.Struct):
    metadata: _ScaleMeta
    spec: _ScaleSpec = msgspec.field(default_factory=_ScaleSpec)
