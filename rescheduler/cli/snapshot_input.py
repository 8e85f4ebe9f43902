"""Reads the Snapshot for a command, from a dump or from the live cluster. Both ways make the same Snapshot."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click
from tenacity import stop_before_delay

from rescheduler.cli.dump_reader import read_sources
from rescheduler.cli.options import parse_now
from rescheduler.cli.progress import Progress
from rescheduler.model.cluster import ClusterState
from rescheduler.model.decode import Decoder
from rescheduler.model.names import DEFAULT_NAMESPACE
from rescheduler.model.replacement_rules import DEFAULT_RULES, ReplacementRules
from rescheduler.model.snapshot import Snapshot

_API_TIMEOUT_S: Final = 5.0
"""An API server that does not answer is reported after this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotInput:
    """A snapshot and its source."""

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
    rules: ReplacementRules = DEFAULT_RULES,
    namespace: str = DEFAULT_NAMESPACE,
) -> SnapshotInput:
    """Read a dump if paths are given, else the live cluster; warnings are written to stderr too.

    ``rules``: which controllers replace their pods, by configuration; a live API server is asked about the others.
    ``namespace``: where the controller of the live cluster keeps its ConfigMaps.

    Without --now the time of a dump is its newest timestamp, so that the same input gives the same output.
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
        found = _input(state, newest_time_s(state) if moment is None else moment, ", ".join(sources), rules)
        texts = tuple(str(w) for w in warnings)
    else:
        state, texts, rules = _live(kubeconfig, context, rules, namespace)
        found = _input(state, time.time() if moment is None else moment, "the live cluster", rules)
    for text in texts:
        click.echo(f"warning: {text}", err=True)
    return SnapshotInput(
        snapshot=found, source=", ".join((*paths, *more_paths)) or "live cluster", warnings=texts
    )


def _input(state: ClusterState, now_s: float, source: str, rules: ReplacementRules) -> Snapshot:
    snapshot = state.snapshot(now_s, rules)
    if not snapshot.nodes:
        click.echo(f"warning: {source} has no nodes", err=True)
    return snapshot


def _live(
    kubeconfig: str | None, context: str | None, configured: ReplacementRules, namespace: str
) -> tuple[ClusterState, tuple[str, ...], ReplacementRules]:
    from rescheduler.controller.reading import read_cluster, read_rules  # noqa: PLC0415 - a dump needs no API client
    from rescheduler.kube.client import KubeApi  # noqa: PLC0415
    from rescheduler.kube.connection import connect  # noqa: PLC0415
    from rescheduler.kube.retry import Retry  # noqa: PLC0415

    api = KubeApi(connect(kubeconfig, context), Retry(stop=stop_before_delay(_API_TIMEOUT_S)))
    with Progress("reading the cluster") as progress:
        found = read_cluster(api, Decoder(), progress.advance_to, namespace=namespace)
        return found.state, found.warnings, read_rules(api, found, configured)


def newest_time_s(state: ClusterState) -> float:
    """The newest timestamp of nodes and pods; 0.0 if there is none."""
    snapshot = state.snapshot(0.0)
    pods = (max(p.created_at_s, p.started_at_s, p.ready_since_s) for p in snapshot.pods.values())
    nodes = (n.created_at_s for n in snapshot.nodes.values())
    return max((max(pods, default=0.0), max(nodes, default=0.0)))
