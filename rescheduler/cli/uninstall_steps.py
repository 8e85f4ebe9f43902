"""How something is taken away step by step: look what is still there, remove it, look again until nothing is found.

A step keeps nothing between two looks. So every step may be interrupted and repeated, and one whose work is done finds
nothing to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from rescheduler.kube.errors import ApiError, ConflictError, NotFoundError

POLL_S: Final = 0.5
_FIRST_POLL_S: Final = 0.05
"""Most objects are gone as soon as they are deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One thing that is still there. ``act`` None: it ends by itself, and is waited for."""

    what: str
    how: str
    """What is done about it, as a word after ``what``."""
    act: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalStep:
    """One kind of things to remove."""

    title: str
    find: Callable[[], Sequence[Removal]]
    """What is still there. Raises ApiError, TransportError."""
    limit_s: float = 60.0
    """What is there for longer is left over."""
    quiet_s: float = 0.0
    """Nothing must be found for so long: new ones may still come."""
    again: bool = False
    """It repeats an earlier step for what came meanwhile. Before anything is done it would find the same once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Takes steps one after the other. ``say`` gets one line for each thing."""

    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def show(self, step: RemovalStep) -> None:
        """Say what would be done."""
        if step.again:
            return
        self.say(step.title)
        for removal in step.find():
            self.say(f"  would: {removal.what}: {removal.how}")

    def take(self, step: RemovalStep, *, past_refusals: bool = False) -> tuple[str, ...]:
        """Remove everything of this step. Returns what is left over at its limit. Raises ApiError, TransportError.

        ``past_refusals``: what the API server refuses to change is left over, too, and does not keep all else.
        """
        self.say(step.title)
        ends_s, quiet_since_s = self.clock() + step.limit_s, None
        told: set[str] = set()
        refused: dict[str, str] = {}
        pause_s = _FIRST_POLL_S
        while True:
            found = [removal for removal in step.find() if removal.what not in refused]
            now_s = self.clock()
            if not found:
                if quiet_since_s is None:
                    quiet_since_s = now_s
                    if step.quiet_s:
                        self.say(f"None now. Waiting {step.quiet_s:g} s for what may still come")
                if now_s - quiet_since_s >= step.quiet_s:
                    return tuple(refused.values())
            else:
                quiet_since_s = None
                for removal in found:
                    try:
                        self._remove(removal, told)
                    except ApiError as error:
                        if not past_refusals:
                            raise
                        refused[removal.what] = f"{removal.what}: {error}"
                if now_s >= ends_s:
                    return (*refused.values(), *(one.what for one in found if one.what not in refused))
            self.sleep(pause_s)
            pause_s = min(2 * pause_s, POLL_S)

    def _remove(self, removal: Removal, told: set[str]) -> None:
        line = f"  {removal.what}: {removal.how}"
        if line not in told:
            told.add(line)
            self.say(line)
        if removal.act is not None:
            # Gone, or changed since it was seen: the next look finds out.
            with suppress(NotFoundError, ConflictError):
                removal.act()
