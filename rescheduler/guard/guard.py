"""The guard of one replica: answers API servers from the caches, and tells the filer what waits.

``respond`` sends nothing and waits for nothing. The caches belong to the core thread; single records are read there, each of
them immutable. Where they are not up to date, evictions are let through.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from rescheduler.guard import review
from rescheduler.guard.decision import (
    WITHOUT_ROOM,
    Allow,
    Answer,
    AskAgain,
    Gone,
    Known,
    Why,
    decide,
    waits_for_budget,
)
from rescheduler.guard.filer import Caches, Filer, GuardRules, why_stays
from rescheduler.guard.occurrences import WITHOUT_ROOM_EVENT, occurrences
from rescheduler.kube.answers import read_field
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ApiError
from rescheduler.kube.transport import TransportError
from rescheduler.model.event import Event
from rescheduler.model.kinds import Kind
from rescheduler.model.names import DEFAULT_NAMESPACE
from rescheduler.model.records import DisruptionBudget, Namespace, Node, ObjectKey, Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """``respond`` may be called by any thread."""

    filer: Filer
    """Makes PodMigrations of what waits."""
    caches: Caches
    rules: Callable[[], GuardRules]
    own_user: str
    """The controller's, whose evictions are not guarded."""
    now_s: Callable[[], float]
    """The API server's time."""
    record: Callable[[Event], None]
    """Writes an Event, later."""
    count: Callable[[Why, float], None] = lambda _why, _seconds: None
    """Each answer, and how long it took."""

    def respond(self, body: bytes) -> bytes:
        """AdmissionReview -> AdmissionReview. Raises UnreadableReviewError."""
        begun_s = time.perf_counter()
        request = review.read(body)
        answer = self._answer(request)
        self.count(answer.why, time.perf_counter() - begun_s)
        return review.written(request, answer)

    def _answer(self, request: review.EvictionReview) -> Answer:
        rules, now_s = self.rules(), self.now_s()
        known = self._known(request, rules, now_s)
        answer = decide(known, rules.settings)
        pod = known.pod
        if pod is None:
            return answer
        if isinstance(answer, Allow):
            self.filer.asks.confirm(known.user, pod.uid)
        elif isinstance(answer, Gone):
            self.filer.asks.told(pod.key, known.user)
        elif isinstance(answer, AskAgain):
            first = self.filer.asks.find(pod.uid, now_s) is None
            if not self.filer.asks.hear(
                pod, known.user, now_s, grace_s=request.grace_s, one_by_one=known.one_by_one
            ):
                return decide(replace(known, first_asked_s=None), rules.settings)
            if first:
                self.filer.wake()
                self._tell("EvictionWaits", request, pod, answer.message)
            if answer.why is Why.REFUSED:
                self._tell("EvictionRefused", request, pod, answer.message, warning=True)
        if answer.why in WITHOUT_ROOM:
            self._tell(WITHOUT_ROOM_EVENT, request, pod, answer.message, warning=True)
        return answer

    def _known(self, request: review.EvictionReview, rules: GuardRules, now_s: float) -> Known:
        caches = self.caches
        pod = caches.look(Kind.POD, ObjectKey(request.namespace, request.name))
        namespace = caches.look(Kind.NAMESPACE, request.namespace)
        known = Known(
            user=request.user,
            own_user=self.own_user,
            dry_run=request.rehearsed,
            uid=request.pod_uid,
            version=request.pod_version,
            stale_s=self.filer.stale_s(),
            namespace=namespace if isinstance(namespace, Namespace) and rules.guards(namespace) else None,
            pod=pod if isinstance(pod, Pod) else None,
            first_asked_s=now_s,
            now_s=now_s,
        )
        if known.pod is None:
            return known
        node = caches.look(Kind.NODE, known.pod.node)
        in_service = not (isinstance(node, Node) and node.emptied_by_others)
        one_by_one = in_service and request.counts
        ask = self.filer.asks.find(known.pod.uid, now_s)
        move = self.filer.move(known.pod.key, known.pod.uid)
        if (
            ask is not None
            and move is not None
            and waits_for_budget(move)
            and self._budget_used_up(known.pod)
        ):
            ask.used_up_s = now_s
        return replace(
            known,
            succeeded=in_service and self.filer.asks.took_the_place(known.pod, known.user, now_s),
            one_by_one=one_by_one,
            unconfirmed=self.filer.asks.unconfirmed(known.user, known.pod.uid, now_s) if one_by_one else "",
            stays=why_stays(known.pod, rules, now_s),
            move=move,
            used_up_s=ask.used_up_s if ask is not None else 0.0,
            first_asked_s=self.filer.asks.since_s(known.pod, now_s),
            problem=ask.problem if ask is not None else "",
        )

    def _budget_used_up(self, pod: Pod) -> bool:
        """True if the API server refuses its eviction now. The move alone does not tell: without a leader it says the same for ever."""
        for budget in self.caches.all_of(Kind.POD_DISRUPTION_BUDGET):
            if isinstance(budget, DisruptionBudget) and budget.namespace == pod.namespace and pod.ready:
                selects = budget.selector is not None and budget.selector.matches(pod.labels)
                if selects and budget.disruptions_allowed <= 0:
                    return True
        return False

    def _tell(
        self, reason: str, request: review.EvictionReview, pod: Pod, message: str, *, warning: bool = False
    ) -> None:
        user = request.user
        for occurrence in occurrences(reason, user, pod, message, warning=warning):
            self.record(occurrence)


def user_of(api: KubeApi, namespace: str = DEFAULT_NAMESPACE) -> str:
    """The name by which the API server knows this process; that of the installed ServiceAccount if it does not say."""
    review_of_self = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        body = api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review_of_self)
        return read_field(body, "status.userInfo.username", str, "")
    except (ApiError, TransportError):
        return f"system:serviceaccount:{namespace}:rescheduler"
