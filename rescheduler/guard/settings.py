"""Section ``guard``: whose evictions wait, for how long, and what happens where there is no room. Types only."""

from __future__ import annotations

import enum
from typing import Annotated, Final

import msgspec

from rescheduler.model.names import LABEL_GUARD
from rescheduler.model.selectors import LabelSelector, Operator, Requirement
from rescheduler.model.written import SECONDS, DocumentSection
from rescheduler.policies.wire import WrittenSelector

ENABLED: Final = "enabled"


class WhenNoRoom(enum.StrEnum):
    """What becomes of an eviction for whose replacement no room was found, or not in time."""

    LET_THROUGH = "LetThrough"
    REFUSE = "Refuse"


class GuardSettings(DocumentSection, frozen=True, kw_only=True):
    """What the guard does in clusters where its manifests are installed."""

    enabled: bool = True
    """False: it is not served, whatever is installed."""
    limit_s: Annotated[float, SECONDS, msgspec.Meta(ge=10.0, le=3600.0)] = 300.0
    """How long an eviction is kept waiting."""
    when_no_room: WhenNoRoom = WhenNoRoom.LET_THROUGH
    follow_cordons: bool = False
    """Pods of nodes that are cordoned, or that a node autoscaler has tainted, are moved before anybody evicts them."""
    namespace_selector: WrittenSelector = LabelSelector((Requirement(LABEL_GUARD, Operator.IN, (ENABLED,)),))
    """Namespaces whose pods are guarded."""
