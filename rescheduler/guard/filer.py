"""Files the evictions that wait, on a thread of its own: whoever asks for them, API servers, cordons or EvictionRequests.

The caches belong to the core thread; single records are read there, each of them immutable. The thread looks twice a second. It is the
only one that sends anything; what it was told is in ``asks``, and what it does with that is decided in ``filing``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from rescheduler.guard.asks import Asks, WaitingEviction
from rescheduler.guard.filing import (
    GATHERED_S,
    SHOWN_S,
    Create,
    Extend,
    Remove,
    Write,
    due,
    guarded_key,
    guarded_move,
    is_guarded,
)
from rescheduler.guard.settings import GuardSettings
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import (
    AccessError,
    AlreadyExistsError,
    ApiError,
    ConflictError,
    NotFoundError,
    RejectedError,
)
from rescheduler.kube.pass_thread import PassThread
from rescheduler.kube.transport import TransportError
from rescheduler.model.decode import Record
from rescheduler.model.decode.wire_form import manifest
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import KUBE_SYSTEM
from rescheduler.model.records import Namespace, Node, ObjectKey, Pod
from rescheduler.model.replacement_rules import ReplacementRules
from rescheduler.model.times import format_duration
from rescheduler.planning.protections import stays_by_itself
from rescheduler.replacements.controllers import Asked, not_replaced

PASS_S: Final = 0.5
SOON_S: Final = 2.0
"""After a move is removed, another one is made for its pod."""
CORDONS_EVERY_S: Final = 5.0
FRESH_S: Final = 10.0
"""So long the last look at the caches' age counts: a call in between may take half of it."""


class Caches(Protocol):
    """What the core thread has read of the cluster. Any thread may ask."""

    def look(self, kind: Kind, key: str | ObjectKey) -> Record | None:
        """One object as it was last seen."""
        ...

    def all_of(self, kind: Kind) -> Sequence[Record]:
        """All objects of a kind."""
        ...

    def complete(self) -> bool:
        """Complete and up to date."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRules:
    """What the guard takes of the configuration in force."""

    settings: GuardSettings
    replacements: ReplacementRules
    judges: Callable[[str], bool]
    """Schedulers whose rules are known."""
    own_namespace: str
    """The controller's: it never stands before the pods that serve it."""

    def guards(self, namespace: Record | None) -> bool:
        """Whether evictions in this namespace wait, as the API servers are told as well."""
        return (
            isinstance(namespace, Namespace)
            and namespace.name not in (KUBE_SYSTEM, self.own_namespace)
            and self.settings.namespace_selector.matches(namespace.labels)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FilerParts:
    """What the filer works with."""

    caches: Caches
    api: KubeApi
    rules: Callable[[], GuardRules]
    leads: Callable[[], bool]
    """Only the leader follows cordons."""
    now_s: Callable[[], float]
    """The API server's time."""


class Filer:
    """From ``start`` to ``stop``. All but ``step`` may be called by any thread."""

    def __init__(self, parts: FilerParts) -> None:
        self._parts = parts
        self.asks = Asks()
        self._fresh_at_s = -math.inf
        """When the caches were last seen to be up to date (monotonic)."""
        self._stale_asked_s: float | None = None
        """When somebody first asked since they are not."""
        self._cordons_at_s = float("-inf")
        # A thousand new asks a second must not make a pass each: they would slow the answers down.
        self._thread = PassThread("guard", self._pass, gathered_s=GATHERED_S)
        self._log = structlog.get_logger("rescheduler.guard")
        self._told = ""
        self._sources: list[Callable[[float], None]] = []

    def listen_to(self, source: Callable[[float], None]) -> None:
        """Before ``start``: call ``source`` with the time in each pass; it hears of more that is asked for."""
        self._sources.append(source)

    def stale_s(self) -> float | None:
        """For how long somebody has asked, while the caches are not complete and up to date; None: they are, or were a moment ago.

        It counts from the first question, because an API server that was away for long asks only when it is back.
        """
        now_s = time.monotonic()
        if now_s - self._fresh_at_s < FRESH_S:
            return None
        if self._fresh_at_s == -math.inf:
            return math.inf
        if self._stale_asked_s is None:
            self._stale_asked_s = now_s
        return now_s - self._stale_asked_s

    def start(self) -> None:
        """Begin to file what waits."""
        self._thread.start()

    def stop(self) -> None:
        """End after the pass that is under way. What was filed goes on under the next leader, while its callers ask."""
        self._thread.stop()

    def wake(self) -> None:
        """Somebody asks who has not asked before."""
        self._thread.wake()

    def move(self, pod: ObjectKey, uid: str) -> PodMigration | None:
        """The PodMigration that was made for that very pod, as far as the caches show it."""
        found = self._parts.caches.look(Kind.POD_MIGRATION, guarded_key(pod, uid))
        return found if isinstance(found, PodMigration) and is_guarded(found, uid) else None

    def _pass(self) -> float:
        self.step()
        return PASS_S

    def step(self) -> None:
        """One pass: look at the caches, and write what is due."""
        if not self.look():
            return
        settings, now_s = self._parts.rules().settings, self._parts.now_s()
        if settings.follow_cordons and time.monotonic() - self._cordons_at_s >= CORDONS_EVERY_S:
            self._cordons_at_s = time.monotonic()
            self._follow_cordons(now_s)
        for source in self._sources:
            source(now_s)
        asks = self.asks.current(self._stands, now_s)
        for write in due(asks, lambda ask: self.move(ask.pod, ask.uid), settings, now_s):
            if self._thread.stopping or not self.look():
                return
            self._send(write, now_s)

    def look(self) -> bool:
        """Whether the caches are up to date. The thread looks between its calls, too: with a busy API server a pass takes long."""
        if not self._parts.caches.complete():
            return False
        self._fresh_at_s, self._stale_asked_s = time.monotonic(), None
        return True

    def _stands(self, ask: WaitingEviction) -> bool:
        pod = self._parts.caches.look(Kind.POD, ask.pod)
        return isinstance(pod, Pod) and pod.uid == ask.uid and not pod.deleting

    def _send(self, write: Write, now_s: float) -> None:
        ask = write.ask
        ask.filed_s = now_s
        if isinstance(write, Remove):
            ask.filed_s -= SHOWN_S - SOON_S
            ask.first_s = write.since_s  # the next move says it, whoever heard of the request first
        try:
            self._call(write)
        except (AlreadyExistsError, ConflictError, NotFoundError):
            ask.problem = ""  # another replica was faster, or it is gone: the caches will show it
        except (RejectedError, AccessError) as error:
            ask.problem = f"no PodMigration could be made for it: {error.message}"
            self._say(ask.problem)
        except (ApiError, TransportError) as error:
            self._say(str(error))
        else:
            ask.problem = ""

    def _call(self, write: Write) -> None:
        api, key = self._parts.api, guarded_key(write.ask.pod, write.ask.uid)
        resource = RESOURCES[Kind.POD_MIGRATION]
        if isinstance(write, Create):
            api.create(
                resource.object_path(key.namespace, ""), manifest(guarded_move(write.ask, write.ttl_s))
            )
            self._log.info("An eviction waits", pod=str(write.ask.pod), by=write.ask.user, migration=str(key))
        elif isinstance(write, Extend):
            self._live_for(write.move, write.ttl_s)
        else:
            api.delete(resource.object_path(key.namespace, key.name), uid=write.move.uid)

    def end(self, move: PodMigration, now_s: float) -> None:
        """Nobody wants the move any more: its time is over. In the filer's thread."""
        ttl_s = max(1.0, float(math.floor(now_s - move.created_at_s)))
        if move.deleting or move.status.eviction_requested_at_s or (move.ttl_s or math.inf) <= ttl_s:
            return
        try:
            self._live_for(move, ttl_s)
        except (ConflictError, NotFoundError):
            return  # it is gone
        except (ApiError, TransportError) as error:
            self._say(str(error))

    def _live_for(self, move: PodMigration, ttl_s: float) -> None:
        path = RESOURCES[Kind.POD_MIGRATION].object_path(move.namespace, move.name)
        patch = {"metadata": {"uid": move.uid}, "spec": {"ttl": format_duration(ttl_s)}}
        self._parts.api.merge_patch(path, patch)

    def _say(self, problem: str) -> None:
        if problem != self._told:
            self._told = problem
            self._log.warning("A PodMigration of an eviction that waits was not written", error=problem)

    def _follow_cordons(self, now_s: float) -> None:
        """A cordon asks for the eviction of the node's pods, for as long as it stands."""
        if not self._parts.leads():
            return
        caches, rules = self._parts.caches, self._parts.rules()
        nodes = [node for node in caches.all_of(Kind.NODE) if isinstance(node, Node)]
        emptied = {node.name for node in nodes if node.emptied_by_others}
        if not emptied:
            return
        for pod in caches.all_of(Kind.POD):
            if not isinstance(pod, Pod) or pod.node not in emptied or pod.deleting or pod.terminal:
                continue
            guarded = rules.guards(caches.look(Kind.NAMESPACE, pod.namespace))
            if guarded and not why_stays(pod, rules, now_s):
                self.asks.hear(pod, f"cordon of node/{pod.node}", now_s)


def why_stays(pod: Pod, rules: GuardRules, now_s: float) -> str:
    """Why the pod is never moved, as far as the pod alone tells it; "": it may be."""
    alone = not_replaced(Asked(pod, None, None, rules.replacements, 0, now_s))
    if alone is not None:
        return alone.message
    kept = stays_by_itself(pod, rules.judges)
    return kept.message if kept is not None else ""
