"""One history: from a seed to what was seen. The same seed gives the same history."""

from __future__ import annotations

import dataclasses
import functools
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from rescheduler.config import Configuration, parse_configuration
from rescheduler.controller.reconcile import Settings
from rescheduler.controller.run import settings_of
from rescheduler.sim.clocks import START_S
from rescheduler.sim.cluster import EmbeddedCluster, NotSettledError
from rescheduler.sim.controllers.wire import NODE, POD, ready
from rescheduler.sim.installation import install
from rescheduler.sim.kubelet import KubeletSettings
from rescheduler.testing.histories.asks import Asks
from rescheduler.testing.histories.ending import broken, leftovers, outcome
from rescheduler.testing.histories.fate import Deed, Fate
from rescheduler.testing.histories.line import Restless
from rescheduler.testing.histories.program import Program, Temper
from rescheduler.testing.histories.script import Mark, Script, Tell
from rescheduler.testing.histories.witness import Witness
from rescheduler.testing.histories.worlds import World, draw_world

STORM_S: Final = 12.0
"""How long things go wrong; after that everything is put right."""

_SETTLES_S: Final = 700.0
_LONGEST_OUTAGE_S: Final = 100.0
_AFTERMATH_S: Final = 5.0
"""So long after everybody is back things may still go wrong because of an outage."""
_WRITES: Final = 40
_SOFT: Final = 0.1
"""Share of the histories that are configured so."""
_GROWS: Final = 0.15
"""Share of the histories in which the owner of a pod wants one more between the intent to evict it and its eviction."""
_OUTAGES: Final = 0.3
"""Share of the histories in which the API server goes away, besides those in which it is drawn among all faults."""
_OTHER_OUTAGES: Final = 0.3
"""Share of these in which it does so at any moment; in the others between an intent to evict and its hand-over."""
_TO_HAND_OVER_S: Final = (0.02, 0.4)
"""From the intent, the gate settles for 0.3 s; a Deployment's replacement comes at once then."""
_CONTENDED: Final = 0.5
"""Share of the rough histories in which pods of higher priority wait in line: what the hand-over taint is for."""
_CONTENDED_WRITES: Final = 15
"""They come before the program has written so often: after the first rooms are held, before they are handed over."""

_CONFIGURATION: Final = b"""\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
interval: 2s
limits: {movesAtOnce: 3, movesPerHour: 600, workloadCooldown: 2s}
reservations: {ttl: 60s}
policies:
- name: NodeTaints
- name: InterPodAntiAffinity
- name: TopologySpread
- name: LowNodeUtilization
  thresholds: {cpu: 40, pods: 100}
  targetThresholds: {cpu: 60, pods: 100}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was seen. ``faults``: broken promises; none if all is well. ``met``: faults and deeds, counted."""

    seed: int
    faults: tuple[str, ...]
    rough: bool
    evictions: int
    writes: int
    cpu_s: float = 0.0
    met: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)


def silent(_: str) -> None:
    """Tells nobody."""


def play(seed: int, tell: Tell = silent) -> Outcome:
    """Play one history to its end, or to the first broken promise."""
    began_s = time.process_time()
    found = History(seed, tell).play()
    return dataclasses.replace(found, cpu_s=time.process_time() - began_s)


class History:
    """One cluster, one program after the other, one script, one witness."""

    def __init__(self, seed: int, tell: Tell = silent) -> None:
        self._rng = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self._seed, self._told = seed, tell
        self._world = draw_world(self._rng)
        self._cluster = _cluster(seed, self._world)
        self._settle_workloads()
        self._script = Script(self._tell)
        self._asks = Asks(self._cluster, self._rng, self._world, self._script)
        self._program = Program(self._cluster, random.Random(seed + 1), self._temper())  # noqa: S311 - as above
        self._fate = Fate(
            self._cluster,
            self._rng,
            world=self._world,
            script=self._script,
            asks=self._asks,
            program=self._program,
        )
        self._witness = Witness(
            self._cluster,
            world=self._world,
            script=self._script,
            asks=self._asks,
            program=self._program,
            tell=self._tell,
        )
        self._rough = self._write_script()

    def play(self) -> Outcome:
        """Storm, calm, judgement."""
        self._cluster.add(self._script)
        self._cluster.add(self._program)
        faults = self._witness.faults
        try:
            self._until(lambda: False, STORM_S)
            self._until(self._outages_are_over, _LONGEST_OUTAGE_S)
            self._tell("-- everything is put right")
            self._fate.calm_down()
            self._until(lambda: not self._leftovers(), _SETTLES_S)
            self._until(lambda: False, 5.0)
        except NotSettledError as error:
            faults.append(f"the cluster does not come to rest: {error}")
        except Restless:
            faults.append("the program writes without an end")
        except Exception:  # noqa: BLE001 - a defect of the program is what is looked for
            faults.append(traceback.format_exc())
        faults += self._program.damaged
        if not faults:
            faults += self._leftovers()
        if not faults and not self._rough:
            faults += broken(self._witness.seen, self._witness.excused)
        return self._outcome()

    def _until(self, predicate: Callable[[], bool], limit_s: float) -> None:
        """Let time pass until it holds, something is broken, or time is over."""
        end_s = self._cluster.clock() + limit_s
        while self._cluster.clock() < end_s and not self._witness.faults and not predicate():
            self._cluster.advance(min(1.0, end_s - self._cluster.clock()))

    def _outages_are_over(self) -> bool:
        over_s = self._cluster.recovered_at_s + _AFTERMATH_S
        return not self._program.line.is_away() and self._cluster.clock() >= over_s

    def _leftovers(self) -> list[str]:
        return leftovers(self._witness.seen, self._world, self._asks)

    def _outcome(self) -> Outcome:
        seen = self._witness.seen
        met = self._script.done + self._program.line.met
        met["controller killed at a write"] = self._program.died - met["controller killed between calls"]
        met.update(f"excused: {why}" for why in self._witness.excused.values())
        return Outcome(
            seed=self._seed,
            faults=tuple(self._witness.faults),
            rough=self._rough,
            evictions=len(self._witness.evicted),
            writes=self._witness.writes,
            met=met,
            ended=Counter(outcome(o) for o in (*seen.moves.values(), *seen.rooms.values())),
        )

    # Setting the scene

    def _settle_workloads(self) -> None:
        """Everybody is Ready who can be."""
        wanted = sum(w.replicas for w in self._world.workloads)
        end_s = self._cluster.clock() + 30.0
        while self._cluster.clock() < end_s and sum(map(ready, self._cluster.api.list(POD))) < wanted:
            self._cluster.advance(1.0)
        self._cluster.advance(1.0)

    def _temper(self) -> Temper:
        rng, configuration = self._rng, configured(soft=self._chance(_SOFT))
        return Temper(
            settings=hurried(settings_of(configuration)),
            configuration=configuration,
            decides=self._chance(0.2),
            crashes=rng.choice((0, 0, 2, 4, 8)),
            writes_per_life=rng.choice((8, 25)),
            late=self._chance(0.5),
            patience_s=rng.choice((-1.0, 10.0)),
            round_gap_s=rng.choice((0.0, 0.02, 0.02)),
        )

    def _write_script(self) -> bool:
        """Wishes, then what goes wrong; True if something of it is rough."""
        rng, start_s = self._rng, self._cluster.clock()
        wishes = [self._asks.move] * rng.randint(0, 3) + [self._asks.room] * rng.randint(0, 2)
        for wish in wishes or [self._asks.move]:
            at_s = start_s + rng.choice((0.0, 0.0, rng.uniform(0.0, 6.0)))
            self._script.at(at_s, f"a {wish.__name__} is asked for", wish)
        if self._chance(0.3):
            self._taint_a_node()
        if self._chance(0.2):
            self._script.at(start_s, "scheduler away", self._fate.gentle["scheduler away"])
        rough = self._chance(0.5)
        if self._chance(_GROWS):
            grows = self._asks.grows_while_moving
            self._script.after(rng.randint(1, 2), Mark.INTENT, "a workload grows while it is moved", grows)
        if self._chance(_OUTAGES):
            self._lose_api_server()
        self._strike(self._fate.gentle, rng.randint(0, 4))
        if rough:
            self._strike(self._fate.rough, rng.randint(1, 4))
            if self._chance(_CONTENDED):
                writes = rng.randint(1, _CONTENDED_WRITES)
                self._script.after(writes, Mark.WRITE, "line of higher priority", self._fate.contend)
        return rough

    def _strike(self, deeds: Mapping[str, Deed], times: int) -> None:
        """Half of them at any moment, half of them in the middle of what the program does."""
        for name in self._rng.choices(list(deeds), k=times):
            if self._chance(0.5):
                moment_s = self._cluster.clock() + self._rng.uniform(0.0, STORM_S - 3.0)
                self._script.at(moment_s, name, deeds[name])
            else:
                self._script.after(self._rng.randint(1, _WRITES), Mark.WRITE, name, deeds[name])

    def _lose_api_server(self) -> None:
        """In the middle of a move, as a rule; somebody waits for the room by then."""
        script, rng = self._script, self._rng
        away = self._fate.gentle["API server away"]
        if self._chance(_OTHER_OUTAGES):
            script.after(rng.randint(1, _WRITES), Mark.WRITE, "API server away", away)
            return

        def line() -> None:
            self._fate.contend_gently()
            script.at(self._cluster.clock() + rng.uniform(*_TO_HAND_OVER_S), "API server away", away)

        script.after(rng.randint(1, 2), Mark.INTENT, "line of the same priority", line)

    def _taint_a_node(self) -> None:
        """Before anything else: pods that are there do not tolerate it."""
        node = self._rng.choice(self._cluster.api.list(NODE))
        taint = {"key": "example.com/retired", "value": "yes", "effect": "NoSchedule"}
        self._cluster.api.patch(node, {"spec": {"taints": [taint]}})

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share

    def _tell(self, words: str) -> None:
        self._told(f"{self._cluster.clock() - START_S:9.3f}  {words}")


@functools.cache
def configured(*, soft: bool = False) -> Configuration:
    """The configuration of all histories; in some moves are soft unless they say otherwise."""
    return parse_configuration(_CONFIGURATION + (b"mode: Soft\n" if soft else b""), "histories")


def hurried(settings: Settings) -> Settings:
    """Shorter limits, so that a storm outlasts them; that for a replacement must outlast outages, as in the product."""
    return Settings(
        reservations=dataclasses.replace(settings.reservations, landing_limit_s=120.0, node_grace_s=20.0),
        migrations=dataclasses.replace(settings.migrations, ready_limit_s=60.0, gate_settle_s=0.3),
    )


def _cluster(seed: int, world: World) -> EmbeddedCluster:
    kubelet = KubeletSettings(start_s=0.2, ready_s=0.5, stop_s=0.5)
    cluster = EmbeddedCluster(world.machines, seed=seed, interleave=True, kubelet=kubelet)
    install(cluster.transport)
    for obj in world.objects:
        cluster.api.create(obj)
    return cluster
