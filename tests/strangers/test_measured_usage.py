"""A hot spot of one pod, by the metrics of a stand-in of metrics-server, and by the real Prometheus: this controller and descheduler v0.36.0, each alone.

Two clusters: in one all nodes have capacity; in the other all nodes are full by requests and hardly used, and another pod waits for capacity.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections import Counter

import pytest
import yaml

from harness.controlplane import manifests
from harness.controlplane.nodes import cordon
from harness.controlplane.world import WORLD, World, node_of
from harness.strangers.departures import Departures
from harness.strangers.descheduler import NAMESPACE, Descheduler
from harness.strangers.metrics_stand_in import MetricsStandIn, UsedByPods
from harness.strangers.tools import DESCHEDULER, PROMETHEUS
from rescheduler.model.usage_settings import PrometheusQueries
from rescheduler.webhook.certificates import renewed
from tests.kube.measuring_servers import prometheus, say, serving

pytestmark = pytest.mark.strangers
START = "from rescheduler.cli.entry import main; main()"
USES = {"hot": 1700, "calm": 80, "near": 80}
TARGETS = {"thresholds": {"cpu": 40}, "targetThresholds": {"cpu": 55}}
REST_S = 60.0
FULL_S = 150.0
HISTORY_S = 110.0
"""What Prometheus has measured before: three samples of ours, and more than the range of the queries."""
RANGE = "[10s]"
QUERIES = {"nodeCpu": "node_cpu", "nodeMemory": "node_memory", "podCpu": "pod_cpu", "podMemory": "pod_memory"}


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
def metrics_server(plane, world):
    with MetricsStandIn(plane, world, lambda app: USES.get(app, 0)) as found:
        yield found
    assert not found.failed


@contextlib.contextmanager
def rescheduler(plane, world, tmp_path, url=""):
    """``url``: of Prometheus; "": metrics.k8s.io."""
    queries = {key: getattr(PrometheusQueries(), f).replace("[2m]", RANGE) for key, f in QUERIES.items()}
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
        **({"usage": {"prometheus": {"url": url, "queries": queries}}} if url else {}),
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


def descheduler(plane, world, tmp_path, url=""):
    """``url``: as of ``rescheduler``. It wants one number for each node, and takes Prometheus with a token and the files of a pod only."""
    if not url:
        return _descheduler(plane, world)
    token = {
        "metadata": {"name": "prometheus", "namespace": NAMESPACE},
        "stringData": {"prometheusAuthToken": "none"},
    }
    manifests.apply(plane.api(), [{"apiVersion": "v1", "kind": "Secret", **token}])
    reference = {"secretReference": {"name": "prometheus", "namespace": NAMESPACE}}
    node = f'label_replace(rate(container_cpu_usage_seconds_total{{id="/"}}{RANGE}), "instance", "$1", "node", "(.*)")'
    arguments = {
        "metricsUtilization": {
            "source": "Prometheus",
            "prometheus": {"query": f"sum by (instance) ({node}) / 4"},
        },
        **{key: {"MetricResource": share["cpu"]} for key, share in TARGETS.items()},
    }
    providers = [{"source": "Prometheus", "prometheus": {"url": url, "authToken": reference}}]
    authority = tmp_path / "authority.crt"
    authority.write_bytes(renewed(None, ("127.0.0.1",), time.time()).bundle)
    plugins = {"LowNodeUtilization": ("balance", arguments)}
    limits = {"metricsProviders": providers}
    return Descheduler(plane, world, plugins, interval_s=10, limits=limits, authority=str(authority))


def descheduler_with_node_fit(plane, world, _):
    return _descheduler(plane, world, evictor={"nodeFit": True})


TOOLS = [rescheduler, descheduler, descheduler_with_node_fit]


class Trial:
    """What a tool does to a world."""

    def __init__(self, world, used):
        self.world, self.used, self.apps = world, used, self._apps(world)

    @staticmethod
    def _apps(world):
        return {pod["metadata"]["uid"]: pod["metadata"]["labels"]["app"] for pod in world.pods()}

    @property
    def evicted(self):
        """The apps whose pods were evicted since."""
        return sorted(self.apps[uid] for uid in self.apps.keys() - self._apps(self.world).keys())

    @property
    def worst(self):
        """How full the fullest node is."""
        return max(self.used().values(), default=0) / 4000

    def until_even(self, tool):
        """Says how long it took; then a minute passes."""
        began_s = time.monotonic()
        self.world.wait(lambda: self.worst <= 0.55 and self.used() and not pending(self.world), 300)
        took_s, evicted = time.monotonic() - began_s, self.evicted
        time.sleep(REST_S)
        assert tool is not rescheduler or self.evicted == evicted == ["hot"]
        return f"{took_s:.0f} s until even"

    def run(self, tool, work, watch, what):
        """Prints a row of the comparison."""
        departures = Departures(self.world)
        with work:
            took = watch(tool)
            left = departures.end()
        found, apps = departures.figures(left), Counter(self.evicted)
        print(  # noqa: T201 - for people
            f"{tool.__name__}, {what}: {took}; evicted {dict(apps)}, {found.evictions} in all, "
            f"{found.evictions - found.room_first} without capacity reserved before; replacements pending for {found.pending_s:.1f} s together, "
            f"{found.left_pending} at the end; fullest node {self.worst:.0%}"
        )
        return left, found


@pytest.mark.parametrize("tool", TOOLS)
def test_a_hot_spot_of_one_pod(tool, control_plane, world, tmp_path):
    hot = hot_spot(world)[0]
    with metrics_server(control_plane, world) as metrics:
        assert metrics.used()[hot] == 1700 + 9 * 80
        trial = Trial(world, metrics.used)
        left, _ = trial.run(tool, tool(control_plane, world, tmp_path), trial.until_even, "metrics.k8s.io")
    if tool is rescheduler:
        assert [(one.room_first, one.landed) for one in left] == [(True, True)]
        assert trial.worst <= 0.55


@pytest.mark.parametrize("tool", [rescheduler, descheduler])
def test_a_hot_spot_of_one_pod_by_the_real_prometheus(tool, control_plane, world, tmp_path, program):
    server = program(PROMETHEUS)
    if tool is descheduler and (os.geteuid() or shutil.which("unshare") is None):
        pytest.skip("only root can give descheduler the files of a pod")
    hot_spot(world)
    pods = UsedByPods(world, lambda app: USES.get(app, 0))

    def scrape(handler):
        with contextlib.suppress(BrokenPipeError):  # Prometheus waits a second
            say(handler, pods.counters(), kind="text/plain; version=0.0.4")

    with (
        serving(scrape) as exported,
        prometheus(server, exported.removeprefix("http://"), tmp_path) as url,
    ):
        time.sleep(HISTORY_S)
        trial = Trial(world, pods.used)
        work = tool(control_plane, world, tmp_path, url)
        left, _ = trial.run(tool, work, trial.until_even, "Prometheus")
    if tool is rescheduler:
        assert [(one.room_first, one.landed) for one in left] == [(True, True)]
        assert trial.worst <= 0.55


@pytest.mark.parametrize("tool", TOOLS)
def test_a_hot_spot_of_one_pod_that_fits_nowhere(tool, control_plane, world, tmp_path):
    """Its place is taken by a pod that has waited longer, so whoever evicts it leaves its replacement without any."""
    full_by_requests(world)

    def watched(_):
        time.sleep(FULL_S)
        return f"after {FULL_S:.0f} s"

    with metrics_server(control_plane, world) as metrics:
        work = tool(control_plane, world, tmp_path)
        left, found = Trial(world, metrics.used).run(tool, work, watched, "all nodes full by requests")
    if tool is rescheduler:
        assert all(one.room_first and one.landed for one in left)
        assert found.left_pending == 0
    elif tool is descheduler:
        assert found.left_pending > 0


def pending(world):
    return [pod for pod in world.pods() if not node_of(pod)]
