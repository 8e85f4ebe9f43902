"""Answers Evictions of ``lifecycle.k8s.io`` as responder ``rescheduler.dev/room-first``, in the filer's thread; only the leader does.

An Eviction whose turn is ours is heard as any other ask, so webhook, cordon and EvictionRequest of a pod make one PodMigration. What is
reported is decided in ``responder``. All is judged anew in each pass by what the API server stores: a restart forgets nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import structlog

from rescheduler.guard.filer import Filer, FilerParts, why_stays
from rescheduler.guard.occurrences import WITHOUT_ROOM_EVENT, occurrences
from rescheduler.guard.responder import BY_REQUEST, Report, SeenTarget, due, report, requester, waits
from rescheduler.guard.review import cut
from rescheduler.kube.errors import ApiError, ConflictError, NotFoundError
from rescheduler.kube.transport import TransportError
from rescheduler.model.event import Event
from rescheduler.model.eviction_request import RequestedEviction, ResponderState
from rescheduler.model.kinds import Kind, Resource
from rescheduler.model.names import RESPONDER
from rescheduler.model.records import Namespace, ObjectKey, Pod
from rescheduler.model.times import format_seconds

EVERY_S: Final = 2.0
MOST_AT_ONCE: Final = 25
"""Reports in one pass."""
WRITTEN_S: Final = 10.0
"""How long the watch may take to show a report; it is not written twice meanwhile."""


@dataclass(frozen=True, slots=True)
class EvictionSource:
    """Where Evictions come from."""

    resource: Resource
    current: Callable[[], Iterable[RequestedEviction]]
    """Those that a watch has shown."""


class Responding:
    """Used by the filer's thread only."""

    def __init__(
        self,
        parts: FilerParts,
        filer: Filer,
        source: EvictionSource,
        record: Callable[[Event], None],
    ) -> None:
        """``record``: writes an Event, later."""
        self._parts, self._filer, self._source, self._record = parts, filer, source, record
        self._again_at_s = float("-inf")
        """When the next pass is due (monotonic)."""
        self._written: dict[str, float] = {}
        """By uid of an Eviction, when it was reported on last."""
        self._log = structlog.get_logger("rescheduler.responder")

    def step(self, now_s: float) -> None:
        """One pass, if it is due."""
        if time.monotonic() < self._again_at_s or not self._parts.leads():
            return
        self._again_at_s = time.monotonic() + EVERY_S
        self._written = {uid: s for uid, s in self._written.items() if now_s - s < WRITTEN_S}
        reports: list[tuple[RequestedEviction, Report]] = []
        evictions = list(self._source.current())
        wanted = {e.pod_uid for e in evictions if e.state == ResponderState.ACTIVE}
        for eviction in evictions:
            if eviction.state == ResponderState.CANCELED:
                if eviction.pod_uid not in wanted:
                    self._withdraw(eviction, now_s)
            elif eviction.pod_name:
                said = self._hear(eviction, now_s)
                if (
                    said is not None
                    and eviction.uid not in self._written
                    and due(eviction.progress, said, now_s)
                ):
                    reports.append((eviction, said))
        # Who has been silent for long is in danger of being passed over.
        reports.sort(key=lambda pair: pair[0].progress.heartbeat_at_s)
        for eviction, said in reports[:MOST_AT_ONCE]:
            self._filer.look()
            self._written[eviction.uid] = now_s
            self._write(eviction, said, now_s)

    def _hear(self, eviction: RequestedEviction, now_s: float) -> Report | None:
        """Whoever wants the eviction asks for the move. What is to be said about it; None: nothing."""
        seen = self._seen(eviction, now_s)
        said = report(eviction, seen, self._parts.rules().settings, now_s)
        if waits(eviction, said) and seen.pod is not None:
            self._filer.asks.hear(seen.pod, requester(eviction), now_s, withdraws=True)
        return said

    def _seen(self, eviction: RequestedEviction, now_s: float) -> SeenTarget:
        caches, rules = self._parts.caches, self._parts.rules()
        found = caches.look(Kind.POD, eviction.pod)
        pod = found if isinstance(found, Pod) and found.uid == eviction.pod_uid else None
        namespace = caches.look(Kind.NAMESPACE, eviction.namespace)
        ask = self._filer.asks.find(eviction.pod_uid, now_s)
        return SeenTarget(
            namespace=namespace if isinstance(namespace, Namespace) and rules.guards(namespace) else None,
            pod=pod,
            stays=why_stays(pod, rules, now_s) if pod is not None else "",
            move=self._filer.move(eviction.pod, eviction.pod_uid),
            problem=ask.problem if ask is not None else "",
        )

    def _withdraw(self, eviction: RequestedEviction, now_s: float) -> None:
        """Nobody wants it any more: the move ends now, unless its eviction is on its way or somebody else asks."""
        move = self._filer.move(ObjectKey(eviction.namespace, eviction.pod_name), eviction.pod_uid)
        if move is None or move.finished or not move.requested_by.startswith(BY_REQUEST):
            return
        if self._filer.asks.withdraw(eviction.pod_uid, now_s):
            self._filer.end(move, now_s)

    def _write(self, eviction: RequestedEviction, said: Report, now_s: float) -> None:
        path = self._source.resource.object_path(eviction.namespace, eviction.name)
        body = {
            "metadata": {"uid": eviction.uid},
            "status": {"responders": [_written(eviction, said, now_s)]},
        }
        try:
            self._parts.api.strategic_patch(f"{path}/status", body)
        except (ConflictError, NotFoundError):
            return  # it is gone, or another one has its name: the watch will show it
        except (ApiError, TransportError) as error:
            self._log.warning(
                "A report on an Eviction was not written", eviction=str(eviction.key), error=str(error)
            )
            return
        if said.completed:
            self._log.info("An EvictionRequest is answered", pod=str(eviction.pod), message=said.message)
        pod = self._parts.caches.look(Kind.POD, eviction.pod)
        if said.without_room and isinstance(pod, Pod) and pod.uid == eviction.pod_uid:
            for told in occurrences(WITHOUT_ROOM_EVENT, requester(eviction), pod, said.message, warning=True):
                self._record(told)


def _written(eviction: RequestedEviction, said: Report, now_s: float) -> dict[str, Any]:
    """The responder's entry of the status. Times are in whole seconds, and none is before those that stand there."""
    progress = eviction.progress
    moment = format_seconds(max(now_s, progress.started_at_s, progress.heartbeat_at_s))
    fields: dict[str, Any] = {"name": RESPONDER, "heartbeatTime": moment, "message": cut(said.message)}
    if not progress.started_at_s:
        fields["startTime"] = moment
    if said.completed:
        fields["completionTime"] = moment
    elif said.expected_at_s > now_s:
        fields["expectedCompletionTime"] = format_seconds(said.expected_at_s)
    return fields
