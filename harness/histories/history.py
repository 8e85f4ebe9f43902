"""Plays one history: from a seed to its outcome. The same seed gives the same history."""

from __future__ import annotations

import dataclasses
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from harness.histories.asked_nodes import AskedNodes, with_autoscaler
from harness.histories.chains import Chains
from harness.histories.checker import Checker
from harness.histories.clocks import Clocks
from harness.histories.clusters import ClusterPlan, draw_cluster
from harness.histories.disturbances import Disturbance, Disturbances
from harness.histories.ending import broken, leftovers, outcome
from harness.histories.faulty_transport import Restless
from harness.histories.owner_changes import OwnerChanges, with_owners
from harness.histories.pending_owners import PendingOwners
from harness.histories.placeholders import ChangedPlaceholders
from harness.histories.pools import Pools
from harness.histories.program import Program, ProgramOptions
from harness.histories.room_sets import RoomSets
from harness.histories.script import Milestone, Script, Tell
from harness.histories.sights import Sights
from harness.histories.stepping_aside import POLICY, SteppingAside
from harness.histories.surge_pods import ChangedSurgePods
from harness.histories.theme import Stage, Theme
from harness.histories.upgrades import Upgrades
from harness.histories.user_requests import Asks
from harness.histories.waiting_pods import WaitingPods
from kube_sandbox.controllers.unstructured import NODE, POD, Obj, key, ready, spec, status, uid
from kube_sandbox.installing import install
from kube_sandbox.kubelet import KubeletSettings
from kube_sandbox.sandbox import START_S, NotSettledError, Sandbox
from rescheduler.configuration.document import Configuration
from rescheduler.controller.assembly import machine_settings
from rescheduler.controller.ports import LoopTimings
from rescheduler.controller.settings import Settings
from rescheduler.kube.election import LeaseTiming
from rescheduler.model.kept_empty import Hold, KeptEmpty
from rescheduler.model.names import ANNOTATION_KEPT_EMPTY, TAINT_KEPT_EMPTY

STORM_S: Final = 12.0
"""How long disturbances happen; after that all faults end and the nodes are repaired."""

_SETTLES_S: Final = 700.0
_LONGEST_OUTAGE_S: Final = 100.0
_AFTERMATH_S: Final = 5.0
"""How long after the last component is back the effects of an outage may last."""
_WRITES: Final = 40
_SOFT: Final = 0.1
"""Share of the histories with mode Soft."""
_GROWS: Final = 0.15
"""Share of the histories in which a workload is scaled up between the intent to evict its pod and the eviction."""
_OUTAGES: Final = 0.3
"""Share of the histories with an outage of the API server, besides those that draw it among all disturbances."""
_OTHER_OUTAGES: Final = 0.3
"""Share of these with the outage at any moment; in the others it is between an intent to evict and the hand-over."""
_TO_HAND_OVER_S: Final = (0.02, 0.4)
"""From the intent to the outage: the gate settles for 0.3 s, and then a Deployment creates the replacement at once."""
_OWNERS_CHANGE: Final = 0.2
"""Share of the histories in which owners and admission change workloads with moves under way."""
_CONTENDED: Final = 0.5
"""Share of the rough histories with pending pods of higher priority: what the hand-over taint is for."""
_CONTENDED_WRITES: Final = 15
"""They are created within this number of writes: after the first rooms are held, before the hand-overs."""

_LATE: Final = (0.0, 0.2, 0.6)
"""Share of the program's steps that are answered late."""
_PLANS: Final = 0.2
"""Share of the histories in which the program plans moves itself; in the others it carries out only what users request."""
_KEEPS: Final = 0.15
"""Share of the histories in which nodes are emptied and then cordoned or tainted."""
_KEPT_S: Final = 5.0
"""For so long: it ends, and begins again, during the disturbances."""
_SOON_STALE_S: Final = 3.0
_CLOCKS_AHEAD_S: Final = (0.0, 65.0, -65.0)
"""By how much the controller's clock may be ahead of the API server's: more than a pod may be gated."""
"""``stale_s`` in half of the histories: shorter than most stalls of a watch."""
_SHORT_LEASE: Final = LeaseTiming(duration_s=15.0, renew_s=10.0, retry_s=2.0)
"""The default of client-go: some outages outlast it, and the process ends."""

_COMMON: Final = b"""\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
limits: {movesAtOnce: 3, movesPerHour: 600, workloadCooldown: 2s}
reservations: {ttl: 60s}
"""
_DECIDES: Final = (
    _COMMON
    + b"""\
interval: 2s
policies:
- name: NodeTaints
  after: 0s
- name: InterPodAntiAffinity
- name: TopologySpread
- name: LowNodeUtilization
  thresholds: {cpu: 40, pods: 100}
  targetThresholds: {cpu: 60, pods: 100}
"""
)
_EMPTIES: Final = (
    _COMMON
    + b"""\
interval: 2s
policies:
- name: HighNodeUtilization
  thresholds: {cpu: 90}
  targetThresholds: {cpu: 100}
  emptiedNodes: %s
"""
)
_OBEYS: Final = _COMMON + b"interval: 1h\npolicies: []\n"
_SOFT_MODE: Final = b"mode: Soft\n"


_NOT_BESIDE: Final = (Chains, PendingOwners, Pools)
"""What is not asked for in a history in which pods step aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome. ``faults``: broken invariants. ``met``: how often each disturbance and injected fault happened."""

    seed: int
    faults: tuple[str, ...]
    rough: bool
    owners: bool
    evictions: int
    writes: int
    cpu_s: float = 0.0
    met: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)


def silent(_: str) -> None:
    """A trace that is not printed."""


def play(seed: int, tell: Tell = silent, *, owners: bool = False) -> Outcome:
    """Play one history to its end, or to the first broken invariant. ``owners``: see ``History``."""
    began_s = time.process_time()
    found = History(random.Random(seed), tell, seed=seed, owners=owners).play()  # noqa: S311 - reproducible, not secret
    return dataclasses.replace(found, cpu_s=time.process_time() - began_s)


class History:
    """One cluster, one program after the other, one script, one checker."""

    def __init__(self, rng: random.Random, tell: Tell = silent, *, seed: int, owners: bool = False) -> None:
        """``rng`` draws the cluster, the requests and the disturbances. ``seed``: the order in which components take turns.

        ``owners``: owners and admission change things in this history for sure, else in a share of the seeds.
        """
        self._rng, self._seed, self._told = rng, seed, tell
        self._owners_rng = random.Random(f"owners {seed}")  # noqa: S311 - reproducible
        self._owners_change = owners or self._owners_rng.random() < _OWNERS_CHANGE
        self._keeps_rng = random.Random(f"emptied nodes {seed}")  # noqa: S311 - reproducible
        kept = self._keeps_rng.choice((Hold.CORDONED, Hold.TAINTED))
        self._keeps = kept if self._keeps_rng.random() < _KEEPS else None
        self._plan = draw_cluster(self._rng)
        if self._owners_change:
            self._plan = with_owners(self._plan, self._owners_rng)
        self._cluster = _cluster(seed, self._plan)
        self._settle_workloads()
        self._script = Script(self._tell)
        self._asks = Asks(self._cluster, self._rng, self._plan, self._script)
        self._program = Program(self._cluster, random.Random(seed + 1), self._options())  # noqa: S311 - as above
        self._disturbances = Disturbances(
            self._cluster, self._rng, plan=self._plan, script=self._script, asks=self._asks,
            program=self._program,
        )  # fmt: skip
        self._checker = Checker(
            self._cluster, plan=self._plan, script=self._script, asks=self._asks, program=self._program,
            tell=self._tell,
        )  # fmt: skip
        self._owners = OwnerChanges(
            self._cluster, self._owners_rng, plan=self._plan, script=self._script, asks=self._asks
        )
        self._cordoned: set[str] = set()
        """Uids of Reservations whose node was cordoned in the middle of a hand-over."""
        stage = Stage(
            seed=seed, cluster=self._cluster, plan=self._plan, script=self._script, program=self._program,
            checker=self._checker,
        )  # fmt: skip
        self._clocks, self._aside = Clocks(stage), SteppingAside(stage)
        self._asked_nodes, self._holders = AskedNodes(stage), ChangedPlaceholders(stage)
        sights, waiting = Sights(stage), WaitingPods(stage)
        room_sets = RoomSets(stage, server=self._clocks.server, make_room=self._aside.at_work)
        self._themes: tuple[Theme, ...] = (
            Chains(stage), PendingOwners(stage), Pools(stage), room_sets, self._clocks, self._aside, sights,
            self._holders, ChangedSurgePods(stage), waiting, Upgrades(stage), self._asked_nodes,
        )  # fmt: skip
        self._rough = self._write_script() or waiting.at_work
        for theme in self._themes:
            if theme.at_work and not (self._aside.at_work and isinstance(theme, _NOT_BESIDE)):
                theme.write_script()
        self._rough |= sights.rough
        if self._owners_change:
            self._owners.write_script()

    def play(self) -> Outcome:
        """Disturb the cluster, end all faults, wait until it is quiet, and check the invariants of the end."""
        self._cluster.add(self._script)
        self._cluster.add(self._program)
        self._cluster.add(self._asked_nodes)
        faults = self._checker.faults
        try:
            self._until(lambda: False, STORM_S)
            self._until(self._outages_are_over, _LONGEST_OUTAGE_S)
            self._tell("-- everything is put right")
            self._disturbances.calm_down()
            for theme in self._themes:
                theme.undo()
            if self._owners_change:
                self._owners.undo()
            self._until(lambda: not self._leftovers(), _SETTLES_S)
            self._until(lambda: False, 5.0)
            # A rollout may have looked finished between two of its steps.
            self._until(lambda: not self._leftovers(), _SETTLES_S)
        except NotSettledError as error:
            faults.append(f"the cluster does not come to rest: {error}")
        except Restless:
            faults.append("the program writes without an end")
        except Exception:  # noqa: BLE001 - a defect of the program is what is looked for
            faults.append(traceback.format_exc())
        faults += [fault for theme in self._themes for fault in theme.faults]
        faults += self._program.events.damaged
        if not faults:
            faults += self._leftovers()
        if not faults and not self._rough and not self._owners_change and not self._holders.at_work:
            seen, checker = self._checker.seen, self._checker
            excused = {*checker.excused, *self._clocks.excused(seen, checker.evicted_at_s), *self._cordoned}
            faults += broken(seen, excused)
        return self._outcome()

    def _until(self, predicate: Callable[[], bool], limit_s: float) -> None:
        """Advance the time until the predicate holds, an invariant is broken, or the limit is reached."""
        end_s = self._cluster.clock() + limit_s
        while self._cluster.clock() < end_s and not self._checker.faults and not predicate():
            self._cluster.advance(min(1.0, end_s - self._cluster.clock()))

    def _outages_are_over(self) -> bool:
        over_s = self._cluster.recovered_at_s + _AFTERMATH_S
        return not self._program.line.is_away() and self._cluster.clock() >= over_s

    def _leftovers(self) -> list[str]:
        return leftovers(self._checker.seen, self._plan, self._asks)

    def _outcome(self) -> Outcome:
        seen = self._checker.seen
        met = self._script.done + self._program.line.met
        met["controller killed at a write"] = self._program.died - met["controller killed between calls"]
        met["controller deposed"] = self._program.deposed
        met["pod asked for a node"] = self._asked_nodes.met
        met["node added for a pod that asked"] = self._asked_nodes.nodes
        met["node kept empty"] = sum(line.startswith("KeptEmpty") for line in self._program.events.told)
        met.update(f"excused: {why}" for why in self._checker.excused.values())
        return Outcome(
            seed=self._seed, faults=tuple(self._checker.faults), rough=self._rough,
            owners=self._owners_change, evictions=len(self._checker.evicted), writes=self._checker.writes,
            met=met, ended=Counter(outcome(o) for o in (*seen.moves.values(), *seen.rooms.values())),
        )  # fmt: skip

    # Preparation

    def _settle_workloads(self) -> None:
        """Wait until every pod that can be Ready is Ready."""
        wanted = sum(w.replicas for w in self._plan.workloads)
        end_s = self._cluster.clock() + 30.0
        while self._cluster.clock() < end_s and sum(map(ready, self._cluster.api.list(POD))) < wanted:
            self._cluster.advance(1.0)
        self._cluster.advance(1.0)

    def _options(self) -> ProgramOptions:
        rng, mode = self._rng, _SOFT_MODE if self._chance(_SOFT) else b""
        answers = random.Random(f"answers {self._seed}")  # noqa: S311 - reproducible
        document = _DECIDES if self._chance(_PLANS) else _OBEYS
        if self._keeps is not None:
            document = _EMPTIES % (b"cordon" if self._keeps is Hold.CORDONED else b"taint")
        elif SteppingAside.happens(self._seed):
            document = _COMMON + POLICY
        asks = AskedNodes.happens(self._seed)
        if asks:
            document = with_autoscaler(document)
        return ProgramOptions(
            document=document + mode,
            quiet_document=(with_autoscaler(_OBEYS) if asks else _OBEYS) + mode,
            settings_of=hurried,
            timings=LoopTimings(
                reconcile_gap_s=rng.choice((0.001, 0.02, 0.02)), stale_s=rng.choice((_SOON_STALE_S, 120.0))
            ),
            lease=rng.choice((_SHORT_LEASE, LeaseTiming())),
            crashes=rng.choice((0, 0, 2, 4, 8)),
            writes_per_life=rng.choice((8, 25)),
            late=self._chance(0.5),
            clock_ahead_s=_CLOCKS_AHEAD_S[self._seed % len(_CLOCKS_AHEAD_S)],
            late_answers=0.0 if WaitingPods.happens(self._seed) else answers.choice(_LATE),
        )

    def _write_script(self) -> bool:
        """Draw the requests and the disturbances; True if there are rough ones."""
        rng, start_s = self._rng, self._cluster.clock()
        wishes = [self._asks.move] * rng.randint(0, 3) + [self._asks.room] * rng.randint(0, 2)
        for wish in wishes or [self._asks.move]:
            at_s = start_s + rng.choice((0.0, 0.0, rng.uniform(0.0, 6.0)))
            if not self._aside.at_work:
                self._script.at(at_s, f"a {wish.__name__} is asked for", wish)
        if self._chance(0.3):
            self._taint_a_node()
        if self._chance(0.2):
            self._script.at(start_s, "scheduler away", self._disturbances.gentle["scheduler away"])
        rough = self._chance(0.5)
        if self._chance(_GROWS):
            grows = self._asks.grows_while_moving
            self._script.after(
                rng.randint(1, 2), Milestone.INTENT, "a workload grows while it is moved", grows
            )
        if self._chance(_OUTAGES):
            self._lose_api_server()
        if self._keeps is not None:
            self._keep_nodes(self._keeps)
        self._strike(self._disturbances.gentle, rng.randint(0, 4))
        if rough:
            self._strike(self._disturbances.rough, rng.randint(1, 4))
            if self._chance(_CONTENDED):
                writes = rng.randint(1, _CONTENDED_WRITES)
                self._script.after(
                    writes, Milestone.WRITE, "line of higher priority", self._disturbances.contend
                )
        return rough

    def _strike(self, disturbances: Mapping[str, Disturbance], times: int) -> None:
        """Half of the disturbances come at any moment, half after a number of the program's writes."""
        for name in self._rng.choices(list(disturbances), k=times):
            if self._chance(0.5):
                moment_s = self._cluster.clock() + self._rng.uniform(0.0, STORM_S - 3.0)
                self._script.at(moment_s, name, disturbances[name])
            else:
                self._script.after(self._rng.randint(1, _WRITES), Milestone.WRITE, name, disturbances[name])

    def _lose_api_server(self) -> None:
        """An outage, mostly in the middle of a move, while other pods are pending for its room."""
        script, rng = self._script, self._rng
        away = self._disturbances.gentle["API server away"]
        if self._chance(_OTHER_OUTAGES):
            script.after(rng.randint(1, _WRITES), Milestone.WRITE, "API server away", away)
            return

        def line() -> None:
            self._disturbances.contend_gently()
            script.at(self._cluster.clock() + rng.uniform(*_TO_HAND_OVER_S), "API server away", away)

        script.after(rng.randint(1, 2), Milestone.INTENT, "line of the same priority", line)

    def _taint_a_node(self) -> None:
        """Taint a node at the beginning; the pods that run there do not tolerate the taint."""
        node = self._rng.choice(self._cluster.api.list(NODE))
        taint = {"key": "example.com/retired", "value": "yes", "effect": "NoSchedule"}
        self._cluster.api.patch(node, {"spec": {"taints": [taint]}})

    def _keep_nodes(self, hold: Hold) -> None:
        """Nodes that a controller before this one has emptied; of some the time is over already."""
        rng = self._keeps_rng
        for _ in range(rng.randint(1, 3)):
            at_s = self._cluster.clock() + rng.uniform(0.0, STORM_S)
            kept = KeptEmpty(hold, at_s + rng.choice((0.0, _KEPT_S)))
            self._script.at(at_s, "node was kept empty before", partial(self._keep_a_node, kept))

    def _keep_a_node(self, kept: KeptEmpty) -> None:
        """Any node: pods of it may be moving, and the hand-over taint may stand there."""
        if not (nodes := self._cluster.api.list(NODE)):
            return
        node = self._keeps_rng.choice(nodes)
        change: Obj = {"unschedulable": True}
        for room in self._checker.seen.rooms.values():
            # Its placeholder is leaving for the pod that the node does not take any more.
            handed_over = status(room).get("currentOwners") and status(room).get("phase") == "Available"
            if handed_over and status(room).get("nodeName") == key(node).name:
                self._cordoned.add(uid(room))
        if kept.hold is Hold.TAINTED:
            taints = [t for t in spec(node).get("taints") or () if t["key"] != TAINT_KEPT_EMPTY]
            change = {"taints": [*taints, {"key": TAINT_KEPT_EMPTY, "effect": "NoSchedule"}]}
        note = {ANNOTATION_KEPT_EMPTY: kept.text}
        self._cluster.api.patch(node, {"metadata": {"annotations": note}, "spec": change})

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share

    def _tell(self, words: str) -> None:
        self._told(f"{self._cluster.clock() - START_S:9.3f}  {words}")


def hurried(configuration: Configuration) -> Settings:
    """Shorter limits, so that they end during the disturbances; those for replacements stay longer than outages."""
    settings = machine_settings(configuration)
    rooms = msgspec.structs.replace(
        settings.reservations, least_landing_limit_s=120.0, after_gate_s=60.0, node_grace_s=20.0
    )
    return dataclasses.replace(
        settings,
        migrations=dataclasses.replace(
            settings.migrations, reservations=rooms, ready_limit_s=60.0, gate_settle_s=0.3
        ),
        keeping=tuple(dataclasses.replace(rule, kept_for_s=_KEPT_S) for rule in settings.keeping),
    )


def _cluster(seed: int, plan: ClusterPlan) -> Sandbox:
    kubelet = KubeletSettings(start_s=0.2, ready_s=0.5, stop_s=0.5)
    cluster = Sandbox(plan.machines, seed=seed, interleave=True, kubelet=kubelet)
    install(cluster.transport)
    for obj in plan.objects:
        cluster.api.create(obj)
    return cluster
