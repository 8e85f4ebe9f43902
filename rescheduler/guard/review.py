"""The AdmissionReview of an eviction: what of it counts, and the answer as the API server hands it on. Bytes in, bytes out; pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rescheduler.guard.decision import Allow, Answer, Gone
from rescheduler.model.object_meta import ObjectMeta
from rescheduler.webhook.review import UnreadableReviewError

NOT_FOUND: Final = 404
TOO_MANY_REQUESTS: Final = 429
REQUESTED_BY: Final = "requested-by"
"""Annotation that descheduler gives its Evictions."""
_LONGEST_MESSAGE: Final = 1_000


class _Preconditions(msgspec.Struct, frozen=True):
    uid: str | None = None
    resource_version: str | None = msgspec.field(default=None, name="resourceVersion")


class _DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    preconditions: _Preconditions | None = None
    dry_run: tuple[str, ...] | None = None
    grace_period_seconds: int | None = None


class _Eviction(msgspec.Struct, frozen=True, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    delete_options: _DeleteOptions | None = None


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class EvictionReview(msgspec.Struct, frozen=True, rename="camel"):
    """Somebody asks for the eviction of a pod."""

    uid: str
    """Of the question, to be repeated in the answer."""
    namespace: str = ""
    name: str = ""
    user_info: _User = _User()
    dry_run: bool | None = None
    object: _Eviction | None = None

    @property
    def rehearsed(self) -> bool:
        """A dry run. The API server takes the wish from the Eviction as well, where its own mark of dry runs is missing."""
        options = self._options
        return bool(self.dry_run) or bool(options is not None and options.dry_run)

    @property
    def pod_uid(self) -> str:
        """The pod that the caller means; "": any of that name."""
        return self._preconditions.uid or ""

    @property
    def pod_version(self) -> str:
        """The only version of the pod that the caller wants evicted; "": any."""
        return self._preconditions.resource_version or ""

    @property
    def grace_s(self) -> int | None:
        """The grace period that the caller wants; None: the pod's own."""
        return self._options.grace_period_seconds if self._options is not None else None

    @property
    def counts(self) -> bool:
        """The caller is a descheduler, which counts what it evicts and asks for the next pod where it is refused one."""
        annotations = self.object.metadata.annotations if self.object is not None else None
        return REQUESTED_BY in (annotations or {})

    @property
    def _preconditions(self) -> _Preconditions:
        wanted = self._options.preconditions if self._options is not None else None
        return wanted if wanted is not None else _Preconditions()

    @property
    def _options(self) -> _DeleteOptions | None:
        return self.object.delete_options if self.object is not None else None


class _Review(msgspec.Struct, frozen=True):
    request: EvictionReview


_DECODER: Final = msgspec.json.Decoder(_Review)


def read(body: bytes) -> EvictionReview:
    """Raises UnreadableReviewError: the caller answers 400, and the eviction goes on (``failurePolicy: Ignore``)."""
    try:
        return _DECODER.decode(body).request
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableReviewError(str(error)) from error


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
