"""What is done about a defect of this program: it is told, and it stops one step, never the controller.

Whatever a step raises is caught at the border of that step: the object that it was for rests and is tried again ever more
rarely, and all others go on. What a stage over all objects raises ends the round or the decision, which the loop tries
again. Each crash is in the log with its traceback, in metric ``rescheduler_crashes_total``, and on a Reservation or
PodMigration as an Event ``Damaged``. Nothing is decided here; lost leadership is no defect and must not be caught.
"""

from __future__ import annotations

import enum
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from rescheduler.model.event import Event, ObjectReference
from rescheduler.model.names import API_VERSION
from rescheduler.model.records import ObjectKey
from rescheduler.model.snapshot import Snapshot

_LONGEST_MESSAGE: Final = 512
_MOST_FRAMES: Final = 20
MOST_LINES: Final = 256
"""Of one place in the program."""


class Step(enum.StrEnum):
    """Of what the step is that crashed. The values are those of label ``step`` of the metric."""

    RESERVATION = "Reservation"
    POD_MIGRATION = "PodMigration"
    RESERVATION_WINDOW = "ReservationWindow"
    HEAD_ROOM = "HeadRoom"
    POD = "Pod"
    NODE = "Node"
    CONFIG_MAP = "ConfigMap"
    WATCH_EVENT = "watch event"
    ROUND = "round"
    DECISION = "decision"
    CONFIGURATION = "configuration"
    ANSWER = "answer"
    PAGE = "page"


_OTHERS: Final = {
    "config map": Step.CONFIG_MAP,
    "gate proof": Step.POD_MIGRATION,
    "hints": Step.NODE,
    "kept-empty": Step.NODE,
    "periodic steps": Step.ROUND,
    "taint": Step.NODE,
    Step.RESERVATION_WINDOW.value: Step.RESERVATION_WINDOW,
    Step.HEAD_ROOM.value: Step.HEAD_ROOM,
}
"""By the namespace in the key of machines that are neither a Reservation nor a move; all that are missing here are for pods."""


def whose_step(machine: ObjectKey, snapshot: Snapshot) -> tuple[Step, str]:
    """Of what the steps of that machine are, and the uid of the object that gets an Event; "": none does."""
    if (migration := snapshot.migrations.get(machine)) is not None:
        return Step.POD_MIGRATION, migration.uid
    if not machine.namespace and (reservation := snapshot.reservations.get(machine.name)) is not None:
        return Step.RESERVATION, reservation.uid
    return _OTHERS.get(machine.namespace, Step.POD), ""


def uncounted(_step: Step) -> None:
    """A counter that counts nothing."""


@dataclass(frozen=True, slots=True)
class CrashReports:
    """Tells crashes. ``count``: called once for each."""

    count: Callable[[Step], None] = uncounted
    log: Any = field(default_factory=lambda: structlog.get_logger("rescheduler.crashes"))
    places: Counter[tuple[Step, str, int]] = field(default_factory=Counter)
    """How often each place of the program crashed."""

    def tell(self, step: Step, about: ObjectKey | None, error: Exception, tries: int = 1) -> None:
        """Count it and log it. ``about``: the object whose step it was; ``tries``: how often in a row it crashed.

        The traceback is logged at each doubling of ``tries``: an object that never recovers must not fill the log. Nor must many
        objects that crash in the same place: from ``MOST_LINES`` on, each doubling of their number is logged.
        """
        self.count(step)
        place = (step, *_place_of(error))
        self.places[place] += 1
        times = self.places[place]
        if times > MOST_LINES and times & (times - 1):
            return
        # As a text: log renderers that show local variables would take seconds for a snapshot of a large cluster.
        trace = {"exception": traceback_of(error)} if tries & (tries - 1) == 0 else {}
        self.log.error(
            "A step of the controller crashed; it is tried again after a backoff",
            step=step,
            object=str(about) if about is not None else "",
            error=words_of(error),
            tries=tries,
            crashes_here=times,
            **trace,
        )

    def event(self, step: Step, about: ObjectKey, uid: str, error: Exception) -> Event:
        """The Event for the object."""
        return Event(
            ObjectReference(step.value, about.name, about.namespace, uid, API_VERSION),
            reason="Damaged",
            message=f"{words_of(error)}; it is tried again, and nothing of it is given up meanwhile",
            warning=True,
        )


def traceback_of(error: Exception) -> str:
    """The traceback, without local variables and without more frames than a reader takes in."""
    return "".join(traceback.format_exception(error, limit=-_MOST_FRAMES)).rstrip()


def _place_of(error: Exception) -> tuple[str, int]:
    """File and line that raised it."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return (at.tb_frame.f_code.co_filename, at.tb_lineno) if at is not None else ("", 0)


def words_of(error: Exception) -> str:
    """One line for people: the type of the error and its message, shortened."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:_LONGEST_MESSAGE] if text else type(error).__name__
