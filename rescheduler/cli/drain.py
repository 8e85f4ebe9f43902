"""``rescheduler drain``: cordon nodes, and move every pod with its room reserved first."""

from __future__ import annotations

from collections.abc import Sequence

import click

from rescheduler.cli.by_name import find_nodes
from rescheduler.cli.clients import NamedCluster, cluster_options
from rescheduler.cli.drain_plan import DrainOptions, DrainPlan, Stays, plan_drain
from rescheduler.cli.drain_report import plan_json, plan_text, refusal_text
from rescheduler.cli.draining import Drain
from rescheduler.cli.errors import EXIT_FAILED, EXIT_USAGE, CommandError
from rescheduler.cli.live_controller import live_controller
from rescheduler.cli.name_completion import names_of
from rescheduler.cli.node_marks import cordon
from rescheduler.cli.options import config_option, controller_namespace_option, move_ttl, timeout_option
from rescheduler.cli.output import emit, tell
from rescheduler.cli.snapshot_input import read_input
from rescheduler.model.kinds import Kind
from rescheduler.model.names import ANNOTATION_EVICT

_NO_DELETION = (
    "--disable-eviction would delete pods whatever their budgets say; this command never does. "
    "Use kubectl drain --disable-eviction"
)


def _refuse_deletion(_ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's callback
    if value:
        raise CommandError(_NO_DELETION, EXIT_USAGE)


@click.command("drain")
@click.argument("nodes", nargs=-1, metavar="NODE...", shell_complete=names_of(Kind.NODE))
@click.option("-l", "--selector", default="", metavar="LABELS", help="All nodes with these labels.")
@click.option(
    "--plan", "only_plan", is_flag=True, help="Only show where everything would go; nothing is changed."
)
@click.option("--dry-run", is_flag=True, help="The same.")
@click.option("--ignore-daemonsets", is_flag=True, help="Leave pods of DaemonSets where they are.")
@click.option(
    "--delete-emptydir-data", is_flag=True, help="Move pods with an emptyDir, whose data is lost, too."
)
@click.option(
    "--force", is_flag=True, help="Evict pods without a controller, which nothing brings back, too."
)
@click.option(
    "--evict-unmovable",
    is_flag=True,
    help="Evict what cannot be moved (kube-system, system-critical, other schedulers) without room, as kubectl drain does.",
)
@click.option(
    "--evict-pinned",
    is_flag=True,
    help="Evict pods that no other node can take (local volume, nodeSelector) when all others have left, without room: they wait for their node.",
)
@click.option(
    "--grace-period", type=int, default=-1, metavar="SECONDS", help="Of the pods; default: their own."
)
@click.option("--disable-eviction", is_flag=True, hidden=True, expose_value=False, callback=_refuse_deletion)
@timeout_option("1h", "Budgets are waited for until then; the nodes stay cordoned.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Of --plan.")
@config_option
@controller_namespace_option
@cluster_options
def drain_command(
    *,
    nodes: tuple[str, ...],
    selector: str,
    only_plan: bool,
    dry_run: bool,
    grace_period: int,
    timeout: str,
    output: str,
    cluster: NamedCluster,
    **flags: bool,
) -> None:
    """Cordon nodes, and move every pod to another node; room for its replacement is reserved before it is evicted.

    Budgets are waited for, never broken. If a pod has nowhere to go, that is told before anything is changed. Ctrl-C
    leaves the nodes cordoned: drain goes on where it stopped, uncordon ends it. Exit codes: 0 the nodes are empty, 1 a pod
    cannot leave, 2 wrong usage, 3 not empty within --timeout.
    """
    if bool(nodes) == bool(selector):
        raise click.UsageError(f"name nodes, or choose them with -l LABELS{', not both' if nodes else ''}")
    limit_s = move_ttl(timeout)
    api = cluster.api()
    found = find_nodes(api, nodes, selector)
    if not found:
        tell("no nodes")
        return
    names = [node.name for node in found]
    controller = live_controller(cluster, api)
    configuration = controller.told_configuration()

    def planned() -> DrainPlan:
        snapshot = read_input(cluster, rules=configuration.replacements).snapshot
        there = [name for name in names if name in snapshot.nodes]
        return plan_drain(snapshot, configuration, there, DrainOptions(**flags))

    plan = planned()
    if only_plan or dry_run:
        emit(plan_json(plan) if output == "json" else plan_text(plan))
        if plan.refused:
            raise SystemExit(EXIT_FAILED)
        return
    if plan.refused:
        raise CommandError(f"{refusal_text(plan)}\nNothing was changed.")
    if plan.moves or plan.under_way:
        controller.need()
    _foretell(plan)
    for node in found:
        if not node.unschedulable:
            cordon(api, node.name, on=True)
        emit(f"node/{node.name} {'already cordoned' if node.unschedulable else 'cordoned'}\n")
    job = Drain(
        api=api,
        plan=planned,
        reason="asked for with rescheduler drain",
        annotations={ANNOTATION_EVICT: "true"},
        limit_s=limit_s,
        grace_s=grace_period if grace_period >= 0 else None,
        stays="they stay cordoned",
        how_to_go_on=_how_to_go_on(names),
    )
    job.carry_out(plan)
    emit("".join(f"node/{name} drained\n" for name in names))


def _foretell(plan: DrainPlan) -> None:
    """Say what a person should know before the drain begins."""
    for pod, stays in plan.stays:
        if stays is Stays.DAEMON:
            tell(f"{pod.key} stays: {stays}")
    for pod, why in plan.waits:
        tell(f"{pod.key} waits for its budget: {why}")
    for pod, why in plan.evictions:
        tell(f"{pod.key} will be evicted without room: {why}")


def _how_to_go_on(names: Sequence[str]) -> str:
    listed = " ".join(names)
    return (
        f"Nodes that are not empty stay cordoned, and moves that have begun go on. To go on with the drain: rescheduler drain {listed} (with the same flags); "
        f"to end it: rescheduler uncordon {listed}"
    )
