"""``rescheduler scale``: reserve room for every new pod first, then scale; with ``--dry-run`` where the new pods would go now."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import msgspec

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.errors import EXIT_FAILED, EXIT_USAGE, CommandError
from rescheduler.cli.options import time_limit
from rescheduler.cli.output import StatusLine, emit_objects, teller
from rescheduler.cli.reservation_client import ReservationClient, manifests
from rescheduler.cli.reserve_flags import rooms_of_workload
from rescheduler.cli.scale_up import ScaleResult, ScaleUp, room_for
from rescheduler.cli.snapshot_input import read_input
from rescheduler.cli.workload import FoundWorkload, parse_workload, read_workload
from rescheduler.coordination.placement import Placement
from rescheduler.kube.client import KubeApi
from rescheduler.kube.retry import DEADLINE_S
from rescheduler.model.counted import plural
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.names import DEFAULT_NAMESPACE
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.single_pod import Choice
from rescheduler.replacements.replacement import Replacements
from rescheduler.reports.reservation_words import status_message
from rescheduler.reports.table import table


def run(
    *,
    words: tuple[str, ...],
    replicas: int,
    namespace: str | None,
    timeout: str,
    dry_run: bool,
    output: str,
    cluster: NamedCluster,
) -> None:
    """Reserve room for every new pod, all or nothing; then scale, and wait until every pod is bound to its room."""
    limit_s = time_limit(timeout)
    if len(words) > 1 + ("/" not in words[0]):
        raise CommandError(f"{' '.join(words)}: name one workload, as deployment/NAME", EXIT_USAGE)
    name = parse_workload("/".join(words), cluster.namespace(namespace))
    api = cluster.api(DEADLINE_S)
    found = read_workload(api, name)
    say, missed = teller(output), False
    if found.unsettled and replicas > found.replicas:
        raise CommandError(f"{found.unsettled}; scale again when it has finished")
    if replicas == found.replicas:
        say(f"{name} has {plural(replicas, 'replica')} already")
    elif replicas < found.replicas:
        if not dry_run:
            api.merge_patch(f"{name.path}/scale", {"spec": {"replicas": replicas}})
        done = "would be scaled" if dry_run else "scaled"
        say(f"{name} {done} down from {found.replicas} to {replicas}; that needs no room")
    elif dry_run:
        missed = _dry_run(found, replicas, cluster, say)
    else:
        missed = _scale_up(api, found, replicas, limit_s, say)
    kind = f"{name.kind}.apps"
    emit_objects(output, kind, [name.name], map(api.get, (name.path,)), str)
    if missed:
        raise SystemExit(EXIT_FAILED)


def _scale_up(
    api: KubeApi, found: FoundWorkload, replicas: int, limit_s: float, say: Callable[[str], None]
) -> bool:
    """True: pods have not landed."""
    earlier = _held_already(api, found, replicas - found.replicas)
    with StatusLine() as line:
        job = ScaleUp(
            rooms=ReservationClient(api),
            workload=found,
            replicas=replicas,
            group=secrets.token_hex(4),
            timeout_s=limit_s,
            earlier=earlier,
            show=line.show,
        )
        held = job.reserve()
        line.clear()
        rows = table(("RESERVATION", "NODE"), [(room.name, room.status.node_name) for room in held])
        say("\n".join([f"room is held for {plural(job.count, 'new pod')} of {found.name}:", *rows]))
        job.scale()
        landing = job.land()
    say(_landed_text(found, replicas, landing))
    return bool(landing.missed)


def _held_already(api: KubeApi, found: FoundWorkload, most: int) -> tuple[str, ...]:
    """The first of the Reservations that "reserve create" holds for new pods of the workload, one pod each."""
    rooms = rooms_of_workload(api, found.name)
    held = sorted(
        room.name for room in rooms if room.status.phase is ReservationPhase.AVAILABLE and room.allocate_once
    )
    return tuple(held[:most])


def _landed_text(found: FoundWorkload, replicas: int, landing: ScaleResult) -> str:
    count = replicas - found.replicas
    rows = [
        (r.status.current_owners[0].name if r.status.current_owners else "-", r.status.node_name, r.name)
        for r in landing.landed
    ]
    lines = [f"{found.name} scaled from {found.replicas} to {replicas}; landed {len(rows)} of {count}"]
    lines += table(("POD", "NODE", "RESERVATION"), rows)
    lines += [
        f"  {r.name} on {r.status.node_name or '-'}: {r.status.phase}: {status_message(r)}"
        for r in landing.missed
    ]
    return "\n".join(lines)


def _dry_run(found: FoundWorkload, replicas: int, cluster: NamedCluster, say: Callable[[str], None]) -> bool:
    """True: not all pods have room."""
    count = replicas - found.replicas
    held = len(_held_already(cluster.api(), found, count))
    choices = place_new_pods(read_input(cluster).snapshot, found, count - held)
    placed = [c.node for c in choices if c.node]
    already = f", {held} of them held already" if held else ""
    lines = [
        f"{found.name} from {found.replicas} to {replicas}: room for {held + len(placed)} of {count} new pods now{already}"
    ]
    lines += table(("NODE", "NEW PODS"), [(n, str(placed.count(n))) for n in sorted(set(placed))])
    refused = next((c.message for c in choices if not c.node), "")
    if refused:
        lines.append(f"  the other pods: {refused}")
        lines.append("  nothing would be scaled: either all new pods get room, or none")
    say("\n".join(lines))
    return bool(refused)


def place_new_pods(snapshot: Snapshot, workload: FoundWorkload, count: int) -> list[Choice]:
    """A node, or the reason why there is none, for each of ``count`` new pods, one after the other."""
    placement = Placement(namespace=DEFAULT_NAMESPACE)
    placement.begin(Replacements(snapshot))
    decoder = Decoder()
    choices: list[Choice] = []
    for body in manifests(room_for(workload, "dry-run", 0.0), count, "dry-run"):
        record = decoder.record(Kind.RESERVATION, msgspec.json.encode(body))
        if isinstance(record, Reservation):
            choices.append(placement.for_reservation(record))
    return choices
