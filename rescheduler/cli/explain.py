"""``rescheduler explain pod``: would the stock scheduler take this pod on each node now, and why not? What replaces it?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from rescheduler.cli.api_access import api_of, namespace_of_context
from rescheduler.cli.name_completion import names_of
from rescheduler.cli.options import (
    cluster_options,
    config_option,
    controller_namespace_option,
    now_option,
    scheduler_config_option,
    target_namespace_option,
)
from rescheduler.cli.output import emit, style, tell
from rescheduler.cli.snapshot_input import read_input
from rescheduler.cli.text_files import PathText
from rescheduler.kube.gc_pause import PROCESS_PAUSE
from rescheduler.model.kinds import Kind

if TYPE_CHECKING:
    from rescheduler.configuration.document import Configuration

_IN_DUMPS = "default"
"""A dump has no context."""


class _ExplainGroup(click.Group):
    """``explain pod/NAME`` is ``explain pod NAME``, as with kubectl."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises UsageError: there is no such command."""
        if args[0].startswith(("pod/", "pods/")):
            args = ["pod", *args]
        return super().resolve_command(ctx, args)


@click.group("explain", cls=_ExplainGroup)
def explain_group() -> None:
    """Explain why a pod can or cannot go to each node."""


@explain_group.command("pod")
@click.argument(
    "pods", nargs=-1, metavar="NAME|pod/NAME|NAMESPACE/NAME...", shell_complete=names_of(Kind.POD)
)
@target_namespace_option
@click.option("--all-pending", is_flag=True, help="Every pending pod.")
@click.option(
    "--from",
    "paths",
    multiple=True,
    type=PathText(),
    envvar="RESCHEDULER_FROM",
    metavar="PATH",
    help="Read a dump.",
)
@click.option(
    "--replacement", is_flag=True, help="What would come back if the pod were evicted, or why nothing would."
)
@config_option
@scheduler_config_option
@controller_namespace_option
@cluster_options
@now_option
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def explain_pod_command(
    *,
    pods: tuple[str, ...],
    namespace: str | None,
    all_pending: bool,
    paths: tuple[str, ...],
    replacement: bool,
    config_file: str | None,
    scheduler_config: str | None,
    controller_namespace: str,
    kubeconfig: str | None,
    context: str | None,
    now: str | None,
    output: str,
) -> None:
    """For each node: would kube-scheduler bind the pod there now? A bound pod is first removed from its node.

    Of a bound pod it is said, too, whether the controller moves it, and what keeps it.

    With --replacement: the pod that its controller would create if this one were evicted, or why there is none. With
    -o json each line is the document of one pod.
    """
    from rescheduler.cli.configuration_input import load_configuration, load_profile  # noqa: PLC0415 - its help needs no rules
    from rescheduler.cli.explanations import choose, explain_all, reports, reservation_notes  # noqa: PLC0415 - its help needs no rules
    from rescheduler.cli.moved_or_not import move_answers  # noqa: PLC0415 - its help needs no rules
    from rescheduler.planning.budgets import BudgetLedger  # noqa: PLC0415 - its help needs no rules
    from rescheduler.planning.nearest_way import NearestWays  # noqa: PLC0415 - its help needs no rules
    from rescheduler.planning.protections import Protector  # noqa: PLC0415 - its help needs no rules
    from rescheduler.replacements.replacement import Replacements  # noqa: PLC0415 - its help needs no rules
    from rescheduler.reports.explanation import explanation_json, explanation_text  # noqa: PLC0415 - its help needs no rules
    from rescheduler.reports.replacement import replacement_json, replacement_text  # noqa: PLC0415 - its help needs no rules
    from rescheduler.scheduling.state import SchedulingState  # noqa: PLC0415 - its help needs no rules

    if not pods and not all_pending:
        raise click.UsageError("name a pod as NAME or NAMESPACE/NAME, or use --all-pending")
    configuration = (
        load_configuration(config_file)
        if paths
        else _configuration(kubeconfig, context, controller_namespace, config_file)
    )
    profile = load_profile(scheduler_config, configuration)
    found = read_input(
        paths=paths,
        more_paths=(),
        kubeconfig=kubeconfig,
        context=context,
        now=now,
        rules=configuration.replacements,
        namespace=configuration.reservations.namespace if config_file else controller_namespace,
    )
    wanted = namespace or (_IN_DUMPS if paths else namespace_of_context(kubeconfig, context))
    chosen = choose(found.snapshot, pods, wanted, all_pending=all_pending)
    if not chosen:
        tell("no pending pods")
        return
    if replacement:
        for report in reports(found.snapshot, chosen):
            emit(replacement_json(report) if output == "json" else replacement_text(report, style()))
        return
    with PROCESS_PAUSE.during():
        state = SchedulingState(found.snapshot, profile)
        PROCESS_PAUSE.settle()
    replacements, budgets = Replacements(found.snapshot), BudgetLedger(found.snapshot)
    protector = Protector(
        replacements,
        configuration.protections,
        covered=lambda pod: bool(budgets.of(pod)),
        judges=state.profile.judges,
    )
    nearest = NearestWays(state, replacements, protector, budgets)
    answers = move_answers(found.snapshot, configuration, chosen, state, protector)
    for explained in explain_all(state, chosen, nearest):
        notes = (*explained.notes, *reservation_notes(found.snapshot, explained.pod))
        explanation = replace(explained, moved=answers.get(explained.pod.key), notes=notes)
        emit(explanation_json(explanation) if output == "json" else explanation_text(explanation, style()))


def _configuration(
    kubeconfig: str | None, context: str | None, namespace: str, config_file: str | None
) -> Configuration:
    """That of the controller of the live cluster, unless a file is named; what may be wrong with it is told."""
    from rescheduler.cli.controller_configuration import live_controller  # noqa: PLC0415 - its help needs no rules

    return live_controller(api_of(kubeconfig, context), namespace, config_file).told_configuration()
