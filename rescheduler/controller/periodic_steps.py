"""What belongs to no single Reservation and no move, but is looked after in every round: emptied nodes, windows, head-rooms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from rescheduler.controller.crashes import Step
from rescheduler.controller.keeping_empty import EmptiedNodeKeeper
from rescheduler.controller.periodic_step import PeriodicStep
from rescheduler.controller.room_sets import RoomSetKeeper
from rescheduler.controller.settings import Settings
from rescheduler.coordination.index import RoundIndex
from rescheduler.model.records import ObjectKey
from rescheduler.model.snapshot import Snapshot


@dataclass(slots=True)
class PeriodicSteps:
    """All of them; used by the core thread only."""

    _nodes: EmptiedNodeKeeper = field(default_factory=EmptiedNodeKeeper)
    _room_sets: RoomSetKeeper = field(default_factory=RoomSetKeeper)

    def steps(
        self, whole: Snapshot, index: RoundIndex, settings: Settings, now_s: float
    ) -> Iterator[PeriodicStep]:
        """What is to be done now, for each machine. ``whole``: with what the round leaves out."""
        for machine, calls in self._nodes.steps(whole, index.unbound(), settings.keeping, now_s):
            yield PeriodicStep(Step.NODE, machine, "", partial(tuple, calls))
        yield from self._room_sets.steps(index, now_s)

    @property
    def machines(self) -> tuple[ObjectKey, ...]:
        """Of all that was found at the last look."""
        return (*self._nodes.machines, *self._room_sets.machines)

    @property
    def again_s(self) -> float | None:
        """When to look again at the latest; None: only when something changes."""
        times = (self._nodes.again_s, self._room_sets.again_s)
        return min((at_s for at_s in times if at_s is not None), default=None)
