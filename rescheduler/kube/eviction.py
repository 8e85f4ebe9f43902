"""The eviction subresource: the request, and what each answer means for the caller (pure).

Source of the rules: kubernetes ``pkg/registry/core/pod/storage/eviction.go``; answers measured on 1.37.0.
The uid is always a precondition (a name alone could hit a successor), the resource version never (any
status update would refuse it).
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any, Final

from rescheduler.kube.answers import is_object, may_have_happened
from rescheduler.kube.errors import ApiError, NotFoundError, error_of, error_of_status, parse_status
from rescheduler.kube.transport import Response
from rescheduler.model.outcomes import EvictionOutcome, EvictionResult

_BUDGET_CAUSE: Final = "DisruptionBudget"
_STALE_BUDGET: Final = "still being processed"
_SEVERAL_BUDGETS: Final = "more than one PodDisruptionBudget"
_NOT_YET_EVICTED: Final = ("couldn't update PodDisruptionBudget", "failed calling webhook")
"""Failures of the API server (504, 500) from before it deletes the pod."""
_UID_DIFFERS: Final = re.compile(r"\bUID in (the )?precondition\b")
"""The API server says it in two ways, depending on which layer finds it."""


def eviction_path(namespace: str, name: str) -> str:
    """Where a pod's evictions are posted."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"


def eviction_body(namespace: str, name: str, uid: str, grace_s: int | None) -> dict[str, Any]:
    """A policy/v1 Eviction of exactly that pod. ``grace_s`` None: the pod's own grace period."""
    options: dict[str, Any] = {"preconditions": {"uid": uid}}
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": name},
        "deleteOptions": options,
    }


def interpret(answer: Response) -> EvictionResult:
    """The meaning of an answer; never raises.

    A 2xx whose body is a Status that is not a Success is a refusal, as client-go holds it.
    """
    if answer.status < HTTPStatus.BAD_REQUEST:
        if not is_object(answer.body):
            return EvictionResult(EvictionOutcome.UNKNOWN, "the answer is not that of an API server")
        status = parse_status(answer.body)
        if status is None or status.status == "Success":
            return EvictionResult(EvictionOutcome.EVICTED)
        error = error_of_status(status)
    else:
        error = error_of(answer.status, answer.body, answer.headers)
    return EvictionResult(_outcome(error), _message(error), error.retry_after_s)


def _outcome(error: ApiError) -> EvictionOutcome:
    if _SEVERAL_BUDGETS in error.message:
        return EvictionOutcome.MULTIPLE_BUDGETS
    if may_have_happened(error):
        before = any(words in error.message for words in _NOT_YET_EVICTED)
        return EvictionOutcome.OVERLOADED if before else EvictionOutcome.UNKNOWN
    match error.status:
        case HTTPStatus.TOO_MANY_REQUESTS:
            return _outcome_of_429(error)
        # Only a Status that names a pod proves that it is gone; any other 404 is UNKNOWN (``NotServedError``).
        case HTTPStatus.NOT_FOUND if isinstance(error, NotFoundError) and error.about == "pods":
            return EvictionOutcome.GONE
        case HTTPStatus.CONFLICT:
            # Any other conflict is a write that came in between: the same eviction may pass next time.
            return EvictionOutcome.REPLACED if _UID_DIFFERS.search(error.message) else EvictionOutcome.STALE
        case (
            HTTPStatus.BAD_REQUEST
            | HTTPStatus.UNAUTHORIZED
            | HTTPStatus.FORBIDDEN
            | HTTPStatus.UNPROCESSABLE_ENTITY
        ):
            return EvictionOutcome.FORBIDDEN
        case _:
            return EvictionOutcome.FAILED


def _outcome_of_429(error: ApiError) -> EvictionOutcome:
    if not error.has_cause(_BUDGET_CAUSE):
        return EvictionOutcome.OVERLOADED
    stale = any(_STALE_BUDGET in cause.message for cause in error.causes)
    return EvictionOutcome.STALE if stale else EvictionOutcome.BLOCKED


def _message(error: ApiError) -> str:
    """What the server says, with the cause that names the budget."""
    causes = (cause.message for cause in error.causes if cause.message not in error.message)
    details = "; ".join(causes)
    return f"{error.message} {details}".strip() if details else error.message
