"""Plan, move, let the scheduler place what waits, plan again: does the cluster come to rest, and is each plan true of the next?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.rest.cycles import (
    Been,
    badness_of,
    company_broken,
    hinted,
    moved,
    swapped,
    untrue,
    wrong_sums,
)
from harness.rest.settling import settled, with_rooms_taken
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import plan
from rescheduler.policies.framework import Policy
from rescheduler.scheduling.framework import Profile
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


def course_of(
    cluster: Snapshot,
    policies: Sequence[Policy],
    inputs: PlanningInputs,
    profile: Profile | None = None,
    *,
    hints: bool = False,
) -> Course:
    """From a cluster in which the scheduler has placed what it can.

    ``hints``: moves leave hints on the nodes that pods left, as the controller does; they must not be needed for rest.
    """
    profile, course, been = profile or Profile(), Course(), Been()
    state = SchedulingState(cluster, profile)
    badness = badness_of(cluster, policies, state)
    before: Plan | None = None
    for number in range(CYCLES):
        made = plan(cluster, policies, inputs, state)
        found = list(untrue(before, made)) if before is not None else []
        if not made.moves:
            course.faults += [f"cycle {number}: {words}" for words in found]
            break
        been.carried_out(number, made, badness)
        found += [*swapped(made), *wrong_sums(made), *company_broken(cluster, made, profile)]
        _count(course, made)
        cluster = with_rooms_taken(moved(cluster, made), made.rooms)
        if hints:
            cluster = hinted(cluster, made)
        now = badness_of(cluster, policies, state)
        if not now < badness:
            found.append(f"badness {badness} -> {now}")
        course.faults += [f"cycle {number}: {words}" for words in found]
        after = settled(cluster, profile)
        # What a plan says of the cluster after it is compared only if nobody else landed meanwhile.
        before = made if _standing(after) == _standing(cluster) else None
        cluster, badness = after, badness_of(after, policies, state)
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
