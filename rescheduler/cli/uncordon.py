"""``rescheduler uncordon``: nodes take pods again, and a drain of them ends."""

from __future__ import annotations

import time

import click

from rescheduler.cli.by_name import find_nodes, pods_on
from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.migration_client import MigrationClient, withdraw_moves
from rescheduler.cli.node_marks import NodeMarks, cordon
from rescheduler.cli.output import emit, tell
from rescheduler.model.names import LABEL_CONSOLIDATION


def run(*, nodes: tuple[str, ...], selector: str, dry_run: bool, cluster: NamedCluster) -> None:
    """Let pods be scheduled to nodes again, and withdraw the moves of a drain or a consolidation that have evicted no pod yet."""
    if bool(nodes) == bool(selector):
        raise click.UsageError("name nodes, or choose them with -l LABELS")
    api = cluster.api()
    found = find_nodes(api, nodes, selector)
    if not found:
        tell("no nodes")
        return
    # The moves first: while the node is cordoned no new pod comes to it that could be taken for one of them.
    on_nodes = {pod.key for pod in pods_on(api, (node.name for node in found))}
    rehearsed = " (dry run)" if dry_run else ""
    withdraw_moves(MigrationClient(api), on_nodes, dry_run=dry_run)
    marks = NodeMarks(api=api, now_s=time.time)
    for node in found:
        if node.deleting:
            emit(f"node/{node.name} is being deleted: it does not come back\n")
            continue
        consolidated = LABEL_CONSOLIDATION in node.labels
        if consolidated and not dry_run:
            marks.give_back(node.name)
        elif node.unschedulable and not dry_run:
            cordon(api, node.name, on=False)
        word = "uncordoned" if node.unschedulable or consolidated else "already uncordoned"
        emit(f"node/{node.name} {word}{rehearsed}\n")
