"""One step of something that is looked after in rounds (``periodic_steps``): of what it is, and what is to be done. A value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rescheduler.calls.call import AnyCall
from rescheduler.controller.crashes import Step
from rescheduler.model.records import ObjectKey


class PeriodicStep(NamedTuple):
    """To be taken by its machine."""

    step: Step
    machine: ObjectKey
    uid: str
    """Of the object that it is for; "": it is no object of ours."""
    calls: Callable[[], Sequence[AnyCall]]
    """Decides; what it raises concerns this machine only."""
