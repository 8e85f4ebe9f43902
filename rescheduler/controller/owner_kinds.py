"""Asks the API server once about every kind of owner that is not one of Kubernetes': has it a ``scale`` subresource?

A kind of which the answer is missing stays unknown, and is asked about again after a while: until then its pods do not
move. Used by one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import msgspec
import structlog

from rescheduler.kube.discovery import ServedKinds
from rescheduler.kube.errors import ApiError
from rescheduler.kube.transport import TransportError
from rescheduler.logs import Seldom
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.never_moves import FIXED_OWNERS
from rescheduler.model.records import OwnerRef
from rescheduler.model.replacement_rules import GroupKind, ReplacementRules
from rescheduler.replacements.controllers import BUILT_IN, group_kind

AGAIN_S: Final = 30.0
"""Wait before a kind is asked about again whose answer is missing."""

WATCHED: Final = frozenset(
    (RESOURCES[kind].group, kind.value)
    for kind in (Kind.REPLICA_SET, Kind.REPLICATION_CONTROLLER, Kind.STATEFUL_SET, Kind.JOB)
)
"""The controllers of Kubernetes that replace pods, all of which are read."""


class Discovery(Protocol):
    """Asks the API server; ``kube.discovery.served_kinds`` does."""

    def __call__(self, api_version: str, kind: str) -> ServedKinds:
        """The kinds of that group. Raises ApiError, TransportError."""
        ...


class OwnerKinds:
    """What is known of the kinds of owners so far."""

    def __init__(
        self,
        discovery: Discovery,
        clock: Callable[[], float] = time.monotonic,
        watched: frozenset[GroupKind] = WATCHED,
    ) -> None:
        """``watched``: kinds of Kubernetes' own controllers of which all objects are read."""
        self._discovery = discovery
        self._clock = clock
        self._seen: set[tuple[str, str]] = set()
        """apiVersion and kind of all owners so far."""
        self._open: dict[tuple[str, str], float] = {}
        """Those without an answer, and when to ask again."""
        self._known = ReplacementRules(watched=watched)
        self._rules: tuple[ReplacementRules, ReplacementRules, ReplacementRules] | None = None
        self._log = structlog.get_logger("rescheduler.owner_kinds")
        self._seldom = Seldom()

    def see(self, owners: Iterable[OwnerRef | None]) -> None:
        """Remember the kinds of these owners, to be asked about. Cheap for kinds that were seen before."""
        for owner in owners:
            if owner is None or (owner.api_version, owner.kind) in self._seen:
                continue
            self._seen.add((owner.api_version, owner.kind))
            if group_kind(owner) not in BUILT_IN and owner.kind not in FIXED_OWNERS:
                self._open[owner.api_version, owner.kind] = 0.0

    def ask(self) -> bool:
        """Ask about the kinds whose answer is missing; True if one was answered. Never fails."""
        now_s = self._clock()
        due = [kind for kind, at_s in self._open.items() if now_s >= at_s]
        return sum(self._ask(*kind) for kind in due) > 0

    def rules(self, configured: ReplacementRules) -> ReplacementRules:
        """What is configured, together with what the API server answered; the same object until something changes."""
        known = self._known
        if self._rules is None or self._rules[0] is not configured or self._rules[1] is not known:
            merged = msgspec.structs.replace(
                configured, scalable=known.scalable, not_scalable=known.not_scalable, watched=known.watched
            )
            self._rules = (configured, known, merged)
        return self._rules[2]

    def _ask(self, api_version: str, kind: str) -> bool:
        try:
            served = self._discovery(api_version, kind)
        except (ApiError, TransportError) as error:
            self._open[api_version, kind] = self._clock() + AGAIN_S
            say = (
                self._log.warning if self._seldom.due((api_version, kind), self._clock()) else self._log.debug
            )
            say(
                "It is not known whether a kind of owner has a scale subresource: its pods do not move until then",
                kind=kind,
                api_version=api_version,
                error=str(error),
            )
            return False
        del self._open[api_version, kind]
        key, known = (api_version.rpartition("/")[0], kind), self._known
        if kind in served.scalable:
            self._known = msgspec.structs.replace(known, scalable=known.scalable | {key})
        else:
            self._known = msgspec.structs.replace(known, not_scalable=known.not_scalable | {key})
        return True
