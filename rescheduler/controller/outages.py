"""After an outage of the API server, and at the start: no room is given up before its scheduler is up to date.

A hand-over relies on the order in which the scheduler hears of it: nomination first, end of the placeholder second.
A watch keeps that order. An API server that restarts forgets what watches have missed, so that the scheduler reads a
new list, and of a new list it is told what is gone first: for a moment the room is nobody's (2 of 20 were lost so).
So it is asked, once after each gap in our own view and by one probe per scheduler (``reservations.scheduler_probe``),
when a hand-over waits to give up its placeholder. Without an answer, it goes on after a while as if there had been one.
Promises: nothing is asked while nothing waits; an answer to a former process counts for nothing, nor does one from
before a gap; whatever is left of probes is deleted.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec
import structlog

from rescheduler.controller.reconcile import Reconciler
from rescheduler.kube.errors import ApiError, ConflictError, ForbiddenError, NotFoundError, RejectedError
from rescheduler.kube.reflector import Gaps
from rescheduler.kube.transport import TransportError
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import Reservation
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations.scheduler_lag import SchedulerLag
from rescheduler.reservations.scheduler_probe import answered, is_probe, probe_manifest

MOST_S: Final = 35.0
"""How long an answer is waited for: longer than a scheduler that lives rests between two tries to list."""
LEAST_S: Final = 5.0
AGAIN_S: Final = 1.0
HEARD_S: Final = 0.0


def rest_s(away_s: float) -> float:
    """How long the scheduler may take after an outage to list anew, where it cannot be asked.

    Its pauses double, with a jitter that doubles them again, so the next one may last twice as long as all before;
    and a server that starts refuses the first look.
    """
    return min(MOST_S, LEAST_S + 3.0 * away_s)


class ProbeApi(Protocol):
    """The calls that are needed; ``kube.client.KubeApi`` has them."""

    def create(self, path: str, body: bytes, /) -> bytes: ...  # noqa: D102
    def delete(self, path: str, /, *, uid: str = "", grace_s: int | None = None) -> Any: ...  # noqa: D102


class _Meta(msgspec.Struct):
    uid: str


class _Created(msgspec.Struct):
    metadata: _Meta


@dataclass(slots=True)
class _Probe:
    """One that waits for its answer. ``seen``: the cache has shown it."""

    key: ObjectKey
    uid: str
    seen: bool = False


@dataclass(slots=True)
class CautiousRounds:
    """Rounds of ``reconciler`` that wait for schedulers. ``gaps``: of the view of pods. ``process``: a word for this one alone."""

    reconciler: Reconciler
    gaps: Callable[[], Gaps]
    api: ProbeApi
    process: str
    _gaps: Gaps | None = None
    _gap_at_s: float = 0.0
    _until_s: dict[str, float] = field(default_factory=dict)
    """Since the last gap: schedulers that were waited for, and until when they are."""
    _asked: dict[str, _Probe] = field(default_factory=dict)
    _number: int = 0
    _ask_at_s: float = 0.0
    _left: dict[ObjectKey, str] = field(default_factory=dict)
    """Probes that nobody needs any more, with their uids ("": not known)."""
    _gone: set[str] = field(default_factory=set)
    """Uids of probes that were deleted; the cache may show them a little longer."""

    def round(self, snapshot: Snapshot, now_s: float) -> float | None:
        """One round. Raises NotLeaderError, as that of the reconciler."""
        self._look_at_gaps(now_s)
        self._listen(snapshot, now_s)
        self._tell()
        wakes = [self.reconciler.round(snapshot, now_s)]
        wakes += [self._ask(scheduler, room, now_s) for scheduler, room in self.reconciler.awaited.items()]
        self._sweep()
        wakes.append(self._tidy(now_s))
        return min((at_s for at_s in wakes if at_s is not None), default=None)

    def _look_at_gaps(self, now_s: float) -> None:
        gaps = self.gaps()
        if gaps == self._gaps:
            return
        self._gaps, self._gap_at_s, self._ask_at_s = gaps, now_s, now_s
        self._until_s.clear()
        for scheduler in list(self._asked):
            self._discard(scheduler)

    def _listen(self, snapshot: Snapshot, now_s: float) -> None:
        for scheduler, probe in list(self._asked.items()):
            pod = snapshot.pods.get(probe.key)
            if pod is not None and pod.uid == probe.uid and answered(pod):
                self._until_s[scheduler] = HEARD_S
                self._discard(scheduler)
            elif pod is None and probe.seen:  # somebody else deleted it
                del self._asked[scheduler]
            else:
                probe.seen = pod is not None
        for scheduler, until_s in self._until_s.items():
            if HEARD_S < until_s <= now_s:
                _log().warning(
                    "A scheduler does not say whether it is up to date: rooms are handed over all the same",
                    scheduler=scheduler,
                    waited_s=round(now_s - self._gap_at_s, 1),
                )
                self._until_s[scheduler] = HEARD_S
                self._discard(scheduler)

    def _tell(self) -> None:
        lag = SchedulerLag(known=dict(self._until_s), others_s=math.inf)
        settings = self.reconciler.settings
        if settings.reservations.lag != lag:
            reservations = dataclasses.replace(settings.reservations, lag=lag)
            self.reconciler.settings = dataclasses.replace(settings, reservations=reservations)

    def _ask(self, scheduler: str, asks_for: Reservation, now_s: float) -> float:
        until_s = self._until_s.setdefault(scheduler, now_s + MOST_S)
        if scheduler in self._asked:
            return until_s
        if now_s < self._ask_at_s:
            return min(until_s, self._ask_at_s)
        settings = self.reconciler.settings.reservations
        self._number += 1
        key = ObjectKey(settings.namespace, f"scheduler-probe-{self.process}-{self._number}")
        manifest = probe_manifest(
            key.name,
            namespace=key.namespace,
            scheduler=scheduler,
            image=settings.pause_image,
            asks_for=asks_for,
        )
        try:
            body = self.api.create(RESOURCES[Kind.POD].object_path(key.namespace, ""), manifest)
        except (ForbiddenError, RejectedError) as error:  # a quota, perhaps; or a server that just starts
            until_s = min(until_s, self._gap_at_s + rest_s(self._gaps.away_s if self._gaps else 0.0))
            self._failed(scheduler, error, now_s)
        except (ApiError, TransportError) as error:
            self._left[key] = ""  # it may have been made all the same
            self._failed(scheduler, error, now_s)
        else:
            self._asked[scheduler] = _Probe(key, msgspec.json.decode(body, type=_Created).metadata.uid)
            _log().debug("A scheduler is asked whether it is up to date", scheduler=scheduler, pod=key.name)
            return until_s
        self._until_s[scheduler] = max(until_s, now_s)
        return min(until_s, self._ask_at_s)

    def _failed(self, scheduler: str, error: Exception, now_s: float) -> None:
        self._ask_at_s = now_s + AGAIN_S
        _log().info(
            "A scheduler cannot be asked whether it is up to date", scheduler=scheduler, error=str(error)
        )

    def _discard(self, scheduler: str) -> None:
        probe = self._asked.pop(scheduler, None)
        if probe is not None:
            self._left[probe.key] = probe.uid

    def _sweep(self) -> None:
        """Probes of a former process, and those whose end or making was not answered as it went."""
        namespace = self.reconciler.settings.reservations.namespace
        there = {p.uid: p.key for p in self.reconciler.unbound() if p.namespace == namespace and is_probe(p)}
        self._gone.intersection_update(there)
        asked = {probe.uid for probe in self._asked.values()}
        self._left.update({key: uid for uid, key in there.items() if uid not in asked | self._gone})

    def _tidy(self, now_s: float) -> float | None:
        for key, uid in list(self._left.items()):
            try:
                self.api.delete(RESOURCES[Kind.POD].object_path(*key), uid=uid, grace_s=0)
            except NotFoundError:
                pass
            except (ApiError, TransportError) as error:
                if isinstance(error, ConflictError):  # perhaps another one: it is swept as what it is
                    del self._left[key]
                _log().debug("A probe cannot be deleted yet", pod=key.name, error=str(error))
                return now_s + AGAIN_S
            self._gone.add(uid)
            del self._left[key]
        return None


def _log() -> Any:
    return structlog.get_logger("rescheduler.outages")
