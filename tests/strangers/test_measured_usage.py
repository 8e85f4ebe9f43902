"""A hot spot of one pod, by the metrics of a stand-in of metrics-server: this controller and descheduler v0.36.0, each alone.

Two clusters: in one all nodes have capacity; in the other all nodes are full by requests and hardly used, and another pod waits for capacity.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections import Counter

import pytest
import yaml

from harness.controlplane.nodes import cordon
from harness.controlplane.world import WORLD, World, node_of
from harness.strangers.departures import Departures
from harness.strangers.descheduler import Descheduler
from harness.strangers.metrics_stand_in import MetricsStandIn
from harness.strangers.tools import DESCHEDULER

pytestmark = pytest.mark.strangers
START = "from rescheduler.cli.entry import main; main()"
USES = {"hot": 1700, "calm": 80, "near": 80}
TARGETS = {"thresholds": {"cpu": 40}, "targetThresholds": {"cpu": 55}}
REST_S = 60.0
FULL_S = 150.0


@pytest.fixture(autouse=True)
def built(program):
    program(DESCHEDULER)


@pytest.fixture
def world(control_plane):
    with World(control_plane.api(), "hot") as world:
        yield world


def hot_spot(world):
    """n0: one pod that uses 34 times its request beside nine calm ones, 60 %; nine nodes with five calm ones each, 10 %."""
    nodes = [world.node("n0", cpu="4")]
    world.workload("Deployment", "hot", 1, "50m")
    world.workload("Deployment", "near", 9, "50m")
    world.wait_ready("hot", 1, 60)
    world.wait_ready("near", 9, 60)
    cordon(world.api, nodes[0])
    nodes += [world.node(f"n{i}", cpu="4") for i in range(1, 10)]
    world.workload("Deployment", "calm", 45, "50m")
    world.wait_ready("calm", 45, 90)
    cordon(world.api, nodes[0], unschedulable=False).expect()
    return nodes


def full_by_requests(world):
    """As ``hot_spot``, but no node has capacity for the hot pod beside pods that request much and use nothing; and a pod of its size waits."""
    hot = world.node("n0", cpu="4")
    for app, replicas, cpu in (("hot", 1, "500m"), ("near", 9, "50m"), ("idle", 1, "3")):
        world.workload("Deployment", app, replicas, cpu)
        world.wait_ready(app, replicas, 60)
    cordon(world.api, hot)
    for i in range(1, 10):
        world.node(f"n{i}", cpu="4")
    for app, replicas, cpu in (("large", 9, "3450m"), ("calm", 45, "50m")):
        world.workload("Deployment", app, replicas, cpu)
        world.wait_ready(app, replicas, 90)
    world.workload("Deployment", "waits", 1, "500m")
    world.wait(lambda: pending(world))
    world.wait_unschedulable(pending(world)[0]["metadata"]["name"])
    cordon(world.api, hot, unschedulable=False).expect()
    time.sleep(2.0)
    assert len(pending(world)) == 1


@contextlib.contextmanager
def rescheduler(plane, world, tmp_path):
    document = {
        "apiVersion": "rescheduler.dev/v1alpha1",
        "kind": "ReschedulerConfiguration",
        "aggressiveness": "aggressive",
        "interval": "5s",
        "protections": {"namespaces": {"include": [world.namespace]}},
        "policies": [
            {
                "name": "LowNodeUtilization",
                "usage": "actual",
                "nodeSelector": {WORLD: world.namespace},
                "useDefaultRequests": False,
                **TARGETS,
            }
        ],
        "server": {"port": 0},
    }
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(document))
    kubeconfig = plane.kubeconfig_for("rescheduler", "rescheduler")
    words = [sys.executable, "-c", START, "run", "--kubeconfig", str(kubeconfig), "--config", str(config)]
    with (tmp_path / "controller.log").open("wb") as output:
        process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, env=os.environ)
    yield
    process.terminate()
    process.wait(60)


def _descheduler(plane, world, **more):
    usage = {"metricsUtilization": {"source": "KubernetesMetrics"}, **TARGETS}
    plugins = {"LowNodeUtilization": ("balance", usage)}
    limits = {"metricsProviders": [{"source": "KubernetesMetrics"}]}
    return Descheduler(plane, world, plugins, interval_s=10, limits=limits, **more)


def descheduler(plane, world, _):
    return _descheduler(plane, world)


def descheduler_with_node_fit(plane, world, _):
    return _descheduler(plane, world, evictor={"nodeFit": True})


TOOLS = [rescheduler, descheduler, descheduler_with_node_fit]


class Trial:
    """What a tool does to a world, from the first metrics on."""

    def __init__(self, plane, world):
        self.world, self.metrics = world, MetricsStandIn(plane, world, lambda app: USES.get(app, 0))
        self.apps = self._apps()

    def _apps(self):
        return {pod["metadata"]["uid"]: pod["metadata"]["labels"]["app"] for pod in self.world.pods()}

    @property
    def evicted(self):
        """The apps whose pods were evicted since."""
        return sorted(self.apps[uid] for uid in self.apps.keys() - self._apps().keys())

    @property
    def worst(self):
        """How full the fullest node is."""
        return max(self.metrics.used().values(), default=0) / 4000

    def run(self, tool, until):
        """``until`` returns how long it took. Prints a row of the comparison."""
        with self.metrics:
            departures = Departures(self.world)
            with tool:
                took = until(self)
                left = departures.end()
        found, apps = departures.figures(left), Counter(self.evicted)
        print(  # noqa: T201 - for people
            f"{took}; evicted {dict(apps)}, {found.evictions} in all, {found.evictions - found.room_first} without capacity reserved before; "
            f"replacements pending for {found.pending_s:.1f} s together, {found.left_pending} at the end; fullest node {self.worst:.0%}"
        )
        assert not self.metrics.failed
        return left, found


@pytest.mark.parametrize("tool", TOOLS)
def test_a_hot_spot_of_one_pod(tool, control_plane, world, tmp_path):
    hot = hot_spot(world)[0]
    trial = Trial(control_plane, world)

    def even(trial):
        assert trial.metrics.used()[hot] == 1700 + 9 * 80
        began_s = time.monotonic()
        world.wait(lambda: trial.worst <= 0.55 and trial.metrics.used() and not pending(world), 300)
        took_s, evicted = time.monotonic() - began_s, trial.evicted
        time.sleep(REST_S)
        assert tool is not rescheduler or trial.evicted == evicted == ["hot"]
        return f"{tool.__name__}: {took_s:.0f} s until even"

    left, _ = trial.run(tool(control_plane, world, tmp_path), even)
    if tool is rescheduler:
        assert [(one.room_first, one.landed) for one in left] == [(True, True)]
        assert trial.worst <= 0.55


@pytest.mark.parametrize("tool", TOOLS)
def test_a_hot_spot_of_one_pod_that_fits_nowhere(tool, control_plane, world, tmp_path):
    """Its place is taken by a pod that has waited longer, so whoever evicts it leaves its replacement without any."""
    full_by_requests(world)

    def watched(_):
        time.sleep(FULL_S)
        return f"{tool.__name__}, all nodes full by requests: after {FULL_S:.0f} s"

    left, found = Trial(control_plane, world).run(tool(control_plane, world, tmp_path), watched)
    if tool is rescheduler:
        assert all(one.room_first and one.landed for one in left)
        assert found.left_pending == 0
    elif tool is descheduler:
        assert found.left_pending > 0


def pending(world):
    return [pod for pod in world.pods() if not node_of(pod)]
