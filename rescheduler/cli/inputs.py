"""Where a command's Snapshot comes from: a dump or the live cluster. Both ways give the same Snapshot."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click

from rescheduler.cli.options import parse_now
from rescheduler.cli.progress import Progress
from rescheduler.cli.sources import read_sources
from rescheduler.model.cluster import ClusterState
from rescheduler.model.decode import Decoder
from rescheduler.model.snapshot import Snapshot

_PATIENCE_S: Final = 5.0
"""A person waits: an API server that does not answer is reported soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A snapshot and how it came about."""

    snapshot: Snapshot
    source: str
    warnings: tuple[str, ...]


def read_input(
    *,
    paths: Sequence[str],
    more_paths: Sequence[str],
    kubeconfig: str | None,
    context: str | None,
    now: str | None,
) -> Input:
    """Read a dump if paths are given, else the live cluster; warnings go to stderr as well.

    A dump without --now is judged at its newest time stamp, so that the same input gives the same bytes.
    """
    moment = parse_now(now)
    if not paths and more_paths:
        raise click.UsageError(
            f"unexpected argument {more_paths[0]!r}; to read a dump use --from {more_paths[0]}"
        )
    if paths:
        sources = (*paths, *more_paths)
        with Progress("reading") as progress:
            state, warnings = read_sources(sources, Decoder(), progress.advance_to)
        found = _input(state, newest_time_s(state) if moment is None else moment, ", ".join(sources))
        texts = tuple(str(w) for w in warnings)
    else:
        state, texts = _live(kubeconfig, context)
        found = _input(state, time.time() if moment is None else moment, "the live cluster")
    for text in texts:
        click.echo(f"warning: {text}", err=True)
    return Input(snapshot=found, source=", ".join((*paths, *more_paths)) or "live cluster", warnings=texts)


def _input(state: ClusterState, now_s: float, source: str) -> Snapshot:
    snapshot = state.snapshot(now_s)
    if not snapshot.nodes:
        click.echo(f"warning: {source} has no nodes", err=True)
    return snapshot


def _live(kubeconfig: str | None, context: str | None) -> tuple[ClusterState, tuple[str, ...]]:
    from rescheduler.controller.reading import read_cluster  # noqa: PLC0415 - a dump needs no API client
    from rescheduler.kube.client import KubeApi  # noqa: PLC0415
    from rescheduler.kube.connection import connect  # noqa: PLC0415
    from rescheduler.kube.retry import Retry  # noqa: PLC0415

    api = KubeApi(connect(kubeconfig, context), Retry(deadline_s=_PATIENCE_S))
    with Progress("reading the cluster") as progress:
        return read_cluster(api, Decoder(), progress.advance_to)


def newest_time_s(state: ClusterState) -> float:
    """The newest time stamp of nodes and pods; 0.0 where there is none."""
    snapshot = state.snapshot(0.0)
    pods = (max(p.created_at_s, p.started_at_s, p.ready_since_s) for p in snapshot.pods.values())
    nodes = (n.created_at_s for n in snapshot.nodes.values())
    return max((max(pods, default=0.0), max(nodes, default=0.0)))
