"""What the controller has noted on a node that it keeps empty: the annotation ``rescheduler.dev/kept-empty``. Pure.

The note is written in the same request as the cordon or the taint, so a node never has one of ours without it; whoever reads
it, after a restart, as a new leader or at the uninstall, knows what is to be given back. It is text for people, too:
``Cordoned until 2026-01-31T23:59:59Z``.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from rescheduler.model.times import TimestampError, format_seconds, parse_timestamp

_UNTIL: Final = " until "


class Hold(enum.StrEnum):
    """What stands on the node."""

    CORDONED = "Cordoned"
    """The controller has cordoned it."""
    TAINTED = "Tainted"
    """The controller has set its taint, ``names.TAINT_KEPT_EMPTY``."""
    GIVEN_BACK = "GivenBack"
    """Nothing any more: it was given back before its time, and is left alone until then."""


class KeptEmpty(msgspec.Struct, frozen=True, gc=False):
    """The note of one node. ``until_s``: epoch seconds; then nothing is left of it."""

    hold: Hold
    until_s: float

    @property
    def text(self) -> str:
        """The value of the annotation."""
        return f"{self.hold}{_UNTIL}{format_seconds(self.until_s)}"


def parse_kept_empty(text: str | None) -> KeptEmpty | None:
    """The note; None: there is none. What cannot be read has ended, so that the node is given back."""
    if text is None:
        return None
    hold, _, until = text.partition(_UNTIL)
    try:
        return KeptEmpty(Hold(hold), parse_timestamp(until))
    except (ValueError, TimestampError):
        return KeptEmpty(Hold.CORDONED, 0.0)
