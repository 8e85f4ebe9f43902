"""``rescheduler explain pod``: would the stock scheduler take this pod on each node now, and why not? What replaces it?"""

from __future__ import annotations

from dataclasses import replace

import click

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.explanations import choose, explain_all, move_answers, reports, reservation_notes
from rescheduler.cli.live_controller import live_controller, load_configuration, load_profile
from rescheduler.cli.output import emit, style, tell
from rescheduler.cli.snapshot_input import read_input
from rescheduler.kube.gc_pause import PROCESS_PAUSE
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.nearest_way import NearestWays
from rescheduler.planning.protections import Protector
from rescheduler.replacements.replacement import Replacements
from rescheduler.reports.explanation import explanation_json, explanation_text
from rescheduler.reports.replacement import replacement_json, replacement_text
from rescheduler.scheduling.state import SchedulingState

_IN_DUMPS = "default"
"""A dump has no context."""


def run(
    *,
    pods: tuple[str, ...],
    namespace: str | None,
    all_pending: bool,
    paths: tuple[str, ...],
    replacement: bool,
    scheduler_config: str | None,
    cluster: NamedCluster,
    now: str | None,
    output: str,
) -> None:
    """For each node: would kube-scheduler bind the pod there now? A bound pod is first removed from its node."""
    if not pods and not all_pending:
        raise click.UsageError("name a pod as NAME or NAMESPACE/NAME, or use --all-pending")
    configuration = (
        load_configuration(cluster.config_file) if paths else live_controller(cluster).told_configuration()
    )
    profile = load_profile(scheduler_config, configuration)
    found = read_input(
        cluster,
        paths=paths,
        now=now,
        rules=configuration.replacements,
        namespace=configuration.reservations.namespace if cluster.config_file else "",
    )
    wanted = cluster.namespace(namespace or (_IN_DUMPS if paths else None))
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
