"""``rescheduler history``: what was moved when, why, from where to where, and how it ended.

PodMigrations tell all of it, but are deleted an hour after they have ended (``reservations.finishedTtl``). What limits and cool-down need
of older moves is in ConfigMap ``move-history``: when, whose, and how it ended.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.migration_client import MigrationClient
from rescheduler.cli.options import time_limit
from rescheduler.cli.output import emit_as, is_text, tell, warn
from rescheduler.kube.client import KubeApi
from rescheduler.kube.config_maps import read_config_map
from rescheduler.kube.errors import ForbiddenError
from rescheduler.model.bounds import MOST_TTL
from rescheduler.model.counted import verb
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import API_VERSION, HISTORY_CONFIG_MAP
from rescheduler.model.past_moves import PastMove, decode_past_moves
from rescheduler.model.times import format_seconds
from rescheduler.reports.moves import MOVED, PastEntry, entry_of, moved_row
from rescheduler.reports.table import flat_table

_HEADER = ("WHEN", *MOVED, "BY")


def run(
    *,
    namespace: str | None,
    all_namespaces: bool,
    selector: str,
    since: str,
    failed: bool,
    output: str,
    cluster: NamedCluster,
) -> None:
    """Show what was moved when, why, from where to where, and how it ended; the newest last."""
    begun_s = time.time() - time_limit(since, "--since", MOST_TTL) if since else 0.0
    api = cluster.api()
    wanted = "" if all_namespaces else cluster.namespace(namespace)
    # First what is older: a move that it calls unfinished and that is not among the PodMigrations then was deleted.
    older, unknown = ({}, "") if selector else _past(api, cluster.controller_namespace)
    moves = MigrationClient(api).select(wanted, selector)
    if unknown:
        warn(unknown)
    past = {uid: move for uid, move in older.items() if wanted in ("", move.namespace)}
    found = [
        entry for entry in entries(moves, past, begun_s) if not failed or entry.ended not in ("", "Landed")
    ]
    names = [entry.pod_migration for entry in found if entry.pod_migration]
    emit_as(
        output,
        document=lambda: {"apiVersion": API_VERSION, "kind": "History", "moves": found},
        names=lambda: (f"podmigration.rescheduler.dev/{name}" for name in names),
        text=lambda: _text(found, wide=output == "wide") if found else "",
    )
    if is_text(output) and not found:
        none = f"no {'failed ' if failed else ''}moves{f' of the last {since}' if since else ''}"
        tell(f"{none} in namespace {wanted}; -A looks in all" if wanted else none)


def entries(moves: Iterable[PodMigration], past: Mapping[str, PastMove], since_s: float) -> list[PastEntry]:
    """The moves by the time at which they began. ``past``: by uid of their PodMigration; one that exists goes before it."""
    live = {move.uid for move in moves}
    dated = [(move.status.started_at_s or move.created_at_s, entry_of(move)) for move in moves]
    dated += [(move.begun_s or move.ended_s, _of_past(move)) for uid, move in past.items() if uid not in live]
    dated = [(at_s, entry) for at_s, entry in dated if at_s >= since_s]
    return [entry for _, entry in sorted(dated, key=lambda item: (item[0], item[1].namespace, item[1].pod))]


def _past(api: KubeApi, namespace: str) -> tuple[dict[str, PastMove], str]:
    """What ConfigMap move-history tells, and what it does not."""
    try:
        data = read_config_map(api, namespace, HISTORY_CONFIG_MAP).data
    except ForbiddenError as error:
        return (
            {},
            f"older moves are not known, ConfigMap {HISTORY_CONFIG_MAP} may not be read: {error.message}",
        )
    found, bad = decode_past_moves(data, time.time())
    noun = verb(len(bad), "entry", "entries")
    unread = f"{len(bad):,} {noun} of ConfigMap {HISTORY_CONFIG_MAP} cannot be read"
    return found, unread if bad else ""


def _of_past(move: PastMove) -> PastEntry:
    """Of a move whose PodMigration is gone; before its end, if none is known."""
    return PastEntry(
        at=format_seconds(move.begun_s or move.ended_s),
        namespace=move.namespace,
        pod_uid=move.pod_uid,
        ended="Failed" if move.failed else "Landed" if move.ended_s else "Deleted",
        seconds=move.ended_s - move.begun_s if move.begun_s and move.ended_s else 0.0,
        by="a request" if move.requested else "a policy",
    )


def _text(found: Sequence[PastEntry], *, wide: bool) -> str:
    more = [(entry.why, entry.message) if wide else () for entry in found]
    rows = [(e.at, *moved_row(e), e.by, *rest) for e, rest in zip(found, more, strict=True)]
    return flat_table((*_HEADER, "WHY", "MESSAGE") if wide else _HEADER, rows)
