"""The installed controller at work: started as the Deployment starts it, with the rights of its own service account only."""

import json
import subprocess
import sys
import urllib.request

import pytest

from harness.controlplane import manifests
from harness.controlplane.controllers import forget_past_moves
from harness.controlplane.processes import free_port
from harness.controlplane.world import PATIENCE_S, World, node_of
from rescheduler.kube.client import KubeApi

pytestmark = pytest.mark.realcluster

HISTORY = "/api/v1/namespaces/rescheduler/configmaps/move-history"
CONFIG_MAP = "/api/v1/namespaces/rescheduler/configmaps/rescheduler"
MIGRATIONS = "rescheduler.dev/v1alpha1"
START = "from rescheduler.cli.main import main; main()"


@pytest.fixture(scope="module")
def port():
    return free_port()


@pytest.fixture(scope="module")
def log(control_plane, tmp_path_factory, port):
    """Path of the log of a running controller."""
    api = control_plane.api()
    (deployment,) = [obj for obj in manifests.load() if obj["kind"] == "Deployment"]
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    before = api.get(CONFIG_MAP).expect().body["data"]["config.yaml"]
    api.patch(
        CONFIG_MAP, {"data": {"config.yaml": f"{before}interval: 2s\nserver: {{port: {port}}}\n"}}
    ).expect()
    forget_past_moves(KubeApi(api.transport))
    kubeconfig = control_plane.kubeconfig_for("rescheduler", "rescheduler")
    path = tmp_path_factory.mktemp("controller") / "log"
    with path.open("wb") as output:
        command = [
            sys.executable, "-c", START, *arguments, "--kubeconfig", str(kubeconfig), "--log-format", "json",
        ]  # fmt: skip
        child = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, cwd=manifests.FOLDER.parent
        )
        yield path
        child.terminate()
        assert child.wait(20) == 0, path.read_text()[-3000:]
    api.patch(CONFIG_MAP, {"data": {"config.yaml": before}}).expect()


@pytest.fixture
def world(control_plane, log, port):
    """Once the controller is ready."""
    with World(control_plane.api(), "installed") as world:
        world.wait(lambda: answer(port, "/readyz")[0] == 200, seconds=PATIENCE_S)
        yield world


def answer(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as response:
            return response.status, response.read().decode()
    except OSError as error:
        return 0, str(error)


def test_it_gets_ready_and_serves_its_metrics(world, port):
    assert answer(port, "/healthz")[0] == 200
    assert "rescheduler_build_info" in answer(port, "/metrics")[1]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_move_asked_for_by_hand_lands(world, port, kind, log):
    world.node("source", cpu="2")
    (pod,) = world.running(kind, "web", 1, cpu="2")
    target = world.node("target", cpu="2")
    world.budget("web", "web", maxUnavailable=1)
    world.landed({world.migrate(pod, target): target}, PATIENCE_S)
    assert {node_of(p) for p in world.wait_ready("web", 1)} == {target}


def test_a_move_is_counted_after_its_deletion_and_a_deleted_config_map_comes_back(world, port, log):
    world.node("source", cpu="2")
    (pod,) = world.running("Deployment", "web", 1, cpu="2")
    target = world.node("target", cpu="2")
    move = world.migrate(pod, target)
    path = world.path("podmigrations", move, group=MIGRATIONS)
    uid = world.api.get(path).expect().body["metadata"]["uid"]
    world.landed({move: target}, PATIENCE_S)

    def entry():
        return (world.api.get(HISTORY).body.get("data") or {}).get(uid, "")

    world.wait(lambda: "ended=" in entry(), seconds=10)
    kept = entry()
    assert {"by=request", f"pod={pod['metadata']['uid']}"} <= set(kept.split())
    assert "evicting=" in kept
    world.api.delete(path).expect()
    world.wait(lambda: world.api.get(path).status == 404)
    world.api.delete(HISTORY).expect()
    world.wait(lambda: entry() == kept, seconds=PATIENCE_S)


def test_a_decision_of_its_own_moves_a_pod_off_a_tainted_node(world, port, log):
    source = world.node("source", cpu="4")
    before = world.running("Deployment", "web", 3, cpu="1")
    target = world.node("target", cpu="4")
    world.taint(source, "old")

    # Long enough for a second move: one that fails, for example because the target was not Ready for a moment, is
    # followed by a back-off of a minute.
    world.wait(
        lambda: target in {node_of(pod) for pod in world.wait_ready("web", len(before))},
        seconds=3 * PATIENCE_S,
    )
    pods = world.pods("web")
    assert sum(node_of(pod) == source for pod in pods) == len(before) - 1, (
        "one at a time, then the workload rests"
    )


def test_a_changed_configuration_comes_by_the_watch(world, port, log):
    taken = 'rescheduler_configuration_reloads_total{result="taken"} '
    before = world.api.get(CONFIG_MAP).expect().body["data"]["config.yaml"]
    assert f"{taken}0.0" in answer(port, "/metrics")[1]
    world.api.patch(CONFIG_MAP, {"data": {"config.yaml": f"{before}mode: ReserveFirst\n"}}).expect()
    world.wait(lambda: f"{taken}1.0" in answer(port, "/metrics")[1], seconds=10)
    assert 'rescheduler_cache_synced{kind="ConfigMap"} 1.0' in answer(port, "/metrics")[1]


def test_no_right_was_missing(world, log):
    refused = [
        line
        for line in log.read_text().splitlines()
        if '"Forbidden"' in line or "is forbidden" in line or " 403 " in line
    ]
    assert refused == []
    levels = [json.loads(line).get("level") for line in log.read_text().splitlines() if line.startswith("{")]
    assert "error" not in levels
