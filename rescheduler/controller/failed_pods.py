"""Deletes failed pods as section ``failedPods`` says: beside the loop.

They are deleted by the eviction subresource, one look a minute. The API server asks no budget for a pod that has failed. Each
deletion names the uid, and the process must lead right before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import structlog

from rescheduler.controller.call_pool import CallPool, OneCall
from rescheduler.kube.client import KubeApi
from rescheduler.kube.failed_pods import failed_pods
from rescheduler.model.failed_pods import FailedPod
from rescheduler.model.outcomes import EvictionOutcome, EvictionResult
from rescheduler.planning.failed_pods import FailedPods, to_delete
from rescheduler.planning.limits import Protections

EVERY_S: Final = 60.0
_GONE: Final = frozenset({EvictionOutcome.EVICTED, EvictionOutcome.GONE, EvictionOutcome.REPLACED})


class _Answer(NamedTuple):
    pod: FailedPod
    result: EvictionResult | None
    """None: a dry run."""


@dataclass(slots=True, kw_only=True)
class FailedPodCleaner:
    """Used by the core thread only, except for the calls themselves."""

    api: KubeApi
    pool: CallPool
    leads: Callable[[], bool]
    wall_s: Callable[[], float]
    """By the API server's clock."""
    dry_run: bool = False
    _looks: bool = False
    _due_s: float = 0.0

    def tend(self, rule: FailedPods, protections: Protections, now_s: float) -> None:
        """Look again if it is time. ``now_s``: monotonic."""
        if not rule.enabled or self._looks or now_s < self._due_s:
            return
        self._looks, self._due_s = True, now_s + EVERY_S
        work = OneCall("failed pods", lambda: self._clean(rule, protections), self._cleaned, self._failed)
        self.pool.begin(work, now_s)

    def _clean(self, rule: FailedPods, protections: Protections) -> list[_Answer]:
        """In a thread of the pool."""
        answers: list[_Answer] = []
        for pod in to_delete(failed_pods(self.api), rule, protections, self.wall_s()):
            if not self.leads():
                break
            result = None if self.dry_run else self.api.evict(*pod.key, pod.uid, None)
            answers.append(_Answer(pod, result))
            if result is not None and result.outcome not in _GONE:
                break  # the next one would hardly fare better; a minute later it is tried again
        return answers

    def _cleaned(self, answers: list[_Answer], _now_s: float) -> None:
        self._looks = False
        log = structlog.get_logger("rescheduler.failed_pods")
        for pod, result in answers:
            reasons = sorted(pod.reasons)
            if result is None:
                log.info("Would delete a failed pod", pod=str(pod.key), reasons=reasons)
            elif result.outcome in _GONE:
                log.info("Deleted a failed pod", pod=str(pod.key), reasons=reasons)
            else:
                log.warning("A failed pod could not be deleted", pod=str(pod.key), error=result.message)

    def _failed(self, error: Exception, _now_s: float) -> None:
        self._looks = False
        log = structlog.get_logger("rescheduler.failed_pods")
        log.warning("Failed pods could not be cleaned up; it is tried again in a minute", error=str(error))
