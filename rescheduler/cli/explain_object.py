"""``rescheduler explain node`` and ``explain reservation``: who holds, lacks or refuses what, and until when, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rescheduler.cli.by_name import chosen
from rescheduler.cli.drain_plan import DrainOptions, plan_drain
from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.live_controller import read_by_its_configuration
from rescheduler.cli.output import emit_as, style
from rescheduler.configuration.document import Configuration
from rescheduler.kube.gc_pause import rare_collections
from rescheduler.model.counted import plural
from rescheduler.model.names import ANNOTATION_MIGRATION, API_VERSION, ZONE
from rescheduler.model.node_marks import marks_of, own_taints
from rescheduler.model.own_objects import who_waits
from rescheduler.model.records import Node, ObjectKey
from rescheduler.model.reservation import Reservation
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import format_seconds
from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import decide
from rescheduler.reports.cluster_status import hints_of
from rescheduler.reports.reservation_words import amounts, owner_text, status_message, until
from rescheduler.reports.table import cpu, memory
from rescheduler.reservations.reservation_lifecycle import FINISHED
from rescheduler.scheduling.state import SchedulingState

Line = tuple[str, str]
"""(what it is about, what there is to say)."""
_LOSES_NOTHING = DrainOptions(ignore_daemonsets=True)


def node(**flags: Any) -> None:
    """What is on nodes, what is held there and for whom, what the controller keeps away and until when, and who keeps a drain off."""
    snapshot, configuration = _read(flags)
    nodes = chosen(snapshot.nodes, [_bare(name, "node") for name in flags["names"]], "node")
    state = SchedulingState(snapshot, configuration.profile)
    plan = decide(snapshot, configuration.build_policies(), configuration.inputs(), state).plan()
    for one in nodes:
        _tell("node", one.name, node_lines(snapshot, configuration, plan, one), flags["output"])


def reservation(**flags: Any) -> None:
    """For whom Reservations hold room, where, since when and until when, and what they wait for."""
    snapshot, _ = _read(flags)
    for one in chosen(
        snapshot.reservations, [_bare(name, "reservation") for name in flags["names"]], "Reservation"
    ):
        _tell("reservation", one.name, reservation_lines(snapshot, one), flags["output"])


def _bare(word: str, kind: str) -> str:
    """The name in NAME or KIND/NAME. Raises CommandError: it is of another kind."""
    named, slash, name = word.rpartition("/")
    if slash and named.removesuffix(".rescheduler.dev").removesuffix("s") != kind:
        raise CommandError(f"{word!r}: write NAME or {kind}/NAME", EXIT_USAGE)
    return name


@rare_collections()
def _read(flags: dict[str, Any]) -> tuple[Snapshot, Configuration]:
    return read_by_its_configuration(flags["cluster"], flags["paths"], flags["now"])


def _tell(kind: str, name: str, found: Iterator[Line], output: str) -> None:
    lines = list(found)
    said = [{"about": about, "message": text} for about, text in lines]
    width = max(len(about) for about, _ in lines)
    title = style()(f"{kind}/{name}", "heading")
    emit_as(
        output,
        document=lambda: {"apiVersion": API_VERSION, "kind": "Explanation", kind: name, "lines": said},
        names=lambda: (f"{kind.replace('reservation', 'reservation.rescheduler.dev')}/{name}",),
        text=lambda: "".join([f"{title}\n", *(f"  {a:{width}}  {t}\n" for a, t in lines)]),
        one_of_many=True,
    )


def node_lines(snapshot: Snapshot, configuration: Configuration, plan: Plan, node: Node) -> Iterator[Line]:
    """Everything about a node, the state first."""
    marks = ", ".join(mark.value for mark in marks_of(node)) or "takes pods"
    pods = [pod for pod in snapshot.pods.values() if pod.node == node.name and not pod.terminal]
    yield "state", f"{marks}; zone {node.labels.get(ZONE) or '-'}; {plural(len(pods), 'pod')}"
    requests, have = [pod.spec.requests for pod in pods], node.allocatable
    cpus = f"cpu {cpu(sum(r.cpu_milli for r in requests))} of {cpu(have.cpu_milli)}"
    memories = f"memory {memory(sum(r.memory_bytes for r in requests))} of {memory(have.memory_bytes)}"
    yield "requested", f"{cpus}, {memories}"
    for taint in own_taints(node):
        value = f"={taint.value}" if taint.value else ""
        yield "taint", f"{taint.key}{value}:{taint.effect}"
    if node.kept_empty is not None:
        back = f"rescheduler uncordon {node.name}"
        yield "kept empty", f"the controller has emptied it; to give it back: {back}"
    yield from _held(snapshot, node)
    yield from _planned(plan, node.name)
    drain = plan_drain(snapshot, configuration, [node.name], _LOSES_NOTHING)
    for pod, why in drain.refused:
        yield "refuses a drain", f"{pod.key}: {why}"
    if not drain.refused:
        yield "drain", f"possible with --ignore-daemonsets: {plural(len(drain.moves), 'pod')} would be moved"


def _held(snapshot: Snapshot, node: Node) -> Iterator[Line]:
    """Rooms on the node, hints to stay away from it, and moves from and to it."""
    now_s = snapshot.taken_at_s
    for room in snapshot.reservations.values():
        if room.status.node_name == node.name and room.status.phase not in FINISHED:
            owners = ", ".join(map(owner_text, room.owners)) or "nobody"
            what = f"reservation/{room.name}: {room.status.phase}, {amounts(room.status.allocatable)}"
            since = format_seconds(room.created_at_s)
            yield "held", f"{what}, for {owners}, since {since}, ends {_ends(room, now_s)}"
    yield from (("hint", words) for words in hints_of(node, now_s))
    for move in snapshot.migrations.values():
        source, target = move.status.source_node, move.status.node_name or move.target_node
        if node.name in (source, target) and not move.status.finished_at_s:
            way = f"from {source or '-'} to {target or '-'}"
            step = move.status.reason or "asked for"
            yield "move under way", f"{move.namespace}/{move.pod_name} {way}: {step}"


def _ends(room: Reservation, now_s: float) -> str:
    left = until(room, now_s)
    return f"in {left}" if left[0].isdigit() else left


def _planned(plan: Plan, name: str) -> Iterator[Line]:
    for move in plan.moves:
        if name in (move.source, move.target):
            pod = f"{move.pod.namespace}/{move.pod.name}"
            yield (
                "would move",
                f"{pod} from {move.source} to {move.target}: {move.policy}: {move.message or move.reason}",
            )
    for one in plan.skipped:
        if one.node == name:
            by = f" ({one.blocked_by})" if one.blocked_by else ""
            yield "stays", f"{one.pod.namespace}/{one.pod.name}: {one.policy} proposes it: {one.message}{by}"


def reservation_lines(snapshot: Snapshot, room: Reservation) -> Iterator[Line]:
    """Everything about a Reservation, what it is first."""
    status, now_s = room.status, snapshot.taken_at_s
    where = status.node_name or room.template_node
    yield "phase", f"{status.phase}{f' on {where}' if where else ''}"
    yield "says", status_message(room)
    wanted = room.template.requests if room.template is not None else status.allocatable
    yield "holds" if status.node_name and status.phase not in FINISHED else "wants", amounts(wanted)
    for owner in room.owners:
        yield "for", owner_text(owner)
    if not room.owners:
        yield "for", "nobody: no pod may use it"
    for owner_pod in status.current_owners:
        yield "used by", f"{owner_pod.namespace}/{owner_pod.name}"
    waits = who_waits(status.conditions)
    if waits:
        yield "lacks it", waits
    yield "since", format_seconds(room.created_at_s)
    yield "ends", _ends(room, now_s)
    migration = room.annotations.get(ANNOTATION_MIGRATION)
    if migration:
        namespace, _, name = migration.rpartition("/")
        move = snapshot.migrations.get(ObjectKey(namespace, name))
        state = (
            f": {move.status.phase}: {move.status.reason or 'asked for'}: {move.status.message}"
            if move
            else ""
        )
        yield "of the move", f"podmigration {migration}{state}"
    if room.make_room:
        aside = "running pods may be moved for it"
        yield "makes room", f"{aside}; under way" if status.making_room is not None else aside
