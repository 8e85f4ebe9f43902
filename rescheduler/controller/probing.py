"""Probes whether a scheduler is up to date, after an outage of the API server and at the start of the process.

A hand-over relies on the order in which the scheduler sees its writes: first the nomination, then the deletion of the
placeholder. A watch keeps that order. After a restart of the API server the scheduler reads a new list, and its informer
reports deletions first: for a moment any pod may take the room (2 of 20 were lost in this way). So, after each gap in our
own view of pods, a hand-over does not delete its placeholder before a probe pod (``reservations.scheduler_probe``) has
shown that its scheduler is up to date. Without an answer, it goes on after a limit.
Promises: there is no probe while no hand-over waits; answers to a former process, or from before a gap, are not used;
all probes are deleted. Which probes there are is read off the cache in each round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from rescheduler.calls.call import Call
from rescheduler.calls.pods import withdraw_request
from rescheduler.coordination.handover_order import SchedulerLag
from rescheduler.coordination.memory import Memory
from rescheduler.kube.reflector import Gaps
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.room_of_move import digest
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations.scheduler_probe import answered, ask_scheduler
from rescheduler.reservations.settings import ReservationSettings

MOST_S: Final = 35.0
"""How long an answer is waited for: longer than the backoff of a running scheduler between two tries to list."""
LEAST_S: Final = 5.0
HEARD_S: Final = 0.0


def rest_s(away_s: float) -> float:
    """How long the scheduler may take to list again after an outage, if no probe can be created.

    Its backoff doubles, with a jitter of up to 100 %, so the next pause may be twice as long as all pauses before; and an
    API server that is starting refuses the first list.
    """
    return min(MOST_S, LEAST_S + 3.0 * away_s)


@dataclass(slots=True, kw_only=True)
class SchedulerProbes:
    """``lag`` at the beginning of each round, ``due`` at its end.

    ``gaps``: of the cache of pods. ``process``: part of the names of probes, unique to this process.
    """

    gaps: Callable[[], Gaps]
    process: str
    machines: frozenset[ObjectKey] = frozenset()
    """Those of the probes that are asked for or there."""
    _gaps: Gaps = field(default_factory=Gaps)
    _gap_at_s: float = 0.0
    _heard: dict[str, bool] = field(default_factory=dict)
    """Schedulers that hand-overs have waited for since the last gap; True: none waits for this one any more."""

    def lag(self, snapshot: Snapshot, memory: Memory, namespace: str, now_s: float) -> SchedulerLag:
        """Until when each scheduler may be behind. ``namespace``: of probes."""
        if (gaps := self.gaps()) != self._gaps:
            self._gaps, self._gap_at_s = gaps, now_s
            self._heard.clear()
        known: dict[str, float] = {}
        for scheduler, heard in self._heard.items():
            key = self._key(scheduler, namespace)
            known[scheduler] = HEARD_S if heard else self._until_s(key, snapshot.pods.get(key), memory, now_s)
            if not heard and known[scheduler] <= now_s:
                self._heard[scheduler] = True
                if known[scheduler] > HEARD_S:
                    structlog.get_logger("rescheduler.probing").warning(
                        "A scheduler has not answered whether it is up to date: rooms are handed over without its answer",
                        scheduler=scheduler,
                        waited_s=round(now_s - self._gap_at_s, 1),
                    )
        return SchedulerLag(known=known, others_s=math.inf)

    def due(
        self, awaited: Mapping[str, Reservation], probes: Iterable[Pod], settings: ReservationSettings
    ) -> Iterator[tuple[ObjectKey, Call]]:
        """Ask the schedulers that hand-overs wait for, and delete what nobody waits for: by machine, the call.

        ``awaited``: each with one of the Reservations that wait. ``probes``: all that there are, those of a former process too.
        """
        there = {pod.key: pod for pod in probes if pod.namespace == settings.namespace}
        for scheduler, room in awaited.items():
            self._heard.setdefault(scheduler, False)
            key = self._key(scheduler, settings.namespace)
            if key not in there:
                yield _machine(key), ask_scheduler(key, scheduler, settings.pause_image, room)
        keys = {self._key(one, settings.namespace): heard for one, heard in self._heard.items()}
        ends = {key: ObjectKey("probe", pod.uid) for key, pod in there.items()}
        self.machines = frozenset((*map(_machine, keys), *ends.values()))
        for key, pod in there.items():
            if keys.get(key, True):
                yield ends[key], withdraw_request(pod)

    def _until_s(self, key: ObjectKey, pod: Pod | None, memory: Memory, now_s: float) -> float:
        """The scheduler's time begins when it can have heard of the probe."""
        seen_s = memory.sightings.since("probe", _machine(key), now_s, state=pod is not None)
        if pod is not None:
            return HEARD_S if answered(pod) else seen_s + MOST_S
        failure = memory.backoff.failures.get(_machine(key))
        if failure is None or not failure.refused:
            return math.inf  # the scheduler cannot list either
        # Perhaps a quota, or an API server that is starting: the wait is the estimate from the length of the outage.
        # How long one was that ended before this process began, nobody here knows.
        return self._gap_at_s + rest_s(self._gaps.away_s if self._gaps.number > 1 else math.inf)

    def _key(self, scheduler: str, namespace: str) -> ObjectKey:
        return ObjectKey(namespace, f"scheduler-probe-{self.process}-{self._gaps.number}-{digest(scheduler)}")


def _machine(probe: ObjectKey) -> ObjectKey:
    return ObjectKey("probe", probe.name)
