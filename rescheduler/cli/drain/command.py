"""``rescheduler drain``: cordon nodes, and move every pod with its room reserved first."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rescheduler.cli.api_access import api_of
from rescheduler.cli.errors import EXIT_FAILED, EXIT_USAGE, CommandError
from rescheduler.cli.migration_client import MigrationClient
from rescheduler.cli.name_completion import names_of
from rescheduler.cli.nodes_by_name import cordon, find_nodes
from rescheduler.cli.options import (
    cluster_options,
    config_option,
    controller_namespace_option,
    move_ttl,
    timeout_option,
)
from rescheduler.cli.output import emit, tell
from rescheduler.cli.pods_by_name import find_pods
from rescheduler.cli.snapshot_input import read_live
from rescheduler.kube.client import KubeApi
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.names import ANNOTATION_EVICT
from rescheduler.model.records import Node, Pod

if TYPE_CHECKING:
    from rescheduler.cli.drain.plan import DrainPlan

_NO_DELETION = (
    "--disable-eviction would delete pods whatever their budgets say; this command never does. "
    "Use kubectl drain --disable-eviction"
)


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
@click.option("--disable-eviction", is_flag=True, hidden=True)
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
    ignore_daemonsets: bool,
    delete_emptydir_data: bool,
    force: bool,
    evict_unmovable: bool,
    evict_pinned: bool,
    grace_period: int,
    disable_eviction: bool,
    timeout: str,
    output: str,
    config_file: str | None,
    controller_namespace: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Cordon nodes, and move every pod to another node; room for its replacement is reserved before it is evicted.

    Budgets are waited for, never broken. If a pod has nowhere to go, that is told before anything is changed. Ctrl-C
    leaves the nodes cordoned: drain goes on where it stopped, uncordon ends it. Exit codes: 0 the nodes are empty, 1 a pod
    cannot leave, 2 wrong usage, 3 not empty within --timeout.
    """
    from rescheduler.cli.controller_configuration import live_controller  # noqa: PLC0415 - its help needs no rules
    from rescheduler.cli.drain.carrying_out import Drain, told  # noqa: PLC0415 - its help needs no rules
    from rescheduler.cli.drain.plan import DrainOptions, plan_drain  # noqa: PLC0415 - its help needs no rules
    from rescheduler.cli.drain.printing import refusal_text  # noqa: PLC0415 - its help needs no rules

    _check_flags(nodes, selector, disable_eviction=disable_eviction)
    limit_s = move_ttl(timeout)
    api = api_of(kubeconfig, context)
    found = find_nodes(api, nodes, selector)
    if not found:
        tell("no nodes")
        return
    names = [node.name for node in found]
    controller = live_controller(api, controller_namespace, config_file)
    configuration = controller.told_configuration()
    options = DrainOptions(
        ignore_daemonsets=ignore_daemonsets,
        delete_emptydir_data=delete_emptydir_data,
        force=force,
        evict_unmovable=evict_unmovable,
        evict_pinned=evict_pinned,
    )

    def planned() -> DrainPlan:
        snapshot = read_live(kubeconfig, context, configuration.replacements, controller_namespace).snapshot
        there = [name for name in names if name in snapshot.nodes]
        return plan_drain(snapshot, configuration, there, options)

    plan = planned()
    if only_plan or dry_run:
        _show(plan, output)
        return
    if plan.refused:
        raise CommandError(f"{refusal_text(plan)}\nNothing was changed.")
    if plan.moves or plan.under_way:
        controller.need()
    for line in told(plan):
        tell(line)
    _cordon(api, found)
    job = Drain(
        api=api,
        client=MigrationClient(api, Decoder()),
        plan=planned,
        pods_on_nodes=lambda: _pods(api, names),
        word=lambda: secrets.token_hex(4),
        reason="asked for with rescheduler drain",
        annotations={ANNOTATION_EVICT: "true"},
        ends_s=time.monotonic() + limit_s,
        grace_s=grace_period if grace_period >= 0 else None,
        clock=time.monotonic,
        pause=time.sleep,
        stays="they stay cordoned",
        how_to_go_on=_how_to_go_on(names),
    )
    job.carry_out(plan)
    emit("".join(f"node/{name} drained\n" for name in names))


def _check_flags(nodes: Sequence[str], selector: str, *, disable_eviction: bool) -> None:
    if disable_eviction:
        raise CommandError(_NO_DELETION, EXIT_USAGE)
    if bool(nodes) == bool(selector):
        raise click.UsageError(f"name nodes, or choose them with -l LABELS{', not both' if nodes else ''}")


def _show(plan: DrainPlan, output: str) -> None:
    from rescheduler.cli.drain.printing import plan_json, plan_text  # noqa: PLC0415 - its help needs no rules

    emit(plan_json(plan) if output == "json" else plan_text(plan))
    if plan.refused:
        raise SystemExit(EXIT_FAILED)


def _cordon(api: KubeApi, nodes: Sequence[Node]) -> None:
    for node in nodes:
        if not node.unschedulable:
            cordon(api, node.name, on=True)
        emit(f"node/{node.name} {'already cordoned' if node.unschedulable else 'cordoned'}\n")


def _pods(api: KubeApi, names: Sequence[str]) -> list[Pod]:
    return [pod for name in names for pod in find_pods(api, "", (), node=name)]


def _how_to_go_on(names: Sequence[str]) -> str:
    listed = " ".join(names)
    return (
        f"Nodes that are not empty stay cordoned, and moves that have begun go on. To go on with the drain: rescheduler drain {listed} (with the same flags); "
        f"to end it: rescheduler uncordon {listed}"
    )
