"""``rescheduler uncordon``: nodes take pods again, and a drain of them ends."""

from __future__ import annotations

from collections.abc import Collection

import click

from rescheduler.cli.api_access import api_of
from rescheduler.cli.errors import CommandError
from rescheduler.cli.migration_client import MigrationClient
from rescheduler.cli.nodes_by_name import cordon, find_nodes
from rescheduler.cli.options import cluster_options
from rescheduler.cli.output import emit, tell
from rescheduler.cli.pods_by_name import find_pods
from rescheduler.migrations.lifecycle import FINISHED
from rescheduler.model.decode import Decoder
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import ANNOTATION_EVICT
from rescheduler.model.records import ObjectKey


@click.command("uncordon")
@click.argument("nodes", nargs=-1, metavar="NODE...")
@click.option("-l", "--selector", default="", metavar="LABELS", help="All nodes with these labels.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@cluster_options
def uncordon_command(
    *, nodes: tuple[str, ...], selector: str, dry_run: bool, kubeconfig: str | None, context: str | None
) -> None:
    """Let pods be scheduled to nodes again, and withdraw the moves of a drain that have evicted no pod yet.

    Moves that have evicted their pod go on: their replacements get the room that is held for them.
    """
    if bool(nodes) == bool(selector):
        raise click.UsageError("name nodes, or choose them with -l LABELS")
    api = api_of(kubeconfig, context)
    found = find_nodes(api, nodes, selector)
    if not found:
        tell("no nodes")
        return
    client = MigrationClient(api, Decoder())
    # The moves first: while the node is cordoned no new pod comes to it that could be taken for one of them.
    on_nodes = {pod.key for node in found for pod in find_pods(api, "", (), node=node.name)}
    moves = _moves(client, on_nodes)
    rehearsed = " (dry run)" if dry_run else ""
    left = {} if dry_run else client.withdraw(moves)
    emit(
        "".join(
            f"podmigration/{m.name} -n {m.namespace} withdrawn{rehearsed}\n"
            for m in moves
            if m.key not in left
        )
    )
    for key, why in left.items():
        tell(f"{key}: {why}")
    for node in found:
        if node.unschedulable and not dry_run:
            cordon(api, node.name, on=False)
        word = "uncordoned" if node.unschedulable else "already uncordoned"
        emit(f"node/{node.name} {word}{rehearsed}\n")


def _moves(client: MigrationClient, on_nodes: Collection[ObjectKey]) -> list[PodMigration]:
    """Those of drains of these pods. Who may not see them, or has none installed, uncordons all the same."""
    try:
        return [move for move in client.select("") if _of_a_drain(move, on_nodes)] if on_nodes else []
    except CommandError as error:
        tell(f"no moves are withdrawn: {error}")
        return []


def _of_a_drain(move: PodMigration, pods: Collection[ObjectKey]) -> bool:
    asked = move.requested and move.annotations.get(ANNOTATION_EVICT) == "true"
    return asked and move.status.phase not in FINISHED and ObjectKey(move.namespace, move.pod_name) in pods
