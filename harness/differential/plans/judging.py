"""What kube-scheduler's code says of each move of a plan, and how often it was asked about what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.differential.manifests import Manifest
from harness.differential.plans.case import Case
from harness.differential.plans.dumps import read
from harness.differential.plans.replay import Script, script
from harness.differential.program import Program
from rescheduler.planning.plan import Move, PendingRoom, Plan
from rescheduler.planning.planner import plan
from rescheduler.scheduling.state import SchedulingState


class Refused(NamedTuple):
    """One move that kube-scheduler would not carry out as planned."""

    move: Move
    number: int
    when: str
    plugin: str
    reason: str

    def __str__(self) -> str:
        move = self.move
        owner = f"{move.controller.kind} {move.controller.name}" if move.controller else "no controller"
        return (
            f"move {self.number}: {move.pod.namespace}/{move.pod.name} ({owner}) {move.source} -> {move.target}, "
            f"{move.mode}, {move.policy}, {self.when}: {self.plugin}: {self.reason}"
        )


@dataclass(slots=True)
class Tally:
    """What was judged, over all plans."""

    plans: int = 0
    moves: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    """By moment, how often kube-scheduler was asked."""
    modes: Counter[str] = field(default_factory=Counter)
    policies: Counter[str] = field(default_factory=Counter)
    owners: Counter[str] = field(default_factory=Counter)
    configured: int = 0
    """Moves under a scheduler configuration other than the default."""
    misread: int = 0
    """Dumps whose cluster is another one than that of their objects."""
    refused: Counter[str] = field(default_factory=Counter)
    """By mode, moment and plugin."""


def planned(case: Case) -> Plan:
    """What our planner plans for the case."""
    snapshot = read(case.objects, case.form)
    return plan(snapshot, case.policies, case.inputs, SchedulingState(snapshot, case.profile))


def judge(case: Case, program: Program, tally: Tally) -> list[Refused]:
    """Every move of its plan that kube-scheduler refuses; ``tally`` counts all.

    Raises:
        Misread: the dump of the cluster is not read as what it is.
        ValueError: kube-scheduler's code cannot read the case.
    """
    made = planned(case)
    return judge_moves(case, made.moves, program, tally, made.rooms)


def judge_moves(
    case: Case, moves: Sequence[Move], program: Program, tally: Tally, rooms: Iterable[PendingRoom] = ()
) -> list[Refused]:
    """The same of any moves of the case, carried out in this order or all at once, and of the rooms that they make."""
    tally.plans += 1
    if not moves:
        return []
    asked = script(case, moves, rooms)
    others = [item for item in case.objects if _read_by_kube_scheduler(item)]
    answer = program.ask_moments(others, asked.pods, asked.moments, case.configuration)
    if answer.error:
        raise ValueError(answer.error)
    _count(case, moves, asked, tally)
    refused = [
        Refused(moves[number], number, "never", "", why) for number, why in asked.without_replacement.items()
    ]
    for (number, when, node), verdicts in zip(asked.asked, answer.pods or (), strict=True):
        said = verdicts.nodes[node]
        if not said.feasible:
            refused.append(Refused(moves[number], number, when, said.plugin, ", ".join(said.reasons)))
    tally.refused.update(f"{one.move.mode} {one.when}: {one.plugin}" for one in refused)
    return refused


def _read_by_kube_scheduler(item: Manifest) -> bool:
    return item["kind"] not in ("Pod", "ControllerRevision", "PodDisruptionBudget")


def _count(case: Case, moves: Sequence[Move], asked: Script, tally: Tally) -> None:
    tally.moves += len(moves)
    tally.configured += len(moves) if case.configuration is not None else 0
    tally.asked.update(str(one.when) for one in asked.asked)
    for move in moves:
        tally.modes[move.mode] += 1
        tally.policies[move.policy] += 1
        tally.owners[move.controller.kind if move.controller else "none"] += 1
