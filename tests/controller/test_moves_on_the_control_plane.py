"""Moves on the real control plane: every replacement lands on its reserved node while a crowd waits for rooms."""

import pytest

from harness.controlplane.ready_counts import ReadyCounts
from harness.controlplane.world import gates_of

pytestmark = pytest.mark.realcluster


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_replacements_land_under_a_stampede(controller, world, kind):
    moves = 5
    pods = world.full_node(kind, moves)
    counts = ReadyCounts(world, moves, "web")
    world.landed(world.stampede(pods), 90)
    assert counts.end()[0] >= moves - 1, "the budget was overrun"
    assert not [p for p in world.pods() if gates_of(p)]
