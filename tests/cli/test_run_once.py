"""``run --once`` ends by saying what became of each move."""

import json
import subprocess
import sys
import time

import pytest

from harness import documents
from kube_sandbox.controllers.unstructured import NODE, POD, GroupKind, ready
from kube_sandbox.installing import install
from kube_sandbox.kubelet import KubeletSettings
from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Sandbox
from rescheduler.kube.elector import Elector
from rescheduler.model.migration import MigrationPhase, MigrationStatus, PodMigration
from rescheduler.model.records import ObjectKey
from rescheduler.reports.text import outcomes_text
from tests.waiting import until

RUN = [sys.executable, "-c", "from rescheduler.cli.main import main; main()", "run", "--once"]
DOCUMENT = {
    "apiVersion": "rescheduler.dev/v1alpha1",
    "kind": "ReschedulerConfiguration",
    "policies": [{"name": "NodeTaints"}],
}


@pytest.fixture
def cluster(tmp_path):
    """Three pods of a Deployment, and one of their nodes is tainted since."""
    nodes = [SandboxNode(name=name) for name in ("n1", "n2", "n3")]
    kubelet = KubeletSettings(start_s=0.05, ready_s=0.1, stop_s=0.1)
    with Sandbox(nodes, clock=time.time, kubelet=kubelet) as running:
        running.start(kubeconfig=tmp_path / "kubeconfig")
        install(running.transport)
        pod = documents.pod_spec("100m", "64Mi")
        running.api.create(documents.workload("Deployment", "web", 3, pod, namespace="default"))
        until(lambda: sum(map(ready, running.api.list(POD))) == 3, 120)
        pods = running.api.list(POD)
        tainted = running.api.get(NODE, "", pods[0]["spec"]["nodeName"])
        running.api.patch(tainted, {"spec": {"taints": [{"key": "old", "effect": "NoSchedule"}]}})
        yield running, pods[0]


def test_it_says_what_became_of_each_move(cluster, tmp_path):
    running, pod = cluster
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps(DOCUMENT))
    words = ["--kubeconfig", tmp_path / "kubeconfig", "--config", config]
    done = subprocess.run([*RUN, *map(str, words)], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    headline, _, *lines = done.stdout.splitlines()
    assert headline.endswith("landed on the reserved node")
    (line,) = (line for line in lines if pod["metadata"]["name"] in line)
    moves = running.api.list(GroupKind("rescheduler.dev", "PodMigration"))
    (move,) = (m for m in moves if m["spec"]["podRef"]["name"] == pod["metadata"]["name"])
    status = move["status"]
    for words in (status["sourceNode"], status["nodeName"], status["reason"], status["message"]):
        assert words in line
    logged = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert "The pod is evicted" in {line["msg"] for line in logged}


def test_beside_another_controller_it_says_so_and_ends(cluster, tmp_path):
    running, _ = cluster
    other = Elector(
        running.transport, namespace="rescheduler", name="rescheduler", identity="first", on_lost=print
    )
    other.start()
    try:
        until(other.still_leader)
        words = ["--kubeconfig", str(tmp_path / "kubeconfig")]
        done = subprocess.run([*RUN, *words], capture_output=True, text=True, timeout=240, check=False)
    finally:
        other.stop()
    assert done.returncode == 1
    assert "error: another controller is at work: first renews the Lease." in done.stderr
    assert "Traceback" not in done.stderr


def test_of_no_move_and_of_one_whose_object_is_gone():
    assert outcomes_text({}) == "No move was begun.\n"
    failed = PodMigration(
        namespace="shop",
        name="m",
        pod_name="web-1",
        target_node="n2",
        status=MigrationStatus(phase=MigrationPhase.FAILED, reason="Timeout", message="it waited"),
    )
    text = outcomes_text({failed.key: failed, ObjectKey("shop", "gone"): None})
    assert text.splitlines()[0] == "2 moves begun, 0 landed on the reserved node"
    assert "shop/web-1" in text
    assert "Timeout" in text
    assert "PodMigration shop/gone" in text
