"""EvictionRequests on the real control plane: the responder ``rescheduler.dev/room-first``, beside a stand-in of the evictionrequest-controller."""

import json
import time
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from harness.controlplane import manifests
from harness.controlplane.controllers import running
from harness.controlplane.eviction_requests import FLAGS, LIFECYCLE, eviction_requests
from harness.controlplane.kubelets import KubeletThread
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import World, gates_of, node_of
from rescheduler.cli.main import main
from rescheduler.model.names import RESPONDER

from .evictions_of_others import guarded_moves, opt_in

pytestmark = pytest.mark.realcluster


@pytest.fixture(scope="module")
def plane():
    plane = ControlPlane(apiserver_flags=FLAGS)
    with plane, KubeletThread(plane.api().transport):
        component = manifests.load(manifests.FOLDER / "components" / "responder")
        manifests.apply(plane.api(), [*manifests.load(), *component])
        with eviction_requests(plane.api()):
            yield plane


@pytest.fixture
def world(plane):
    with World(plane.api(), "responder") as world:
        opt_in(world)
        probe = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "probe", "ownerReferences": [OWNER]},
            "spec": world.spec(),
        }

        def in_force():
            pod = world.api.create(world.path("pods"), probe, dryRun="All").expect().body
            return pod["spec"].get("evictionResponders")

        world.wait(in_force)
        yield world


OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "u", "controller": True}


@contextmanager
def responding(plane, *, policies=(), leaderElection=None, **guard):  # noqa: N803 - as the configuration writes it
    transport = plane.account().transport
    more = {"leaderElection": leaderElection} if leaderElection else {}
    if policies:
        more |= {"policies": list(policies), "interval": "1s"}
    with running(transport, guard=guard, **more) as work:
        yield work


def request(world, pod, requester="acme.io/drainer"):
    """Files an EvictionRequest; gives its path."""
    name = pod["metadata"]["name"]
    body = {
        "apiVersion": LIFECYCLE,
        "kind": "EvictionRequest",
        "metadata": {"name": name},
        "spec": {"target": {"pod": {"name": name, "uid": pod["metadata"]["uid"]}}, "requester": requester, "intent": "Eviction"},
    }  # fmt: skip
    path = world.path("evictionrequests", group=LIFECYCLE)
    world.api.create(path, body).expect()
    return f"{path}/{name}"


def eviction(world, pod):
    found = world.api.get(world.path("evictions", group=LIFECYCLE)).expect().items
    uid = pod["metadata"]["uid"]
    return next((one for one in found if one["spec"]["target"]["pod"]["uid"] == uid), {"status": {}})


def reported(world, pod, responder=RESPONDER):
    responders = eviction(world, pod)["status"].get("responders", ())
    return next((one for one in responders if one["name"] == responder), {})


def state(world, pod, responder=RESPONDER):
    line = eviction(world, pod)["status"].get("targetResponders", ())
    return next((one["state"] for one in line if one["name"] == responder), "")


def placed(world, replicas=1, **more):
    source = world.node("source", cpu=str(replicas))
    world.workload("Deployment", "web", replicas, **more)
    return source, world.wait_ready("web", replicas)


def test_an_eviction_request_moves_the_pod_into_reserved_room(plane, world):
    with responding(plane):
        _, pods = placed(world, 2)
        assert [pod["spec"]["evictionResponders"] for pod in pods] == [
            [{"name": RESPONDER, "priority": 5000}]
        ] * 2
        target = world.node("target", cpu="2")
        for pod in pods:
            request(world, pod)
        for pod in pods:
            world.wait_gone(pod, 60)
        assert {node_of(pod) for pod in world.wait_ready("web", 2)} == {target}
        found = guarded_moves(world)
        assert {move["spec"]["requestedBy"] for move in found} == {"EvictionRequest of acme.io/drainer"}
        assert {move["spec"]["podRef"]["uid"] for move in found} == {p["metadata"]["uid"] for p in pods}
        world.wait(lambda: reported(world, pods[0]).get("message"))
        assert not [pod for pod in world.pods() if gates_of(pod)]


def test_without_room_the_next_responder_goes_on_and_is_told_why(plane, world):
    with responding(plane, limit="12s"):
        _, (pod,) = placed(world)
        request(world, pod)
        world.wait(lambda: reported(world, pod).get("completionTime"), 60)
        assert "without room" in reported(world, pod)["message"]
        world.wait_gone(pod)  # by the last one in line
        world.wait(lambda: state(world, pod) == "Completed")


OF_OWNER = [{"name": "acme.io/checkpointer", "priority": 10_000}]


def report_of_owner(world, pod, **fields):
    """What the owner's responder writes; ``fields`` may name the time of its start as ``now``."""
    now = reported(world, pod, "acme.io/checkpointer")["startTime"]
    entry = {"name": "acme.io/checkpointer"} | {k: now if v == "now" else v for k, v in fields.items()}
    status = world.path("evictions", eviction(world, pod)["metadata"]["name"], "status", group=LIFECYCLE)
    body = {"status": {"responders": [entry]}}
    world.api.patch(status, body, "application/strategic-merge-patch+json").expect()


def planned(world):
    """The PodMigrations of policies."""
    return [move for move in world.moves() if move["spec"]["policy"] == "NodeTaints"]


@contextmanager
def leaving_by_policy(plane, world):
    """A policy wants the only pod to go to node ``target``; its owner's responder is Active. Yields pod and target."""
    source, (pod,) = placed(world, evictionResponders=OF_OWNER)
    target = world.node("target", cpu="1")
    world.taint(source, "old")
    with responding(plane, policies=[{"name": "NodeTaints", "after": "0s"}]):
        world.wait(lambda: state(world, pod, "acme.io/checkpointer") == "Active", 60)
        yield pod, target


def test_a_policys_move_waits_for_the_owners_responder_and_then_lands_in_its_room(plane, world):
    with leaving_by_policy(plane, world) as (pod, target):
        report_of_owner(world, pod, heartbeatTime="now", message="40 % written")
        world.wait(lambda: "40 % written" in planned(world)[0]["status"]["message"], 30)
        time.sleep(6)
        (still,) = world.pods("web")
        assert (still["metadata"]["uid"], node_of(still)) == (pod["metadata"]["uid"], node_of(pod))
        report_of_owner(world, pod, completionTime="now")
        world.wait_gone(pod, 60)
        assert [node_of(pod) for pod in world.wait_ready("web", 1)] == [target]
        assert len(planned(world)) == 1, "one move, and none of the guard beside it"
        assert not guarded_moves(world)
        # Ours had its turn, and the pod was evicted in it; the controller of the requests says so once it has seen that.
        world.wait(lambda: state(world, pod) == "Interrupted")


def test_a_pod_that_its_owners_responder_takes_away_is_replaced_in_the_room(plane, world):
    with leaving_by_policy(plane, world) as (pod, target):
        world.wait(lambda: planned(world)[0]["status"].get("reason") == "ResponderFirst", 30)
        world.delete_pod(pod).expect()
        world.wait_gone(pod)
        assert [node_of(pod) for pod in world.wait_ready("web", 1, 60)] == [target]
        world.wait(lambda: planned(world)[0]["status"]["phase"] == "Succeeded", 60)


def test_the_owners_own_responder_goes_first(plane, world):
    with responding(plane):
        _, (pod,) = placed(world, evictionResponders=OF_OWNER)
        assert [one["name"] for one in pod["spec"]["evictionResponders"]] == [
            "acme.io/checkpointer",
            RESPONDER,
        ]
        world.node("target", cpu="1")
        request(world, pod)
        world.wait(lambda: state(world, pod, "acme.io/checkpointer") == "Active")
        time.sleep(3)
        assert not guarded_moves(world)
        report_of_owner(world, pod, completionTime="now")
        world.wait_gone(pod, 60)
        world.wait_ready("web", 1)
        assert len(guarded_moves(world)) == 1


def test_pods_without_a_controller_or_of_other_namespaces_get_no_responder(plane, world):
    assert "evictionResponders" not in world.pod("bare")["spec"]
    with World(plane.api(), "other") as other:
        other.node("source", cpu="1")
        (pod,) = other.running("Deployment", "web", 1)
        assert "evictionResponders" not in pod["spec"]


def test_drain_by_requests_lets_the_responders_empty_the_node(plane, world):
    with responding(plane, leaderElection={"enabled": True}):
        source, pods = placed(world, 2)
        target = world.node("target", cpu="2")
        words = ["drain", source, "--evict-with", "request", "--timeout", "2m"]
        done = CliRunner().invoke(main, [*words, "--kubeconfig", str(plane.kubeconfig)])
        assert done.exit_code == 0, done.output
        assert {node_of(pod) for pod in world.wait_ready("web", 2)} == {target}
        found = guarded_moves(world)
        assert {move["spec"]["podRef"]["uid"] for move in found} == {p["metadata"]["uid"] for p in pods}
        assert {m["spec"]["requestedBy"] for m in found} == {"EvictionRequest of rescheduler.dev/drain"}
        assert not world.api.get(world.path("evictionrequests", group=LIFECYCLE)).expect().items


def test_the_check_of_the_installation_knows_of_the_responder(plane, world):
    done = CliRunner().invoke(main, ["check", "-o", "json", "--kubeconfig", str(plane.kubeconfig)])
    found = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
    assert found["responder"]["state"] == "OK"
    assert RESPONDER in found["responder"]["message"]


def test_a_tenant_speaks_for_no_responder(plane, world):
    """Who may edit a namespace may ask for evictions there, and end none of them in our name."""
    world.account("team", "edit")
    team = plane.account(world.namespace, "team")
    world.wait(lambda: team.get(world.path("pods")).ok)
    status = world.path("evictions", "any", "status", group=LIFECYCLE)
    team.patch(status, {"status": {}}).expect(403)
