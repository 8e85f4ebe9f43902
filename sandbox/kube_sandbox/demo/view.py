"""The output of the demo while it runs: live on a terminal, or one line for each step."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kube_sandbox.demo.report import DemoFigures, in_order
from rescheduler.controller.reading import read_cluster
from rescheduler.kube.client import KubeApi
from rescheduler.kube.transport import Transport
from rescheduler.model.counted import verb
from rescheduler.model.decode import Decoder
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.records import ObjectKey
from rescheduler.model.snapshot import Snapshot
from rescheduler.reports.table import bar

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

_SHOWN = 12
_STYLES = {MigrationPhase.SUCCEEDED: "green", MigrationPhase.FAILED: "red"}


def read_snapshot(transport: Transport, now_s: float) -> Snapshot:
    """Read the whole cluster once."""
    return read_cluster(KubeApi(transport), Decoder(), lambda *_: None, now_s=now_s).state.snapshot(now_s)


class PlainView:
    """One line for each step of each move."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._seen: dict[ObjectKey, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: every line is printed at once."""

    def show(self, snapshot: Snapshot, facts: DemoFigures) -> None:
        """Print the steps since the last call."""
        for migration in in_order(snapshot):
            words = f"{migration.status.phase.value:<12} {migration.status.message or migration.reason}"
            if self._seen.get(migration.key) != words:
                self._seen[migration.key] = words
                pod = f"{migration.namespace}/{migration.pod_name}"
                self._write(
                    f"  {facts.violations:>2} {verb(facts.violations, 'violation ', 'violations')}  {pod:<32}  {words}"
                )


class LiveView:
    """Nodes with their load, and the moves, redrawn in place."""

    def __init__(self, before: DemoFigures) -> None:
        self._before = before
        self._live: Live | None = None

    def __enter__(self) -> Self:
        from rich.live import Live  # noqa: PLC0415 - only on a terminal

        self._live = Live(refresh_per_second=8, transient=True)
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, snapshot: Snapshot, facts: DemoFigures) -> None:
        """Draw the state."""
        if self._live is not None:
            self._live.update(_picture(snapshot, self._before, facts))


DemoView = PlainView | LiveView
"""Shows the changing state of the cluster. A context manager."""


def _picture(snapshot: Snapshot, before: DemoFigures, facts: DemoFigures) -> Group:
    from rich.console import Group  # noqa: PLC0415 - only on a terminal
    from rich.table import Table  # noqa: PLC0415

    nodes = Table(title="nodes: cpu requested", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in ("node", "zone", "load", "", "pods"):
        nodes.add_column(heading, no_wrap=True)
    pods: dict[str, int] = {}
    for pod in snapshot.pods.values():
        pods[pod.node] = pods.get(pod.node, 0) + 1
    for name, percent in facts.load:
        node = snapshot.nodes.get(name)
        zone = (node.labels.get("topology.kubernetes.io/zone") if node else "") or ""
        colour = "red" if percent > 90 else "yellow" if percent > 75 else "green"  # noqa: PLR2004 - of a picture
        full = f"[{colour}]{bar(percent, 100)[1:-1].replace('#', '█').replace('.', '░')}[/{colour}]"
        nodes.add_row(name, zone, f"{percent:>3}%", full, str(pods.get(name, 0)))
    moves = Table(title="moves", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in ("pod", "from", "to", "state", ""):
        moves.add_column(heading, no_wrap=True)
    for migration in in_order(snapshot)[-_SHOWN:]:
        status = migration.status
        colour = _STYLES.get(status.phase, "cyan")
        moves.add_row(
            migration.pod_name,
            status.source_node,
            status.node_name or migration.target_node,
            f"[{colour}]{status.phase.value}[/{colour}]",
            status.message,
        )
    return Group(
        nodes, "", moves, "", f"violations: {before.violations} at the start, {facts.violations} now"
    )
