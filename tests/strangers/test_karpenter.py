"""Beside the real Karpenter: it adds a node for a pod that asks, and its own evictions find their room reserved."""

from contextlib import ExitStack

import pytest
from click.testing import CliRunner

from harness.controlplane.controllers import running
from harness.controlplane.ready_counts import ReadyCounts
from harness.controlplane.world import node_of
from harness.strangers.build import source
from harness.strangers.karpenter import ZONES, Karpenter
from harness.strangers.tools import KARPENTER
from rescheduler.cli.main import main
from rescheduler.model.names import ANNOTATION_MODE, API_VERSION, HOSTNAME, LABEL_PLACEHOLDER, ZONE
from tests.guard.evictions_of_others import DRAINED, OWN, drain, guarded_moves, guarding

NEVER = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}


def spread(topology_key):
    selector = {"matchLabels": {"app": "web"}}
    return {
        "maxSkew": 1,
        "topologyKey": topology_key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }


@pytest.fixture
def karpenter(program, guarded_plane, world):
    """Karpenter on this world's nodes, with a NodePool that disrupts as a test says."""
    program(KARPENTER)
    source(KARPENTER)
    started = []
    with ExitStack() as stack:

        def start(disruption, **more):
            started.append(
                stack.enter_context(Karpenter(guarded_plane, world, disruption=disruption, **more))
            )
            return started[-1]

        yield start
    for one in started:
        assert not one.faults


@pytest.mark.realcluster
def test_it_adds_a_node_for_a_guarded_drain_of_a_full_cluster(guarded_plane, world, karpenter):
    source = world.node("source", cpu="3")
    world.running("Deployment", "web", 3)
    made = karpenter(NEVER)
    with guarding(guarded_plane, world):
        done = drain(guarded_plane, source, timeout="100s")
        assert done.returncode == DRAINED, (done.stderr, made.log_tail())
        pods = world.wait_ready("web", 3)
        assert {node_of(pod) for pod in pods} == {n["metadata"]["name"] for n in made.nodes()}
        world.wait(lambda: {m["status"]["phase"] for m in guarded_moves(world)} == {"Succeeded"})


def apart():
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOSTNAME}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.mark.strangers
@pytest.mark.parametrize("rule", [
    {"affinity": apart()},
    {"topologySpreadConstraints": [spread(HOSTNAME)]},
], ids=["anti-affinity", "spread"])  # fmt: skip
def test_replicas_that_keep_apart_get_a_node_although_others_have_room(guarded_plane, world, karpenter, rule):
    """Karpenter would put a pod of that size on the other node, where the sibling is."""
    source, other = world.node("source"), world.node("other")
    world.running("Deployment", "web", 2, **rule)
    made = karpenter(NEVER)
    with guarding(guarded_plane, world):
        done = drain(guarded_plane, source, timeout="100s")
        assert done.returncode == DRAINED, (done.stderr, made.log_tail())
        (new,) = made.nodes()
        assert {node_of(pod) for pod in world.wait_ready("web", 2)} == {other, new["metadata"]["name"]}


@pytest.mark.strangers
def test_replicas_that_are_spread_over_zones_get_a_node_in_the_zone_that_lacks_one(
    guarded_plane, world, karpenter
):
    """Machines of another zone would be cheaper."""
    nodes = [world.node(zone, labels={ZONE: zone}) for zone in ZONES]
    world.running("Deployment", "web", 3, topologySpreadConstraints=[spread(ZONE)])
    made = karpenter(NEVER)
    with guarding(guarded_plane, world):
        done = drain(guarded_plane, nodes[-1], timeout="100s")
        assert done.returncode == DRAINED, (done.stderr, made.log_tail())
        (new,) = made.nodes()
        assert new["metadata"]["labels"][ZONE] == ZONES[-1]
        pods = world.wait_ready("web", 3)
        assert {node_of(pod) for pod in pods} == {*nodes[:-1], new["metadata"]["name"]}


@pytest.mark.strangers
def test_a_single_replica_has_no_gap_while_a_node_is_added_for_it(
    guarded_plane,
    world,
    karpenter,
    may_start_first,
):
    source = world.node("source", cpu="1")
    world.running("Deployment", "web", 1)
    path = world.path("deployments", "web", group="apps/v1")
    world.api.patch(path, {"metadata": {"annotations": {ANNOTATION_MODE: "StartFirst"}}}).expect()
    made = karpenter(NEVER)
    with guarding(guarded_plane, world):
        counts = ReadyCounts(world, 1)
        done = drain(guarded_plane, source, timeout="100s")
        assert done.returncode == DRAINED, (done.stderr, made.log_tail())
        (new,) = made.nodes()
        assert [node_of(pod) for pod in world.wait_ready("web", 1)] == [new["metadata"]["name"]]
        assert counts.end() == (1, 2)


@pytest.mark.strangers
def test_where_it_has_no_machine_of_that_size_the_eviction_is_let_through_at_the_limit(
    guarded_plane, world, karpenter
):
    source = world.node("source", cpu="6")
    world.running("Deployment", "web", 1, cpu="6")
    made = karpenter(NEVER, sizes=(2, 4))
    with guarding(guarded_plane, world, limit="20s"):
        done = drain(guarded_plane, source, timeout="100s")
        assert done.returncode == DRAINED, (done.stderr, made.log_tail())
        assert not made.nodes()
        ours = f"/api/v1/namespaces/{OWN}/pods"
        world.wait(lambda: not world.api.get(ours, labelSelector=LABEL_PLACEHOLDER).expect().items)


@pytest.mark.strangers
def test_our_own_drain_waits_for_the_node(control_plane, world, karpenter):
    source = world.node("source", cpu="2")
    world.running("Deployment", "web", 2)
    made = karpenter(NEVER)
    with running(control_plane.api().transport, leaderElection={"enabled": True}) as work:
        world.wait(lambda: work.controller._elector and work.controller._elector.still_leader(), 30)
        line = ["drain", source, "--timeout", "100s", "--kubeconfig", str(control_plane.kubeconfig)]
        planned = CliRunner().invoke(main, [*line, "--plan"])
        assert planned.stdout.count("a node to be added") == 2, planned.output
        done = CliRunner().invoke(main, line)
        assert done.exit_code == 0, (done.output, made.log_tail())
        (new,) = made.nodes()
        assert {node_of(pod) for pod in world.wait_ready("web", 2)} == {new["metadata"]["name"]}


@pytest.mark.strangers
def test_a_head_room_gets_its_nodes(guarded_plane, world, karpenter):
    """Room for four more pods where there is none; they start on it at once, and it is filled up again."""
    world.node("source", cpu="1")
    world.running("Deployment", "web", 1)
    made = karpenter(NEVER, sizes=(2, 4))
    owner = {
        "controller": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": world.namespace},
    }  # fmt: skip
    wish = {"rooms": 4, "template": {"spec": world.spec("1")}, "owners": [owner]}
    name = f"{world.namespace}-spare"
    body = {"apiVersion": API_VERSION, "kind": "HeadRoom", "metadata": {"name": name}, "spec": wish}
    path = f"/apis/{API_VERSION}/headrooms"

    def standing(rooms):
        return world.api.get(f"{path}/{name}").expect().body.get("status", {}).get("standing") == rooms

    with guarding(guarded_plane, world):
        world.api.create(path, body).expect()
        world.wait(lambda: standing(4), 60)
        nodes = {node["metadata"]["name"] for node in made.nodes()}
        assert len(nodes) == 1
        deployment = world.path("deployments", "web", group="apps/v1")
        world.api.patch(deployment, {"spec": {"replicas": 5}}).expect()
        new = {node_of(pod) for pod in world.wait_ready("web", 5, 30)} & nodes
        assert new == nodes
        world.wait(lambda: len(made.nodes()) == 2 and standing(4), 60)
        world.api.delete(f"{path}/{name}").expect()
        ours = f"/api/v1/namespaces/{OWN}/pods"
        world.wait(lambda: not world.api.get(ours, labelSelector=LABEL_PLACEHOLDER).expect().items)
