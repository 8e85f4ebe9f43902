"""Jobs and custom controllers with the whole program: pods move where their controller replaces them, and nowhere else.

On the sandbox, and on the real control plane, whose own Job controller answers.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pytest

from harness.controlplane.controllers import running
from harness.controlplane.world import World, controller_reference, is_ready, node_of
from kube_sandbox.kubelet.objects import ANNOTATION_STOP_AFTER

IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
IGNORED = {"podFailurePolicy": {"rules": [IGNORE]}}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "keepers.test.rescheduler.dev"
JOBS = {"jobs": True}
CONFIGURED = {"controllers": [{"apiGroup": GROUP, "kind": "Single"}]}


@pytest.fixture
def world(cluster):
    with World(cluster, "owner") as world:
        yield world


def at_work(world, replacements=None, **more):
    """A controller that also moves pods off tainted nodes by itself."""
    policies = [{"name": "NodeTaints", "after": "0s"}]
    changes = {"interval": "1s", "aggressiveness": "aggressive", "policies": policies, **more}
    return running(world.api.transport, replacements=replacements or {}, **changes)


def outcome(status):
    return status["phase"], status["reason"]


def stays(world, pod, move):
    """The pod is neither evicted by a policy nor by somebody's wish; gives the message."""
    status = world.end_of(move)
    assert outcome(status) == ("Failed", "NotMovable")
    time.sleep(4.0)
    now = world.get_pod(pod["metadata"]["name"])
    assert now["metadata"]["uid"] == pod["metadata"]["uid"]
    assert is_ready(now)
    assert world.wait(lambda: not world.leftovers() or None)
    return status["message"]


# Jobs


def job(world, stop_s=1, **more):
    head = {"labels": {"app": "work"}, "annotations": {ANNOTATION_STOP_AFTER: str(stop_s)}}
    template = {"metadata": head, "spec": world.spec("1", grace=stop_s, restartPolicy="Never")}
    spec = {"backoffLimit": 0, "completions": 1, "template": template, **more}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"}, "spec": spec}
    world.api.create(world.path("jobs", group="batch/v1"), body).expect()
    (pod,) = world.wait_ready("work", 1, 30)
    return pod


def job_conditions(world):
    found = world.api.get(world.path("jobs", "work", group="batch/v1")).expect().body
    return [c["type"] for c in found.get("status", {}).get("conditions") or () if c["status"] == "True"]


@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
def test_a_pod_of_a_job_that_ignores_disruptions_is_moved_to_its_room(world, mode):
    source = world.node("src")
    pod = job(world, completionMode=mode, **IGNORED)
    target = world.node("dst")
    with at_work(world, JOBS):
        status = world.end_of(world.migrate(pod, target))
        assert outcome(status) == ("Succeeded", "Landed")
        (new,) = world.wait_ready("work", 1, 30)
        assert world.wait(lambda: not world.leftovers() or None)
    assert (node_of(new), node_of(pod)) == (target, source)
    assert new["metadata"]["name"] != pod["metadata"]["name"]
    assert job_conditions(world) == []


@pytest.mark.parametrize("happens", ["deleted", "suspended"])
def test_a_job_that_ends_while_its_pod_moves_leaves_nothing_behind(world, happens):
    world.node("src")
    # Its replacement comes once it has ended: that takes long enough for the Job to end before.
    pod = job(world, stop_s=4, **IGNORED)
    target = world.node("dst")
    path = world.path("jobs", "work", group="batch/v1")
    with at_work(world, JOBS):
        move = world.migrate(pod, target)
        world.wait(lambda: world.move_status(move).get("evictionRequestedAt"), 30)
        if happens == "deleted":
            world.api.delete(path, propagationPolicy="Background").expect()
        else:
            world.api.patch(path, {"spec": {"suspend": True}}).expect()
        assert outcome(world.end_of(move)) == ("Failed", "ReplacementMissing")
        assert world.wait(lambda: not world.leftovers() or None)
        assert world.wait(lambda: not world.pods("work") or None)


# Custom controllers


def define(api, kind, *, scale):
    plural = f"{kind.lower()}s"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    if scale:
        paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        version["subresources"] = {"status": {}, "scale": paths}
    spec = {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
        "versions": [version],
    }
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    body = {**head, "metadata": {"name": f"{plural}.{GROUP}"}, "spec": spec}
    if api.get(f"{DEFINITIONS}/{plural}.{GROUP}").status == 404:
        api.create(DEFINITIONS, body).expect()


def owner_of(world, kind, *, scale):
    define(world.api, kind, scale=scale)
    path = world.path(f"{kind.lower()}s", group=f"{GROUP}/v1")
    body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "x"}, "spec": {"replicas": 1}}
    world.wait(lambda: world.api.get(path).ok)
    return world.api.create(path, body).expect().body


@contextmanager
def keeper(world, owner):
    """A tiny controller: whenever its owner has no pod, it creates one."""
    stop = threading.Event()

    def keep():
        number = 0
        while not stop.is_set():
            if not [p for p in world.pods("kept") if "deletionTimestamp" not in p["metadata"]]:
                world.pod(f"kept-{number}", labels={"app": "kept"}, owner=controller_reference(owner))
                number += 1
            stop.wait(0.1)

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        (pod,) = world.wait_ready("kept", 1, 30)
        yield pod
    finally:
        stop.set()
        thread.join(10.0)


def test_a_pod_of_a_custom_controller_that_is_configured_is_moved(world):
    owner = owner_of(world, "Single", scale=False)
    world.node("src")
    with keeper(world, owner) as pod:
        target = world.node("dst")
        with at_work(world, CONFIGURED):
            moves_to(world, pod, target)


def test_a_pod_of_a_custom_controller_is_moved_once_that_was_seen_to_replace_one(world):
    owner = owner_of(world, "Scaled", scale=True)
    world.node("src")
    with keeper(world, owner) as pod:
        target = world.node("dst")
        with at_work(world):
            status = world.end_of(world.migrate(pod, target))
            assert outcome(status) == ("Failed", "NotMovable")
            assert "was not seen to replace a pod" in status["message"]
            lost = pod["metadata"]["name"]
            world.api.delete(world.path("pods", lost), gracePeriodSeconds=0).expect()
            new = world.wait(lambda: next((p for p in world.pods("kept") if ready_other(p, lost)), None), 30)
            moves_to(world, new, target if node_of(new) != target else "")


def ready_other(pod, lost):
    return pod["metadata"]["name"] != lost and is_ready(pod)


def moves_to(world, pod, target):
    target = target or world.node("dst-2")
    status = world.end_of(world.migrate(pod, target))
    assert outcome(status) == ("Succeeded", "Landed"), status
    (new,) = world.wait_ready("kept", 1, 30)
    assert node_of(new) == target
    assert world.wait(lambda: not world.leftovers() or None)


# Pods that are more than themselves


def test_a_pod_that_owns_the_statefulset_of_others_stays_with_them(world):
    source = world.node("src")
    (leader,) = world.running("StatefulSet", "lead", 1)
    workers = world.workload("StatefulSet", "work", 1)
    owner = {"apiVersion": "v1", "kind": "Pod", **{key: leader["metadata"][key] for key in ("name", "uid")}}
    path = world.path("statefulsets", workers["metadata"]["name"], group="apps/v1")
    world.api.patch(path, {"metadata": {"ownerReferences": [owner]}}).expect()
    (worker,) = world.wait_ready("work", 1, 30)
    target = world.node("dst")
    world.taint(source, "old")
    with at_work(world):
        assert "which the garbage collector deletes with it" in stays(
            world, leader, world.migrate(leader, target)
        )
        assert "is owned by pod" in stays(world, worker, world.migrate(worker, target))
