"""Leader election by a Lease: threads and calls around the rules of ``kube.election``.

Promises: ``still_leader`` is true on at most one process at any instant, judged by the monotonic clock
alone, even while a request hangs; the loss of leadership is announced exactly once, at its deadline at the
latest; any failure of a call counts as a renewal that did not happen. After a loss this object is done: the
process stops acting, waits for its calls in flight and exits.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import structlog

from rescheduler.kube.client import KubeApi
from rescheduler.kube.election import Election, Lease, LeaseAction, LeaseSpec, LeaseTiming, parse_lease
from rescheduler.kube.errors import NotFoundError
from rescheduler.kube.retry import NO_RETRY
from rescheduler.kube.transport import Transport


def suspend_aware_clock() -> float:
    """Monotonic seconds that go on while the machine sleeps, where the system has such a clock (Linux).

    With a clock that stops, a machine that wakes up would count a Lease as held that another process took meanwhile.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


_JITTER: Final = 0.2
_LONGEST_TRY: Final = 1.5
"""A try may take so many retry periods: a hung request must leave time for others before the deadline."""


class Elector:
    """Campaigns for one Lease from ``start`` until ``stop``. ``on_lost`` gets the reason, in words.

    ``identity`` must be unique to this process (a pod's name and something random): the process
    whose identity is in the Lease is the holder.

    ``clock``: monotonic seconds; ``wall``: seconds since the epoch; ``chance``: uniform in 0..1.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        namespace: str,
        name: str,
        identity: str,
        on_lost: Callable[[str], None],
        timing: LeaseTiming | None = None,
        clock: Callable[[], float] = suspend_aware_clock,
        wall: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
        annotations: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """``annotations``: of the Lease, as of each write; called on the elector's thread."""
        self._transport = transport
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{name}"
        self._name, self._namespace = name, namespace
        self._on_lost, self._annotations = on_lost, annotations
        self._timing = timing or LeaseTiming()
        self._clock, self._wall, self._chance = clock, wall, chance
        self._election = Election(identity, self._timing)
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._holder = ""
        self._log = structlog.get_logger("rescheduler.elector")
        self._threads = [
            threading.Thread(target=self._campaign, name="elector", daemon=True),
            threading.Thread(target=self._guard, name="elector-guard", daemon=True),
        ]

    def start(self) -> None:
        """Begin to campaign in the background."""
        for thread in self._threads:
            thread.start()

    def still_leader(self, margin_s: float = 0.0) -> bool:
        """True if we lead and will for ``margin_s`` more, whatever happens: asked right before a call that cannot be taken back."""
        with self._changed:
            return not self._ended.is_set() and self._election.leads(self._clock(), margin_s)

    def may_act(self, margin_s: float = 0.0) -> bool:
        """The same, and what the former leader wrote last is known by now."""
        with self._changed:
            return not self._ended.is_set() and self._election.acts(self._clock(), margin_s)

    @property
    def holder(self) -> str:
        """The identity that was last seen in the Lease; empty if there is none or it was not read yet."""
        return self._holder

    @property
    def rival(self) -> str:
        """The identity of another process that was seen to renew the Lease; empty: none was."""
        with self._changed:
            return self._election.rival

    def stop(self, *, release: bool = True) -> None:
        """Stop campaigning. With ``release`` a Lease that we hold is handed back, so that another need not wait.

        Call it after the last action of this leader has ended. Never raises.
        """
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(self._timing.retry_s * (_LONGEST_TRY + 1))
        holds = self.still_leader()
        self._ended.set()
        if release and holds:
            with contextlib.suppress(Exception):  # the Lease then simply expires
                self._write(self._election.released(self._wall()), self._timing.retry_s)

    def _campaign(self) -> None:
        while not self._stopping.is_set() and not self._ended.is_set():
            self.attempt()
            self._stopping.wait(self.pause_s())

    def pause_s(self) -> float:
        """Seconds until the next attempt: jittered, so that candidates do not ask together."""
        return self._timing.retry_s * (1 + _JITTER * self._chance())

    def attempt(self) -> None:
        """One look and, if it is ours to take or keep, one write. Never raises.

        For callers that drive the election themselves, in virtual time; ``start`` does it on threads.
        """
        try:
            action = self._look()
            if action is not LeaseAction.WAIT:
                self._take(action)
        except Exception as error:  # noqa: BLE001 - whatever fails, the Lease was not renewed
            self._log.warning("The Lease was not renewed", lease=self._path, error=str(error))

    def _look(self) -> LeaseAction:
        lease = None
        with contextlib.suppress(NotFoundError):
            lease = parse_lease(self._api(self._patience_s()).get(self._path))
        with self._changed:
            led = self._election.held_until_s is not None
            action = self._election.look(lease, self._clock())
        self._holder = (lease.spec.holder_identity or "") if lease else ""
        if led and action is not LeaseAction.RENEW:
            self._lose(
                f"the Lease was taken by {self._holder}"
                if self._holder
                else "the Lease was released or deleted"
            )
            return LeaseAction.WAIT
        return action

    def _take(self, action: LeaseAction) -> None:
        sent_at_s = self._clock()
        lease = self._write(self._election.desired(action, self._wall()), self._patience_s())
        with self._changed:
            if self._ended.is_set():
                return
            first = self._election.held_until_s is None
            self._election.written(lease, sent_at_s)
            self._changed.notify_all()
        self._holder = self._election.identity
        if first:
            self._log.info("Elected", lease=self._path, identity=self._holder)

    def _write(self, spec: LeaseSpec, timeout_s: float) -> Lease:
        observed = self._election.observed
        body = dict(observed.raw) if observed else {}
        body.update(apiVersion="coordination.k8s.io/v1", kind="Lease")
        metadata = body.get("metadata") or {}
        annotations = {**(metadata.get("annotations") or {}), **self._annotations()}
        body["metadata"] = {**metadata, "name": self._name, "namespace": self._namespace}
        if annotations:
            body["metadata"]["annotations"] = annotations
        body["spec"] = {**(body.get("spec") or {}), **msgspec.to_builtins(spec)}
        api = self._api(timeout_s)
        return parse_lease(api.replace(self._path, body) if observed else api.create(self._collection, body))

    def _api(self, timeout_s: float) -> KubeApi:
        """Each call is sent once: a try that fails is a renewal that did not happen."""
        return KubeApi(self._transport, NO_RETRY, timeout_s=timeout_s)

    def _patience_s(self) -> float:
        """Time limit of a request: never beyond the renew deadline."""
        with self._changed:
            until_s = self._election.held_until_s
        longest_s = self._timing.retry_s * _LONGEST_TRY
        return longest_s if until_s is None else max(0.1, min(longest_s, until_s - self._clock()))

    def expire(self) -> None:
        """Announce the loss if the renew deadline has passed; the guard's thread does it by itself."""
        with self._changed:
            until_s = self._election.held_until_s
            passed = until_s is not None and self._clock() >= until_s
        if passed:
            self._lose("the Lease was not renewed in time")

    def _guard(self) -> None:
        """Announces the loss at the deadline even if the campaigning thread hangs in a request."""
        with self._changed:
            while not self._stopping.is_set() and not self._ended.is_set():
                until_s = self._election.held_until_s
                if until_s is None:
                    self._changed.wait(self._timing.retry_s)
                elif (left_s := until_s - self._clock()) > 0:
                    self._changed.wait(left_s)
                else:
                    break
            else:
                return
        self._lose("the Lease was not renewed in time")

    def _lose(self, reason: str) -> None:
        with self._changed:
            if self._ended.is_set():
                return
            self._ended.set()
            self._election.lose()
            self._changed.notify_all()
        self._on_lost(reason)
