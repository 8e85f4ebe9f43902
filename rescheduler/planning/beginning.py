"""Whether a move may begin now, within the limits of what has begun before. Pure.

The planner keeps planned moves within ``limits``; a PodMigration that people create is looked at only here, when it is
about to begin, against ``limits.requested``. The hourly limit of planned moves is looked at here once more, so that a
PodMigration which people give the label of planned ones does not pass it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rescheduler.model.counted import plural
from rescheduler.model.times import format_seconds
from rescheduler.planning.limits import Limits
from rescheduler.planning.past_moves import HOUR_S, PastMoves
from rescheduler.planning.plan import SkipReason

MOST_ENTRIES: Final = 2_700
"""The most entries of ConfigMap ``move-history``: at most 1.0 MB, where one of our own makes is 0.2 kB and the limit of a
ConfigMap is 1 MiB. So many moves may begin within an hour, whatever the configured limits are."""


_LEFT_FREE: Final = 20
"""Of so many moves one is left to namespaces that have had less than their fair share."""
_SHARED_FROM: Final = 10
"""A smaller limit is not shared out: it is there to be used by whoever comes."""


class HeldBack(NamedTuple):
    """Why a move does not begin now."""

    reason: SkipReason
    message: str
    until_s: float | None
    """When to look again; None: only when the configuration changes."""


class MoveToBegin(NamedTuple):
    """What the limits depend on."""

    requested: bool
    """Asked for by people."""
    namespace: str
    pod_uid: str
    workload_uid: str
    at_last: bool = False
    """Soon its pod is evicted without room: the limits that we set ourselves would hold back the room alone."""


def held_back(move: MoveToBegin, past: PastMoves, limits: Limits, now_s: float) -> HeldBack | None:
    """The first limit that the move would pass, or None. ``past``: without the move itself."""
    return (
        _full(past, now_s)
        or _this_hour(move, past, limits, now_s)
        or (_resting(move, past, limits) if move.requested and not move.at_last else None)
    )


def _full(past: PastMoves, now_s: float) -> HeldBack | None:
    asked, planned = past.begun(requested=True), past.begun(requested=False)
    if len(asked) + len(planned) < MOST_ENTRIES:
        return None
    times = sorted((*asked, *planned))
    until_s = _free_at_s(times, MOST_ENTRIES, now_s)
    message = f"{len(times)} moves began within the last hour, as many as ConfigMap move-history holds"
    return _hour(message, until_s)


def _this_hour(move: MoveToBegin, past: PastMoves, limits: Limits, now_s: float) -> HeldBack | None:
    key, most = "limits.movesPerHour", limits.moves_per_hour
    if move.requested:
        key, most = "limits.requested.movesPerHour", limits.requested.moves_per_hour
    if most <= 0:
        return HeldBack(SkipReason.LIMIT_HOUR, f"{key} is 0: no such move begins", None)
    most = MOST_ENTRIES if move.at_last else most
    begun = past.begun(requested=move.requested)
    left_free = _left_free(move, past, most) if move.requested else 0
    if len(begun) < most - left_free:
        return None
    if len(begun) > most and not left_free and _left_over(move, past, most):
        return None
    if len(begun) < most:
        used = past.requested_in(move.namespace)
        message = (
            f"{plural(len(begun), 'move')} that people asked for began within the last hour, {used} of them in namespace "
            f"{move.namespace}; {key} is {most}, and the last {left_free} are left to other namespaces"
        )
        return _hour(message, _free_at_s(begun, most - left_free, now_s))
    kind = "asked for by people" if move.requested else "planned"
    message = f"{plural(len(begun), 'move')} {kind} began within the last hour, {key} is {most}"
    return _hour(message, _free_at_s(begun, most, now_s))


def _left_free(move: MoveToBegin, past: PastMoves, most: int) -> int:
    """How many moves the namespace leaves to others: none while it has had less than its fair share of the hour.

    So no namespace can use up the hour of the others, and one that is alone loses next to nothing.
    """
    if most < _SHARED_FROM or past.requested_in(move.namespace) < past.fair_share(move.namespace, most):
        return 0
    return _twentieth(most)


def _left_over(move: MoveToBegin, past: PastMoves, most: int) -> bool:
    """True if what others began at last, beyond the limit, leaves the namespace what they would have left it within the limit.

    For one that has had less than its fair share.
    """
    if not move.requested or most < _SHARED_FROM:
        return False
    return past.below_fair_share(move.namespace, most) < _twentieth(most)


def _twentieth(most: int) -> int:
    return -(-most // _LEFT_FREE)


def _resting(move: MoveToBegin, past: PastMoves, limits: Limits) -> HeldBack | None:
    until_s = past.cooldown_until(move.workload_uid, limits.requested.workload_cooldown_s)
    if until_s is not None:
        message = "the workload of the pod was moved lately and rests until"
        key = "limits.requested.workloadCooldown"
        return HeldBack(SkipReason.COOLDOWN, f"{message} {format_seconds(until_s)} ({key})", until_s)
    until_s = past.backoff_until(move.pod_uid, requested=True)
    if until_s is not None:
        message = "an earlier move of the pod that people asked for failed; the next one begins at"
        return HeldBack(SkipReason.BACKOFF, f"{message} {format_seconds(until_s)}", until_s)
    return None


def _hour(message: str, until_s: float) -> HeldBack:
    text = f"{message}; the next one begins at {format_seconds(until_s)} at the earliest"
    return HeldBack(SkipReason.LIMIT_HOUR, text, until_s)


def _free_at_s(begun: list[float], most: int, now_s: float) -> float:
    """When fewer than ``most`` of at least so many times are within the last hour."""
    return max(now_s, begun[len(begun) - most] + HOUR_S)
