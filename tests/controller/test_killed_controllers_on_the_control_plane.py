"""A controller that is killed at random moments while it moves pods under a stampede, on the real control plane."""

import random
import time

import pytest

from harness.controlplane.controllers import QUIET, controller_process
from harness.controlplane.ready_counts import ReadyCounts
from tests.seeds import NIGHTLY

pytestmark = pytest.mark.realcluster

MOVES = 20 if NIGHTLY else 6


def test_every_replacement_lands_and_nothing_is_left(control_plane, world, tmp_path):
    """SIGKILL, and the next process at once, as a kubelet starts it."""
    chance = random.Random(1)  # noqa: S311 - no secret
    document = {**QUIET, "leaderElection": {"enabled": True}, "server": {"port": 0}}
    process = controller_process(control_plane, tmp_path, "killed", document, "--identity=killed")
    process.start()
    try:
        pods = world.full_node("Deployment", MOVES)
        counts = ReadyCounts(world, MOVES, "web")
        wanted = world.stampede(pods, ttl="10m")
        for _ in range(MOVES):
            time.sleep(chance.uniform(1.2, 4.0))
            assert process.running, process.log_tail()
            process.kill()
            before = len(process.log.read_bytes())
            process.start()
        world.landed(wanted, 240)
        assert counts.end()[0] >= MOVES - 1, "the budget was overrun"
        for status in world.ended(wanted).values():
            assert status["reservedAt"] <= status["evictionRequestedAt"] <= status["evictedAt"]
        assert world.wait(lambda: not world.leftovers())
        # While it imports its modules SIGTERM ends it as any process.
        world.wait(lambda: b'"Started"' in process.log.read_bytes()[before:])
    finally:
        code = process.stop(30)
    assert code == 0, process.log_tail()
