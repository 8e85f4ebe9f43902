"""PreferAvoidPods hints: a bounded list on the node a pod left, with a time for each reason.

The planner does not send a pod of that controller back there for the same reason while an entry holds, and
takes such a node last for other reasons. Pure: lists in, lists out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rescheduler.model.records import AvoidEntry, OwnerRef

LIMIT: Final = 20
"""Entries that a node carries at most; the ones that end first are dropped."""

DEFAULT_TTL_S: Final = 1800.0
TTL_S: Final = {
    "LowNodeUtilization": 1800.0,
    "HighNodeUtilization": 3600.0,
    "NodeAffinity": 3600.0,
    "InterPodAntiAffinity": 1800.0,
    "NodeTaints": 3600.0,
    "TopologySpread": 900.0,
}
"""Seconds by policy: long where the node is the trouble, short where only the distribution was."""


def holds(entries: Iterable[AvoidEntry], controller_uid: str, now_s: float) -> tuple[AvoidEntry, ...]:
    """The entries for a controller that have not ended."""
    return tuple(e for e in entries if e.controller_uid == controller_uid and e.expires_at_s > now_s)


def entry_for(owner: OwnerRef, namespace: str, reason: str, now_s: float) -> AvoidEntry:
    """The hint to leave on the node that a pod of ``owner`` is moved away from."""
    return AvoidEntry(
        controller_kind=owner.kind,
        controller_name=owner.name,
        controller_uid=owner.uid,
        namespace=namespace,
        reason=reason,
        expires_at_s=now_s + TTL_S.get(reason, DEFAULT_TTL_S),
    )


def with_entry(entries: Iterable[AvoidEntry], new: AvoidEntry, now_s: float) -> tuple[AvoidEntry, ...]:
    """The list with ``new`` added or renewed, ended entries dropped, and cut to LIMIT."""
    kept = [
        e
        for e in entries
        if e.expires_at_s > now_s and (e.controller_uid, e.reason) != (new.controller_uid, new.reason)
    ]
    kept.append(new)
    kept.sort(key=_order)
    return tuple(kept[-LIMIT:])


def collected(
    entries: Iterable[AvoidEntry], alive_controllers: Iterable[str], now_s: float
) -> tuple[AvoidEntry, ...]:
    """The list without entries that have ended or whose controller (uid) no longer exists."""
    alive = frozenset(alive_controllers)
    return tuple(
        sorted((e for e in entries if e.expires_at_s > now_s and e.controller_uid in alive), key=_order)
    )


def _order(entry: AvoidEntry) -> tuple[float, str, str, str]:
    return entry.expires_at_s, entry.namespace, entry.controller_name, entry.reason
