"""The one place where calls to the API server are tried again.

Tried again are only failures that time cures (429, 5xx, no answer), with full-jitter exponential
back-off that honours Retry-After, until a deadline, not a number of tries. A call that is neither
idempotent nor guarded by a precondition is tried again only after a 429, which proves that nothing
was done. Evictions never come here: their 429 is an answer. Sleep, clock and chance are handed in.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

import tenacity

from rescheduler.kube.errors import ApiError, TryLaterError
from rescheduler.kube.transport import TransportError

T = TypeVar("T")


def full_jitter_s(attempt: int, base_s: float, cap_s: float, chance: float) -> float:
    """Wait before try ``attempt`` + 1 (first try is 1): uniform in 0..min(cap, base * 2^(attempt-1))."""
    ceiling = min(cap_s, base_s * 2.0 ** min(attempt - 1, 62))
    return ceiling * chance


def retryable(error: BaseException, *, repeatable: bool) -> bool:
    """True if trying again may help and does no harm.

    ``repeatable``: a second execution of the call changes nothing that the first did not.
    """
    if isinstance(error, ApiError) and error.status == HTTPStatus.TOO_MANY_REQUESTS:
        return True
    return repeatable and isinstance(error, TryLaterError | TransportError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A policy of trying again. ``chance`` gives numbers in 0..1."""

    base_s: float = 0.2
    cap_s: float = 8.0
    deadline_s: float = 30.0
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random

    def call(self, operation: Callable[[], T], *, repeatable: bool) -> T:
        """The result of ``operation``; its last error once the deadline would be passed by waiting."""
        started_s = self.clock()

        def wait(state: tenacity.RetryCallState) -> float:
            asked = _retry_after_s(state)
            jitter = full_jitter_s(state.attempt_number, self.base_s, self.cap_s, self.chance())
            return jitter if asked is None else asked + jitter

        def stop(state: tenacity.RetryCallState) -> bool:
            return self.clock() - started_s + state.upcoming_sleep > self.deadline_s

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(lambda error: retryable(error, repeatable=repeatable)),
            wait=wait,
            stop=stop,
            sleep=self.sleep,
            reraise=True,
        )
        return retrying(operation)


NO_RETRY = Retry(deadline_s=-1.0)
"""Every error is given to the caller at once."""


def _retry_after_s(state: tenacity.RetryCallState) -> float | None:
    error = state.outcome.exception() if state.outcome else None
    return error.retry_after_s if isinstance(error, ApiError) else None
