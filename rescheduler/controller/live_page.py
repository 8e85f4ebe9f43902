"""The live page: its files, and its state as JSON. Read-only, off unless it is configured (``server.page``).

The core thread hands over what it has seen (``publish``), which is a few references and no work that grows with pods.
The threads of requests make the JSON of it, once for each picture and at most once a second, however many ask. They
read nothing but what was handed over, none of which ever changes.
"""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from rescheduler.controller.cycle import Decision
from rescheduler.controller.server import HttpAnswer, Routes
from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.reports.cluster_status import (
    ClusterPicture,
    SeenObjects,
    Trends,
    blockers_of,
    cluster_status,
    limited,
)
from rescheduler.reports.health import with_health
from rescheduler.reports.html.files import LIVE_PAGE, LIVE_SCRIPT, PARTS, STYLE, asset
from rescheduler.reports.objective_words import headline
from rescheduler.reports.status_document import Blocker, ClusterStatus, ControllerStatus

STATE_PATH: Final = "/state.json"
EVERY_S: Final = 1.0
"""Shortest time between two documents."""
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_GATES: Final = {True: "InForce", False: "Missing", None: "Unknown"}
_FILES: Final = {
    "/": (LIVE_PAGE, "text/html"),
    "/style.css": (STYLE, "text/css"),
    "/parts.js": (PARTS, "text/javascript"),
    "/live.js": (LIVE_SCRIPT, "text/javascript"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Who leads and what is wrong with the configuration, as far as this process knows."""

    leads: bool = True
    controller: ControllerStatus = field(default_factory=ControllerStatus)
    configuration: str = ""
    """Why the newest one is not in force; "": it is."""


class LivePage:
    """Keeps the last picture, and answers requests for it."""

    def __init__(
        self,
        *,
        health: Callable[[], Health] = Health,
        source: str = "",
        dry_run: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``health``: called by the threads of requests. ``clock``: monotonic seconds."""
        self._health = health
        self._source = source
        self._dry_run = dry_run
        self._clock = clock
        self._trends = Trends()
        self._decision: Decision | None = None
        self._words = ""
        self._blockers: tuple[Blocker, ...] = ()
        self._picture: ClusterPicture | None = None
        self._seen_at_s = clock()
        self._lock = threading.Lock()
        self._made: tuple[ClusterPicture | None, Health] | None = None
        self._made_at_s = float("-inf")
        self._answer = HttpAnswer(body=b"")

    def publish(self, snapshot: Snapshot, decision: Decision | None, gated: Sequence[Pod] = ()) -> None:
        """What the core thread has seen and decided last, and the pods at the gate. Called by it only."""
        seen = SeenObjects.of(snapshot, gated)
        if decision is not None and decision is not self._decision:
            self._trends.add(decision.plan, snapshot.migrations.values(), snapshot.taken_at_s)
            self._words = headline(decision.plan)
            self._blockers = blockers_of(decision.blockers)
            self._decision = decision
        self._trends.saw(snapshot.migrations.values(), snapshot.taken_at_s)
        self.show(
            ClusterPicture(
                seen=seen,
                plan=decision.plan if decision is not None else None,
                blockers=self._blockers,
                badly_placed=decision.badly_placed if decision is not None else {},
                gate=_GATES[decision.gate_ready if decision is not None and not self._dry_run else None],
                samples=self._trends.samples,
                source=self._source,
                headline=self._words,
                dry_run=self._dry_run,
                warnings=decision.plan.metadata.warnings if decision is not None else (),
            )
        )

    def show(self, picture: ClusterPicture) -> None:
        """Show this from now on."""
        self._picture, self._seen_at_s = picture, self._clock()

    def state(self) -> HttpAnswer:
        """The document as it is now, or as it was less than a second ago; ``Age``: seconds since its objects were seen."""
        with self._lock:
            now_s = self._clock()
            wanted = (self._picture, self._health())
            fresh = self._made is not None and now_s - self._made_at_s < EVERY_S
            if not fresh and not self._is_made_of(wanted):
                self._answer = _json(_state(*wanted))
                self._made, self._made_at_s = wanted, now_s
            age = str(max(0, int(now_s - self._seen_at_s)))
            return replace(self._answer, headers={**self._answer.headers, "Age": age})

    def routes(self) -> Routes:
        """The paths of the page."""
        return {
            **{path: _file(name, kind) for path, (name, kind) in _FILES.items()},
            STATE_PATH: self.state,
        }

    def _is_made_of(self, wanted: tuple[ClusterPicture | None, Health]) -> bool:
        return self._made is not None and self._made[0] is wanted[0] and self._made[1] == wanted[1]


def _state(picture: ClusterPicture | None, health: Health) -> ClusterStatus:
    found = limited(cluster_status(picture)) if picture is not None else ClusterStatus()
    return with_health(
        msgspec.structs.replace(
            found, leads=health.leads, controller=health.controller, configuration=health.configuration
        )
    )


def _json(state: ClusterStatus) -> HttpAnswer:
    body = msgspec.json.encode(state)
    return _packed(body, "application/json")


def _file(name: str, kind: str) -> Callable[[], HttpAnswer]:
    answer = _packed(asset(name).encode(), f"{kind}; charset=utf-8")
    return lambda: answer


def _packed(body: bytes, content_type: str) -> HttpAnswer:
    packed = gzip.compress(body, compresslevel=5, mtime=0)
    # The checksum of the content at the end of the packed form names it well enough for a cache.
    return HttpAnswer(
        body=body,
        content_type=content_type,
        gzipped=packed,
        etag=f'"{packed[-8:].hex()}"',
        headers=HEADERS,
    )
