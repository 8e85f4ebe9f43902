"""Deletes failed pods as section ``failedPods`` says, and finds those that a kubelet did not take: beside the loop.

They are deleted by the eviction subresource, one look a minute. The API server asks no budget for a pod that has failed. Each
deletion names the uid, and the process must lead right before it.

The caches show no failed pod: it vanishes from them. So pods that were bound, had not started and vanished without a deletion are
asked for, a few at a time: those of a kubelet that says why it did not take them keep moves of their namespace off that node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import structlog

from rescheduler.controller.call_pool import CallPool, OneCall
from rescheduler.kube.client import KubeApi
from rescheduler.kube.failed_pods import failed_pod, failed_pods
from rescheduler.model.decode import Record
from rescheduler.model.failed_pods import FailedPod
from rescheduler.model.node_marks import PodRefusal
from rescheduler.model.outcomes import EvictionOutcome, EvictionResult
from rescheduler.model.records import ObjectKey, Pod, PodPhase
from rescheduler.planning.failed_pods import FailedPods, to_delete
from rescheduler.planning.limits import Protections

EVERY_S: Final = 60.0
LOOK_S: Final = 5.0
"""Least time between two looks at pods that vanished ..."""
MOST_SUSPECTS: Final = 20
"""... and how many of them one look asks for: what is beyond is left out. Short Jobs end like that by the hundred."""
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
    tell: Callable[[str, PodRefusal], None] = lambda *_: None
    """Takes the name of a node and a pod that its kubelet did not take."""
    _looks: bool = False
    _due_s: float = 0.0
    _suspects: dict[ObjectKey, str] = field(default_factory=dict)
    """Pods that vanished, with their uids."""
    _asks: bool = False
    _ask_s: float = 0.0

    def see(self, before: Record | None, after: Record | None) -> None:
        """A pod before and after a change of the caches; None: it did not exist, or does not any more."""
        ended = after is None or (isinstance(after, Pod) and after.phase is PodPhase.FAILED)
        if not isinstance(before, Pod) or not ended or len(self._suspects) >= MOST_SUSPECTS:
            return
        if before.node and before.phase is PodPhase.PENDING and not before.deleting:
            self._suspects[before.key] = before.uid

    def look(self, now_s: float) -> None:
        """Ask for those that vanished, if it is time. ``now_s``: monotonic."""
        if not self._suspects or self._asks or now_s < self._ask_s:
            return
        self._asks, self._ask_s = True, now_s + LOOK_S
        suspects, self._suspects = self._suspects, {}
        work = OneCall("refused pods", lambda: self._refused(suspects), self._told, self._not_told)
        self.pool.begin(work, now_s)

    def _refused(self, suspects: Mapping[ObjectKey, str]) -> list[FailedPod]:
        """In a thread of the pool."""
        found = ((failed_pod(self.api, key), uid) for key, uid in suspects.items())
        return [pod for pod, uid in found if pod is not None and pod.uid == uid and pod.refused and pod.node]

    def _told(self, pods: list[FailedPod], now_s: float) -> None:
        self._asks = False
        log = structlog.get_logger("rescheduler.failed_pods")
        for pod in pods:
            log.info("A kubelet did not take a pod", node=pod.node, pod=str(pod.key), reason=pod.refused)
            self.tell(pod.node, PodRefusal(pod.key.namespace, pod.refused, now_s))

    def _not_told(self, error: Exception, _now_s: float) -> None:
        self._asks = False
        log = structlog.get_logger("rescheduler.failed_pods")
        log.debug("Pods that vanished could not be asked for", error=str(error))

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
