"""Who has asked for which eviction, and when: the bounded memory of one replica. Any thread may use it.

It holds what the answers need until the PodMigration exists, and tells the filer for which pods somebody still asks. What it
forgets, by its bound or by a restart, is asked again within seconds.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from rescheduler.guard.decision import SILENCE_S
from rescheduler.model.own_objects import LONGEST_USER
from rescheduler.model.records import ObjectKey, Pod

MOST_ASKS: Final = 10_000
_A_CORES_MEMORY: Final = 4 * 2**30
UNCONFIRMED_S: Final = 30.0
"""So long a caller who counts may take for a round."""
REMEMBERED_S: Final = 3_600.0
"""So long it counts how long somebody has waited before he gave up."""


class WaitingEviction(msgspec.Struct, kw_only=True, eq=False, gc=False):
    """One eviction that waits.

    It refers to nothing that could refer back: the garbage collector, which stops every answer, need not look at thousands of them.
    """

    pod: ObjectKey
    uid: str
    user: str
    """Who asked first."""
    grace_s: int | None
    """The grace period that he asked for; None: the pod's own."""
    node: str
    """Where the pod stands."""
    size: float
    """How much it requests, in cores, where 4 GiB of memory count as one."""
    first_s: float
    last_s: float
    came_s: float
    """When he came, whatever he had waited before."""
    caller_s: float = 0.0
    """When somebody else than an EvictionRequest, which says itself when it is withdrawn, asked last."""
    filed_s: float = 0.0
    """When its PodMigration was last created, extended or removed by this replica; the caches may not show it yet."""
    problem: str = ""
    """Why the API server refused that; "": it did not."""
    used_up_s: float = 0.0
    """When a budget was last seen to be used up while room was held."""
    held: bool = False
    """Nothing is made for it: another pod of its caller comes first."""


class Asks:
    """The evictions that wait, by the uid of the pod.

    Who comes back within REMEMBERED_S after he has given up has already waited for what he waited then: a tool that is patient for
    less than the limit is let through in the end, too. Where there is no place left, the namespace with the most leaves one to others.
    """

    def __init__(self, most: int = MOST_ASKS) -> None:
        self._most = most
        self._asks: dict[str, WaitingEviction] = {}
        self._of_namespace: Counter[str] = Counter()
        self._named: dict[tuple[ObjectKey, str], WaitingEviction] = {}
        """The last that each caller asked for by the name of a pod."""
        self._unconfirmed: dict[str, tuple[ObjectKey, str, float]] = {}
        """Of callers who count: the last pod that they asked for in its turn, its uid, and when."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._asks)

    def find(self, uid: str, now_s: float) -> WaitingEviction | None:
        """The request that goes on; None if nobody has asked for a while."""
        ask = self._asks.get(uid)
        return ask if ask is not None and _goes_on(ask, now_s) else None

    def since_s(self, pod: Pod, now_s: float) -> float | None:
        """When the request began, or would begin now; None: there is no place for it."""
        ask = self._asks.get(pod.uid)
        if ask is None:
            return now_s if len(self._asks) < self._most or self._crowding(pod.namespace) else None
        if ask.held:
            return now_s
        return ask.first_s if _goes_on(ask, now_s) else now_s - _waited_s(ask, now_s)

    def hear(
        self,
        pod: Pod,
        user: str,
        now_s: float,
        *,
        grace_s: int | None = None,
        withdraws: bool = False,
        one_by_one: bool = False,
    ) -> bool:
        """Somebody asks. False: there is no place for one more.

        ``withdraws``: he says when he asks no more. ``one_by_one``: his second pod waits until he knows what became of the first.
        """
        user = _caller(user)
        with self._lock:
            ask = self.find(pod.uid, now_s)
            joins = ask is not None and not ask.held
            if ask is None:
                first_s = self.since_s(pod, now_s)
                if first_s is None:
                    return False
                if pod.uid not in self._asks:
                    self._take_a_place(pod.namespace)
                ask = WaitingEviction(
                    pod=pod.key,
                    uid=pod.uid,
                    user=user,
                    grace_s=grace_s,
                    node=pod.node,
                    size=_size(pod),
                    first_s=first_s,
                    last_s=now_s,
                    came_s=now_s,
                )
                self._asks[pod.uid] = ask
            ask.last_s = now_s
            held = one_by_one and bool(self.unconfirmed(user, pod.uid, now_s))
            if not joins:  # whoever waits already waits on: nobody begins his time anew
                if held or ask.held:
                    ask.first_s = ask.came_s = now_s  # it begins to wait when it has its turn
                ask.held = held
            if one_by_one and not held and (user in self._unconfirmed or len(self._unconfirmed) < self._most):
                self._unconfirmed[user] = (pod.key, pod.uid, now_s)
            ask.caller_s = ask.caller_s if withdraws else now_s
            if len(self._named) < 2 * self._most:
                self._named[pod.key, user] = ask
            return True

    def unconfirmed(self, user: str, uid: str, now_s: float) -> str:
        """Another pod than this one that a caller who counts has asked for, and not yet heard to be evicted; "": none."""
        pod, other, asked_s = self._unconfirmed.get(_caller(user), (None, uid, 0.0))
        return str(pod) if other != uid and abs(now_s - asked_s) < UNCONFIRMED_S else ""

    def confirm(self, user: str, uid: str) -> None:
        """The eviction of that pod is let through: its caller counts it."""
        with self._lock:
            if self._unconfirmed.get(_caller(user), (None, "", 0.0))[1] == uid:
                del self._unconfirmed[_caller(user)]

    def withdraw(self, uid: str, now_s: float) -> bool:
        """The EvictionRequests of a pod are withdrawn. False: somebody else still asks."""
        with self._lock:
            ask = self._asks.get(uid)
            if ask is not None:
                ask.last_s = ask.caller_s
            return ask is None or not _goes_on(ask, now_s)

    def took_the_place(self, pod: Pod, user: str, now_s: float) -> bool:
        """True if this caller waits for the end of another pod of that name, which has gone since: this one is its successor."""
        ask = self._named.get((pod.key, _caller(user)))
        return ask is not None and ask.uid != pod.uid and _goes_on(ask, now_s)

    def told(self, pod: ObjectKey, user: str) -> None:
        """The caller has heard that the pod is gone; what he asks for next he means."""
        with self._lock:
            self._named.pop((pod, _caller(user)), None)

    def current(self, wanted: Callable[[WaitingEviction], bool], now_s: float) -> list[WaitingEviction]:
        """Those for which somebody still asks, oldest first. Forgotten are those not ``wanted``, and those of long ago."""
        with self._lock:
            found = list(self._asks.values())
            for key in [key for key, ask in self._named.items() if not _goes_on(ask, now_s)]:
                del self._named[key]
            for user in [u for u, (_, _, s) in self._unconfirmed.items() if abs(now_s - s) >= UNCONFIRMED_S]:
                del self._unconfirmed[user]
        crowded = len(found) > self._most // 2
        kept: list[WaitingEviction] = []
        for ask in found:
            going = _goes_on(ask, now_s)
            if going and wanted(ask):
                kept.append(ask)
            elif crowded or going or not _waited_s(ask, now_s):
                self._forget(ask, now_s)
        return kept

    def waiting(self, now_s: float) -> int:
        """For how many somebody still asks."""
        return sum(_goes_on(ask, now_s) for ask in list(self._asks.values()))

    def _crowding(self, namespace: str) -> str:
        """The namespace with the most of them, if it still has as many as this one when it has left it a place; "": none."""
        most, number = max(list(self._of_namespace.items()), key=lambda one: one[1], default=("", 0))
        return most if number > self._of_namespace[namespace] + 1 else ""

    def _take_a_place(self, namespace: str) -> None:
        if len(self._asks) >= self._most:
            crowding = self._crowding(namespace)
            self._drop(next(ask for ask in reversed(self._asks.values()) if ask.pod.namespace == crowding))
        self._of_namespace[namespace] += 1

    def _drop(self, ask: WaitingEviction) -> None:
        del self._asks[ask.uid]
        self._of_namespace[ask.pod.namespace] -= 1
        if not self._of_namespace[ask.pod.namespace]:
            del self._of_namespace[ask.pod.namespace]

    def _forget(self, ask: WaitingEviction, now_s: float) -> None:
        going = _goes_on(ask, now_s)
        with self._lock:
            # Somebody may have asked again meanwhile.
            if self._asks.get(ask.uid) is ask and _goes_on(ask, now_s) == going:
                self._drop(ask)


def _caller(user: str) -> str:
    """As he is remembered."""
    return user[:LONGEST_USER] or "unknown"


def _goes_on(ask: WaitingEviction, now_s: float) -> bool:
    """Asked for lately. Where the API server's clock was set back by more than that, the request begins again."""
    return abs(now_s - ask.last_s) < SILENCE_S


def _waited_s(ask: WaitingEviction, now_s: float) -> float:
    """For how long a caller who has given up has waited; 0.0 if that was long ago."""
    return ask.last_s - ask.first_s if 0.0 <= now_s - ask.last_s < REMEMBERED_S else 0.0


def _size(pod: Pod) -> float:
    return pod.held.cpu_milli / 1000 + pod.held.memory_bytes / _A_CORES_MEMORY
