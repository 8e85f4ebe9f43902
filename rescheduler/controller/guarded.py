"""A stage over all objects that crashes of some of them goes on without these: they rest, and all others are served.

A step is for one object, and what it raises rests that one (``crashes``). Indexes, the choice of what a round is about, the scheduling
state and decisions look at all objects at once: here is found of which groups of objects (``coordination.sight``) they crash. Each of
them is told with the traceback, is left out for a backoff, and is then tried again. Who is to blame is guessed first from what
the crashed code was looking at; a wrong guess costs a try, nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

from rescheduler.controller.crashes import CrashReports, Step, words_of
from rescheduler.controller.effects import NotLeaderError
from rescheduler.coordination.isolation import MOST_GROUPS, isolated
from rescheduler.coordination.memory import Backoff
from rescheduler.coordination.sight import NODE, Left, Sight, Sights, group_of, groups_of, nodes_of
from rescheduler.kube.errors import ApiError
from rescheduler.kube.transport import TransportError
from rescheduler.model.migration import PodMigration
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import Reservation
from rescheduler.model.snapshot import Snapshot

_FATAL: Final = (NotLeaderError, ApiError, TransportError)
"""What says nothing about any object."""
_MOST_GUESSES: Final = 4
_STEP: Final = "step"
_MOST_SUSPECTS: Final = 1_000
_LEAST_REST_S: Final = 5.0
"""Time in which the steps of others get somewhere."""
_AGAIN: Final = 3
"""So many crashes of one step that looked at the same objects of somebody else are taken to be their fault."""

Found = TypeVar("Found")


@dataclass(slots=True, kw_only=True)
class Guard:
    """Carries out stages of one kind. Used by the core thread only. ``step``: what their crashes are counted as."""

    step: Step
    crashes: CrashReports
    _out: dict[Left, str] = field(default_factory=dict)
    """What is left out, with the stage that crashed of it."""
    _backoff: Backoff = field(default_factory=Backoff)
    _sights: Sights = field(default_factory=Sights)
    _suspects: dict[Left, Counter[Left]] = field(default_factory=dict)
    """What crashed steps were looking at, with the groups of the others whose steps they were."""
    _altogether: set[Left] = field(default_factory=set)
    """Of what is left out, that of which steps crash even with bare pods in its place."""

    def carry_out(
        self,
        stage: str,
        snapshot: Snapshot,
        now_s: float,
        compute: Callable[[Sight], Found],
        most: int = MOST_GROUPS,
    ) -> Found:
        """The result for the whole cluster, or for what it bears of it. ``compute`` may be called several times.

        Raises:
            Exception: what ``compute`` raises if no group is to blame, or more than ``most``.
        """
        resting = {group for group in self._out if self._backoff.pausing(_machine(group), now_s)}

        again = [group for group, by in self._out.items() if by in (stage, _STEP) and group not in resting]
        found, bad = isolated(
            lambda out: self._try(resting.union(out), snapshot, compute),
            lambda: [group for group in groups_of(snapshot) if group not in resting],
            known=lambda error: [*again, *_guessed(error, snapshot)],
            fatal=_FATAL,
            most=most,
        )
        for group in again:
            if group not in bad and self._out.pop(group) == stage:
                self._backoff.succeeded(_machine(group))
        for group, error in bad.items():
            self._leave_out(group, stage, error, snapshot, now_s)
        self._altogether.intersection_update(self._out)
        if not self._out:
            self._sights.forget()
        return found

    def _try(self, out: Collection[Left], snapshot: Snapshot, compute: Callable[[Sight], Found]) -> Found:
        if not out:
            return compute(Sight(snapshot))
        if self._altogether.isdisjoint(out):
            try:
                return compute(self._sights.without(snapshot, out, bare=True))
            except _FATAL:
                raise
            except Exception:  # noqa: BLE001, S110 - maybe of what the bare pods have
                pass
        return compute(self._sights.without(snapshot, out, bare=False))

    def step_crashed(self, member: object, error: Exception, snapshot: Snapshot, now_s: float) -> bool:
        """The step of one object crashed. True if that of another is left out for it, so that it may be tried again at once.

        ``snapshot``: with all objects.
        """
        own = group_of(member, snapshot.reservations)
        group = next((group for group, _ in _looked_at(error, snapshot)), own)
        if own is None or group is None or group == own or _is_on(member, group):
            return False
        if len(self._suspects) >= _MOST_SUSPECTS:
            self._suspects.clear()
        others = self._suspects.setdefault(group, Counter())
        others[own] += 1
        if self._backoff.pausing(_machine(group), now_s):
            known = group in self._altogether
            self._altogether.add(group)
            return not known
        blamed = len(others) > 1 or others[own] >= _AGAIN
        if blamed:
            self._leave_out(group, _STEP, error, snapshot, now_s)
        return blamed

    def _leave_out(self, group: Left, stage: str, error: Exception, snapshot: Snapshot, now_s: float) -> None:
        self._out[group] = stage
        failure = self._backoff.failed(
            _machine(group), words_of(error), now_s, crashed=True, least_s=_LEAST_REST_S
        )
        self.crashes.tell(self.step, _about(group, error, snapshot), error, failure.count)


def _is_on(member: object, group: Left) -> bool:
    if group.what != NODE or not isinstance(member, Reservation | PodMigration):
        return False
    return group.name in nodes_of(member)


def _machine(group: Left) -> ObjectKey:
    return ObjectKey(group.what, group.name)


def _about(group: Left, error: Exception, snapshot: Snapshot) -> ObjectKey:
    """The object of the group that the crashed code was looking at; the group if none can be told."""
    for looked_at, record in _looked_at(error, snapshot):
        if looked_at == group:
            kind = type(record).__name__
            return ObjectKey(getattr(record, "namespace", ""), f"{kind} {getattr(record, 'name', '')}")
    return ObjectKey("", f"{group.what} {group.name}")


def _guessed(error: Exception, snapshot: Snapshot) -> list[Left]:
    looked_at = dict.fromkeys(group for group, _ in _looked_at(error, snapshot))
    return list(looked_at)[:_MOST_GUESSES]


def _looked_at(error: Exception, snapshot: Snapshot) -> Iterator[tuple[Left, object]]:
    """The records among the local variables of the code that crashed, the innermost first, each with its group."""
    frames = []
    at = error.__traceback__
    while at is not None:
        frames.append(at.tb_frame)
        at = at.tb_next
    for frame in reversed(frames):
        for value in list(frame.f_locals.values()):
            group = group_of(value, snapshot.reservations)
            if group is not None:
                yield group, value
