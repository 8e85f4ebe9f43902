"""What a placeholder stands for: the whole room, or the rest of one that was handed out in part (pure)."""

from __future__ import annotations

import msgspec

from rescheduler.model.resources import Resources
from rescheduler.model.selectors import NodeSelector


class Part(msgspec.Struct, frozen=True):
    """One placeholder of a Reservation.

    ``size``: what it holds; None: what the template asks for. ``waits``: created with a scheduling gate, to be
    nominated to a node whose room is not free yet. ``suffix``: tells it from the placeholder that it follows.
    ``volumes``: node affinity of the volumes that the template's claims are bound to.
    """

    size: Resources | None = None
    waits: bool = False
    suffix: str = ""
    volumes: tuple[NodeSelector, ...] = ()


WHOLE = Part()
