"""The meaning of an error that answers the dry-run creation of a pod (pure).

Sources: kubernetes ``apiserver/pkg/endpoints/handlers/responsewriters`` (words of authorization), ``apiserver/pkg/admission/
plugin/webhook`` (denials, missing support for dry runs), ``plugin/pkg/admission/resourcequota`` (the last plugin of
admission: a pod that a quota refuses was let through by all others; ``CheckRequest`` names what is exceeded).
"""

from __future__ import annotations

import re
from typing import Final

from rescheduler.kube.errors import (
    ApiError,
    ForbiddenError,
    NotFoundError,
    RejectedError,
)
from rescheduler.kube.transport import TransportError
from rescheduler.model.outcomes import NO_RIGHT, QUOTA_USED_UP, CreationAnswer, CreationOutcome
from rescheduler.model.replacement_rules import AdmittedPod
from rescheduler.model.resources import QuantityError, nano

_NO_DRY_RUN: Final = "does not support dry run"
_NO_RIGHT_TO_CHANGE: Final = re.compile("cannot (patch|delete) resource")
_INVALID: Final = re.compile(r'Pod "[^"]*" is invalid: ')
_NOT_DECODED: Final = re.compile(r'Pod in version "v1" cannot be handled as a Pod: ')
_EXCEEDED: Final = re.compile(r"requested: (\S+), used: (\S+), limited: (\S+)$")
_DENIED: Final = "denied the request"
"""Words of a webhook's denial, whose HTTP code the webhook chooses."""


def meaning_of(error: ApiError | TransportError, *, created: bool) -> CreationAnswer:
    """What an error means for the caller. ``created``: it answers the creation, not a read of the template before."""
    if not isinstance(error, ApiError):
        return CreationAnswer(CreationOutcome.UNANSWERED, str(error))
    message = error.message or str(error)
    outcome = _of_creation(error, message) if created else _of_read(error)
    refusal = AdmittedPod(refusal=message) if outcome is CreationOutcome.REFUSED else None
    return CreationAnswer(outcome, message, refusal)


def of_change(words: str) -> CreationAnswer | None:
    """What the refusal of a change that the hand-over will need means for the move; None: nothing. ``words``: "" for none."""
    if not words or _NO_DRY_RUN in words:
        return None
    if _NO_RIGHT_TO_CHANGE.search(words):  # of an API server that has not read the roles yet, too
        return CreationAnswer(CreationOutcome.UNANSWERED, words)
    message = f"the hand-over could not be made: {words}"
    return CreationAnswer(CreationOutcome.REFUSED, message, AdmittedPod(refusal=message))


def invalid_words(error: ForbiddenError | RejectedError) -> str:
    """What validation says of a pod; "" if something else refused it (admission, rights), which says nothing of the pod itself.

    Validation comes before validating admission: what is refused there has been found valid.
    """
    message = error.message or str(error)
    invalid, decoding = _INVALID.match(message), _NOT_DECODED.match(message)
    found = invalid or decoding
    return message[found.end() :] if isinstance(error, RejectedError) and found else ""


def _of_creation(error: ApiError, message: str) -> CreationOutcome:
    if QUOTA_USED_UP in message:
        return CreationOutcome.REFUSED if _stays_exceeded(message) else CreationOutcome.NO_EVIDENCE
    if _NO_DRY_RUN in message or isinstance(error, NotFoundError):
        return CreationOutcome.NO_EVIDENCE
    if isinstance(error, ForbiddenError) and NO_RIGHT in message:
        return CreationOutcome.NO_RIGHT
    if isinstance(error, ForbiddenError | RejectedError) or _DENIED in message:
        return CreationOutcome.REFUSED
    return CreationOutcome.UNANSWERED


def _stays_exceeded(message: str) -> bool:
    """True if the quota has no place for the pod even in place of one like it: it was made smaller than what is used."""
    found = _EXCEEDED.search(message)
    if found is None:
        return False
    try:
        requested, used, limited = map(_amounts, found.groups())
    except QuantityError:  # the words of somebody else
        return False
    return any(max(used.get(name, 0), requested.get(name, 0)) > most for name, most in limited.items())


def _amounts(listed: str) -> dict[str, int]:
    """Of ``pods=1,requests.cpu=500m``."""
    pairs = (pair.partition("=") for pair in listed.split(","))
    return {name: nano(amount) for name, _, amount in pairs}


def _of_read(error: ApiError) -> CreationOutcome:
    """A controller that is gone or was created again: the cache will show it, and nothing is evicted before."""
    known = isinstance(error, ForbiddenError | RejectedError)
    return CreationOutcome.NO_EVIDENCE if known else CreationOutcome.UNANSWERED
