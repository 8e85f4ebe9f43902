"""The guard of one replica: answers API servers from the caches, and files what waits on a thread of its own.

``respond`` sends nothing and waits for nothing. The caches belong to the core thread; single records are read there, each of
them immutable. The thread looks twice a second; where it does not, or the caches are not up to date, evictions are let through.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import msgspec
import structlog

from rescheduler.guard import review
from rescheduler.guard.asks import Asks, WaitingEviction
from rescheduler.guard.decision import WITHOUT_ROOM, Answer, AskAgain, Gone, Known, Why, decide
from rescheduler.guard.filing import (
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
from rescheduler.kube.event_correlator import ObjectReference, Occurrence
from rescheduler.kube.transport import TransportError
from rescheduler.model.decode import Record
from rescheduler.model.decode.wire_form import manifest
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import DEFAULT_NAMESPACE, KUBE_SYSTEM
from rescheduler.model.records import Namespace, Node, ObjectKey, Pod
from rescheduler.model.replacement_rules import ReplacementRules
from rescheduler.model.times import format_duration
from rescheduler.planning.protections import stays_by_itself
from rescheduler.replacements.controllers import Asked, not_replaced

PASS_S: Final = 0.5
SOON_S: Final = 2.0
"""After a move is removed, another one is made for its pod."""
CORDONS_EVERY_S: Final = 5.0
FRESH_S: Final = 5.0
"""So long the last look at the caches' age counts."""


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
class GuardParts:
    """What the guard works with."""

    caches: Caches
    api: KubeApi
    rules: Callable[[], GuardRules]
    leads: Callable[[], bool]
    """Only the leader follows cordons."""
    own_user: str
    now_s: Callable[[], float]
    """The API server's time."""
    record: Callable[[Occurrence], None]
    """Writes an Event, later."""
    count: Callable[[Why, float], None] = lambda _why, _seconds: None
    """Each answer, and how long it took."""


class Guard:
    """From ``start`` to ``stop``. ``respond`` may be called by any thread."""

    def __init__(self, parts: GuardParts) -> None:
        self._parts = parts
        self.asks = Asks()
        self._fresh_at_s = float("-inf")
        """When the caches were last seen to be up to date (monotonic)."""
        self._cordons_at_s = float("-inf")
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="guard", daemon=True)
        self._log = structlog.get_logger("rescheduler.guard")
        self._told = ""

    @property
    def own_user(self) -> str:
        """The controller's, whose evictions are not guarded."""
        return self._parts.own_user

    def start(self) -> None:
        """Begin to file what waits."""
        self._thread.start()

    def stop(self) -> None:
        """End after the pass that is under way. What was filed goes on under the next leader, while its callers ask."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(5.0)

    # Answering

    def respond(self, body: bytes) -> bytes:
        """AdmissionReview -> AdmissionReview. Raises UnreadableReviewError."""
        begun_s = time.perf_counter()
        request = review.read(body)
        answer = self._answer(request)
        self._parts.count(answer.why, time.perf_counter() - begun_s)
        return review.written(request, answer)

    def _answer(self, request: review.EvictionReview) -> Answer:
        rules, now_s = self._parts.rules(), self._parts.now_s()
        known = self._known(request, rules, now_s)
        answer = decide(known, rules.settings)
        pod = known.pod
        if pod is None:
            return answer
        if isinstance(answer, Gone):
            self.asks.told(pod.key, known.user)
        elif isinstance(answer, AskAgain):
            first = self.asks.find(pod.uid, now_s) is None
            if not self.asks.hear(pod, request.user_info.username, now_s, grace_s=request.grace_s):
                return decide(replace(known, first_asked_s=None), rules.settings)
            if first:
                self._wake.set()
                self._tell("EvictionWaits", request, pod, answer.message)
            if answer.why is Why.REFUSED:
                self._tell("EvictionRefused", request, pod, answer.message, warning=True)
        elif answer.why in WITHOUT_ROOM:
            self._tell("EvictedWithoutRoom", request, pod, answer.message, warning=True)
        return answer

    def _known(self, request: review.EvictionReview, rules: GuardRules, now_s: float) -> Known:
        caches = self._parts.caches
        pod = caches.look(Kind.POD, ObjectKey(request.namespace, request.name))
        namespace = caches.look(Kind.NAMESPACE, request.namespace)
        known = Known(
            user=request.user_info.username,
            own_user=self._parts.own_user,
            dry_run=request.rehearsed,
            uid=request.pod_uid,
            fresh=time.monotonic() - self._fresh_at_s < FRESH_S,
            namespace=namespace if isinstance(namespace, Namespace) and rules.guards(namespace) else None,
            pod=pod if isinstance(pod, Pod) else None,
            first_asked_s=now_s,
            now_s=now_s,
        )
        if known.pod is None:
            return known
        ask = self.asks.find(known.pod.uid, now_s)
        return replace(
            known,
            succeeded=self._succeeded(known.pod, known.user, now_s),
            stays=why_stays(known.pod, rules, now_s),
            move=self._move(known.pod.key, known.pod.uid),
            first_asked_s=self.asks.since_s(known.pod.uid, now_s),
            problem=ask.problem if ask is not None else "",
        )

    def _succeeded(self, pod: Pod, user: str, now_s: float) -> bool:
        node = self._parts.caches.look(Kind.NODE, pod.node)
        drained = isinstance(node, Node) and node.emptied_by_others
        return not drained and self.asks.took_the_place(pod, user, now_s)

    def _move(self, pod: ObjectKey, uid: str) -> PodMigration | None:
        found = self._parts.caches.look(Kind.POD_MIGRATION, guarded_key(pod, uid))
        return found if isinstance(found, PodMigration) and is_guarded(found, uid) else None

    def _tell(
        self, reason: str, request: review.EvictionReview, pod: Pod, message: str, *, warning: bool = False
    ) -> None:
        note = f"{request.user_info.username} evicts pod {pod.key} from node {pod.node}: {message}"
        of_pod = ObjectReference("Pod", pod.name, pod.namespace, pod.uid)
        of_node = ObjectReference("Node", pod.node, uid=pod.node)
        for regarding, related in ((of_pod, of_node), (of_node, of_pod)) if warning else ((of_pod, of_node),):
            self._parts.record(
                Occurrence(
                    regarding=regarding,
                    related=related,
                    reason=reason,
                    note=note,
                    action="Evict",
                    warning=warning,
                )
            )

    # Filing

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.step()
            except Exception as error:  # noqa: BLE001 - a defect must not end the thread: evictions would wait for nothing
                self._log.error("A pass of the guard crashed", exc_info=error)
            self._wake.wait(PASS_S)
            self._wake.clear()

    def step(self) -> None:
        """One pass: look at the caches, and write what is due."""
        if not self._parts.caches.complete():
            return
        self._fresh_at_s = time.monotonic()
        settings, now_s = self._parts.rules().settings, self._parts.now_s()
        if settings.follow_cordons and time.monotonic() - self._cordons_at_s >= CORDONS_EVERY_S:
            self._cordons_at_s = time.monotonic()
            self._follow_cordons(now_s)
        asks = self.asks.current(self._stands, now_s)
        for write in due(asks, lambda ask: self._move(ask.pod, ask.uid), settings, now_s):
            if self._stopping.is_set():
                return
            self._send(write, now_s)

    def _stands(self, ask: WaitingEviction) -> bool:
        pod = self._parts.caches.look(Kind.POD, ask.pod)
        return isinstance(pod, Pod) and pod.uid == ask.uid and not pod.deleting

    def _send(self, write: Write, now_s: float) -> None:
        ask = write.ask
        ask.filed_s = now_s - (SHOWN_S - SOON_S if isinstance(write, Remove) else 0.0)
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
            patch = {
                "metadata": {"uid": write.move.uid},
                "spec": {"ttl": format_duration(write.ttl_s)},
            }
            api.merge_patch(resource.object_path(key.namespace, key.name), patch)
        else:
            api.delete(resource.object_path(key.namespace, key.name), uid=write.move.uid)

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
                self.asks.hear(pod, f"cordon of node {pod.node}", now_s)


def why_stays(pod: Pod, rules: GuardRules, now_s: float) -> str:
    """Why the pod is never moved, as far as the pod alone tells it; "": it may be."""
    alone = not_replaced(Asked(pod, None, None, rules.replacements, 0, now_s))
    if alone is not None:
        return alone.message
    kept = stays_by_itself(pod, rules.judges)
    return kept.message if kept is not None else ""


def user_of(api: KubeApi, namespace: str = DEFAULT_NAMESPACE) -> str:
    """The name by which the API server knows this process; that of the installed ServiceAccount if it does not say."""
    review_of_self = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = msgspec.json.decode(
            api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review_of_self), type=_Self
        )
    except (ApiError, TransportError, msgspec.DecodeError):
        return f"system:serviceaccount:{namespace}:rescheduler"
    return answer.status.user_info.username


class _UserInfo(msgspec.Struct, frozen=True):
    username: str = ""


class _SelfStatus(msgspec.Struct, frozen=True, rename="camel"):
    user_info: _UserInfo = _UserInfo()


class _Self(msgspec.Struct, frozen=True):
    status: _SelfStatus = _SelfStatus()
