"""``rescheduler consolidate``: find the nodes that can go, say it, and empty them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import click

from rescheduler.cli.by_name import pods_on
from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.consolidation import ConsolidationPlan, NodesWanted, Share, again, choose
from rescheduler.cli.drain_plan import DrainPlan
from rescheduler.cli.draining import Drain, NotDrainedError, moves_document, with_reasons
from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.live_controller import asked_about, read_for
from rescheduler.cli.migration_client import CONSOLIDATING, MigrationClient, MoveOrder, withdraw_moves
from rescheduler.cli.node_marks import NodeMarks, Then
from rescheduler.cli.options import parse_pairs, time_limit
from rescheduler.cli.output import emit, emit_as, is_text, tell, teller, warn
from rescheduler.cli.snapshot_input import need_rehearsal
from rescheduler.kube.client import KubeApi
from rescheduler.model.counted import plural
from rescheduler.model.names import API_VERSION, LABEL_CONSOLIDATION
from rescheduler.model.never_moves import belongs_to_node
from rescheduler.model.snapshot import Snapshot
from rescheduler.reports.table import table

_REASON: Final = "asked for with rescheduler consolidate"
_GO_ON: Final = (
    "Moves that have begun go on. To go on: rescheduler consolidate --resume; to end it, and to get all of its nodes "
    f"back: rescheduler uncordon -l {LABEL_CONSOLIDATION}"
)
_WHOLE: Final = 100
_STAYING: Final = 10
"""Of the nodes that stay so many are shown, with the reason."""
_MOVES: Final = 40


def run(
    *,
    nodes: int | None,
    pool: str,
    until: str,
    paths: tuple[str, ...],
    resume: bool,
    then: str,
    only_plan: bool,
    dry_run: bool,
    timeout: str,
    output: str,
    cluster: NamedCluster,
) -> None:
    """Find the nodes that can go, and empty them: every pod moves to a room that is reserved first."""
    wanted = NodesWanted(nodes=nodes, pool=tuple(parse_pairs("--pool", pool)), until=_share(until))
    limit_s = time_limit(timeout)
    if resume and (nodes or until):
        raise click.UsageError("--resume goes on with what was begun: leave out --nodes and --until")
    rehearsed = only_plan or dry_run
    need_rehearsal(paths, rehearsed=rehearsed)
    controller, configuration = asked_about(cluster, paths)

    def snapshot() -> Snapshot:
        return read_for(cluster, configuration, paths=paths).snapshot

    chosen = choose(snapshot(), configuration, NodesWanted(nodes=0, pool=wanted.pool) if resume else wanted)
    for text in chosen.warnings:
        warn(text)
    if pool and not (chosen.nodes or chosen.stay):
        raise CommandError(f"no node has the labels {pool}")
    if rehearsed or not (is_text(output) or chosen.nodes):
        emit_as(
            output,
            document=lambda: consolidation_document(chosen),
            names=lambda: (f"node/{name}" for name in chosen.nodes),
            text=lambda: consolidation_text(chosen, wide=output == "wide"),
        )
    elif not (chosen.nodes or chosen.refused or wanted.nodes):
        emit("no consolidation is under way\n" if resume else f"{headline(chosen)}\n")
    _refuse(chosen, wanted)
    if controller is None or rehearsed or not chosen.nodes:
        return
    api = controller.api
    job = _Job(
        api=api,
        marks=NodeMarks(api=api, now_s=time.time),
        chosen=chosen,
        then=Then(then),
        output=output,
    )
    job.check()
    if chosen.moves or chosen.under_way:
        controller.need()
    tell(headline(chosen))
    job.carry_out(lambda: again(snapshot(), configuration, chosen.nodes, chosen.closed), limit_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One consolidation that is carried out."""

    api: KubeApi
    marks: NodeMarks
    chosen: ConsolidationPlan
    then: Then
    output: str

    def _say(self, line: str) -> None:
        teller(self.output)(line)

    def check(self) -> None:
        """Refuse what ``then`` cannot do. Raises CommandError."""
        if self.then is Then.KARPENTER and (others := self.marks.without_karpenter(self.chosen.nodes)):
            raise CommandError(
                f"Karpenter would not take {', '.join(others)} away (no finalizer karpenter.sh/termination): use --pool, "
                "or another --then. Nothing was changed."
            )

    def carry_out(self, plan: Callable[[], DrainPlan], limit_s: float) -> None:
        """Cordon, empty, and hand over the nodes. Those that cannot be emptied are given back."""
        for name in self.chosen.nodes:
            self.marks.begin(name)
            self._say(f"node/{name} cordoned")
        drain = Drain(
            api=self.api,
            plan=plan,
            order=MoveOrder(group=CONSOLIDATING, ttl_s=limit_s, reason=_REASON),
            stays="those with pods are given back",
            how_to_go_on="To see what can go now: rescheduler consolidate --plan",
        )
        try:
            with drain.told(self.chosen.nodes, self.output):
                drain.carry_out(self.chosen)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(_GO_ON)
            raise
        except CommandError:
            self._end(give_back=True)
            raise
        if filled := self._end(give_back=False):
            raise NotDrainedError(f"pods have come to {', '.join(filled)} meanwhile\n{_GO_ON}")

    def _end(self, *, give_back: bool) -> list[str]:
        """Hand over or give back each node; returns those that pods have filled again, which stay cordoned."""
        filled: list[str] = []
        for name in self.chosen.nodes:
            left = [pod for pod in pods_on(self.api, [name]) if not pod.terminal and not belongs_to_node(pod)]
            if not left:
                self._say(f"node/{name} {self.marks.end(name, self.then)}")
            elif give_back:
                withdraw_moves(MigrationClient(self.api), {pod.key for pod in left}, self._say)
                self.marks.give_back(name)
                self._say(f"node/{name} uncordoned: {plural(len(left), 'pod')} stayed")
            else:
                filled.append(name)
                self._say(f"node/{name} cordoned, not empty: {left[0].key} has come")
        return filled


def _refuse(chosen: ConsolidationPlan, wanted: NodesWanted) -> None:
    """Raises CommandError: so many nodes cannot go, or those begun earlier cannot."""
    if chosen.refused:
        lines = "".join(f"\n  {pod.key} on node/{pod.node}: {why}" for pod, why in chosen.refused)
        raise CommandError(
            f"nodes of an interrupted consolidation cannot be emptied any more:{lines}\nGive them back: rescheduler "
            f"uncordon -l {LABEL_CONSOLIDATION}=Emptying. Nothing was changed."
        )
    if wanted.nodes is not None and len(chosen.nodes) < wanted.nodes:
        lines = "".join(f"\n  {name}: {why}" for name, why in chosen.stay)
        raise CommandError(
            f"{len(chosen.nodes)} of {_considered(chosen)} can go, not {wanted.nodes}; the others stay:{lines}\n"
            "Nothing was changed."
        )


def _share(text: str) -> float:
    if not text:
        return 1.0
    digits = text.removesuffix("%")
    if not digits.isdecimal() or not 1 <= int(digits) <= _WHOLE:
        raise CommandError(f"--until: {text!r} is not a percentage from 1% to 100%", EXIT_USAGE)
    return int(digits) / _WHOLE


def consolidation_text(found: ConsolidationPlan, *, wide: bool) -> str:
    """Which nodes go, where their pods go, and why the others stay; ``wide``: all of them."""
    shown_moves, shown_staying = (None, None) if wide else (_MOVES, _STAYING)
    lines = [headline(found)]
    if found.nodes:
        rows = [(name, _state(found, name), str(_pods(found, name))) for name in found.nodes]
        lines += ["", *table(("NODE THAT GOES", "NOW", "MOVES"), rows, right=frozenset({2}))]
    if found.moves:
        moves = [(str(m.pod.key), m.pod.node, m.target) for m in found.moves[:shown_moves]]
        lines += ["", *table(("POD", "FROM", "TO"), moves)]
        if shown_moves and len(found.moves) > shown_moves:
            lines.append(f"  and {len(found.moves) - shown_moves:,} more (-o wide has all)")
    if found.stay:
        lines += ["", *table(("NODE THAT STAYS", "WHY"), found.stay[:shown_staying])]
        if shown_staying and len(found.stay) > shown_staying:
            lines.append(f"  and {len(found.stay) - shown_staying:,} more (-o wide has all)")
    return "\n".join(lines) + "\n"


def consolidation_document(found: ConsolidationPlan) -> dict[str, Any]:
    """The same for programs."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Consolidation",
        "nodes": [{"name": n, "state": _state(found, n), "moves": _pods(found, n)} for n in found.nodes],
        "moves": moves_document(found),
        "stay": [{"name": name, "message": why} for name, why in found.stay],
        "refused": with_reasons(found.refused),
        "warnings": found.warnings,
        "before": _share_document(found.before),
        "after": _share_document(found.after),
    }


def headline(found: ConsolidationPlan) -> str:
    """How many nodes go, and how full the others are then."""
    before, after = found.before, found.after
    if not found.nodes:
        return f"no node can go: {_full(before)}"
    going = f"{len(found.nodes)} of {_considered(found)} can go"
    return f"{going}, with {plural(len(found.moves), 'move')}; now {_full(before)}, then {_full(after)}"


def _considered(found: ConsolidationPlan) -> str:
    return plural(found.before.nodes + len(found.resumed), "node")


def _full(share: Share) -> str:
    return f"{plural(share.nodes, 'node')} with {share.cpu:.0%} of CPU and {share.memory:.0%} of memory requested"


def _state(found: ConsolidationPlan, name: str) -> str:
    if name in found.empty:
        return "empty"
    return "begun earlier" if name in found.resumed else "in use"


def _pods(found: ConsolidationPlan, node: str) -> int:
    return sum(move.pod.node == node for move in found.moves)


def _share_document(share: Share) -> dict[str, Any]:
    return {"nodes": share.nodes, "cpu": round(share.cpu, 4), "memory": round(share.memory, 4)}
