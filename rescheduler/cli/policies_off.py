"""What policies that are switched off would find: a few lines under a plan, so that nobody takes "nothing to move" for "nothing to gain".

The cost is bounded: at most ``MOST_S`` seconds, one policy after the other, with the least effort.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from rescheduler.configuration.document import Configuration
from rescheduler.configuration.policies_section import ConfiguredPolicy
from rescheduler.model.counted import plural
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.planner import decide
from rescheduler.policies.registry import REGISTRY
from rescheduler.scheduling.state import SchedulingState

MOST_S: Final = 2.0
_MOST_PODS: Final = 5_000
"""In larger clusters one policy alone may take longer."""
_MOVES: Final = 200


def policies_off(
    snapshot: Snapshot,
    configuration: Configuration,
    inputs: PlanningInputs,
    state: SchedulingState,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[str]:
    """A line for each policy that is off and would move pods. ``state`` follows the snapshot, and is left as it was."""
    if len(snapshot.pods) > _MOST_PODS:
        return
    ends_s = clock() + MOST_S
    least = msgspec.structs.replace(inputs, effort=1, max_moves=_MOVES)
    for one in _off(configuration):
        if clock() >= ends_s:
            return
        if REGISTRY[one.name].problems(one.args):
            continue  # it has to be told what to look for
        plan = decide(snapshot, (one.build(),), least, state).plan()
        if plan.moves:
            emptied = plan.after.empty_nodes - plan.before.empty_nodes
            more = f" and empty {plural(emptied, 'node')}" if emptied > 0 else ""
            yield f"{one.title} is off: it would move {plural(len(plan.moves), 'pod')}{more}"


def _off(configuration: Configuration) -> Iterator[ConfiguredPolicy]:
    """Entries with ``enabled: false``, with their own arguments; then what the document does not name, with the defaults."""
    yield from (one for one in configuration.policies if not one.args.enabled)
    named = {one.name for one in configuration.policies}
    named |= {one.name for one in configuration.build_policies()}
    yield from (
        ConfiguredPolicy(name=name, args=kind.args()) for name, kind in REGISTRY.items() if name not in named
    )
