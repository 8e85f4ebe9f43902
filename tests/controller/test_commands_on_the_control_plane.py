"""``rescheduler move``, ``drain`` and ``consolidate`` as people type them, on the real control plane."""

import json
import time

import pytest
from click.testing import CliRunner

from harness.controlplane.controllers import running
from harness.controlplane.world import node_of
from rescheduler.cli.main import main

pytestmark = pytest.mark.realcluster


@pytest.fixture
def controller(control_plane):
    """At work and the leader: until it has the Lease, ``check`` tells why none runs by the installed Deployment, which has no pods here."""
    with running(control_plane.api().transport, leaderElection={"enabled": True}) as work:
        deadline = time.monotonic() + 30
        while not (work.faults or (work.controller._elector and work.controller._elector.still_leader())):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield work


def invoke(control_plane, *words):
    return CliRunner().invoke(main, [*words, "--kubeconfig", str(control_plane.kubeconfig)])


def test_a_pod_lands_where_it_was_asked_to(controller, control_plane, world):
    world.node("a", cpu="4")
    (pod,) = world.running("Deployment", "web", 1)
    target = world.node("b", cpu="4")
    name = pod["metadata"]["name"]
    done = invoke(control_plane, "move", "pod", name, "--to", target, "-n", world.namespace)
    assert done.exit_code == 0, done.output
    assert "Succeeded" in done.stdout
    assert [node_of(pod) for pod in world.wait_ready("web", 1)] == [target]


def test_a_node_is_emptied_although_a_budget_lets_its_pods_go_one_by_one(controller, control_plane, world):
    old = world.node("old", cpu="4")
    world.workload("Deployment", "web", 2)
    world.workload("StatefulSet", "db", 1)
    world.wait_ready("web", 2)
    world.wait_ready("db", 1)
    world.budget("web", "web", minAvailable=1)
    new = [world.node(name, cpu="2") for name in ("b", "c")]
    done = invoke(control_plane, "drain", old)
    assert done.exit_code == 0, done.output
    assert f"node/{old} drained" in done.stdout
    pods = [*world.wait_ready("web", 2), *world.wait_ready("db", 1)]
    assert {node_of(pod) for pod in pods} <= set(new)
    assert invoke(control_plane, "uncordon", old).stdout == f"node/{old} uncordoned\n"


def test_an_installation_at_work_is_in_order_but_for_what_is_not_a_part_of_it(controller, control_plane):
    done = invoke(control_plane, "check", "-o", "json")
    found = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
    broken = {name: one["message"] for name, one in found.items() if one["state"] in ("Broken", "Unknown")}
    assert broken == {}, done.output
    assert {found[name]["state"] for name in ("crds", "policies", "gate", "rights", "controller")} == {"OK"}
