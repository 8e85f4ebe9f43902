"""Which calls to the API server are tried again, and when: tenacity with the rules of this API.

Tried again is only what time cures (429, 5xx, no answer), with full jitter on top of what Retry-After asks for,
until a deadline, not a number of tries. A call that is neither idempotent nor guarded by a precondition is tried
again only after a 429, which proves that nothing was done. Evictions never come here: their 429 is an answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final, TypeVar

from tenacity import (
    Retrying,
    retry_all,
    retry_if_exception,
    retry_if_not_exception_type,
    retry_if_result,
    stop_after_attempt,
    stop_before_delay,
    wait_exception,
    wait_random_exponential,
)
from tenacity.stop import StopBaseT
from tenacity.wait import WaitBaseT

from rescheduler.kube.errors import ApiError, NotServedError, TryLaterError
from rescheduler.kube.transport import TransportError

T = TypeVar("T")

BASE_S: Final = 0.2
CAP_S: Final = 8.0
DEADLINE_S: Final = 30.0


def retryable(error: BaseException, *, repeatable: bool) -> bool:
    """True if trying again may help and does no harm.

    ``repeatable``: a second execution of the call changes nothing that the first did not.
    """
    if isinstance(error, ApiError) and error.status == HTTPStatus.TOO_MANY_REQUESTS:
        return True
    if isinstance(error, NotServedError):
        return False  # a kind that is not installed is not installed a moment later, either
    return repeatable and isinstance(error, TryLaterError | TransportError)


def retry_after_s(error: BaseException) -> float:
    """The seconds that the server asks for; 0 if it does not."""
    return (error.retry_after_s or 0.0) if isinstance(error, ApiError) else 0.0


RETRY_AFTER: Final = wait_exception(retry_after_s)
"""Added to a jitter, since many clients are told the same number of seconds."""

JITTER: Final = wait_random_exponential(multiplier=BASE_S, max=CAP_S) + RETRY_AFTER
DEADLINE: Final = stop_before_delay(DEADLINE_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A policy of trying again.

    tenacity's strategies read the process' clock and its random numbers, and neither can be handed in. So the
    strategies themselves are fields: a caller that needs other time or chance (the histories run in virtual time, from
    a seed) hands in callables of the same shape.
    """

    gives_up: tuple[type[BaseException], ...] = ()
    """Errors that are given to the caller at once, whatever time may do for them."""
    wait: WaitBaseT = JITTER
    stop: StopBaseT = DEADLINE
    sleep: Callable[[float], None] = time.sleep

    def call(self, operation: Callable[[], T], *, repeatable: bool) -> T:
        """The result of ``operation``; its last error once waiting would pass the deadline."""
        again = retry_if_exception(partial(retryable, repeatable=repeatable))
        retrying = Retrying(
            retry=retry_all(again, retry_if_not_exception_type(self.gives_up)),
            wait=self.wait,
            stop=self.stop,
            sleep=self.sleep,
            reraise=True,
        )
        return retrying(operation)

    def until_true(self, operation: Callable[[], bool]) -> bool:
        """True as soon as ``operation`` is; False once waiting would pass the deadline. Its errors are raised."""
        repeating = Retrying(
            retry=retry_if_result(lambda done: not done),
            wait=self.wait,
            stop=self.stop,
            sleep=self.sleep,
            retry_error_callback=lambda _: False,
        )
        return repeating(operation)


NO_RETRY: Final = Retry(stop=stop_after_attempt(1))
"""Every error is given to the caller at once."""
