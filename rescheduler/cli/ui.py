"""``rescheduler ui``: the live page on this machine, for a live cluster or a dump, with the plan as its state."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rescheduler import logs
from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.errors import CommandError
from rescheduler.cli.live_controller import ReadConfiguration, gate_state, live_controller, load_configuration
from rescheduler.cli.output import emit, tell, warn
from rescheduler.cli.snapshot_input import need_from
from rescheduler.cli.status_gathering import picture_of
from rescheduler.controller.live_page import Health, LivePage
from rescheduler.controller.server import CannotListenError, Server, listening
from rescheduler.errors import ReschedulerError
from rescheduler.reports.cluster_status import ClusterPicture, Trends

_MOST_MOVES: Final = 1000
"""As a plan has."""
_LOOPBACK: Final = "127.0.0.1"
_HOSTS: Final = frozenset({_LOOPBACK, "localhost"})


def run(
    *,
    paths: tuple[str, ...],
    more_paths: tuple[str, ...],
    cluster: NamedCluster,
    now: str | None,
    port: int,
    every: float,
) -> None:
    """Serve the page of a live cluster or a dump on 127.0.0.1, until interrupted. Nothing is changed."""
    need_from(paths, more_paths)
    logs.configure("warning")
    source = _Source(cluster=cluster, where={"paths": paths, "more_paths": more_paths, "now": now})
    page = LivePage(health=lambda: source.health)
    try:
        with listening("the page", port=port, key="--port"):
            server = Server(port=port, routes=page.routes(), host=_LOOPBACK, hosts=_HOSTS)
    except CannotListenError as error:
        raise CommandError(str(error)) from error
    try:
        page.show(source.picture())
        server.start()
        emit(f"http://{_LOOPBACK}:{server.port}/\n")
        _serve(page, source.picture, None if paths else every)
    finally:
        server.stop()


def _serve(page: LivePage, picture: Callable[[], ClusterPicture], every_s: float | None) -> None:
    """Until interrupted, with a new picture each time; None: the first one stays."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):  # its ordinary ends from now on
        signal.signal(number, lambda *_: stop.set())
    tell("Interrupt (Ctrl-C) to end it.")
    while not stop.wait(every_s):
        try:
            page.show(picture())
        except ReschedulerError as error:
            warn(f"the page keeps the former state: {error}")
    tell("The page is not served any more.")


@dataclass(slots=True, kw_only=True)
class _Source:
    """Reads and plans what the page shows."""

    cluster: NamedCluster
    where: Mapping[str, Any]
    """The dump, if it is one."""
    health: Health = field(default_factory=Health)
    _gate: str = "Unknown"
    _trends: Trends = field(default_factory=Trends)

    def picture(self) -> ClusterPicture:
        """The cluster now, or the dump, with its plan."""
        read, hindered = (
            (ReadConfiguration(load_configuration(self.cluster.config_file)), ())
            if self.where["paths"]
            else self._live()
        )
        inputs = read.configuration.inputs(unlimited=True, max_moves=_MOST_MOVES)
        found = picture_of(self.cluster, read.configuration, inputs, whole=True, **self.where)
        if found.plan is not None:
            self._trends.add(found.plan, found.seen.migrations.values(), found.seen.at_s)
        return replace(
            found,
            samples=self._trends.samples,
            source="; ".join(filter(None, (found.source, read.source))),
            gate=self._gate,
            warnings=(*hindered, *found.warnings),
        )

    def _live(self) -> tuple[ReadConfiguration, tuple[str, ...]]:
        """The configuration of the controller, and what keeps it from doing anything."""
        controller = live_controller(self.cluster)
        self._gate = gate_state(controller.api, controller.namespace)
        self.health = Health(controller=controller.leader, configuration=controller.read.refused)
        return controller.read, controller.warnings()
