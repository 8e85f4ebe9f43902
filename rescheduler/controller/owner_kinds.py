"""Asks the API server once about every kind of owner that is not one of Kubernetes': has it a ``scale`` subresource?

A kind of which the answer is missing stays unknown, and is asked about again after a while: until then its pods do not
move. Used by one thread.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

import msgspec
import structlog

from rescheduler.controller.call_pool import CallPool, InlinePool
from rescheduler.controller.one_call import OneCall
from rescheduler.kube.discovery import ServedKinds
from rescheduler.logs import Seldom
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.never_moves import FIXED_OWNERS
from rescheduler.model.records import OwnerRef
from rescheduler.model.replacement_rules import GroupKind, ReplacementRules
from rescheduler.replacements.controllers import BUILT_IN, group_kind

ASKED: Final = "whether a kind of owner has a scale subresource"
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
        pool: CallPool | None = None,
    ) -> None:
        """``watched``: kinds of Kubernetes' own controllers of which all objects are read."""
        self._pool = pool or InlinePool()
        self._discovery = discovery
        self._clock = clock
        self._seen: set[tuple[str, str]] = set()
        """apiVersion and kind of all owners so far."""
        self._open: dict[tuple[str, str], float] = {}
        """Those without an answer, and when to ask again; infinity while they are being asked about."""
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
        """Ask about the kinds whose answer is missing; True if one was answered at once. Never fails."""
        now_s, before = self._clock(), self._known
        for kind in [kind for kind, at_s in self._open.items() if now_s >= at_s]:
            self._open[kind] = math.inf
            ask, take = partial(self._discovery, *kind), partial(self._answered, kind)
            self._pool.begin(OneCall(ASKED, ask, take, partial(self._failed, kind)), now_s)
        return self._known is not before

    def asks_about(self, owner: OwnerRef | None) -> bool:
        """True while the answer about this kind is under way: its pods are not judged before it is there, or has failed."""
        return owner is not None and self._open.get((owner.api_version, owner.kind)) == math.inf

    @property
    def awaited(self) -> bool:
        """True while an answer about any kind is under way."""
        return math.inf in self._open.values()

    def rules(self, configured: ReplacementRules) -> ReplacementRules:
        """What is configured, together with what the API server answered; the same object until something changes."""
        known = self._known
        if self._rules is None or self._rules[0] is not configured or self._rules[1] is not known:
            merged = msgspec.structs.replace(
                configured, scalable=known.scalable, not_scalable=known.not_scalable, watched=known.watched
            )
            self._rules = (configured, known, merged)
        return self._rules[2]

    def _failed(self, asked: tuple[str, str], error: Exception, _now_s: float) -> None:
        api_version, kind = asked
        self._open[asked] = self._clock() + AGAIN_S
        say = self._log.warning if self._seldom.due(asked, self._clock()) else self._log.debug
        say(
            "It is not known whether a kind of owner has a scale subresource: its pods do not move until then",
            kind=kind,
            api_version=api_version,
            error=str(error),
        )

    def _answered(self, asked: tuple[str, str], served: ServedKinds, _now_s: float) -> None:
        api_version, kind = asked
        del self._open[asked]
        key, known = (api_version.rpartition("/")[0], kind), self._known
        if kind in served.scalable:
            self._known = msgspec.structs.replace(known, scalable=known.scalable | {key})
        else:
            self._known = msgspec.structs.replace(known, not_scalable=known.not_scalable | {key})
