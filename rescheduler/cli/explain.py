"""``rescheduler explain pod``: would the stock scheduler take this pod on each node now, and why not? What replaces it?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import click

from rescheduler.cli.by_name import pod_key
from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.live_controller import asked_about, read_for
from rescheduler.cli.output import emit_as, style, tell
from rescheduler.cli.snapshot_input import need_from
from rescheduler.configuration.document import Configuration
from rescheduler.kube.gc_pause import rare_collections
from rescheduler.model.gated_pods import RELEASE, why_gated
from rescheduler.model.never_moves import holds_gate
from rescheduler.model.own_objects import who_waits
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.history import History
from rescheduler.planning.plan import Skipped
from rescheduler.planning.planner import decide
from rescheduler.planning.protections import Protectors
from rescheduler.planning.single_pod import take_off
from rescheduler.planning.why_no_room import NearestWays
from rescheduler.policies.pending_pods import PendingPods
from rescheduler.replacements.replacement import Replacements
from rescheduler.reports.explanation import Explanation, MoveAnswer, explanation_document, explanation_text
from rescheduler.reports.replacement import ReplacementReport, replacement_document, replacement_text
from rescheduler.reports.text import Style
from rescheduler.reservations.node_request import holds_nothing
from rescheduler.reservations.owners import any_owner_matches
from rescheduler.reservations.reservation_lifecycle import FINISHED
from rescheduler.scheduling.classes import ClassKey, class_key
from rescheduler.scheduling.state import SchedulingState
from rescheduler.suggestions import did_you_mean

_IN_DUMPS = "default"
"""A dump has no context."""


@rare_collections()
def run(
    *,
    pods: tuple[str, ...],
    namespace: str | None,
    all_pending: bool,
    paths: tuple[str, ...],
    replacement: bool,
    cluster: NamedCluster,
    now: str | None,
    output: str,
) -> None:
    """For each node: would kube-scheduler bind the pod there now? A bound pod is first removed from its node."""
    if not pods and not all_pending:
        raise click.UsageError("name a pod as NAME or NAMESPACE/NAME, or use --all-pending")
    need_from(paths)
    controller, configuration = asked_about(cluster, paths)
    found = read_for(cluster, configuration, paths=paths, now=now)
    wanted = cluster.namespace(namespace or (_IN_DUMPS if paths else None))
    chosen = choose(found.snapshot, pods, wanted, all_pending=all_pending)
    if not chosen:
        tell("no pending pods")
        return
    if replacement:
        for report in reports(found.snapshot, chosen):
            _emit(
                report.pod, output, partial(replacement_document, report), partial(replacement_text, report)
            )
        return
    state = SchedulingState(found.snapshot, configuration.profile)
    replacements, budgets = Replacements(found.snapshot), BudgetLedger(found.snapshot)
    protectors = Protectors(
        replacements,
        configuration.protections,
        configuration.protections_by_policy,
        covered=lambda pod: bool(budgets.of(pod)),
        judges=state.profile.judges,
    )
    makes_room = (p.title for p in configuration.policies if p.name == PendingPods.name and p.args.enabled)
    nearest = NearestWays(state, replacements, protectors.of(next(makes_room, "")), budgets)
    answers = move_answers(found.snapshot, configuration, chosen, state, protectors)
    for explained in explain_all(state, chosen, nearest):
        notes = (*explained.notes, *reservation_notes(found.snapshot, explained.pod))
        if controller is not None and not controller.leader.runs and holds_gate(explained.pod):
            notes = (*notes, f"no controller runs that would let it go: start it, or: {RELEASE}")
        explanation = replace(explained, moved=answers.get(explained.pod.key), notes=notes)
        _emit(
            explanation.pod,
            output,
            partial(explanation_document, explanation),
            partial(explanation_text, explanation),
        )


def _emit(pod: Pod, output: str, document: Callable[[], object], text: Callable[[Style], str]) -> None:
    emit_as(
        output,
        document=document,
        names=lambda: (f"pod/{pod.name}",),
        text=lambda: text(style()),
        one_of_many=True,
    )


def _instead(key: ObjectKey, snapshot: Snapshot) -> str:
    """What a person may have meant by a pod that does not exist."""
    elsewhere = next((other for other in snapshot.pods if other.name == key.name), None)
    if elsewhere is not None:
        return f"; did you mean {elsewhere}?"
    return did_you_mean(key.name, (other.name for other in snapshot.pods if other.namespace == key.namespace))


def choose(
    snapshot: Snapshot, names: tuple[str, ...], default_namespace: str, *, all_pending: bool
) -> list[Pod]:
    """The pods that the user named, in that order, and all pending pods if ``all_pending``. Raises CommandError."""
    chosen: list[Pod] = []
    for name in names:
        key = pod_key(name, default_namespace, snapshot.pods)
        pod = snapshot.pods.get(key)
        if pod is None:
            raise CommandError(f"there is no pod {key}{_instead(key, snapshot)}", EXIT_USAGE)
        chosen.append(pod)
    if all_pending:
        pending = (p for p in snapshot.pods.values() if not p.node and not p.terminal and not p.deleting)
        chosen += sorted(
            (p for p in pending if p not in chosen and not holds_nothing(p)), key=lambda p: p.key
        )
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


def reservation_notes(snapshot: Snapshot, pod: Pod) -> tuple[str, ...]:
    """The Reservations that a pending pod is an owner of, each with what it says of that pod; the moves of one that runs."""
    if pod.terminal:
        return ()
    if pod.node:
        return tuple(_move_notes(snapshot, pod))
    if holds_gate(pod):
        return (f"at the gate: {why_gated(pod, snapshot.reservations)}",)
    controllers = tuple(snapshot.controllers_from(pod.controller))
    found = (
        (r.name, r.status.phase, r.status.node_name, who_waits(r.status.conditions))
        for r in snapshot.reservations.values()
        if r.status.phase not in FINISHED and any_owner_matches(r.owners, pod, controllers)
    )
    return tuple(
        f"Reservation {name} is for this pod: {phase}{f' on {node}' if node else ''}"
        f"{f'; {waits}' if waits else ''}"
        for name, phase, node, waits in sorted(found)
    )


def _move_notes(snapshot: Snapshot, pod: Pod) -> Iterator[str]:
    for key, move in sorted(snapshot.migrations.items()):
        status = move.status
        if (move.namespace, move.pod_name) == pod.key and not move.finished and move.pod_uid in ("", pod.uid):
            yield f"PodMigration {key}: {status.phase}: {status.reason or 'asked for'}: {status.message}"


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
        take_off(state, pod)  # it stands nowhere if it has ended
    best: dict[str, int] = {}
    for resource, amount in pod.spec.requests.items():
        if amount and refusing:
            free = state.allocatable(resource) - state.requested(resource)
            best[resource] = int(free[refusing].max())
    state.rollback(mark)
    return Explanation(pod=pod, verdicts=verdicts, best_free=best)


def move_answers(
    snapshot: Snapshot,
    configuration: Configuration,
    pods: Sequence[Pod],
    state: SchedulingState,
    protectors: Protectors,
) -> dict[ObjectKey, MoveAnswer]:
    """The answer for each of the pods that is bound. ``state``: of the snapshot; it is left as it was."""
    bound = [pod for pod in pods if pod.node]
    if not bound:
        return {}
    policies = configuration.build_policies()
    plan = decide(snapshot, policies, configuration.inputs(), state).plan()
    moves = {ObjectKey(move.pod.namespace, move.pod.name): move for move in plan.moves}
    skipped: defaultdict[ObjectKey, list[Skipped]] = defaultdict(list)
    for one in plan.skipped:
        skipped[ObjectKey(one.pod.namespace, one.pod.name)].append(one)
    budgets, history = BudgetLedger(snapshot), History(snapshot)
    on = tuple(policy.title for policy in configuration.policies if policy.args.enabled)
    found: dict[ObjectKey, MoveAnswer] = {}
    for pod in bound:
        found[pod.key] = MoveAnswer(
            policies=on,
            move=moves.get(pod.key),
            skipped=tuple(skipped[pod.key]),
            protection=_protection(pod, protectors, on),
            budgets=tuple(budgets.of(pod)),
            rests_until_s=history.cooldown_until(pod, configuration.limits.workload_cooldown_s),
            waits_until_s=history.backoff_until(pod),
        )
    return found


def _protection(pod: Pod, protectors: Protectors, policies: Sequence[str]) -> str:
    """Why none of the policies may move the pod, or which of them may not; "": all may."""
    found = {one: one.refusal(pod) for one in protectors.among(policies)}
    words = {one: f"{refusal[1]} ({refusal[2]})" for one, refusal in found.items() if refusal is not None}
    if len(set(words.values())) == 1 and len(words) == len(found):
        return next(iter(words.values()))
    return "; ".join(f"{name}: {words[of]}" for name in policies if (of := protectors.of(name)) in words)
