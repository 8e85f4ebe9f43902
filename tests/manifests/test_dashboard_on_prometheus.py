"""A real Prometheus scrapes a controller that moves pods, and each query of the dashboard returns data."""

import json
import time
import urllib.parse
import urllib.request

import pytest

from harness.controlplane.controllers import controller_process
from harness.controlplane.manifests import FOLDER
from harness.controlplane.processes import free_port
from harness.strangers.build import find
from harness.strangers.tools import PROMETHEUS
from tests.kube.measuring_servers import prometheus

pytestmark = pytest.mark.realcluster
LIMIT_S = 120.0
ONLY_IF_IT_HAPPENED = (
    "rescheduler_decode_errors_total",
    "rescheduler_relists_total",
    "rescheduler_guard_answer",
)
"""Series of counters whose labels are known only once there is something to count. Nobody evicts here, so the guard has no answer to count."""


@pytest.fixture
def program():
    return str(find(PROMETHEUS))


@pytest.fixture
def controller(control_plane, world, tmp_path):
    """A process with the rights of the Deployment; gives its port."""
    port = free_port()
    document = {
        "apiVersion": "rescheduler.dev/v1alpha1",
        "kind": "ReschedulerConfiguration",
        "aggressiveness": "aggressive",
        "interval": "2s",
        "limits": {"workloadCooldown": "2s", "movesPerHour": 600},
        "protections": {"namespaces": {"include": [world.namespace]}},
        "policies": [{"name": "NodeTaints", "after": "0s"}],
        "server": {"port": port},
    }
    process = controller_process(control_plane, tmp_path, "controller", document)
    process.start()
    yield port
    process.stop(30)


@pytest.fixture
def ask(program, controller, tmp_path):
    """Asks the Prometheus that scrapes the controller; gives the values of a query."""
    with prometheus(program, f"127.0.0.1:{controller}", tmp_path, job="rescheduler") as url:

        def asked(expression):
            query = urllib.parse.urlencode({"query": expression})
            with urllib.request.urlopen(f"{url}/api/v1/query?{query}", timeout=10) as answer:  # noqa: S310
                found = json.load(answer)["data"]["result"]
            return [float(one["value"][1]) for one in found]

        yield asked


def answered(ask, expression):
    """True once there is a number, which a rate over too few scrapes is not."""
    try:
        return any(value == value for value in ask(expression))  # noqa: PLR0124 - no NaN
    except OSError:
        return False


def panels():
    document = json.loads((FOLDER / "monitoring" / "dashboard.json").read_text())
    for panel in document["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def test_each_query_of_the_dashboard_returns_data(world, ask):
    first = world.node("a", cpu="4")
    world.running("Deployment", "web", 2, cpu="1")
    second = world.node("b", cpu="4")
    world.wait(lambda: answered(ask, "sum(rescheduler_leader) == 1"), LIMIT_S)
    world.taint(first, "old")
    world.wait(lambda: {pod["spec"].get("nodeName") for pod in world.pods("web")} == {second}, LIMIT_S)
    expected = [(t, e) for t, e in panels() if not any(name in e for name in ONLY_IF_IT_HAPPENED)]
    assert len(expected) > 20
    end_s = time.monotonic() + 60.0
    silent = expected
    while silent and time.monotonic() < end_s:
        silent = [(title, expression) for title, expression in silent if not answered(ask, expression)]
        time.sleep(1.0)
    assert silent == []
