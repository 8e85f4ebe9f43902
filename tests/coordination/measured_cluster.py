"""A small cluster whose pods use what a test says, measured every 30 s, and decided about as in the controller."""

import dataclasses
import random

import msgspec

from harness import builders as b
from rescheduler.coordination.usage_window import UsageWindow
from rescheduler.model.measured import NodeUsage
from rescheduler.model.migration import MigrationPhase, MigrationStatus, PodMigration
from rescheduler.model.reservation import ObjectRef
from rescheduler.model.usage import NO_READINGS, Readings, usage_key
from rescheduler.planning.limits import EFFORT, PlanningInputs, shorter
from rescheduler.planning.planner import plan
from rescheduler.policies.registry import REGISTRY
from rescheduler.scheduling.state import SchedulingState

CORES = 10
EVERY_S = 30.0
INPUTS = PlanningInputs(aggressiveness=1.0, effort=shorter(EFFORT, 2))
"""A search is as short as in a controller, which decides again soon."""


@dataclasses.dataclass
class Load:
    """A pod: what it uses of a CPU at a time, in milli."""

    name: str
    node: str
    use: object
    request: str = "100m"


class MeasuredCluster:
    """Moves land at once; their replacements go on with the load."""

    def __init__(self, nodes, loads, window=None, seed=1, noise=0.0, **args):
        """``noise``: by how much of a node each measurement of it is off at most."""
        self.names = [f"n{i}" for i in range(nodes)]
        self.loads = list(loads)
        self.window = window or UsageWindow()
        self.rng = random.Random(seed)  # noqa: S311 - reproducible
        self.noise = noise
        self.now_s = b.NOW_S
        self.moves = []
        self.migrations = []
        self.pods_measured = True
        self.measured = True
        self.most_moves = None
        self.known = None
        kind = REGISTRY["LowNodeUtilization"]
        self.policy = kind.build(kind.args(usage="actual", **args))

    def load(self, node):
        return sum(one.use(self.now_s) for one in self.loads if one.node == node)

    def read(self):
        if not self.measured:
            return (), NO_READINGS
        used = {one.name: one.use(self.now_s) for one in self.loads}
        of_node = dict.fromkeys(self.names, 0)
        for one in self.loads:
            of_node[one.node] += used[one.name]
        nodes = [
            NodeUsage(
                name,
                max(0, round(of_node[name] + self.rng.uniform(-self.noise, self.noise) * 1000 * CORES)),
                1 << 30,
                self.now_s,
            )
            for name in self.names
        ]
        pods = ((usage_key("default", one.name), self.now_s, used[one.name], 1 << 20) for one in self.loads)
        return nodes, Readings.of(pods) if self.pods_measured else NO_READINGS

    def watch(self, seconds, every_s):
        """Samples only."""
        for _ in range(round(seconds / every_s)):
            self.now_s += every_s
            self.window.follow(self.migrations)
            self.window.add(*self.read(), self.now_s)

    def cycle(self, every_s=EVERY_S):
        """One decision, and what becomes of it."""
        self.watch(every_s, every_s)
        known = self.window.known
        if self.known is None:
            self.known = self.snapshot()
            self.state = SchedulingState(self.known)
        usage = {one.node: one for one in known}
        found = dataclasses.replace(
            self.known,
            usage=usage,
            pod_usage=self.window.pods,
            node_samples=self.window.samples,
            migrations={one.key: one for one in self.migrations},
            taken_at_s=self.now_s,
        )
        made = plan(
            found,
            [self.policy],
            msgspec.structs.replace(INPUTS, unlimited=self.most_moves is None, max_moves=self.most_moves),
            self.state,
        )
        for move in made.moves:
            self.land(move)
        return made

    def run(self, cycles, every_s=EVERY_S, samples=1):
        """How many moves were made. ``samples``: for each decision."""
        before = len(self.moves)
        for _ in range(cycles):
            self.watch((samples - 1) * every_s, every_s)
            self.cycle(every_s)
        return len(self.moves) - before

    def snapshot(self):
        owner = b.replicaset("web").replicas(len(self.loads))
        pods = [owner.pod(one.name).on(one.node).cpu(one.request) for one in self.loads]
        nodes = [b.node(name).cpu(str(CORES)) for name in self.names]
        return b.snapshot(*nodes, owner, *pods)

    def land(self, move):
        (load,) = [one for one in self.loads if one.name == move.pod.name]
        status = MigrationStatus(
            source_node=load.node,
            node_name=move.target,
            phase=MigrationPhase.SUCCEEDED,
            replacement=ObjectRef(
                namespace="default", name=f"{load.name.partition('.')[0]}.{len(self.moves)}"
            ),
            evicted_at_s=self.now_s + 1,
            landed_at_s=self.now_s + 2,
            finished_at_s=self.now_s + 2,
        )
        number = len(self.moves)
        self.migrations.append(
            PodMigration(
                namespace="default",
                name=f"m{number}",
                uid=f"m{number}",
                pod_name=load.name,
                policy=self.policy.name,
                status=status,
            )
        )
        self.known = None
        self.moves.append((self.now_s, load.name, load.node, move.target))
        load.node, load.name = move.target, f"{load.name.partition('.')[0]}.{number}"
