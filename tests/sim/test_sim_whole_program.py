"""The program itself at work on the embedded cluster in virtual time: decisions, moves, crashes, by seed.

What ``run`` assembles is assembled here over the in-process transport, with the cluster's clock. A crash
forgets everything that is in memory, at any write; a new process goes on from the objects.
"""

import os
import random
from collections import deque

import pytest

from rescheduler.controller.configuration import FileSource, LiveConfiguration
from rescheduler.controller.cycle import Cycle
from rescheduler.controller.executor import ApplyExecutor
from rescheduler.controller.gating import LiveGate
from rescheduler.controller.issuing import ApiIssuer
from rescheduler.controller.metrics import Metrics
from rescheduler.controller.mirror import Mirror
from rescheduler.controller.reconcile import Reconciler
from rescheduler.controller.rules import RulesPlacement
from rescheduler.controller.run import reservation_settings, settings_of
from rescheduler.controller.safeguards import protection_of
from rescheduler.kube.client import KubeApi
from rescheduler.kube.gate import Gate
from rescheduler.model.names import AVOID_CONFIG_MAP, GATE, LABEL_PLACEHOLDER
from rescheduler.reservations.engine import PlaceholderEngine
from rescheduler.sim import demo
from rescheduler.sim.cluster import EmbeddedCluster
from rescheduler.sim.controllers.api import Change
from rescheduler.sim.controllers.wire import GroupKind, condition, deleting, labels, ready, spec, status, uid
from rescheduler.sim.installation import install
from rescheduler.sim.kubelet import KubeletSettings
from rescheduler.sim.scheduler.records import ClusterRecords

POD, BUDGET = GroupKind("", "Pod"), GroupKind("policy", "PodDisruptionBudget")
MOVE, ROOM = (GroupKind("rescheduler.dev", kind) for kind in ("PodMigration", "Reservation"))
SEEDS = int(os.environ.get("RESCHEDULER_SEEDS", "3"))
CONFIGURATION = """\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
interval: 2s
limits: {movesAtOnce: 3, movesPerHour: 600, workloadCooldown: 2s}
policies:
- name: NodeTaints
- name: NodeAffinity
  types: [required]
- name: InterPodAntiAffinity
- name: TopologySpread
- name: LowNodeUtilization
  thresholds: {cpu: 50, pods: 100}
  targetThresholds: {cpu: 80, pods: 100}
"""


class Killed(BaseException):
    """The process dies here."""


class Line:
    """A transport that dies before or after the n-th write."""

    def __init__(self, transport):
        self.transport, self.left, self.after = transport, None, False

    def send(self, request):
        counted = request.method != "GET" and self.left is not None
        if counted:
            self.left -= 1
            if self.left <= 0 and not self.after:
                raise Killed
        answer = self.transport.send(request)
        if counted and self.left <= 0:
            raise Killed
        return answer

    def stream(self, request):
        return self.transport.stream(request)


class Program:
    """One controller process after the other, driven like the cluster's own components."""

    def __init__(self, cluster, folder, rng, *, crashes):
        self.cluster, self.rng, self.crashes, self.died = cluster, rng, crashes, 0
        self.line = Line(cluster.transport)
        self.inbox = deque()
        cluster.api.subscribe(self.inbox.append)
        path = folder / "config.yaml"
        path.write_text(CONFIGURATION)
        self.configuration = LiveConfiguration(FileSource(str(path)), clock=cluster.clock)
        self.configuration.start()
        self.boot()

    def boot(self):
        self.inbox.clear()
        self.records = ClusterRecords()
        for obj in self.cluster.api.everything():
            self.records.apply(Change("ADDED", obj))
        current = self.configuration.current
        api = KubeApi(self.line)
        gate = Gate(api, namespace=current.reservations.namespace)
        live = LiveGate(gate)
        executor = ApplyExecutor(
            api=api,
            engine=PlaceholderEngine(reservation_settings(current)),
            namespace=current.reservations.namespace,
            gate=live,
            still_leader=lambda: True,
            record_event=lambda *_: None,
        )
        hints = LiveGate(Gate(api, namespace=current.reservations.namespace, config_map=AVOID_CONFIG_MAP))
        placement = RulesPlacement(
            namespace=current.reservations.namespace,
            profile=current.profile,
            protection=protection_of(current.protections, current.profile),
        )
        self.reconciler = Reconciler(
            executor=executor,
            gate=Mirror(switch=live, lenient=True),
            hints=Mirror(switch=hints),
            placement=placement,
            settings=settings_of(current),
        )
        self.cycle = Cycle(
            issuer=ApiIssuer(api), metrics=Metrics(), gate_ready=gate.installed, clock=self.cluster.clock
        )
        self.round_at_s = self.cycle_at_s = self.cluster.clock()
        self.line.left = self.rng.randint(1, 25) if self.crashes else None
        self.line.after = self.rng.random() < 0.5

    def step(self, now_s):
        changed = bool(self.inbox)
        while self.inbox:
            self.records.apply(self.inbox.popleft())
        if not changed and now_s < min(self.round_at_s, self.cycle_at_s):
            return 0
        try:
            self.work(now_s)
        except Killed:
            self.crashes -= 1
            self.died += 1
            self.boot()
        return 1

    def work(self, now_s):
        wake_s = self.reconciler.round(self.records.snapshot(now_s), now_s)
        self.round_at_s = now_s + 10.0 if wake_s is None else max(wake_s, now_s + 0.02)
        if now_s >= self.cycle_at_s:
            self.cycle_at_s = now_s + 2.0
            self.cycle.run(self.records.snapshot(now_s), self.configuration.current)

    def next_due_s(self, now_s):
        return now_s if self.inbox else min(self.round_at_s, self.cycle_at_s)


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
def play(tmp_path):
    def run(seed, *, crashes=0):
        kubelet = KubeletSettings(start_s=0.2, ready_s=0.5, stop_s=0.5)
        cluster = EmbeddedCluster(seed=seed, interleave=True, kubelet=kubelet)
        install(cluster.transport)
        demo.build(cluster)
        cluster.advance(2)
        witness = Witness(cluster)
        program = Program(cluster, tmp_path, random.Random(seed), crashes=crashes)  # noqa: S311 - reproducible
        cluster.add(program)

        def tidy():
            witness.check_budgets()
            assert not witness.faults
            moving = [
                m for m in cluster.api.list(MOVE) if status(m).get("phase") not in ("Succeeded", "Failed")
            ]
            return not moving and demo.observe(cluster.api).violations == 0

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
    live = cluster.api.get(GroupKind("", "ConfigMap"), "rescheduler", "live")
    return placeholders, gated, rooms, live.get("data") or {}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_untidy_cluster_becomes_tidy_and_every_replacement_lands(play, seed):
    cluster, witness, _ = play(seed)
    found = demo.observe(cluster.api)
    assert (found.violations, found.pending) == (0, 0)
    assert len(witness.seen) >= 6
    done = [m for m in cluster.api.list(MOVE) if status(m)["phase"] == "Succeeded"]
    assert all(status(m)["nodeName"] == spec(m)["target"]["nodeName"] for m in done)
    assert leftovers(cluster) == ([], [], [], {})


@pytest.mark.parametrize("seed", range(100, 100 + SEEDS))
def test_process_that_dies_at_any_write_leaves_nothing_behind(play, seed):
    cluster, witness, program = play(seed, crashes=8)
    assert program.died == 8
    assert not witness.faults
    assert leftovers(cluster) == ([], [], [], {})
