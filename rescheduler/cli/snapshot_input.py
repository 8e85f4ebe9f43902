"""Reads the Snapshot for a command, from a dump or from the live cluster. Both ways make the same Snapshot."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import click

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.dump_files import InputError
from rescheduler.cli.dump_reader import read_sources
from rescheduler.cli.missing_kinds import COMPLETE_DUMP, missing_kinds, plural_of
from rescheduler.cli.options import parse_now
from rescheduler.cli.output import warn
from rescheduler.cli.progress import StatusLine
from rescheduler.controller.reading import read_cluster, read_rules
from rescheduler.model.cluster import ClusterState
from rescheduler.model.counted import plural
from rescheduler.model.decode import Decoder
from rescheduler.model.replacement_rules import DEFAULT_RULES, ReplacementRules
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import format_timestamp

_DUMP_IT: Final = f"write it with: {COMPLETE_DUMP}"
_NAMED: Final = 5
UNDATED_S: Final = 1e9
"""The moment of a dump in which nothing has a time: long after 0.0, which stands for a time that an object does not have.

So every age is a long one, as it is of nearly all pods of a cluster, and the plan is the one of any ``--now``.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotInput:
    """A snapshot and its source."""

    snapshot: Snapshot
    source: str
    warnings: tuple[str, ...]


def read_input(
    cluster: NamedCluster,
    *,
    paths: Sequence[str] = (),
    more_paths: Sequence[str] = (),
    now: str | None = None,
    rules: ReplacementRules = DEFAULT_RULES,
    namespace: str = "",
) -> SnapshotInput:
    """Read a dump if paths are given, else the live cluster; warnings are written to stderr too.

    ``rules``: which controllers replace their pods, by configuration.
    ``namespace``: where the controller of the live cluster keeps its ConfigMaps, if not as the options say.

    Without --now the time of a dump is its newest timestamp, or UNDATED_S, so that the same input gives the same output.
    """
    moment = parse_now(now)
    if paths:
        sources = (*paths, *more_paths)
        with StatusLine() as line:
            state, warnings = read_sources(sources, Decoder(), line.progress("reading"))
        found = state.snapshot((newest_time_s(state) or UNDATED_S) if moment is None else moment, rules)
        texts = (*map(str, warnings), *judged_dump(found, ", ".join(sources)))
    else:
        api = cluster.api()
        with StatusLine() as line:
            namespace = namespace or cluster.controller_namespace
            advance = line.progress("reading the cluster")
            read = read_cluster(api, Decoder(), advance, now_s=time.time(), namespace=namespace)
            found = read.state.snapshot(time.time() if moment is None else moment, read_rules(read, rules))
        texts = read.warnings if found.nodes else (*read.warnings, "the live cluster has no nodes")
    for text in texts:
        warn(text)
    return SnapshotInput(
        snapshot=found, source=", ".join((*paths, *more_paths)) or "live cluster", warnings=texts
    )


def need_from(paths: Sequence[str], more_paths: Sequence[str]) -> None:
    """Refuse paths of a dump without --from. Raises UsageError."""
    if not paths and more_paths:
        raise click.UsageError(
            f"unexpected argument {more_paths[0]!r}; to read a dump use --from {more_paths[0]}"
        )


def judged_dump(snapshot: Snapshot, source: str) -> Iterator[str]:
    """What a plan for this dump leaves out, for people.

    Raises:
        InputError: there is no cluster in it.
    """
    if not snapshot.nodes:
        others = ", and nothing else" if not snapshot.pods else f", but {plural(len(snapshot.pods), 'pod')}"
        raise InputError(source, 0, f"the dump has no nodes{others}", _DUMP_IT)
    if not snapshot.pods:
        yield f"{source}: the dump has no pods; {_DUMP_IT}"
    missing = [f"the dump has no {plural_of(kind)}: {assumed}" for kind, assumed in missing_kinds(snapshot)]
    yield from (f"{source}: {text}" for text in missing[:-1])
    if missing:
        yield f"{source}: {missing[-1]}; {_DUMP_IT}"
    lost = sorted(str(p.key) for p in snapshot.pods.values() if p.node and p.node not in snapshot.nodes)
    if lost:
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        named = ", ".join(lost[:_NAMED])
        yield (
            f"{source}: {plural(len(lost), 'pod')} on nodes that are not in the dump: {named}{more}; they do not count, "
            "neither as moved nor as in the way"
        )
    if snapshot.taken_at_s == UNDATED_S:
        yield (
            f"{source}: no node and no pod has a time: everything counts as old, and the plan is dated "
            f"{format_timestamp(UNDATED_S)}; give --now to date it"
        )


def newest_time_s(state: ClusterState) -> float:
    """The newest timestamp of nodes and pods; 0.0 if there is none."""
    snapshot = state.snapshot(0.0)
    pods = (max(p.created_at_s, p.started_at_s, p.ready_since_s) for p in snapshot.pods.values())
    nodes = (n.created_at_s for n in snapshot.nodes.values())
    return max((max(pods, default=0.0), max(nodes, default=0.0)))
