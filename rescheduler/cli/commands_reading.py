"""The commands that change nothing: their options. The work of each is in a module of its own, imported when it is called."""

from __future__ import annotations

from typing import Final

import click

from rescheduler.cli.deferred import CommandGroup, command
from rescheduler.cli.options import (
    MOST_PODS,
    F,
    NamespaceText,
    Number,
    PathText,
    all_namespaces_option,
    cluster_options,
    config_option,
    controller_namespace_option,
    flag,
    from_option,
    more_paths_argument,
    names_of,
    now_option,
    number,
    output_option,
    selector_option,
    target_namespace_option,
    text,
)
from rescheduler.model.kinds import Kind

_MOST_MOVES: Final = "1000"
"""More than a user reads; in a large cluster there are tens of thousands of moves, which take minutes to plan."""
EFFORT: Final = 128
MOST_EFFORT: Final = 100_000
"""Both as in ``planning.limits``, which no help imports."""


def _moves(ctx: click.Context, param: click.Parameter, value: str) -> int | None:
    """The number of moves; None for all."""
    del ctx
    if value == "all":
        return None
    if not value.isdecimal() or int(value[:20]) > MOST_PODS:
        raise click.BadParameter(f"{value!r} is neither a number up to {MOST_PODS} nor 'all'", param=param)
    return int(value)


class _ExplainGroup(CommandGroup):
    """``explain pod/NAME`` is ``explain pod NAME``, as with kubectl."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises UsageError: there is no such command."""
        kind, slash, _ = args[0].partition("/")
        kind = kind.removesuffix(".rescheduler.dev")
        known = next((name for name in self.commands if kind in (name, f"{name}s")), "")
        if known:
            args = [known, *args] if slash else [known, *args[1:]]
        return super().resolve_command(ctx, args)


@command("plan", "rescheduler.cli.plan:run", "Show what would move where and why; changes nothing.")
@from_option
@more_paths_argument
@config_option
@controller_namespace_option
@cluster_options
@now_option
@output_option("html")
@text("-n", "--namespace", type=NamespaceText(), metavar="NAME", help="Only what is about pods of this one.")
@all_namespaces_option
@text("-l", "--selector", metavar="LABELS", help="Show only what is about pods with these labels.")
@click.option("--output-file", type=PathText(), metavar="FILE", help="Write to this file instead of stdout.")
@flag("--next-cycle", help="Only the moves that the controller would begin now, within its limits.")
@click.option(
    "--max-moves",
    metavar="N|all",
    default=_MOST_MOVES,
    show_default=True,
    callback=_moves,
    help="Limit of a plan without --next-cycle.",
)
@number(
    click.IntRange(1, MOST_EFFORT),
    EFFORT,
    "--effort",
    help="How often searches for repairs, for nodes to empty and for balance are repeated.",
)
@flag("--prove", help="Compare the plan with the best that any plan could reach (needs the extra 'prove').")
@number(Number(0.1), 20.0, "--prove-seconds", help="Time of the solver of --prove for each question.")
@flag("--exit-code", help="Exit with 3 if a proposed move is skipped.")
def plan_command() -> None:
    """Show what would move where and why, and what blocks the rest. Nothing is changed.

    Without --from the live cluster is read, and planned by the configuration of its controller, with what it has moved
    lately; --config plans by another one. Moves are shown without the limits per hour and at once, in an order in which
    they can be carried out; --next-cycle applies those limits too. After --max-moves moves the remaining badly placed
    pods are only counted.
    """


@command("pod", "rescheduler.cli.explain:run")
@click.argument(
    "pods", nargs=-1, metavar="NAME|pod/NAME|NAMESPACE/NAME...", shell_complete=names_of(Kind.POD)
)
@target_namespace_option
@flag("--all-pending", help="Every pending pod.")
@click.option(
    "--from",
    "paths",
    multiple=True,
    type=PathText(),
    envvar="RESCHEDULER_FROM",
    metavar="PATH",
    help="Read a dump.",
)
@flag("--replacement", help="What would come back if the pod were evicted, or why nothing would.")
@config_option
@controller_namespace_option
@cluster_options
@now_option
@output_option()
def explain_pod_command() -> None:
    """For each node: would kube-scheduler bind the pod there now? A bound pod is first removed from its node.

    Of a bound pod it is said, too, whether the controller moves it, and what keeps it.

    With --replacement: the pod that its controller would create if this one were evicted, or why there is none. With
    -o json each line is the document of one pod.
    """


def _about_objects(command: F) -> F:
    """What ``explain node`` and ``explain reservation`` share."""
    for option in (
        output_option(), now_option, cluster_options, controller_namespace_option, config_option, from_option,
    ):  # fmt: skip
        command = option(command)
    return command


@command("node", "rescheduler.cli.explain_object:node", "What holds a node, and until when.")
@click.argument(
    "names", nargs=-1, required=True, metavar="NAME|node/NAME...", shell_complete=names_of(Kind.NODE)
)
@_about_objects
def explain_node_command() -> None:
    """Say what is on nodes, for whom room is held there, which pods do not come back, and what keeps a drain off.

    The moves are those that the next decision would begin.
    """


@command("reservation", "rescheduler.cli.explain_object:reservation", "Who holds, lacks or refuses room.")
@click.argument(
    "names", nargs=-1, required=True, metavar="NAME...", shell_complete=names_of(Kind.RESERVATION)
)
@_about_objects
def explain_reservation_command() -> None:
    """Say for whom Reservations hold room, where, since when and until when, and what they wait for."""


@click.group(
    "explain",
    cls=_ExplainGroup,
    commands=[explain_pod_command, explain_node_command, explain_reservation_command],
)
def explain_group() -> None:
    """Explain why a pod can or cannot go to each node; what holds a node or a Reservation, and until when."""


def _most_unavailable(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Pods, or a share of them in percent; neither none nor all."""
    del ctx
    number = value.removesuffix("%")
    if not (number.isascii() and number.isdecimal()) or not 0 < int(number) < (
        100 if value.endswith("%") else 1000
    ):
        raise click.BadParameter(
            f"{value!r} is neither a number of pods (1) nor a share of them (25%)", param=param
        )
    return value


@command(
    "budgets",
    "rescheduler.cli.budgets:run",
    "Show which workloads lack a PodDisruptionBudget, or have a wrong one.",
)
@text("-n", "--namespace", type=NamespaceText(), metavar="NAME", help="Workloads of this namespace.")
@all_namespaces_option
@text("-l", "--selector", metavar="LABELS", help="Workloads whose pods have these labels.")
@click.option(
    "--max-unavailable",
    default="25%",
    show_default=True,
    metavar="N|N%",
    callback=_most_unavailable,
    help="Of the offered budgets.",
)
@number(
    click.IntRange(2, MOST_PODS),
    2,
    "--min-replicas",
    help="Offer none to smaller workloads; a budget of a single pod would only hold up drains.",
)
@from_option
@config_option
@controller_namespace_option
@cluster_options
@now_option
@output_option()
def budgets_command() -> None:
    """Show which Deployments, StatefulSets and ReplicaSets no PodDisruptionBudget keeps, or one that holds up drains.

    -o yaml prints the budgets that are lacking, for kubectl apply. Nothing is changed.
    """


@command("status", "rescheduler.cli.status:run", "Show the controller, its moves, and what is blocked.")
@flag("-w", "--watch", help="Show it again and again, until interrupted.")
@number(Number(0.5), 5.0, "--every", help="With --watch.", metavar="SECONDS")
@click.option(
    "--plan/--no-plan",
    "planned",
    default=True,
    help="Whether to say what is badly placed and what is blocked, for which the whole cluster is read.",
)
@output_option(without="name")
@controller_namespace_option
@cluster_options
def status_command() -> None:
    """Show the controller, the gate, moves under way with what each waits for, and what is badly placed or blocked.

    Exit codes: 0 a controller leads or it is not known, 1 none is running.
    """


@command("check", "rescheduler.cli.check:run", "Check each part of an installation, with what mends it.")
@flag("--pre", help="Before it is installed: can it be?")
@output_option(without="name")
@controller_namespace_option
@cluster_options
def check_command() -> None:
    """Check API server, CRDs, policies, gate, webhook, rights, configuration, controller, gated pods, metrics and autoscaler.

    Each line is OK, or says what is broken and which command mends it. Exit codes: 0 all is in order, 1 something is broken, 3
    nothing is broken, but something may not be looked at.
    """


@command("ui", "rescheduler.cli.ui:run", "Serve a page of the cluster and its plan on this machine.")
@from_option
@more_paths_argument
@config_option
@controller_namespace_option
@cluster_options
@now_option
@number(click.IntRange(0, 65535), 0, "--port", help="Port on 127.0.0.1; 0 takes a free one.")
@number(
    Number(5), 60.0, "--every", help="How often a live cluster is read and planned again.", metavar="SECONDS"
)
def ui_command() -> None:
    """Serve the page of a live cluster or a dump on 127.0.0.1, until interrupted. Nothing is changed.

    It shows the nodes, what is badly placed, what blocks, and the moves that plan would show. A live cluster is read again
    every minute, and planned by the configuration of its controller; --config plans by another one.
    """


@command("history", "rescheduler.cli.history:run", "Show what was moved when, why, and how it ended.")
@target_namespace_option
@all_namespaces_option
@selector_option
@text("--since", metavar="DURATION", help="Only moves of that time, such as 2h.")
@flag("--failed", help="Only moves that have not landed.")
@output_option()
@controller_namespace_option
@cluster_options
def history_command() -> None:
    """Show what was moved when, why, from where to where, and how it ended; the newest last.

    -l selects by the labels of PodMigrations, which are kept for an hour.
    """
