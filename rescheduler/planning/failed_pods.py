"""Section ``failedPods``: the clean-up of pods that have failed, apart from all moves and off unless somebody switches it on.

A failed pod stands on no node any more and never runs again; only its object is left, for people to look at. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from rescheduler.model.failed_pods import FailedPod
from rescheduler.model.names import ANNOTATION_EVICT, DESCHEDULER_PREFER_NO_EVICTION
from rescheduler.model.written import DocumentSection, Duration
from rescheduler.planning.limits import SYSTEM_NAMESPACES, Protections
from rescheduler.policies.wire import NamespaceFilter

MOST_AT_ONCE: Final = 20
"""Pods that one look deletes."""
_MIRRORS: Final = "Node"
"""What owns the mirrors of static pods, which the kubelet creates anew."""


class FailedPods(DocumentSection, frozen=True, kw_only=True):
    """Which failed pods are deleted; the namespaces, labels and annotations of ``protections`` hold, too."""

    enabled: bool = False
    after_s: Duration = 3600.0
    """Since they have failed."""
    reasons: tuple[str, ...] = ()
    """Only these, such as Evicted, OutOfcpu, UnexpectedAdmissionError, Error; none: any."""
    exclude_owner_kinds: tuple[str, ...] = ("Job",)
    """Pods of these controllers stay."""
    without_controller: bool = False
    """True: also pods without a controller."""
    namespaces: NamespaceFilter = NamespaceFilter()


def to_delete(
    pods: Iterable[FailedPod], rule: FailedPods, protections: Protections, now_s: float
) -> tuple[FailedPod, ...]:
    """Those that go now: of each namespace the oldest first, and no namespace keeps the others waiting."""
    old = sorted(
        (pod for pod in pods if _goes(pod, rule, protections, now_s)),
        key=lambda pod: (pod.failed_at_s, pod.key),
    )
    before: Counter[str] = Counter()
    turns: list[tuple[int, FailedPod]] = []
    for pod in old:
        turns.append((before[pod.key.namespace], pod))
        before[pod.key.namespace] += 1
    turns.sort(key=lambda turn: turn[0])
    return tuple(pod for _, pod in turns[:MOST_AT_ONCE])


def _goes(pod: FailedPod, rule: FailedPods, protections: Protections, now_s: float) -> bool:
    chosen, marks = protections.label_selector, pod.annotations
    return bool(
        not pod.deleting
        and pod.controller_kind not in (*rule.exclude_owner_kinds, _MIRRORS)
        and (pod.controller_kind or rule.without_controller)
        and 0.0 < pod.failed_at_s <= now_s - rule.after_s
        and (not rule.reasons or not pod.reasons.isdisjoint(rule.reasons))
        and protections.namespaces.admits(pod.key.namespace, SYSTEM_NAMESPACES)
        and rule.namespaces.admits(pod.key.namespace, SYSTEM_NAMESPACES)
        and (chosen is None or chosen.matches(pod.labels))
        and marks.get(ANNOTATION_EVICT) != "false"
        and not (protections.prefer_no_eviction and DESCHEDULER_PREFER_NO_EVICTION in marks)
    )
