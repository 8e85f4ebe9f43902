"""The AdmissionReview of an eviction: what of it counts, and the answer as the API server hands it on. Bytes in, bytes out; pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import field

from rescheduler.guard.decision import Allow, Answer, Gone
from rescheduler.model.decode.wire_form import reader, wire_type
from rescheduler.model.decode.wire_types import DAMAGE
from rescheduler.model.forms import Keys
from rescheduler.webhook.review import UnreadableReviewError

NOT_FOUND: Final = 404
TOO_MANY_REQUESTS: Final = 429
REQUESTED_BY: Final = "requested-by"
"""Annotation that descheduler gives its Evictions."""
_LONGEST_MESSAGE: Final = 1_000


class EvictionReview(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody asks for the eviction of a pod."""

    uid: str = field(name="request.uid")
    """Of the question, to be repeated in the answer."""
    namespace: str = field(default="", name="request.namespace")
    name: str = field(default="", name="request.name")
    user: str = field(default="", name="request.userInfo.username")
    dry_run: bool = field(default=False, name="request.dryRun")
    dry_run_of_eviction: tuple[str, ...] = field(default=(), name="request.object.deleteOptions.dryRun")
    pod_uid: str = field(default="", name="request.object.deleteOptions.preconditions.uid")
    """The pod that the caller means; "": any of that name."""
    pod_version: str = field(default="", name="request.object.deleteOptions.preconditions.resourceVersion")
    """The only version of the pod that the caller wants evicted; "": any."""
    grace_s: int | None = field(default=None, name="request.object.deleteOptions.gracePeriodSeconds")
    """The grace period that the caller wants; None: the pod's own."""
    annotations: Keys = field(default=(), name="request.object.metadata.annotations")

    @property
    def rehearsed(self) -> bool:
        """A dry run. The API server takes the wish from the Eviction as well, where its own mark of dry runs is missing."""
        return self.dry_run or bool(self.dry_run_of_eviction)

    @property
    def counts(self) -> bool:
        """The caller is a descheduler, which counts what it evicts and asks for the next pod where it is refused one."""
        return REQUESTED_BY in self.annotations


_DECODER: Final = msgspec.json.Decoder(wire_type(EvictionReview))


def read(body: bytes) -> EvictionReview:
    """Raises UnreadableReviewError: the caller answers 400, and the eviction goes on (``failurePolicy: Ignore``)."""
    try:
        found: EvictionReview = reader(EvictionReview)(_DECODER.decode(body))
    except DAMAGE as error:
        raise UnreadableReviewError(str(error)) from error
    if not found.uid:
        raise UnreadableReviewError("request.uid is missing")
    return found


def written(request: EvictionReview, answer: Answer) -> bytes:
    """The AdmissionReview that says so."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": isinstance(answer, Allow)}
    if isinstance(answer, Allow):
        if answer.message:
            response["warnings"] = [cut(answer.message)]
    elif isinstance(answer, Gone):
        response["status"] = _gone(request, answer.message)
    else:
        response["status"] = _too_many(request, answer.message, answer.retry_after_s, answer.budget)
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    )


def _gone(request: EvictionReview, message: str) -> dict[str, Any]:
    """As the API server's own answer about a pod that does not exist."""
    return {
        "status": "Failure",
        "code": NOT_FOUND,
        "reason": "NotFound",
        "message": cut(f"pod {request.namespace}/{request.name}: {message}"),
        "details": {"name": request.name, "kind": "pods"},
    }


def _too_many(request: EvictionReview, message: str, retry_after_s: int, budget: str) -> dict[str, Any]:
    """As the API server's own refusal of an eviction, so that every caller knows to ask again."""
    details: dict[str, Any] = {"name": request.name, "kind": "pods"}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    if budget:
        details["causes"] = [{"reason": "DisruptionBudget", "message": cut(budget)}]
    return {
        "status": "Failure",
        "code": TOO_MANY_REQUESTS,
        "reason": "TooManyRequests",
        "message": cut(f"pod {request.namespace}/{request.name}: {message}"),
        "details": details,
    }


def cut(text: str) -> str:
    """A message as it is written."""
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[: _LONGEST_MESSAGE - 3]}..."
