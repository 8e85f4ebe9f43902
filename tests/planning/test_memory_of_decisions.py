"""A decision that has ended leaves nothing to the garbage collector, which stops all threads: the webhook answers API servers meanwhile."""

import dataclasses
import gc
from collections import Counter

import pytest

from bench import random_clusters
from harness.rest.clusters import random_cluster
from harness.rest.sets import documents, pools
from rescheduler.model.migration import MigrationPhase
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.planner import decide
from rescheduler.scheduling.state import SchedulingState
from tests import records
from tests.seeds import seeds, some


@pytest.fixture
def collected():
    """Objects of the product by type that only a collection takes away, since the fixture began."""
    gc.collect()
    gc.freeze()
    gc.disable()

    def found():
        before = ours()
        gc.collect()
        return before - ours()

    yield found
    gc.enable()  # what is frozen stays so, as it was: no later collection looks through all tests again


def ours():
    """Generators are among them: one that knows its own queue keeps all that the queue knows."""
    types = (type(one) for one in gc.get_objects())
    return Counter(
        t.__name__ for t in types if t.__module__.startswith("rescheduler.") or t.__name__ == "generator"
    )


def with_a_move(snapshot):
    """The same while the first pod moves to the last node."""
    pod = next(one for one in snapshot.pods.values() if one.node)
    move = records.move_of(pod, MigrationPhase.RESERVING, node_name=max(snapshot.nodes))
    return dataclasses.replace(snapshot, migrations={move.key: move})


@pytest.mark.crossed
@pytest.mark.parametrize("moves", [False, True], ids=["nothing moves", "a pod moves"])
@pytest.mark.parametrize("seed", seeds(0, 20, 1))
@pytest.mark.parametrize("chosen", some([*documents(), *pools()], 2), ids=lambda chosen: chosen.name)
def test_nothing_is_left_to_the_garbage_collector(chosen, seed, moves, collected):
    snapshot = random_cluster(seed, nodes=8, apps=8)
    snapshot = with_a_move(snapshot) if moves else snapshot
    state = SchedulingState(snapshot)
    for looks_ahead in (False, True):
        decided = decide(snapshot, chosen.policies, chosen.inputs, state, looks_ahead=looks_ahead)
        decided.skipped.tally()
        decided.end()
        del decided
    assert not collected()


@pytest.mark.parametrize("kind", random_clusters.Kind)
def test_nothing_is_left_where_much_is_repaired_emptied_or_relieved(kind, collected):
    cluster = random_clusters.random_cluster(kind, 1)
    state = SchedulingState(cluster.snapshot)
    decided = decide(cluster.snapshot, cluster.policies, PlanningInputs(unlimited=True), state, explains=True)
    assert decided.plan().moves
    decided.end()
    del decided
    assert not collected()
