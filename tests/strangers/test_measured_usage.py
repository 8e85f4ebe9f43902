"""A hot spot of one pod, by the metrics of a stand-in of metrics-server: this controller beside descheduler v0.36.0, each alone."""

import contextlib
import os
import subprocess
import sys
import time

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


@contextlib.contextmanager
def descheduler(plane, world, _):
    usage = {"metricsUtilization": {"source": "KubernetesMetrics"}, **TARGETS}
    plugins = {"LowNodeUtilization": ("balance", usage)}
    limits = {"metricsProviders": [{"source": "KubernetesMetrics"}]}
    with Descheduler(plane, world, plugins, interval_s=10, limits=limits):
        yield


def replaced(world, before):
    """The apps whose pods were evicted since."""
    now = {pod["metadata"]["uid"]: pod["metadata"]["labels"]["app"] for pod in world.pods()}
    return sorted(before[uid] for uid in before.keys() - now.keys())


@pytest.mark.parametrize("tool", [rescheduler, descheduler], ids=["rescheduler", "descheduler"])
def test_a_hot_spot_of_one_pod(tool, control_plane, world, tmp_path):
    nodes = hot_spot(world)
    before = {pod["metadata"]["uid"]: pod["metadata"]["labels"]["app"] for pod in world.pods()}
    with MetricsStandIn(control_plane, world, lambda app: USES.get(app, 0)) as metrics:
        assert metrics.used()[nodes[0]] == 1700 + 9 * 80
        departures, began_s = Departures(world), time.monotonic()
        with tool(control_plane, world, tmp_path):
            world.wait(
                lambda: max(metrics.used().values()) <= 2200 and len(metrics.used()) and not pending(world),
                300,
            )
            even_s = time.monotonic() - began_s
            until_even = replaced(world, before)
            time.sleep(REST_S)
            after = replaced(world, before)
            worst = max(metrics.used().values()) / 4000
            left = departures.end()
    figures = departures.figures(left)
    print(  # noqa: T201 - for people
        f"{tool.__name__}: {even_s:.0f} s until even, evicted {until_even}; a minute later {after}, fullest node {worst:.0%}; "
        f"{figures.evictions - figures.room_first} of {figures.evictions} evictions without room held before, "
        f"replacements pending for {figures.pending_s:.1f} s together, {figures.left_pending} still"
    )
    assert not metrics.failed
    if tool is rescheduler:
        assert until_even == after == ["hot"]
        assert [(one.room_first, one.landed) for one in left] == [(True, True)]
        assert worst <= 0.55


def pending(world):
    return [pod for pod in world.pods() if not node_of(pod)]
