"""Which kinds of custom controllers were seen to replace a pod: a pod of theirs was lost, and its owner got a new one.

A kind that can be scaled keeps a number of pods while it is scaled; what it does for one that is evicted is not said anywhere, and for a
training job that is the end. So this is believed when it was seen, and forgotten with the process.

Promises: what is seen counts in the namespace where it was seen, because whoever may create pods there may write any owner into them.
What was taken out of sight is not lost, and a pod that has ended, or ends by itself (``restartPolicy``), proves nothing.
Used by one thread.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

import msgspec

from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.names import LABEL_PLACEHOLDER
from rescheduler.model.records import OwnerRef, Pod
from rescheduler.model.replacement_rules import KindThere, ReplacementRules
from rescheduler.replacements.controllers import group_kind, of_kubernetes

WITHIN_S: Final = 60.0
"""A new pod that comes later than that after the loss is none for the lost one."""
_MOST_LOSSES: Final = 10_000
_MOST_IN_A_NAMESPACE: Final = 100
"""Kinds that are remembered of one namespace, whose people may write any."""

WATCHED: Final = frozenset(
    (RESOURCES[kind].group, kind.value)
    for kind in (Kind.REPLICA_SET, Kind.REPLICATION_CONTROLLER, Kind.STATEFUL_SET, Kind.JOB)
)
"""The controllers of Kubernetes that replace pods, all of which are read."""


class _Loss(NamedTuple):
    pod_uid: str
    at_s: float


class SeenReplacements:
    """What was seen so far."""

    def __init__(self) -> None:
        self._losses: dict[str, list[_Loss]] = {}
        """By uid of the owner."""
        self._number = 0
        self._seen: frozenset[KindThere] = frozenset()
        self._in_namespace: Counter[str] = Counter()
        self._rules: tuple[ReplacementRules, frozenset[KindThere], ReplacementRules] | None = None

    def take(self, before: Pod | None, after: Pod | None, now_s: float) -> bool:
        """One pod before and after a change; None: it did not exist, or does not any more. True if something new is known.

        ``now_s``: monotonic.
        """
        if before is not None and _keeps(before) and _is_lost(before, after):
            self._lose(_owner(before).uid, _Loss(before.uid, now_s))
        comes = after is not None and (before is None or before.uid != after.uid)
        if after is None or not comes or not _keeps(after) or not self._replaces(after, now_s):
            return False
        there = KindThere(after.namespace, *group_kind(_owner(after)))
        if there in self._seen or self._in_namespace[after.namespace] >= _MOST_IN_A_NAMESPACE:
            return False
        self._in_namespace[after.namespace] += 1
        self._seen |= {there}
        return True

    def rules(self, configured: ReplacementRules) -> ReplacementRules:
        """What is configured, together with what was seen; the same object until something changes."""
        if self._rules is None or self._rules[0] is not configured or self._rules[1] is not self._seen:
            merged = msgspec.structs.replace(configured, seen=self._seen, watched=WATCHED)
            self._rules = (configured, self._seen, merged)
        return self._rules[2]

    def _lose(self, owner: str, loss: _Loss) -> None:
        if self._number >= _MOST_LOSSES:
            self._forget(loss.at_s)
        if self._number < _MOST_LOSSES:
            self._losses.setdefault(owner, []).append(loss)
            self._number += 1

    def _replaces(self, pod: Pod, now_s: float) -> bool:
        losses = self._losses.get(_owner(pod).uid, ())
        return any(loss.pod_uid != pod.uid and now_s - loss.at_s <= WITHIN_S for loss in losses)

    def _forget(self, now_s: float) -> None:
        """What is too old to be replaced any more."""
        kept = {
            owner: [loss for loss in losses if now_s - loss.at_s <= WITHIN_S]
            for owner, losses in self._losses.items()
        }
        self._losses = {owner: losses for owner, losses in kept.items() if losses}
        self._number = sum(map(len, self._losses.values()))


_NOBODY: Final = OwnerRef("", "", "", "")


def _owner(pod: Pod) -> OwnerRef:
    return pod.controller or _NOBODY


def _keeps(pod: Pod) -> bool:
    """True for a pod that its custom controller may be expected to keep."""
    owner = pod.controller
    return (
        owner is not None
        and not of_kubernetes(group_kind(owner))
        and pod.spec.restarts_always
        and pod.labels.get(LABEL_PLACEHOLDER) is None
    )


def _is_lost(before: Pod, after: Pod | None) -> bool:
    """True if a pod that ran is gone now, or begins to end."""
    if before.deleting or before.terminal or not before.node:
        return False
    return after is None or after.deleting or after.uid != before.uid
