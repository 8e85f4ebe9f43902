"""The CustomResourceDefinitions are deleted and made again while moves are in progress, on the real control plane: no pod is
evicted without its room, and none is moved more often because the moves are not seen."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from dataclasses import dataclass, field

import pytest

from harness.controlplane import manifests
from harness.controlplane.api import Api
from harness.controlplane.controllers import running
from harness.controlplane.world import node_of, placeholders

pytestmark = pytest.mark.realcluster

PODS = 3
GONE_FOR_S = 8.0
ON_ITS_WAY_S = 1.0
"""An eviction may be on its way while the room is deleted with its definition: the controller learns of that by a watch."""
OWN = ("podmigrations", "reservations")
RULES = {
    "interval": "1s",
    "aggressiveness": "aggressive",
    "limits": {"movesAtOnce": 5, "movesPerHour": 600, "workloadCooldown": "1s"},
    "policies": [{"name": "NodeTaints", "after": "0s"}],
}


@dataclass
class Counting:
    """Counts what is created and evicted, and when the room of an evicted pod was held last: it is looked for at each write."""

    transport: object
    api: Api
    target: str = ""
    moves: Counter = field(default_factory=Counter)
    """By uid of the pod."""
    evictions: list = field(default_factory=list)
    """(name of the pod, for how many seconds no room was held on the target)."""
    held_at_s: float = -math.inf

    def held(self):
        return [
            p
            for p in placeholders(self.api)
            if node_of(p) == self.target and "deletionTimestamp" not in p["metadata"]
        ]

    def send(self, request):
        evicts = request.path.endswith("/eviction") and "dryRun" not in request.query
        evicts = evicts and "dryRun" not in (json.loads(request.body).get("deleteOptions") or {})
        if request.method != "GET" and self.held():
            self.held_at_s = time.monotonic()
        gone_s = time.monotonic() - self.held_at_s
        answer = self.transport.send(request)
        if request.method == "POST" and answer.status == 201:
            if evicts:
                self.evictions.append((request.path.split("/")[-2], gone_s))
            elif request.path.endswith("/podmigrations") and "dryRun" not in request.query:
                self.moves[json.loads(request.body)["spec"]["podRef"]["uid"]] += 1
        return answer

    def stream(self, request):
        return self.transport.stream(request)


@pytest.fixture
def definitions(control_plane):
    """Those of moves and Reservations. They are there again at the end, whatever happens."""
    found = [
        obj
        for obj in manifests.load()
        if obj["kind"] == "CustomResourceDefinition" and obj["spec"]["names"]["plural"] in OWN
    ]
    assert len(found) == len(OWN)
    yield found
    manifests.apply(control_plane.api(), found)


@pytest.mark.parametrize("moment", ["first room is held", "first pod is evicted"])
def test_definitions_that_are_deleted_and_made_again_evict_nobody_without_a_room(
    control_plane, world, definitions, moment
):
    account = control_plane.account()
    source = world.node("source", cpu="4")
    world.running("Deployment", "web", PODS)
    between = Counting(account.transport, world.api, world.node("target", cpu="6"))
    world.taint(source, "old")
    reached = {"first room is held": between.held, "first pod is evicted": lambda: between.evictions}[moment]
    with running(between, **RULES):
        world.wait(lambda: bool(reached()))
        for obj in definitions:
            world.api.delete(manifests.path_of(obj)).expect()
        began_s = time.monotonic()
        world.wait(lambda: all(not world.api.get(manifests.path_of(obj)).ok for obj in definitions))
        made = sum(between.moves.values())
        assert made <= PODS
        time.sleep(max(0.0, began_s + GONE_FOR_S - time.monotonic()))
        assert sum(between.moves.values()) == made
        manifests.apply(world.api, definitions)
        world.wait(
            lambda: [node_of(p) for p in world.wait_ready("web", PODS)] == [between.target] * PODS, 240
        )
    assert all(gone_s < ON_ITS_WAY_S for _, gone_s in between.evictions), between.evictions
    assert len(between.evictions) == PODS, between.evictions
    # One that was lost with its definition, and one afterwards.
    assert max(between.moves.values()) <= 2, between.moves
    assert sum(between.moves.values()) <= made + PODS
