"""The value of the label ``rescheduler.dev/consolidation`` of a node: how far its consolidation has got."""

from __future__ import annotations

import enum


class EmptyingProgress(enum.StrEnum):
    """Written by the command alone."""

    EMPTYING = "Emptying"
    """The node is cordoned, and its pods are being moved away."""
    EMPTIED = "Emptied"
    """No pod that counts was left."""
