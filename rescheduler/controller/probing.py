"""Probes whether a scheduler is up to date, after an outage of the API server and at the start of the process.

A hand-over relies on the order in which the scheduler sees its writes: first the nomination, then the deletion of the
placeholder. A watch keeps that order. After a restart of the API server the scheduler reads a new list, and its informer
reports deletions first: for a moment any pod may take the room (2 of 20 were lost in this way). So, after each gap in our
own view of pods, a hand-over does not delete its placeholder before a probe pod (``reservations.scheduler_probe``) has
shown that its scheduler is up to date. Without an answer, it goes on after a limit. No call is waited for here.
Promises: there is no probe while no hand-over waits; answers to a former process, or from before a gap, are not used;
all probes are deleted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import msgspec
import structlog

from rescheduler.controller.call_pool import OWN_LANE, CallPool, InlinePool, OneCall
from rescheduler.controller.reconcile import Reconciler
from rescheduler.coordination.handover_order import SchedulerLag
from rescheduler.kube.answers import read_answer
from rescheduler.kube.errors import ConflictError, ForbiddenError, NotFoundError, RejectedError
from rescheduler.kube.reflector import Gaps
from rescheduler.logs import Seldom
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations.scheduler_probe import answered, probe_manifest

MOST_S: Final = 35.0
"""How long an answer is waited for: longer than the backoff of a running scheduler between two tries to list."""
LEAST_S: Final = 5.0
AGAIN_S: Final = 1.0
HEARD_S: Final = 0.0


def rest_s(away_s: float) -> float:
    """How long the scheduler may take to list again after an outage, if no probe can be created.

    Its backoff doubles, with a jitter of up to 100 %, so the next pause may be twice as long as all pauses before; and an
    API server that is starting refuses the first list.
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
    """A probe that was not answered yet."""

    key: ObjectKey
    uid: str = ""
    """Empty while its creation is under way."""
    seen: bool = False
    """True once the cache has shown it."""
    timed: bool = False
    """True once its time runs. It begins in the round after the creation, which an outage may have delayed."""


@dataclass(slots=True)
class ProbingReconciler:
    """Reconciles, and probes the schedulers that hand-overs wait for.

    ``gaps``: of the cache of pods. ``process``: part of the names of probes, unique to this process.
    """

    reconciler: Reconciler
    gaps: Callable[[], Gaps]
    api: ProbeApi
    process: str
    pool: CallPool = field(default_factory=InlinePool)
    _gaps: Gaps | None = None
    _gap_at_s: float = 0.0
    _until_s: dict[str, float] = field(default_factory=dict)
    """Schedulers that hand-overs have waited for since the last gap -> until when they wait."""
    _asked: dict[str, _Probe] = field(default_factory=dict)
    _number: int = 0
    _ask_at_s: float = 0.0
    _left: dict[ObjectKey, str] = field(default_factory=dict)
    """Probes that are not needed any more, with their uids ("": not known)."""
    _tidied: set[ObjectKey] = field(default_factory=set)
    """Those whose deletion is under way."""
    _tidy_at_s: float = 0.0
    _gone: set[str] = field(default_factory=set)
    """Uids of probes that were deleted; the cache may show them a little longer."""
    _seldom: Seldom = field(default_factory=Seldom)

    @property
    def gated(self) -> tuple[Pod, ...]:
        """See ``Reconciler.gated``."""
        return self.reconciler.gated

    @property
    def node_requests(self) -> int:
        """See ``Reconciler.node_requests``."""
        return self.reconciler.node_requests

    def reconcile(self, snapshot: Snapshot, now_s: float) -> float | None:
        """One round. Raises NotLeaderError, as ``Reconciler.reconcile`` does."""
        self._look_at_gaps(now_s)
        self._listen(snapshot, now_s)
        self._tell()
        wakes = [self.reconciler.reconcile(snapshot, now_s)]
        wakes += [self._ask(scheduler, room, now_s) for scheduler, room in self.reconciler.awaited.items()]
        self._sweep()
        wakes.append(self._tidy(now_s))
        return min((at_s for at_s in wakes if at_s is not None), default=None)

    def release_overdue(self, snapshot: Snapshot, now_s: float) -> None:
        """See ``Reconciler.release_overdue``."""
        self.reconciler.release_overdue(snapshot, now_s)

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
            if not probe.uid:
                continue  # the scheduler's time begins when it can have heard of it
            pod = snapshot.pods.get(probe.key)
            if pod is not None and pod.uid == probe.uid and answered(pod):
                self._until_s[scheduler] = HEARD_S
                self._discard(scheduler)
            elif pod is None and probe.seen:
                del self._asked[scheduler]  # by another client: a new one is created if it is still needed
            else:
                probe.seen = pod is not None
                if not probe.timed:
                    probe.timed, self._until_s[scheduler] = True, now_s + MOST_S
        for scheduler, until_s in self._until_s.items():
            if HEARD_S < until_s <= now_s:
                _log().warning(
                    "A scheduler has not answered whether it is up to date: rooms are handed over without its answer",
                    scheduler=scheduler,
                    waited_s=round(now_s - self._gap_at_s, 1),
                )
                self._until_s[scheduler] = HEARD_S
                self._discard(scheduler)

    def _tell(self) -> None:
        self.reconciler.lag = SchedulerLag(known=dict(self._until_s), others_s=math.inf)

    # Asking

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
        self._asked[scheduler] = probe = _Probe(key)
        path = RESOURCES[Kind.POD].object_path(key.namespace, "")
        self.pool.begin(
            OneCall(
                f"probe of scheduler {scheduler}",
                lambda: read_answer(self.api.create(path, manifest), _Created).metadata.uid,
                partial(self._created, scheduler, probe),
                partial(self._not_created, scheduler, probe),
            ),
            now_s,
        )
        until_s = self._until_s.get(scheduler, until_s)
        return min(until_s, self._ask_at_s) if scheduler not in self._asked else until_s

    def _created(self, scheduler: str, probe: _Probe, uid: str, _now_s: float) -> None:
        probe.uid = uid
        if self._asked.get(scheduler) is not probe:  # there was a gap meanwhile
            self._left[probe.key] = uid
        _log().debug("A scheduler is probed", scheduler=scheduler, pod=probe.key.name)

    def _not_created(self, scheduler: str, probe: _Probe, error: Exception, now_s: float) -> None:
        refused = isinstance(error, ForbiddenError | RejectedError)
        if not refused:
            self._left[probe.key] = ""  # without an answer it may exist, so it is deleted in any case
        if self._asked.get(scheduler) is not probe:
            return
        del self._asked[scheduler]
        if refused:
            # Perhaps a quota, or an API server that is starting: the wait is the estimate from the length of the outage.
            # How long one was that ended before this process began, nobody here knows.
            away_s = self._gaps.away_s if self._gaps and self._gaps.number > 1 else math.inf
            until_s = min(self._until_s.get(scheduler, math.inf), self._gap_at_s + rest_s(away_s))
        else:
            # The scheduler cannot list either: its time begins when the API server answers.
            until_s = now_s + MOST_S
        self._failed(scheduler, error, now_s)
        self._until_s[scheduler] = max(until_s, now_s)

    def _failed(self, scheduler: str, error: Exception, now_s: float) -> None:
        self._ask_at_s = now_s + AGAIN_S
        say = _log().info if self._seldom.due((scheduler, type(error)), now_s) else _log().debug
        say("The probe of a scheduler cannot be created", scheduler=scheduler, error=str(error))

    def _discard(self, scheduler: str) -> None:
        probe = self._asked.pop(scheduler, None)
        if probe is not None and probe.uid:  # else it is deleted once its creation was answered
            self._left[probe.key] = probe.uid

    def _sweep(self) -> None:
        """Find probes of a former process, and those whose creation or deletion was not answered."""
        namespace = self.reconciler.settings.reservations.namespace
        there = {p.uid: p.key for p in self.reconciler.probes() if p.namespace == namespace}
        self._gone.intersection_update(there)
        asked = {probe.key for probe in self._asked.values()}
        self._left.update(
            {key: uid for uid, key in there.items() if key not in asked and uid not in self._gone}
        )

    def _tidy(self, now_s: float) -> float | None:
        if now_s < self._tidy_at_s:
            return self._tidy_at_s if self._left else None
        for key, uid in list(self._left.items()):
            if key in self._tidied or not self.pool.accepts(OWN_LANE):
                continue
            self._tidied.add(key)
            path = RESOURCES[Kind.POD].object_path(*key)
            self.pool.begin(
                OneCall(
                    f"end of probe {key.name}",
                    partial(self._delete, path, uid),
                    partial(self._deleted, key, uid),
                    partial(self._not_deleted, key, uid),
                ),
                now_s,
            )
            if now_s < self._tidy_at_s:
                return self._tidy_at_s
        return None

    def _delete(self, path: str, uid: str) -> None:
        self.api.delete(path, uid=uid, grace_s=0)

    def _deleted(self, key: ObjectKey, uid: str, _answer: None, _now_s: float) -> None:
        self._tidied.discard(key)
        self._gone.add(uid)
        self._forget(key, uid)

    def _not_deleted(self, key: ObjectKey, uid: str, error: Exception, now_s: float) -> None:
        if isinstance(error, NotFoundError):
            self._deleted(key, uid, None, now_s)
            return
        self._tidied.discard(key)
        self._tidy_at_s = now_s + AGAIN_S
        if isinstance(error, ConflictError):
            self._forget(key, uid)  # another pod has the name now; if it is a probe, ``_sweep`` finds it
        _log().debug("A probe cannot be deleted yet", pod=key.name, error=str(error))

    def _forget(self, key: ObjectKey, uid: str) -> None:
        """A uid that became known meanwhile is deleted in its turn."""
        if self._left.get(key) == uid:
            del self._left[key]


def _log() -> Any:
    return structlog.get_logger("rescheduler.probing")
