"""Whatever is wrong with a controller, its pods are not evicted into the void, and nothing is left behind: whole program."""

import pytest
from scenes import CONFIG_MAP, Scene

from harness.histories.clusters import lone_pod
from kube_sandbox.controllers.unstructured import NAMESPACE, POD, GroupKind
from rescheduler.model.names import API_VERSION

JOB = GroupKind("batch", "Job")
DEPLOYMENT = GroupKind("apps", "Deployment")
REPLICA_SET = GroupKind("apps", "ReplicaSet")
HEAD = "{apiVersion: rescheduler.dev/v1alpha1, kind: ReschedulerConfiguration, "
EVERYTHING = "replacements: {jobs: true, controllers: [{apiGroup: '', kind: ConfigMap}]}"
QUIET = f"{HEAD}policies: [], {EVERYTHING}}}".encode()
TAINTS = f"{HEAD}interval: 1s, aggressiveness: aggressive, policies: [{{name: NodeTaints, after: 0s}}], {EVERYTHING}}}".encode()
IGNORE = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


def job(scene, **body):
    template = {
        "metadata": {"labels": {"app": "work"}},
        "spec": {**lone_pod("work", cpu_milli=1000)["spec"], "restartPolicy": "Never"},
    }
    spec = {"backoffLimit": 0, "completions": 1, "template": template, **body}
    head = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work", "namespace": "default"}}
    scene.api.create({**head, "spec": spec})
    scene.until(lambda: scene.ready("work"))
    return scene.ready("work")[0]


def kept(scene, on):
    """A pod whose controller creates no other one, whatever the configuration says: a ConfigMap stands for a custom resource."""
    keeper = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "k", "namespace": "default"}}
    scene.api.create(keeper)
    uid = scene.api.get(CONFIG_MAP, "default", "k")["metadata"]["uid"]
    pod = lone_pod("kept", cpu_milli=1000)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "k", "uid": uid, "controller": True}
    pod["metadata"] |= {"ownerReferences": [owner], "labels": {"app": "kept"}}
    pod["spec"]["nodeName"] = on
    scene.api.create(pod)
    scene.until(lambda: scene.ready("kept"))
    return scene.ready("kept")[0]


def other(scene, pod):
    return next(n for n in scene.nodes() if n != pod["spec"]["nodeName"])


def evicted(scene):
    return scene.calls.of(lambda call: call.evicts)


def test_a_pod_whose_template_names_its_node_is_never_evicted():
    scene = Scene({"n1": 4, "n2": 4}).workload(name="web", nodes=("n1",))
    scene.api.patch(
        scene.api.get(DEPLOYMENT, "default", "web"), {"spec": {"template": {"spec": {"nodeName": "n1"}}}}
    )
    scene.until(lambda: [p for p in scene.ready() if p["spec"]["nodeName"] == "n1"] == scene.pods())
    scene.taint("n1")
    scene.start(document=TAINTS)
    move = scene.move(scene.ready()[0], "n2")
    scene.advance(60.0)
    assert evicted(scene) == []
    assert (scene.phase(move), scene.reason(move)) == ("Failed", "NotMovable")
    assert scene.leftovers() == []


@pytest.mark.parametrize(
    ("body", "moves"), [({}, False), ({"podFailurePolicy": IGNORE}, True)], ids=["counts", "ignores"]
)
def test_a_job_is_moved_only_if_it_does_not_count_the_eviction(body, moves):
    scene = Scene({"n1": 4, "n2": 4})
    pod = job(scene, **body)
    scene.taint(pod["spec"]["nodeName"])
    scene.start(document=TAINTS)
    scene.advance(60.0)
    assert len(evicted(scene)) == moves
    found = scene.api.get(JOB, "default", "work")
    assert not any(c["type"] == "Failed" for c in found["status"].get("conditions") or ())
    assert [p["spec"]["nodeName"] == pod["spec"]["nodeName"] for p in scene.ready("work")] == [not moves]
    assert scene.leftovers() == []


def suspend(scene):
    scene.api.patch(scene.api.get(JOB, "default", "work"), {"spec": {"suspend": True}})


def delete(scene):
    scene.api.delete(scene.api.get(JOB, "default", "work"))


def fail(scene):
    """The Job fails for another reason while its pod ends."""
    found = scene.api.get(JOB, "default", "work")
    condition = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}
    scene.api.patch(found, {"status": {"conditions": [condition]}}, subresource="status")


@pytest.mark.parametrize("happens", [suspend, delete, fail])
def test_a_job_that_ends_under_a_move_leaves_nothing_behind(happens):
    scene = Scene({"n1": 4, "n2": 4})
    pod = job(scene, podFailurePolicy=IGNORE)
    scene.start(document=QUIET)
    move = scene.move(pod, other(scene, pod))
    scene.until(lambda: evicted(scene))
    happens(scene)
    since_s = scene.now_s
    assert scene.until(lambda: scene.over(move))
    assert scene.now_s - since_s < 10.0
    assert (scene.phase(move), scene.reason(move)) == ("Failed", "ReplacementMissing")
    assert "so no replacement comes" in scene.state(move)["message"]
    scene.advance(5.0)
    assert scene.leftovers() == []
    assert scene.ready("work") == []


def at_the_eviction(scene, happens):
    scene.calls.answer(lambda call: call.evicts, lambda _: happens())


def scaled_to(scene, replicas):
    """The Deployment, and its ReplicaSet in the same instant, so that nobody creates or deletes a pod."""
    for kind in (DEPLOYMENT, REPLICA_SET):
        for found in scene.api.list(kind):
            scene.api.patch(found, {"spec": {"replicas": replicas}})


def scaled_down_at_the_eviction():
    """Three pods on n1, of which one is moved and evicted in the instant in which two are enough."""
    scene = Scene({"n1": 4, "n2": 4})
    scene.workload(nodes=("n1", "n1", "n1"))
    scene.start(document=QUIET)
    at_the_eviction(scene, lambda: scaled_to(scene, 2))
    move = scene.move(scene.ready()[0], "n2")
    scene.until(lambda: evicted(scene))
    return scene, move


def test_a_replica_set_that_is_scaled_down_in_the_instant_of_the_eviction_gives_its_room_back():
    scene, move = scaled_down_at_the_eviction()
    since_s = scene.now_s
    assert scene.until(lambda: scene.over(move))
    assert scene.now_s - since_s < 10.0
    assert (scene.phase(move), scene.reason(move)) == ("Failed", "ReplacementMissing")
    assert "is scaled to 2 and has 2 pods, so no replacement comes" in scene.state(move)["message"]
    scene.advance(5.0)
    assert scene.leftovers() == []
    assert len(scene.ready()) == 2


def test_a_replica_set_that_is_scaled_up_again_at_once_keeps_its_room():
    scene, move = scaled_down_at_the_eviction()
    scene.advance(3.0)
    scaled_to(scene, 3)
    assert scene.until(lambda: scene.over(move))
    assert (scene.phase(move), scene.reason(move)) == ("Succeeded", "Landed")


def test_the_room_of_a_namespace_that_is_deleted_is_given_back_at_once():
    scene = Scene({"n1": 4, "n2": 4})
    scene.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    template = {"metadata": {"labels": {"app": "web"}}, "spec": lone_pod("web", cpu_milli=1000)["spec"]}
    head = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web", "namespace": "shop"}}
    selector = {"matchLabels": {"app": "web"}}
    scene.api.create({**head, "spec": {"replicas": 1, "selector": selector, "template": template}})
    scene.until(scene.ready)
    scene.start(document=QUIET)
    at_the_eviction(scene, lambda: scene.api.delete(scene.api.get(NAMESPACE, "", "shop")))
    (pod,) = scene.ready()
    spec = {
        "podRef": {"name": "web-0", "uid": pod["metadata"]["uid"]},
        "target": {"nodeName": other(scene, pod)},
    }
    move = {"apiVersion": API_VERSION, "kind": "PodMigration", "metadata": {"name": "m", "namespace": "shop"}}
    scene.api.create({**move, "spec": spec})
    assert scene.until(lambda: evicted(scene))
    since_s = scene.now_s
    assert scene.until(lambda: scene.leftovers() == [])
    assert scene.now_s - since_s < 10.0


def test_a_controller_that_is_configured_and_creates_no_pod_leaves_nothing_behind():
    scene = Scene({"n1": 4, "n2": 4})
    pod = kept(scene, "n1")
    scene.start(document=QUIET)
    move = scene.move(pod, "n2")
    scene.until(lambda: evicted(scene))
    since_s = scene.now_s
    assert scene.until(lambda: scene.over(move))
    assert 55.0 < scene.now_s - since_s < 75.0
    assert (scene.phase(move), scene.reason(move)) == ("Failed", "ReplacementMissing")
    scene.advance(5.0)
    assert scene.leftovers() == []


def test_a_controller_that_nothing_is_known_of_keeps_its_pod():
    scene = Scene({"n1": 4, "n2": 4})
    pod = kept(scene, "n1")
    scene.taint("n1")
    scene.start(document=TAINTS.replace(b"ConfigMap", b"Another"))
    move = scene.move(pod, "n2")
    scene.advance(30.0)
    assert evicted(scene) == []
    assert scene.reason(move) == "NotMovable"
    message = scene.state(move)["message"]
    assert "that creates no pods" in message
    assert '{apiGroup: "", kind: ConfigMap}' in message
    assert [p["metadata"]["uid"] for p in scene.api.list(POD) if p["metadata"]["name"] == "kept"] == [
        pod["metadata"]["uid"]
    ]
    assert scene.leftovers() == []
