"""``rescheduler drain`` cordons nodes and moves every pod with its room reserved first; ``rescheduler uncordon`` ends that."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rescheduler.cli.by_name import find_nodes, find_nodes_in, need_one_way, pods_on
from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.drain_plan import DrainOptions, DrainPlan, Stays, plan_drain
from rescheduler.cli.draining import Drain, emit_plan, evict_by_requests, eviction_requests, refusal_text
from rescheduler.cli.errors import EXIT_FAILED, CommandError
from rescheduler.cli.live_controller import live_controller, load_configuration, read_for
from rescheduler.cli.migration_client import MigrationClient, MoveOrder, withdraw_moves
from rescheduler.cli.node_marks import NodeMarks, cordon, node_path
from rescheduler.cli.options import time_limit
from rescheduler.cli.output import emit_objects, is_document, tell, teller
from rescheduler.cli.snapshot_input import need_rehearsal
from rescheduler.configuration.document import Configuration
from rescheduler.model.names import ANNOTATION_EVICT, LABEL_CONSOLIDATION
from rescheduler.model.node_autoscaler import may_be_asked
from rescheduler.model.snapshot import Snapshot


def run(
    *,
    nodes: tuple[str, ...],
    selector: str,
    paths: tuple[str, ...],
    only_plan: bool,
    dry_run: bool,
    grace_period: int,
    timeout: str,
    output: str,
    evict_with: str,
    cluster: NamedCluster,
    **flags: bool,
) -> None:
    """Cordon nodes, and move every pod to another node; room for its replacement is reserved before it is evicted."""
    need_one_way(nodes, selector)
    limit_s = time_limit(timeout)
    rehearsed = only_plan or dry_run
    need_rehearsal(paths, rehearsed=rehearsed)
    if paths:
        configuration = load_configuration(cluster.config_file)
        snapshot = read_for(cluster, configuration, paths=paths).snapshot
        names = [node.name for node in find_nodes_in(snapshot.nodes.values(), nodes, selector)]
        _show_plan(_planned(snapshot, configuration, names, flags), output)
        return
    api = cluster.api()
    found = find_nodes(api, nodes, selector)
    names = [node.name for node in found]
    controller = live_controller(cluster, api)
    configuration = controller.told_configuration()

    def planned() -> DrainPlan:
        snapshot = read_for(cluster, configuration).snapshot
        there = [name for name in names if name in snapshot.nodes]
        return _planned(snapshot, configuration, there, flags)

    plan = planned()
    if rehearsed:
        _show_plan(plan, output)
        return
    _need_drainable(plan, output)
    if plan.moves or plan.under_way:
        controller.need()
    requests = eviction_requests(api) if evict_with == "request" else None
    _foretell(plan)
    say = teller(output)
    for node in found:
        if not node.unschedulable:
            cordon(api, node.name, on=True)
        say(f"node/{node.name} {'already cordoned' if node.unschedulable else 'cordoned'}")
    job = Drain(
        api=api,
        plan=planned,
        order=MoveOrder(
            ttl_s=limit_s,
            reason="asked for with rescheduler drain",
            annotations={ANNOTATION_EVICT: "true"},
            grace_s=grace_period if grace_period >= 0 else None,
        ),
        stays="they stay cordoned",
        how_to_go_on=_how_to_go_on(names),
    )
    with job.told(names, output):
        if requests is not None:
            pods = [move.pod for move in plan.moves]
            evict_by_requests(api, requests, pods, limit_s, _how_to_go_on(names))
        job.carry_out(plan if requests is None else planned())
    for name in names:
        say(f"node/{name} drained")


def _planned(
    snapshot: Snapshot, configuration: Configuration, names: Sequence[str], flags: Mapping[str, bool]
) -> DrainPlan:
    asks = may_be_asked(configuration.reservations.node_autoscaler, snapshot)
    return plan_drain(snapshot, configuration, names, DrainOptions(asks_for_nodes=asks, **flags))


def _show_plan(plan: DrainPlan, output: str) -> None:
    """Raises SystemExit: the drain would not begin."""
    emit_plan(plan, output)
    if plan.refused:
        raise SystemExit(EXIT_FAILED)


def _need_drainable(plan: DrainPlan, output: str) -> None:
    """Raises CommandError: a pod keeps a node from being drained."""
    if plan.refused:
        if is_document(output):
            emit_plan(plan, output)
        raise CommandError(f"{refusal_text(plan)}\nNothing was changed.")


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


def uncordon(
    *, nodes: tuple[str, ...], selector: str, dry_run: bool, output: str, cluster: NamedCluster
) -> None:
    """Let pods be scheduled to nodes again, and withdraw the moves of a drain or a consolidation that have evicted no pod yet."""
    need_one_way(nodes, selector)
    api = cluster.api()
    found = find_nodes(api, nodes, selector)
    # The moves first: while the node is cordoned no new pod comes to it that could be taken for one of them.
    on_nodes = {pod.key for pod in pods_on(api, (node.name for node in found))}
    rehearsed = " (dry run)" if dry_run else ""
    say = teller(output)
    withdraw_moves(MigrationClient(api), on_nodes, say, dry_run=dry_run)
    marks = NodeMarks(api=api, now_s=time.time)
    for node in found:
        if node.deleting:
            say(f"node/{node.name} is being deleted: it does not come back")
            continue
        consolidated = LABEL_CONSOLIDATION in node.labels
        if consolidated and not dry_run:
            marks.give_back(node.name)
        elif node.unschedulable and not dry_run:
            cordon(api, node.name, on=False)
        word = "uncordoned" if node.unschedulable or consolidated else "already uncordoned"
        say(f"node/{node.name} {word}{rehearsed}")
    names = [node.name for node in found]
    emit_objects(output, "node", names, (api.get(node_path(name)) for name in names), str)
