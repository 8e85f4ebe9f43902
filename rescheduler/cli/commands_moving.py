"""The commands that move pods: their options. The work of each is in a module of its own, imported when it is called."""

from __future__ import annotations

from typing import Final

import click

from rescheduler.cli.deferred import command
from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.options import (
    MOST_PODS,
    MOST_SECONDS,
    all_namespaces_option,
    cluster_options,
    config_option,
    controller_namespace_option,
    flag,
    from_option,
    names_of,
    output_option,
    target_namespace_option,
    text,
    timeout_option,
)
from rescheduler.model.kinds import Kind

_NO_DELETION: Final = (
    "--disable-eviction would delete pods whatever their budgets say; this command never does. "
    "Use kubectl drain --disable-eviction"
)


def _refuse_deletion(_ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's callback
    if value:
        raise CommandError(_NO_DELETION, EXIT_USAGE)


@command("move", "rescheduler.cli.move:run", "Move pods to other nodes, room reserved first.")
@click.argument(
    "words",
    nargs=-1,
    metavar="[pod NAME... | pod/NAME...]",
    shell_complete=names_of(Kind.POD, prefixes=("", "pod/")),
)
@text("-l", "--selector", metavar="LABELS", help="All pods with these labels.")
@text("--from", "source", metavar="NODE", help="Only pods on this node.", shell_complete=names_of(Kind.NODE))
@text(
    "--to",
    "target",
    metavar="NODE",
    help="Default: the node that the controller chooses.",
    shell_complete=names_of(Kind.NODE),
)
@target_namespace_option
@all_namespaces_option
@timeout_option(
    "5m", "For so long a move may wait for its eviction; then it ends and its pod was not disturbed."
)
@click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Follow the moves until they have ended."
)
@text("--follow", "followed", metavar="WORD", help="Follow the moves of an earlier command again.")
@text("--withdraw", metavar="WORD", help="Withdraw those of an earlier command that evicted nothing.")
@flag("--dry-run", help="Only show where each pod would go; nothing is created.")
@output_option()
@config_option
@controller_namespace_option
@cluster_options
def move_command() -> None:
    """Move pods to other nodes: room for each replacement is reserved before its pod is evicted.

    Examples: move pod web-7d9-x2x --to node-4; move -l app=web --from node-1; move pod/db-0 --dry-run.

    What would be refused is refused before anything is created. Ctrl-C leaves the moves to the controller. Exit codes:
    0 all landed, 1 one failed, 2 wrong usage, 3 none failed but some waited in vain or are under way.
    """


@command("drain", "rescheduler.cli.drain:run", "Empty nodes by moves whose room is reserved first.")
@click.argument("nodes", nargs=-1, metavar="NODE...", shell_complete=names_of(Kind.NODE))
@text("-l", "--selector", metavar="LABELS", help="All nodes with these labels.")
@from_option
@flag("--plan", "only_plan", help="Only show where everything would go; nothing is changed.")
@flag("--dry-run", help="The same.")
@flag("--ignore-daemonsets", help="Leave pods of DaemonSets where they are.")
@flag("--delete-emptydir-data", help="Move pods with an emptyDir, whose data is lost, too.")
@flag("--force", help="Evict pods without a controller, which nothing brings back, too.")
@flag(
    "--evict-unmovable",
    help="Evict what cannot be moved (kube-system, system-critical, other schedulers) without room, as kubectl drain does.",
)
@flag(
    "--evict-pinned",
    help="Evict pods that no other node can take (local volume, nodeSelector) when all others have left, without room: they wait for their node.",
)
@click.option(
    "--evict-with",
    type=click.Choice(["move", "request"]),
    default="move",
    show_default=True,
    help="request: first file EvictionRequests (Kubernetes 1.37), so that responders of the pods' owners have their turn; --grace-period does not count for them.",
)
@click.option(
    "--grace-period",
    type=click.IntRange(-1, MOST_SECONDS),
    default=-1,
    metavar="SECONDS",
    help="Of the pods; default: their own.",
)
@click.option("--disable-eviction", is_flag=True, hidden=True, expose_value=False, callback=_refuse_deletion)
@timeout_option("1h", "Budgets are waited for until then; the nodes stay cordoned.")
@output_option(only_at_end=True)
@config_option
@controller_namespace_option
@cluster_options
def drain_command() -> None:
    """Cordon nodes, and move every pod to another node; room for its replacement is reserved before it is evicted.

    Budgets are waited for, never broken. If a pod has nowhere to go, that is told before anything is changed. Ctrl-C
    leaves the nodes cordoned: drain goes on where it stopped, uncordon ends it. Exit codes: 0 the nodes are empty, 1 a pod
    cannot leave, 2 wrong usage, 3 not empty within --timeout.
    """


@command("consolidate", "rescheduler.cli.consolidate:run", "Find the nodes that can go, and empty them.")
@click.option(
    "--nodes", type=click.IntRange(min=1), metavar="N", help="So many nodes; default: all that can go."
)
@text(
    "--pool",
    metavar="LABELS",
    help="Only nodes with these labels (KEY=VALUE,...) go, and only they receive pods.",
)
@text(
    "--until",
    metavar="PERCENT",
    help="Only while the nodes that stay are requested by so much at most, together, in CPU and in memory.",
)
@flag("--resume", help="Only go on with the nodes of an interrupted consolidation.")
@click.option(
    "--then",
    type=click.Choice(["cordon", "cluster-autoscaler", "karpenter"]),
    default="cordon",
    show_default=True,
    help="Who takes the empty nodes away: cordon leaves them to people, karpenter deletes the Node for Karpenter.",
)
@from_option
@flag("--plan", "only_plan", help="Only show which nodes can go; nothing is changed.")
@flag("--dry-run", help="The same.")
@timeout_option("1h", "Budgets are waited for until then; nodes that are not empty are given back.")
@output_option(only_at_end=True)
@config_option
@controller_namespace_option
@cluster_options
def consolidate_command() -> None:
    """Find the nodes that can go, and empty them: every pod moves to a room that is reserved first.

    Budgets are waited for and protections hold, so a node with a pod that they keep stays. What cannot be done is refused
    before anything is changed. Ctrl-C leaves the nodes cordoned: --resume goes on, uncordon gives them back. Exit codes: 0
    the nodes are empty, 1 it cannot be done, 2 wrong usage, 3 not empty within --timeout.
    """


@command("uncordon", "rescheduler.cli.drain:uncordon", "Let nodes take pods again; ends a drain.")
@click.argument("nodes", nargs=-1, metavar="NODE...", shell_complete=names_of(Kind.NODE))
@text("-l", "--selector", metavar="LABELS", help="All nodes with these labels.")
@flag("--dry-run", help="Only show what would be done.")
@output_option(only_at_end=True)
@cluster_options
def uncordon_command() -> None:
    """Let pods be scheduled to nodes again, and withdraw the moves of a drain or a consolidation that have evicted no pod yet.

    Moves that have evicted their pod go on: their replacements get the room that is held for them.
    """


@command("scale", "rescheduler.cli.scale:run", "Scale up into rooms that are reserved first.")
@click.argument("words", nargs=-1, required=True, metavar="deployment/NAME|statefulset/NAME")
@click.option("--replicas", type=click.IntRange(0, MOST_PODS), required=True, help="Desired number of pods.")
@target_namespace_option
@timeout_option("2m", "Limit for reserving, and again for landing the pods.")
@flag("--dry-run", help="Only show where each new pod would go; nothing is changed.")
@output_option(only_at_end=True)
@cluster_options
def scale_command() -> None:
    """Reserve room for every new pod, all or nothing; then scale, and wait until every pod is bound to its room.

    The controller (rescheduler run) must be running. If not all rooms are held within the time limit, all are
    released and nothing is scaled. Scaling down needs no room and is done at once.
    """
