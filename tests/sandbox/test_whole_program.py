"""The program itself at work on the sandbox in virtual time: decisions, moves, crashes, by seed.

A crash forgets everything that is in memory, at any write; a new process goes on from the objects.
"""

import random

import pytest

from harness.histories.disturbances import MAP
from harness.histories.program import Program, ProgramOptions
from harness.histories.user_requests import MOVE, ROOM
from kube_sandbox import demo
from kube_sandbox.controllers.unstructured import (
    BUDGET,
    POD,
    condition,
    deleting,
    labels,
    ready,
    spec,
    status,
    uid,
)
from kube_sandbox.kubelet import KubeletSettings
from kube_sandbox.sandbox import Sandbox
from rescheduler.kube.installation import install
from rescheduler.model.names import GATE, LABEL_PLACEHOLDER
from tests.seeds import fresh

CONFIGURATION = b"""\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
interval: 2s
limits: {movesAtOnce: 3, movesPerHour: 600, workloadCooldown: 2s}
policies:
- name: NodeTaints
  after: 0s
- name: NodeAffinity
  types: [required]
- name: InterPodAntiAffinity
- name: TopologySpread
- name: LowNodeUtilization
  thresholds: {cpu: 50, pods: 100}
  targetThresholds: {cpu: 80, pods: 100}
"""


class Witness:
    """Sees every write; an eviction must have its room, a budget must hold."""

    def __init__(self, cluster):
        self.api, self.seen, self.faults = cluster.api, set(), []
        cluster.api.subscribe(self.watch)

    def watch(self, change):
        obj = change.object
        target = condition(obj, "DisruptionTarget") if obj["kind"] == "Pod" else None
        if target is None or target["reason"] != "EvictionByEvictionAPI" or uid(obj) in self.seen:
            return
        self.seen.add(uid(obj))
        moves = [m for m in self.api.list(MOVE) if spec(m)["podRef"].get("uid") == uid(obj)]
        rooms = [self.api.get(ROOM, "", status(m).get("reservationName", "")) for m in moves]
        if not any(r is not None and status(r).get("phase") == "Available" for r in rooms):
            self.faults.append(f"{obj['metadata']['name']} was evicted into the void")

    def check_budgets(self):
        pods = self.api.list(POD)
        for budget in self.api.list(BUDGET):
            app = spec(budget)["selector"]["matchLabels"]["app"]
            healthy = sum(labels(p).get("app") == app and ready(p) and not deleting(p) for p in pods)
            if healthy < status(budget).get("desiredHealthy", 0):
                self.faults.append(f"the budget of {app} was overrun: {healthy}")


@pytest.fixture
def play():
    def run(seed, *, crashes=0):
        kubelet = KubeletSettings(start_s=0.2, ready_s=0.5, stop_s=0.5)
        cluster = Sandbox(seed=seed, interleave=True, kubelet=kubelet)
        install(cluster.transport)
        demo.build(cluster)
        cluster.advance(2)
        witness = Witness(cluster)
        options = ProgramOptions(document=CONFIGURATION, crashes=crashes)
        program = Program(cluster, random.Random(seed), options)  # noqa: S311 - reproducible
        cluster.add(program)

        def tidy():
            witness.check_budgets()
            assert not witness.faults
            moving = [
                m for m in cluster.api.list(MOVE) if status(m).get("phase") not in ("Succeeded", "Failed")
            ]
            return not moving and demo.measure(cluster.api).violations == 0

        cluster.run_until(tidy, 600)
        cluster.advance(30)
        return cluster, witness, program

    return run


def leftovers(cluster):
    placeholders = [p for p in cluster.api.list(POD) if LABEL_PLACEHOLDER in labels(p)]
    gated = [
        p
        for p in cluster.api.list(POD)
        if any(g["name"] == GATE for g in spec(p).get("schedulingGates") or ())
    ]
    rooms = [r for r in cluster.api.list(ROOM) if status(r).get("phase") not in ("Succeeded", "Failed")]
    gate_keys = cluster.api.get(MAP, "rescheduler", "gate-keys")
    return placeholders, gated, rooms, gate_keys.get("data") or {}


@pytest.mark.parametrize("seed", fresh(1))
def test_untidy_cluster_becomes_tidy_and_every_replacement_lands(play, seed):
    cluster, witness, _ = play(seed)
    found = demo.measure(cluster.api)
    assert (found.violations, found.pending) == (0, 0)
    assert len(witness.seen) >= 6
    done = [m for m in cluster.api.list(MOVE) if status(m)["phase"] == "Succeeded"]
    assert all(status(m)["nodeName"] == spec(m)["target"]["nodeName"] for m in done)
    assert leftovers(cluster) == ([], [], [], {})


@pytest.mark.parametrize("seed", fresh(1, 100))
def test_process_that_dies_at_any_write_leaves_nothing_behind(play, seed):
    cluster, witness, program = play(seed, crashes=8)
    assert program.died == 8
    assert not witness.faults
    assert leftovers(cluster) == ([], [], [], {})
