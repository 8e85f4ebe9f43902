"""``rescheduler history``: what was moved when, why, from where to where, and how it ended.

PodMigrations tell all of it, but are deleted an hour after they have ended (``reservations.finishedTtl``). What limits and cool-down need
of older moves is in ConfigMap ``move-history``: when, whose, and how it ended.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

import msgspec

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.migration_client import MigrationClient
from rescheduler.cli.options import parse_seconds
from rescheduler.cli.output import emit, tell, warn
from rescheduler.kube.client import KubeApi
from rescheduler.kube.config_maps import read_config_map
from rescheduler.kube.errors import ForbiddenError
from rescheduler.migrations.migration_lifecycle import FINISHED
from rescheduler.model.counted import verb
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import API_VERSION, HISTORY_CONFIG_MAP
from rescheduler.model.past_moves import PastMove, decode_past_moves
from rescheduler.model.times import format_seconds
from rescheduler.reports.structured import pretty_json
from rescheduler.reports.table import flat_table

_HEADER = ("WHEN", "POD", "FROM", "TO", "ENDED", "TOOK", "BY")


class PastEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One move. Times: RFC 3339; what is not known is left out."""

    at: str
    """When it began, or was asked for."""
    namespace: str
    pod: str = ""
    """Its name; "" in entries of ConfigMap move-history, which have the uid."""
    pod_uid: str = ""
    source: str = msgspec.field(default="", name="from")
    target: str = msgspec.field(default="", name="to")
    ended: str = ""
    """The reason of its end; "" while it is under way."""
    message: str = ""
    seconds: float = 0.0
    by: str = ""
    why: str = ""
    pod_migration: str = ""


def run(
    *,
    namespace: str | None,
    all_namespaces: bool,
    since: str,
    failed: bool,
    output: str,
    cluster: NamedCluster,
) -> None:
    """Show what was moved when, why, from where to where, and how it ended; the newest last."""
    begun_s = time.time() - parse_seconds("--since", since) if since else 0.0
    api = cluster.api()
    wanted = "" if all_namespaces else cluster.namespace(namespace)
    moves = MigrationClient(api).select(wanted)
    past = {
        uid: move
        for uid, move in _past(api, cluster.controller_namespace).items()
        if wanted in ("", move.namespace)
    }
    found = [
        entry for entry in entries(moves, past, begun_s) if not failed or entry.ended not in ("", "Landed")
    ]
    if output == "json":
        document = {"apiVersion": API_VERSION, "kind": "History", "moves": found}
        emit(pretty_json(document))
    elif found:
        emit(_text(found, wide=output == "wide"))
    else:
        tell("no moves")


def entries(moves: Iterable[PodMigration], past: Mapping[str, PastMove], since_s: float) -> list[PastEntry]:
    """The moves by the time at which they began. ``past``: by uid of their PodMigration; one that exists goes before it."""
    live = {move.uid for move in moves}
    dated = [(move.status.started_at_s or move.created_at_s, _of_object(move)) for move in moves]
    dated += [(move.begun_s or move.ended_s, _of_past(move)) for uid, move in past.items() if uid not in live]
    dated = [(at_s, entry) for at_s, entry in dated if at_s >= since_s]
    return [entry for _, entry in sorted(dated, key=lambda item: (item[0], item[1].namespace, item[1].pod))]


def _past(api: KubeApi, namespace: str) -> dict[str, PastMove]:
    try:
        data = read_config_map(api, namespace, HISTORY_CONFIG_MAP).data
    except ForbiddenError as error:
        warn(f"older moves are not known, ConfigMap {HISTORY_CONFIG_MAP} may not be read: {error.message}")
        return {}
    found, bad = decode_past_moves(data, time.time())
    if bad:
        warn(
            f"{len(bad):,} {verb(len(bad), 'entry', 'entries')} of ConfigMap {HISTORY_CONFIG_MAP} cannot be read"
        )
    return found


def _of_object(move: PodMigration) -> PastEntry:
    status, began_s = move.status, move.status.started_at_s or move.created_at_s
    ended = status.phase in FINISHED
    return PastEntry(
        at=format_seconds(began_s),
        namespace=move.namespace,
        pod=move.pod_name,
        pod_uid=move.pod_uid,
        source=status.source_node,
        target=status.node_name or move.target_node,
        ended=(status.reason or status.phase.value) if ended else "",
        message=status.message,
        seconds=round(max(0.0, status.finished_at_s - began_s), 1) if status.finished_at_s else 0.0,
        by=move.by,
        why=move.reason,
        pod_migration=move.name,
    )


def _of_past(move: PastMove) -> PastEntry:
    return PastEntry(
        at=format_seconds(move.begun_s or move.ended_s),
        namespace=move.namespace,
        pod_uid=move.pod_uid,
        ended="Failed" if move.failed else "Landed" if move.ended_s else "",
        seconds=move.ended_s - move.begun_s if move.begun_s and move.ended_s else 0.0,
        by="a request" if move.requested else "a policy",
    )


def _text(found: Iterable[PastEntry], *, wide: bool) -> str:
    header = (*_HEADER, "WHY", "MESSAGE") if wide else _HEADER
    rows = []
    for entry in found:
        row = (
            entry.at,
            f"{entry.namespace or '-'}/{entry.pod or f'(uid {entry.pod_uid[:8]})'}",
            entry.source or "-",
            entry.target or "-",
            entry.ended or "under way",
            f"{entry.seconds:.0f}s" if entry.seconds else "-",
            entry.by,
        )
        rows.append((*row, entry.why, entry.message) if wide else row)
    return flat_table(header, rows)
