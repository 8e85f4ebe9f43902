"""Siblings that are created while a pod is moved: a scale-up, or another pod of the workload that ended."""

import pytest
from scenes import QUIET, Scene

from kube_sandbox.controllers.pod_control import pod_from_template
from kube_sandbox.controllers.unstructured import REPLICA_SET, controller_of, spec
from kube_sandbox.sandbox import Outage

AWAY_S = 9.0
"""For how long the workload controllers are away: longer than an ungated pod is waited on, shorter than a replacement."""


@pytest.fixture
def scene():
    return Scene({"n1": 4, "n2": 1, "n3": 4})


def scaled_up(scene):
    scene.scale(len(scene.pods()) + 1, kind="StatefulSet")


def another_deleted(scene):
    scene.api.delete(next(p for p in scene.pods() if p["metadata"]["name"] == "web-1"))


def one_more(scene, **spec_of_sibling):
    """A function that scales the ReplicaSet up and creates the new pod at once, as its controller would."""

    def do(_):
        owner = scene.api.get(REPLICA_SET, "default", "web")
        scene.api.patch(owner, {"spec": {"replicas": 3}})
        sibling = pod_from_template(owner, spec(owner)["template"])
        sibling["spec"] |= spec_of_sibling
        scene.api.create(sibling)

    return do


def controllers_away(scene):
    def do(_):
        now_s = scene.now_s
        outage = Outage(server_s=now_s, controllers_s=now_s + AWAY_S, kubelets_s=now_s, scheduler_s=now_s)
        scene.cluster.lose_api_server(outage)

    return do


def once(do):
    done = []
    return lambda call: None if done else done.append(do(call))


@pytest.mark.crossed
@pytest.mark.parametrize("happens", [scaled_up, another_deleted])
@pytest.mark.parametrize("moment", ["intent", "eviction"])
@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_the_room_of_a_statefulset_pod_is_claimed_by_the_pod_of_that_name(scene, policy, moment, happens):
    scene.workload("StatefulSet", nodes=("n1", "n3"), podManagementPolicy=policy)
    scene.start()
    claimed = []
    scene.calls.answer(
        lambda c: "/reservations/" in c.path and (c.body.get("status") or {}).get("currentOwners"),
        lambda c: claimed.extend(o["name"] for o in c.body["status"]["currentOwners"]),
    )
    scene.calls.answer(
        lambda c: c.intends if moment == "intent" else c.evicts, once(lambda _: happens(scene))
    )
    old = scene.on("n1")[0]
    name = scene.move(old, "n2")
    scene.until(lambda: scene.over(name))
    assert set(claimed) == {old["metadata"]["name"]}
    assert (scene.phase(name), [p["metadata"]["name"] for p in scene.on("n2")]) == ("Succeeded", ["web-0"])
    assert scene.faults == []


def test_a_replicaset_sibling_from_the_second_of_the_intent_does_not_end_the_move(scene):
    """It is ungated and looks as new as the replacement, which comes later because the controllers are slow."""
    scene.workload("ReplicaSet", nodes=("n1", "n3"))
    scene.start()
    scene.calls.answer(lambda c: c.intends, once(one_more(scene)))
    scene.calls.answer(lambda c: c.evicts, controllers_away(scene))
    name = scene.move(scene.on("n1")[0], "n2")
    scene.until(lambda: scene.over(name))
    assert (scene.phase(name), len(scene.on("n2"))) == ("Succeeded", 1), scene.state(name)
    assert scene.state(name)["replacement"]["uid"] == scene.on("n2")[0]["metadata"]["uid"]
    assert all(controller_of(p)["name"] == "web" for p in scene.pods())


def test_a_soft_move_waits_for_the_replacement_while_its_controller_lacks_a_pod():
    """A sibling that the scheduler has bound elsewhere is not the end of the move."""
    scene = Scene({"n1": 1, "n2": 1, "n3": 2}).workload("ReplicaSet", nodes=("n1", "n3"))
    scene.start(document=QUIET[:-1] + b", mode: Soft}")
    scene.cordon("n1")
    elsewhere = {"nodeSelector": {"kubernetes.io/hostname": "n3"}}
    scene.calls.answer(lambda c: c.intends, once(one_more(scene, **elsewhere)))
    scene.calls.answer(lambda c: c.evicts, controllers_away(scene))
    name = scene.move(scene.on("n1")[0], "n2", mode="Soft")
    scene.until(lambda: scene.over(name))
    assert (scene.phase(name), len(scene.on("n2"))) == ("Succeeded", 1), scene.state(name)
