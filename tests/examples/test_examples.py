"""The scripts of examples/ do what they say: against the sandbox over HTTP, with the controller at work."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.controlplane import manifests
from harness.controlplane.api import Api, HttpTransport
from harness.controlplane.controllers import running
from harness.controlplane.world import World, node_of
from kube_sandbox.kubelet import KubeletSettings
from kube_sandbox.sandbox import Sandbox

pytest.importorskip("pykube")

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 120


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    return tmp_path_factory.mktemp("examples") / "kubeconfig"


@pytest.fixture(scope="module")
def api(kubeconfig):
    """The sandbox in real time with a controller that takes up what is asked for and decides nothing itself."""
    with Sandbox(clock=time.time, kubelet=KubeletSettings(start_s=0.05, ready_s=0.1, stop_s=0.1)) as cluster:
        api = Api(HttpTransport(cluster.start(kubeconfig=kubeconfig).url))
        manifests.apply(api, manifests.load())
        with running(api.transport):
            yield api


@pytest.fixture
def world(api):
    with World(api, "examples") as world:
        yield world


@pytest.fixture
def script(kubeconfig):
    """Runs one of the scripts as a user does."""

    def run(name, *words):
        return subprocess.run(
            [sys.executable, ROOT / "examples" / name, *map(str, words)],
            env={**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )

    return run


def test_the_pods_of_a_node_are_moved_and_others_stay(world, script):
    source = world.node("source", cpu="4")
    world.workload("Deployment", "web", 3, cpu="1")
    moved = {pod["metadata"]["name"] for pod in world.wait_ready("web", 3)}
    world.pod("alone")
    world.wait_bound("alone")
    target = world.node("target", cpu="4")
    done = script("move_pods_of_node.py", source, "--namespace", world.namespace, "--at-once", 2)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == f"3 of 3 pods were moved off {source}"
    assert {line.partition(":")[0] for line in lines[:-1]} == {f"{world.namespace}/{name}" for name in moved}
    after = world.wait_ready("web", 3)
    assert {node_of(pod) for pod in after} == {target}
    assert all(f"{source} -> {target} as " in line for line in lines[:-1])
    assert {line.rpartition(" ")[2] for line in lines[:-1]} == {pod["metadata"]["name"] for pod in after}
    assert node_of(world.get_pod("alone")) == source


def test_a_pod_that_cannot_be_moved_stays_and_its_reason_is_printed(world, script):
    source = world.node("source", cpu="4")
    (pod,) = world.running("Deployment", "web", 1, cpu="3")
    world.node("small", cpu="1")
    done = script("move_pods_of_node.py", source, "--namespace", world.namespace, "--timeout", 3)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == f"0 of 1 pods were moved off {source}"
    assert "NoTarget" in done.stderr
    assert world.get_pod(pod["metadata"]["name"])["metadata"]["uid"] == pod["metadata"]["uid"]


def test_a_deployment_is_scaled_into_reserved_room(world, script):
    world.node("one", cpu="2")
    world.running("Deployment", "web", 1, cpu="1")
    two = world.node("two", cpu="2")
    done = script("reserve_then_scale.py", "web", "--namespace", world.namespace, "--replicas", 4)
    assert done.returncode == 0, done.stderr
    pods = world.wait_ready("web", 4)
    landed = dict(line.split(" landed on ") for line in done.stdout.splitlines())
    assert len(landed) == 3
    places = {f"{world.namespace}/{pod['metadata']['name']}": node_of(pod) for pod in pods}
    assert landed.items() <= places.items()
    assert two in landed.values()


def test_without_room_for_all_nothing_is_scaled(world, script):
    world.node("one", cpu="2")
    (before,) = world.running("Deployment", "web", 1, cpu="1")
    words = ("--namespace", world.namespace, "--replicas", 3, "--timeout", 4)
    done = script("reserve_then_scale.py", "web", *words)
    assert done.returncode == 1
    assert "nothing was scaled" in done.stderr
    assert "Unschedulable" in done.stderr
    (after,) = world.wait_ready("web", 1)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
