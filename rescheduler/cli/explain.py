"""``rescheduler explain pod``: would the stock scheduler take this pod on each node now, and why not? What replaces it?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import click

from rescheduler.cli.api_access import api_of, namespace_of_context
from rescheduler.cli.configuration_input import load_configuration, load_profile
from rescheduler.cli.controller_configuration import configuration_of
from rescheduler.cli.controller_presence import leader
from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.moved_or_not import move_answers
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
from rescheduler.configuration.document import Configuration
from rescheduler.kube.gc_pause import PROCESS_PAUSE
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.nearest_way import NearestWays
from rescheduler.planning.protections import Protector
from rescheduler.replacements.replacement import Replacements
from rescheduler.reports.explanation import Explanation, explanation_json, explanation_text
from rescheduler.reports.replacement import ReplacementReport, replacement_json, replacement_text
from rescheduler.reservations.scheduler_probe import is_probe
from rescheduler.scheduling.classes import ClassKey, class_key
from rescheduler.scheduling.state import SchedulingState

_IN_DUMPS = "default"
"""A dump has no context."""


@click.group("explain")
def explain_group() -> None:
    """Explain why a pod can or cannot go to each node."""


@explain_group.command("pod")
@click.argument("pods", nargs=-1, metavar="[NAMESPACE/]NAME...")
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
    if not pods and not all_pending:
        raise click.UsageError("name a pod as NAMESPACE/NAME, or use --all-pending")
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
        explanation = replace(explained, moved=answers.get(explained.pod.key))
        emit(explanation_json(explanation) if output == "json" else explanation_text(explanation, style()))


def _configuration(
    kubeconfig: str | None, context: str | None, namespace: str, config_file: str | None
) -> Configuration:
    """That of the controller of the live cluster, unless a file is named; what may be wrong with it is told."""
    api = api_of(kubeconfig, context)
    found = leader(api, namespace, now_s=time.time, pause=time.sleep)
    read = configuration_of(api, namespace, config_file, found)
    if read.warning:
        tell(f"warning: {read.warning}")
    return read.configuration


def choose(
    snapshot: Snapshot, names: tuple[str, ...], default_namespace: str, *, all_pending: bool
) -> list[Pod]:
    """The pods that the user named, in that order, and all pending pods if ``all_pending``. Raises CommandError."""
    chosen: list[Pod] = []
    for name in names:
        namespace, slash, rest = name.partition("/")
        key = ObjectKey(namespace, rest) if slash else ObjectKey(default_namespace, name)
        pod = snapshot.pods.get(key)
        if pod is None:
            raise CommandError(f"there is no pod {key}", EXIT_USAGE)
        chosen.append(pod)
    if all_pending:
        pending = (p for p in snapshot.pods.values() if not p.node and not p.terminal and not p.deleting)
        chosen += sorted((p for p in pending if p not in chosen and not is_probe(p)), key=lambda p: p.key)
    return chosen


def reports(snapshot: Snapshot, pods: Sequence[Pod]) -> Iterator[ReplacementReport]:
    """What comes back for each pod."""
    replacements, budgets = Replacements(snapshot), BudgetLedger(snapshot)
    for pod in pods:
        found = replacements.of(pod)
        yield ReplacementReport(
            pod=pod,
            found=found,
            workload=snapshot.top_workload(pod),
            budgets=budgets.of(found.pod) if found.pod is not None else (),
        )


def explain_all(state: SchedulingState, pods: Sequence[Pod], nearest: NearestWays) -> Iterator[Explanation]:
    """The explanation of each pod. Pending pods of one equivalence class are computed once."""
    answers: dict[ClassKey, Explanation] = {}
    for pod in pods:
        if pod.node:
            yield explain(state, pod)
            continue
        if pod.nominated_node:
            yield replace(explain(state, pod), nearest=nearest.of(pod))
            continue
        key = class_key(pod)
        if key not in answers:
            answers[key] = replace(explain(state, pod), nearest=nearest.of(pod))
        yield replace(answers[key], pod=pod)


def explain(state: SchedulingState, pod: Pod) -> Explanation:
    """The result of every node, and the free amounts for the text."""
    verdicts = state.explain(pod)
    refusing = [state.node_index[v.node] for v in verdicts if not v.feasible]
    mark = state.checkpoint()
    if pod.node:
        state.remove(pod)
    best: dict[str, int] = {}
    for resource, amount in pod.spec.requests.items():
        if amount and refusing:
            free = state.allocatable(resource) - state.requested(resource)
            best[resource] = int(free[refusing].max())
    state.rollback(mark)
    return Explanation(pod=pod, verdicts=verdicts, best_free=best)
