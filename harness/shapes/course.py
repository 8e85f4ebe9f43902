"""Plan, move, let the scheduler place what waits, plan again: does the cluster come to rest, and is each plan true of the next?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.differential.plans.case import Case
from harness.rest.cycles import Been, badness_of, moved, swapped
from harness.shapes.checks import company_broken, profile_of, wrong_sums
from harness.shapes.settling import settled, with_rooms_taken
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import plan
from rescheduler.scheduling.state import SchedulingState

CYCLES = 150
"""A cluster that moves pods for longer is called restless; with one move at once a cycle makes one move."""


@dataclass(slots=True)
class Course:
    """What happened."""

    cycles: int = 0
    moves: int = 0
    rooms: int = 0
    """Pending pods that got room by moves of others."""
    staged: int = 0
    """Moves that began after others."""
    returns_after_others: int = 0
    restless: bool = False
    faults: list[str] = field(default_factory=list)
    """In words."""


def course_of(case: Case, cluster: Snapshot) -> Course:
    """From a cluster in which the scheduler has placed what it can."""
    profile, course, been = profile_of(case), Course(), Been()
    state = SchedulingState(cluster, profile)
    badness = badness_of(cluster, case.policies, state)
    before: Plan | None = None
    for number in range(CYCLES):
        made = plan(cluster, case.policies, case.inputs, state)
        found = list(_untrue(before, made)) if before is not None else []
        if not made.moves:
            course.faults += [f"cycle {number}: {words}" for words in found]
            break
        been.carried_out(number, made, badness)
        found += [*swapped(made), *wrong_sums(made), *company_broken(case, cluster, made)]
        _count(course, made)
        cluster = with_rooms_taken(moved(cluster, made), made.rooms)
        now = badness_of(cluster, case.policies, state)
        if not now < badness:
            found.append(f"badness {badness} -> {now}")
        course.faults += [f"cycle {number}: {words}" for words in found]
        after = settled(cluster, profile)
        # What a plan says of the cluster after it is compared only if nobody else landed meanwhile.
        before = made if _standing(after) == _standing(cluster) else None
        cluster, badness = after, badness_of(after, case.policies, state)
    else:
        course.restless = True
        course.faults.append(f"moves in each of {CYCLES} cycles")
    course.faults += been.returns
    course.returns_after_others = len(been.after_others)
    return course


def _count(course: Course, made: Plan) -> None:
    course.cycles += 1
    course.moves += len(made.moves)
    course.rooms += sum(bool(room.node) for room in made.rooms)
    course.staged += sum(bool(move.after) for move in made.moves)


def _standing(cluster: Snapshot) -> int:
    return sum(1 for pod in cluster.pods.values() if pod.node)


def _untrue(before: Plan, made: Plan) -> Iterator[str]:
    """What the plan before said of the cluster after it, and is not so."""
    said, found = before.after, made.before
    for one, other in zip(said.policies, found.policies, strict=True):
        if one != other:
            yield f"after the plan before: {one}, and now: {other}"
    for node, now in zip(said.nodes, found.nodes, strict=True):
        if node != now:
            yield f"after the plan before: {node}, and now: {now}"
    counts = [
        (s.pods, s.pending_pods, s.empty_nodes, s.cpu_imbalance, s.memory_imbalance) for s in (said, found)
    ]
    if counts[0] != counts[1]:
        yield f"after the plan before: {counts[0]}, and now: {counts[1]}"
