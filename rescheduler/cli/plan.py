"""``rescheduler plan``: what is badly placed, what would move where, why, and what blocks the rest.

The solver of ``--prove`` is an extra: it is imported only if it is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Final

import click
import msgspec

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.errors import EXIT_BLOCKED
from rescheduler.cli.label_query import label_query
from rescheduler.cli.live_controller import (
    ReadConfiguration,
    live_controller,
    load_configuration,
    read_for,
)
from rescheduler.cli.output import emit_as, is_text, long_work, style, tell, terminal_width, warn
from rescheduler.cli.snapshot_input import need_from
from rescheduler.configuration.document import Configuration
from rescheduler.configuration.policies_section import ConfiguredPolicy
from rescheduler.extras import Extra, needs
from rescheduler.kube.gc_pause import rare_collections
from rescheduler.model.counted import plural
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.selectors import NO_LABELS, LabelSelector
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.plan import Plan, PodRef
from rescheduler.planning.planner import decide
from rescheduler.planning.planner import plan as make_plan
from rescheduler.policies.registry import REGISTRY
from rescheduler.reports.text import plan_text
from rescheduler.scheduling.state import SchedulingState

MOST_S: Final = 2.0
"""So long it is looked what policies that are off would find."""
_MOST_PODS: Final = 5_000
"""In larger clusters one policy alone may take longer."""
_MOVES: Final = 200


@rare_collections()
def run(
    *,
    paths: tuple[str, ...],
    more_paths: tuple[str, ...],
    cluster: NamedCluster,
    now: str | None,
    output: str,
    output_file: str | None,
    namespace: str,
    all_namespaces: bool,  # noqa: ARG001 - the default
    selector: str,
    next_cycle: bool,
    max_moves: int | None,
    effort: int,
    prove: bool,
    prove_seconds: float,
    exit_code: bool,
) -> None:
    """Show what would move where and why, and what blocks the rest. Nothing is changed."""
    need_from(paths, more_paths)
    labels = label_query("-l", selector)
    if prove:
        if next_cycle:
            raise click.UsageError(
                "--prove is about whole plans: leave out --next-cycle, or limit it by --max-moves"
            )
        need_solver()  # told before the cluster is read
    # A report on the terminal shows the warnings itself.
    warned = terminal_width() is None or output_file is not None or not is_text(output)
    hindered: tuple[str, ...] = ()
    if paths:
        read = ReadConfiguration(load_configuration(cluster.config_file))
    else:
        controller = live_controller(cluster)
        read, hindered = controller.read, controller.warnings()
        for text in hindered if warned else ():
            warn(text)
    configuration = read.configuration
    found = read_for(cluster, configuration, paths=paths, more_paths=more_paths, now=now, warned=warned)
    state = SchedulingState(found.snapshot, configuration.profile)
    inputs = msgspec.structs.replace(
        configuration.inputs(unlimited=not next_cycle, max_moves=max_moves), effort=effort
    )
    with long_work("planning"):
        plan = make_plan(found.snapshot, configuration.build_policies(), inputs, state)
    if prove:
        from rescheduler.optima.bounds import JudgedPlan, bounds  # noqa: PLC0415 -- an extra

        judged = JudgedPlan(
            snapshot=found.snapshot,
            plan=plan,
            policies=tuple(p.args for p in configuration.policies if p.args.enabled),
            inputs=inputs,
            profile=configuration.profile,
            seconds=prove_seconds,
        )
        plan = msgspec.structs.replace(plan, bounds=bounds(judged))
    unknown = configuration.unknown_to(state.cluster.nodes)
    metadata = msgspec.structs.replace(
        plan.metadata,
        source=found.source,
        configuration=read.source or msgspec.UNSET,
        warnings=(*hindered, *found.warnings, *unknown, *plan.metadata.warnings),
    )
    plan = about(plan, found.snapshot, namespace, labels)
    plan = msgspec.structs.replace(plan, metadata=metadata)
    emit_as(
        output,
        document=lambda: plan,
        names=lambda: (f"pod/{move.pod.name}" for move in plan.moves),
        text=partial(_text, plan, output, coloured=output_file is None),
        file=output_file,
    )
    if is_text(output) and output_file is None:
        with long_work("looking at policies that are off"):
            for line in _policies_off(found.snapshot, configuration, inputs, state):
                tell(line)
    if exit_code and plan.skipped:
        raise SystemExit(EXIT_BLOCKED)


def _policies_off(
    snapshot: Snapshot,
    configuration: Configuration,
    inputs: PlanningInputs,
    state: SchedulingState,
) -> Iterator[str]:
    """A line for each policy that is off and would move pods, so that nobody takes "nothing to move" for "nothing to gain".

    One policy after the other, with the least effort. ``state`` follows the snapshot, and is left as it was.
    """
    if len(snapshot.pods) > _MOST_PODS:
        return
    ends_s = time.monotonic() + MOST_S
    least = msgspec.structs.replace(inputs, effort=1, max_moves=_MOVES)
    for one in _off(configuration):
        if time.monotonic() >= ends_s:
            return
        if REGISTRY[one.name].problems(one.args):
            continue  # it has to be told what to look for
        plan = decide(snapshot, (one.build(),), least, state).plan()
        if plan.moves:
            emptied = plan.after.empty_nodes - plan.before.empty_nodes
            more = f" and empty {plural(emptied, 'node')}" if emptied > 0 else ""
            rooms = sum(bool(room.node) for room in plan.rooms)
            more += f" and make room for {plural(rooms, 'pending pod')}" if rooms else ""
            yield f"{one.title} is off: it would move {plural(len(plan.moves), 'pod')}{more}"


def _off(configuration: Configuration) -> Iterator[ConfiguredPolicy]:
    """Entries with ``enabled: false``, with their own arguments; then what the document does not name, with the defaults."""
    yield from (one for one in configuration.policies if not one.args.enabled)
    named = {one.name for one in configuration.policies}
    named |= {one.name for one in configuration.build_policies()}
    yield from (
        ConfiguredPolicy(name=name, args=kind.args()) for name, kind in REGISTRY.items() if name not in named
    )


def about(plan: Plan, snapshot: Snapshot, namespace: str, labels: LabelSelector) -> Plan:
    """The moves, and what is skipped, of pods of the namespace ("": of all) with these labels; what is left out is told."""
    if not namespace and labels.empty:
        return plan

    def chosen(key: ObjectKey, pod: Pod | None) -> bool:
        return namespace in ("", key.namespace) and labels.matches(pod.labels if pod else NO_LABELS)

    def shown(ref: PodRef) -> bool:
        key = ObjectKey(ref.namespace, ref.name)
        return chosen(key, snapshot.pods.get(key))

    if not any(chosen(pod.key, pod) for pod in snapshot.pods.values()):
        place, those = (
            f" in namespace {namespace}" if namespace else "",
            "" if labels.empty else " with these labels",
        )
        warn(f"there is no pod{place}{those}")

    moves = tuple(move for move in plan.moves if shown(move.pod))
    skipped = tuple(one for one in plan.skipped if shown(one.pod))
    tell(
        f"shown: {len(moves):,} of {plural(len(plan.moves), 'move')}, {len(skipped):,} of {len(plan.skipped):,} skipped; "
        "figures by policy and node are of the whole plan"
    )
    return msgspec.structs.replace(plan, moves=moves, skipped=skipped)


def _text(plan: Plan, output: str, *, coloured: bool) -> str:
    if output == "html":
        from rescheduler.reports.html.page import plan_html  # noqa: PLC0415 - few ask for a page

        return plan_html(plan)
    if not coloured:
        return plan_text(plan)
    return plan_text(plan, style(), terminal_width() if output == "text" else None)


def need_solver() -> None:
    """Raises MissingExtraError if the solver is not installed."""
    with needs(Extra.PROVE, "'rescheduler plan --prove'"):
        import rescheduler.optima.integer_program  # noqa: F401, PLC0415 -- an extra
