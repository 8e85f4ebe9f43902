"""Counted things as text, for every message with a number in it: "1 pod", "2,000 pods". Pure.

Messages with "1 of 3 pods" need nothing of this: what is counted there is the whole.
"""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """'1 pod', '2,000 pods'."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def verb(count: int, one: str, many: str) -> str:
    """The form of a verb, or of any other word, that goes with the count: 'stays' or 'stay'."""
    return one if count == 1 else many
