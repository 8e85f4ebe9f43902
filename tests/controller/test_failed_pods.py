"""The clean-up of failed pods on the sandbox: which go, which stay, and that nothing goes unless somebody switched it on."""

import pytest
from scenes import Scene

from kube_sandbox.controllers.unstructured import GroupKind
from rescheduler.controller.call_pool import CallPool
from rescheduler.controller.failed_pods import FailedPodCleaner
from rescheduler.kube.client import KubeApi
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey, PodPhase
from rescheduler.model.times import format_seconds
from rescheduler.planning.failed_pods import FailedPods
from rescheduler.planning.limits import Protections

POD = GroupKind("", "Pod")
HEAD = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\n"
TEMPLATE = {"metadata": {"labels": {"app": "owner"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
GROUPS = {"ReplicaSet": "apps", "Job": "batch"}


def owner_of(scene, kind, namespace):
    """A controller that wants no pods, so that the garbage collector leaves those of it."""
    group = GroupKind(GROUPS[kind], kind)
    if scene.api.get(group, namespace, "owner") is None:
        meta = {"name": "owner", "namespace": namespace}
        selector = {"matchLabels": {"app": "owner"}}
        spec = {"replicas": 0, "selector": selector} if kind == "ReplicaSet" else {"suspend": True}
        body = {"apiVersion": f"{group.group}/v1", "kind": kind, "metadata": meta}
        scene.api.create({**body, "spec": {**spec, "template": TEMPLATE}})
    uid = scene.api.get(group, namespace, "owner")["metadata"]["uid"]
    return {"apiVersion": f"{group.group}/v1", "kind": kind, "name": "owner", "uid": uid, "controller": True}


def failed(scene, name, *, ago_s=7200, kind="ReplicaSet", reason="Evicted", namespace="default", **meta):
    """A pod that the kubelet refused or evicted so long ago; ``kind``: of its controller."""
    since = format_seconds(scene.now_s - ago_s)
    owners = {"ownerReferences": [owner_of(scene, kind, namespace)]} if kind else {}
    spec = {**TEMPLATE["spec"], "schedulingGates": [{"name": "example.com/never"}]}
    head = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **owners, **meta},
    }
    scene.api.create({**head, "spec": spec})
    status = {"phase": "Failed", "reason": reason, "startTime": since}
    scene.api.patch(scene.api.get(POD, namespace, name), {"status": status}, subresource="status")


def left(scene, namespace="default"):
    return {
        pod["metadata"]["name"] for pod in scene.api.list(POD) if pod["metadata"]["namespace"] == namespace
    }


def started(rules):
    scene = Scene({"n1": 2})
    scene.start(document=f"{HEAD}{rules}".encode())
    scene.advance(5.0)
    return scene


def test_nothing_is_deleted_unless_it_is_switched_on():
    scene = started("failedPods: {after: 0s}\n")
    failed(scene, "old")
    scene.advance(200.0)
    assert left(scene) == {"old"}


def test_old_failed_pods_of_controllers_go_and_all_others_stay():
    scene = started("failedPods: {enabled: true}\n")
    failed(scene, "old")
    failed(scene, "young", ago_s=60)
    failed(scene, "bare", kind="")
    failed(scene, "of-a-job", kind="Job")
    failed(scene, "kept", annotations={"rescheduler.dev/evict": "false"})
    failed(scene, "system", namespace="kube-system")
    scene.workload(nodes=["n1"])
    running = {pod["metadata"]["name"] for pod in scene.pods()}
    scene.advance(130.0)
    assert left(scene) == {"young", "bare", "of-a-job", "kept"} | running
    assert left(scene, "kube-system") == {"system"}
    scene.advance(3600.0)
    assert "young" not in left(scene)


def test_pods_without_a_controller_and_namespaces_are_a_choice():
    scene = started(
        "failedPods: {enabled: true, withoutController: true, namespaces: {include: [default]}}\n"
    )
    scene.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    failed(scene, "bare", kind="")
    failed(scene, "other", namespace="shop")
    scene.advance(130.0)
    assert not left(scene)
    assert left(scene, "shop") == {"other"}


def test_only_named_reasons_count():
    scene = started("failedPods: {enabled: true, after: 0s, reasons: [OutOfcpu]}\n")
    failed(scene, "refused", reason="OutOfcpu")
    failed(scene, "evicted")
    scene.advance(130.0)
    assert left(scene) == {"evicted"}


def test_what_a_container_waited_for_is_a_reason():
    scene = started("failedPods: {enabled: true, after: 0s, reasons: [CreateContainerConfigError]}\n")
    for name, why in (("lacks-a-key", "CreateContainerConfigError"), ("other", "ContainerCreating")):
        failed(scene, name)
        waits = {"name": "c", "state": {"waiting": {"reason": why}}}
        status = {"containerStatuses": [waits]}
        scene.api.patch(scene.api.get(POD, "default", name), {"status": status}, subresource="status")
    scene.advance(130.0)
    assert left(scene) == {"other"}


@pytest.mark.parametrize(("fields", "goes"), [({}, 3), ({"dry_run": True}, 0), ({"leads": lambda: False}, 0)])
def test_only_a_leader_that_is_no_dry_run_deletes(fields, goes):
    scene = Scene({"n1": 2})
    for name in "abc":
        failed(scene, name)
    api, pool = KubeApi(scene.cluster.transport), CallPool()
    ports = {"leads": lambda: True, "wall_s": lambda: scene.now_s, **fields}
    cleaner = FailedPodCleaner(api=api, pool=pool, **ports)
    cleaner.tend(FailedPods(enabled=True), Protections(), 0.0)
    pool.land(0.0)
    assert len(left(scene)) == 3 - goes


def test_namespaces_take_turns_and_one_look_deletes_twenty():
    scene = started("failedPods: {enabled: true}\n")
    scene.advance(60.0 - scene.now_s % 60.0)
    for index in range(30):
        failed(scene, f"crowd-{index}", ago_s=9000)
    scene.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    failed(scene, "other", namespace="shop")
    assert scene.until(lambda: not left(scene, "shop"), 70.0)
    assert len(left(scene)) == 11
    scene.advance(70.0)
    assert not left(scene)


def test_a_pod_that_cannot_be_deleted_is_tried_again():
    scene = started("failedPods: {enabled: true}\n")
    failed(scene, "old")
    scene.refuse(500, "InternalError", lambda call: call.evicts)
    scene.advance(70.0)
    assert left(scene) == {"old"}
    scene.calls.answers.clear()
    scene.advance(130.0)
    assert not left(scene)


def not_taken(scene):
    found = scene.program.loop.snapshot().pods.values()
    return {(pod.node, pod.name, pod.not_taken) for pod in found if pod.phase is PodPhase.FAILED}


def test_a_pod_that_the_kubelet_does_not_take_is_known_while_it_exists_and_after_a_restart():
    scene = started("")
    much = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "50"}}}
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "refused", "namespace": "default"}}
    scene.api.create({**head, "spec": {"containers": [much], "nodeName": "n1"}})
    known = {("n1", "refused", "OutOfcpu")}
    assert scene.until(lambda: not_taken(scene) == known, 30.0)
    scene.program.kill()
    scene.start(document=HEAD.encode())
    scene.advance(5.0)
    assert not_taken(scene) == known
    scene.api.delete(scene.api.get(POD, "default", "refused"))
    scene.advance(5.0)
    assert not_taken(scene) == set()


def test_pods_that_end_or_are_deleted_say_nothing_of_their_node():
    scene = started("")
    scene.workload(nodes=["n1"])
    (pod,) = scene.pods()
    failed(scene, "evicted-before")
    scene.api.patch(pod, {"status": {"phase": "Failed", "reason": "Evicted"}}, subresource="status")
    scene.advance(60.0)
    assert not_taken(scene) == set()
    assert scene.program.loop.look(Kind.POD, ObjectKey("default", pod["metadata"]["name"])) is None
