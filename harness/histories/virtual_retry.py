"""The proof of the gate in virtual time, with the random numbers of the history: the same seed waits the same seconds.

The policy is that of the product. Only the clock and the random numbers of tenacity are replaced: the clock by the
seconds that were slept, because a request takes no time in a history.
"""

from __future__ import annotations

from collections.abc import Callable

from tenacity import RetryCallState, wait_exponential

from rescheduler.kube.retry import Retry

Chance = Callable[[], float]
Sleep = Callable[[float], None]


def virtual_proof(chance: Chance, sleep: Sleep) -> Retry:
    """As ``kube.gate.PROOF`` tries a proof again."""
    jitter = _full_jitter(0.02, 0.5, chance)
    return Retry(wait=lambda state: 0.02 + jitter(state), stop=_stop_before(2.0), sleep=sleep)


def _full_jitter(base_s: float, cap_s: float, chance: Chance) -> Callable[[RetryCallState], float]:
    ceiling = wait_exponential(multiplier=base_s, max=cap_s)
    return lambda state: ceiling(state) * chance()


def _stop_before(delay_s: float) -> Callable[[RetryCallState], bool]:
    return lambda state: state.idle_for + state.upcoming_sleep >= delay_s
