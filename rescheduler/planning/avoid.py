"""PreferAvoidPods hints: a bounded list on the node a pod left, with a time for each reason.

The planner does not send a pod of that controller back there for the same reason while an entry holds, and
takes such a node last for other reasons. An entry counts for pods of its own namespace only, because anybody may write any
uid into the ownerReferences of a pod; and of a full list the namespace with most entries loses one. Pure: lists in, lists out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from rescheduler.model.records import AvoidEntry, OwnerRef
from rescheduler.policies.wire import MOST_HINT_S

LIMIT: Final = 20
"""Entries that a node carries at most. Beyond it, of the namespace with most of them the one that ends first is dropped."""

DEFAULT_TTL_S: Final = 1800.0
TTL_S: Final = {
    "LowNodeUtilization": 1800.0,
    "HighNodeUtilization": 3600.0,
    "Defragmentation": 3600.0,
    "NodeAffinity": 3600.0,
    "InterPodAntiAffinity": 1800.0,
    "PodAffinity": 1800.0,
    "NodeTaints": 3600.0,
    "NodeHealth": 3600.0,
    "TooManyRestarts": 86_400.0,
    "TopologySpread": 900.0,
}
"""Seconds by policy: long where the node is the trouble, short where only the distribution was."""


def holds(
    entries: Iterable[AvoidEntry], namespace: str, controller_uid: str, now_s: float
) -> tuple[AvoidEntry, ...]:
    """The entries for the pods of a controller in a namespace that have not ended."""
    wanted = (namespace, controller_uid)
    return tuple(e for e in entries if (e.namespace, e.controller_uid) == wanted and e.expires_at_s > now_s)


def entry_for(
    owner: OwnerRef, namespace: str, reason: str, now_s: float, ttl_s: float | None = None
) -> AvoidEntry:
    """The hint to leave on the node that a pod of ``owner`` is moved away from. ``ttl_s`` None: by the reason."""
    lasts_s = TTL_S.get(reason, DEFAULT_TTL_S) if ttl_s is None else min(ttl_s, MOST_HINT_S)
    return AvoidEntry(
        controller_kind=owner.kind,
        controller_name=owner.name,
        controller_uid=owner.uid,
        namespace=namespace,
        reason=reason,
        expires_at_s=now_s + lasts_s,
    )


def with_entry(entries: Iterable[AvoidEntry], new: AvoidEntry, now_s: float) -> tuple[AvoidEntry, ...]:
    """The list with ``new`` added or renewed, ended entries dropped, and cut to LIMIT."""
    kept = [e for e in entries if e.expires_at_s > now_s and _of(e) != _of(new)]
    kept.append(new)
    kept.sort(key=_order)
    while len(kept) > LIMIT:
        many = Counter(e.namespace for e in kept)
        most = max(many.values())
        kept.remove(next(e for e in kept if many[e.namespace] == most))
    return tuple(kept)


def collected(
    entries: Iterable[AvoidEntry], alive_controllers: Iterable[str], now_s: float
) -> tuple[AvoidEntry, ...]:
    """The list without entries that have ended or whose controller (uid) no longer exists."""
    alive = frozenset(alive_controllers)
    return tuple(
        sorted((e for e in entries if e.expires_at_s > now_s and e.controller_uid in alive), key=_order)
    )


def _of(entry: AvoidEntry) -> tuple[str, str, str]:
    return entry.namespace, entry.controller_uid, entry.reason


def _order(entry: AvoidEntry) -> tuple[float, str, str, str]:
    return entry.expires_at_s, entry.namespace, entry.controller_name, entry.reason
