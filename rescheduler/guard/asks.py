"""Who has asked for which eviction, and when: the bounded memory of one replica. Any thread may use it.

It holds what the answers need until the PodMigration exists, and tells the filer for which pods somebody still asks. What it
forgets, by its bound or by a restart, is asked again within seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rescheduler.guard.decision import SILENCE_S
from rescheduler.model.own_objects import LONGEST_USER
from rescheduler.model.records import ObjectKey

MOST_ASKS: Final = 10_000


@dataclass(slots=True)
class WaitingEviction:
    """One eviction that waits."""

    pod: ObjectKey
    uid: str
    user: str
    """Who asked first."""
    grace_s: int | None
    """The grace period that he asked for; None: the pod's own."""
    first_s: float
    last_s: float
    filed_s: float = 0.0
    """When its PodMigration was last created, extended or removed by this replica; the caches may not show it yet."""
    problem: str = ""
    """Why the API server refused that; "": it did not."""


class Asks:
    """The evictions that wait, by the uid of the pod."""

    def __init__(self, most: int = MOST_ASKS) -> None:
        self._most = most
        self._asks: dict[str, WaitingEviction] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._asks)

    def find(self, uid: str, now_s: float) -> WaitingEviction | None:
        """The request that goes on; None if nobody has asked for a while."""
        ask = self._asks.get(uid)
        return ask if ask is not None and _goes_on(ask, now_s) else None

    def hear(self, pod: ObjectKey, uid: str, user: str, now_s: float, *, grace_s: int | None = None) -> bool:
        """Somebody asks. False: there is no place for one more."""
        with self._lock:
            ask = self.find(uid, now_s)
            if ask is not None:
                ask.last_s = now_s
                return True
            if uid not in self._asks and len(self._asks) >= self._most:
                return False
            self._asks[uid] = WaitingEviction(
                pod, uid, user[:LONGEST_USER] or "unknown", grace_s, now_s, now_s
            )
            return True

    def full(self, uid: str) -> bool:
        """True if this pod would find no place."""
        return len(self._asks) >= self._most and uid not in self._asks

    def current(self, wanted: Callable[[WaitingEviction], bool], now_s: float) -> list[WaitingEviction]:
        """Those for which somebody still asks, oldest first; all others, and those that are not ``wanted``, are forgotten."""
        with self._lock:
            found = list(self._asks.values())
        kept = [ask for ask in found if _goes_on(ask, now_s) and wanted(ask)]
        gone = {id(ask) for ask in found} - {id(ask) for ask in kept}
        with self._lock:
            for uid in [uid for uid, ask in self._asks.items() if id(ask) in gone]:
                # Somebody may have asked again meanwhile.
                if not _goes_on(self._asks[uid], now_s) or not wanted(self._asks[uid]):
                    del self._asks[uid]
        return kept


def _goes_on(ask: WaitingEviction, now_s: float) -> bool:
    """Asked for lately. Where the API server's clock was set back by more than that, the request begins again."""
    return abs(now_s - ask.last_s) < SILENCE_S
