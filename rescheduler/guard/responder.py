"""The responder ``rescheduler.dev/room-first`` of EvictionRequests (KEP-4563): what it reports about an Eviction. Pure.

The verdict is that of the guard (``decision``): an eviction that the guard would keep waiting is in progress, and one that it would let
through is given up with the reason, so that the next responder goes on. Promises: a report never completes an Eviction while the
move is disturbing its pod; it is written once a minute, and for news at most every 20 s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rescheduler.guard.decision import (
    WITHOUT_ROOM,
    AskAgain,
    Known,
    Why,
    asked_since_s,
    decide,
    waits_for_budget,
)
from rescheduler.guard.settings import GuardSettings
from rescheduler.model.eviction_request import Progress, RequestedEviction, ResponderState
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.names import REQUESTER_OF_MOVES
from rescheduler.model.records import Namespace, Pod
from rescheduler.visible import visible_line

BY_REQUEST: Final = "EvictionRequest of "
"""Begins the name of who asked; no user of the API server has a name with a space after such a word."""
HEARTBEAT_S: Final = 60.0
NEWS_S: Final = 20.0
"""More frequent heartbeats are not wanted by the API."""
SEEN_S: Final = 5.0
"""So long the caches may not show a pod that exists."""
_REASONS: Final[Mapping[Why, str]] = {
    Why.NOT_GUARDED: "its namespace is not guarded (guard.namespaceSelector)",
    Why.NAMESPACE_TERMINATING: "its namespace is being deleted",
    Why.UNKNOWN_POD: "the pod is gone",
    Why.ENDING: "the pod ends, or does not run yet",
    Why.BUDGET: "a PodDisruptionBudget can never allow its eviction",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTarget:
    """What the caches show of an Eviction's target."""

    namespace: Namespace | None
    """None: it is not guarded."""
    pod: Pod | None
    stays: str = ""
    """Why the pod is never moved; "": it may be."""
    move: PodMigration | None = None
    """The pod's guarded move."""
    problem: str = ""
    """Why no move could be made; "": nothing is known against it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What our responder says about one Eviction."""

    message: str
    completed: bool = False
    """It has landed, or we give up."""
    without_room: bool = False
    """We give up because no room was found, or not in time: the replacement may stay pending."""
    expected_at_s: float = 0.0
    """When it should be done; 0.0: that is not known."""


def requester(eviction: RequestedEviction) -> str:
    """Who asks, as a PodMigration names him."""
    return BY_REQUEST + visible_line(eviction.requesters[0] if eviction.requesters else "somebody")


def report(
    eviction: RequestedEviction, seen: SeenTarget, settings: GuardSettings, now_s: float
) -> Report | None:
    """What is to be said; None: nothing, because it is not our turn, or too early to tell."""
    started_s, move = eviction.progress.started_at_s, seen.move
    if eviction.state != ResponderState.ACTIVE or eviction.progress.completed_at_s:
        return None
    if REQUESTER_OF_MOVES in eviction.requesters:
        return Report(message="the move that asks for its eviction is under way")
    if not settings.enabled:
        return Report(message="left as it is: guard.enabled is false", completed=True)
    if move is not None and move.status.phase is MigrationPhase.SUCCEEDED:
        return Report(
            message=f"moved to node/{move.status.node_name}, where its room was reserved", completed=True
        )
    ends_s = asked_since_s(started_s or now_s, move, settings.limit_s) + settings.limit_s
    if move is not None and not move.finished and move.status.eviction_requested_at_s:
        return Report(
            message=f"it is being evicted; room for its replacement is held on {move.status.node_name}"
        )
    answer = decide(_known(seen, started_s or now_s, now_s), settings)
    if isinstance(answer, AskAgain):
        return Report(message=answer.message.removesuffix("; ask again"), expected_at_s=ends_s)
    if answer.why is Why.UNKNOWN_POD and now_s - started_s < SEEN_S:
        return None
    return Report(
        message=_given_up(answer.why, answer.message, seen.stays),
        completed=True,
        without_room=answer.why in WITHOUT_ROOM,
    )


def due(said: Progress, new: Report, now_s: float) -> bool:
    """True if the report is to be written now."""
    silent_s = now_s - said.heartbeat_at_s
    return new.completed or silent_s >= HEARTBEAT_S or (new.message != said.message and silent_s >= NEWS_S)


def waits(eviction: RequestedEviction, new: Report | None) -> bool:
    """True if somebody still asks for a move; what a move of our own asks for needs no other one."""
    return new is not None and not new.completed and REQUESTER_OF_MOVES not in eviction.requesters


def _known(seen: SeenTarget, started_s: float, now_s: float) -> Known:
    return Known(
        user=BY_REQUEST,
        own_user="",
        namespace=seen.namespace,
        pod=seen.pod,
        stays=seen.stays,
        move=seen.move,
        first_asked_s=started_s,
        problem=seen.problem,
        used_up_s=now_s if seen.move is not None and waits_for_budget(seen.move) else 0.0,
        now_s=now_s,
    )


def _given_up(why: Why, message: str, stays: str) -> str:
    if why is Why.NOT_MOVED and stays:
        return f"left to the next responder: {stays}"
    return f"left to the next responder: {message or _REASONS.get(why, why.value)}"
