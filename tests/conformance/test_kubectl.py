"""kubectl 1.37 as people use it."""

import json
import shutil
import subprocess

import pytest

from harness import documents
from harness.controlplane.binaries import BinariesMissing, find
from harness.controlplane.manifests import FOLDER
from tests.conformance.conftest import REAL_ONLY


@pytest.fixture
def kubectl(backend, world):
    try:
        program = find().path("kubectl")
    except BinariesMissing:
        program = shutil.which("kubectl")
    if not program or not shutil.which(program):
        pytest.skip("kubectl is not installed")

    def run(*arguments, stdin=None, fails=False, namespace=world.namespace):
        command = [program, "--kubeconfig", backend.kubeconfig, "--namespace", namespace, *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=FOLDER.parent, input=stdin, timeout=60
        )
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout

    return run


def test_the_manifests_are_applied_and_unchanged_the_second_time(kubectl):
    apply = ("apply", "-k", "manifests/", "--server-side", "--force-conflicts")
    kubectl(*apply, namespace="rescheduler")
    again = kubectl(*apply, namespace="rescheduler")
    assert "gate.rescheduler.dev serverside-applied" in again


@REAL_ONLY
def test_a_reservation_is_shown_with_its_columns(kubectl, world):
    name = f"{world.namespace}-room"
    body = documents.reservation(name, documents.pod_spec(""), [{"object": {"name": "x"}}])
    kubectl("apply", "-f", "-", stdin=json.dumps(body))
    path = f"/apis/rescheduler.dev/v1alpha1/reservations/{name}/status"
    world.api.patch(path, {"status": {"phase": "Available", "nodeName": "n7"}}).expect(200)
    header, row = kubectl("get", "rsv", name).splitlines()
    assert header.split() == ["NAME", "PHASE", "NODE", "OWNER", "EXPIRES", "AGE"]
    assert row.split()[:3] == [name, "Available", "n7"]
    assert name in kubectl("get", "rescheduler", "-o", "name")
    kubectl("delete", "rsv", name)


@REAL_ONLY
def test_a_reservation_that_is_no_good_is_refused_in_words(kubectl):
    ends = {"ttl": "5m", "expires": "2040-01-01T00:00:00Z"}
    body = documents.reservation("bad", documents.pod_spec(""), [{"object": {"name": "x"}}], **ends)
    assert "ttl and expires exclude each other" in kubectl(
        "apply", "-f", "-", stdin=json.dumps(body), fails=True
    )
    body["spec"]["colour"] = "red"
    assert 'unknown field "spec.colour"' in kubectl("apply", "-f", "-", stdin=json.dumps(body), fails=True)


def test_what_the_tutorial_does(kubectl, world):
    node = world.node("a")
    kubectl("create", "deployment", "web", "--image=registry.example/web:1", "--replicas=3")
    world.wait(lambda: len(world.pods("web")) == 3)
    header, *rows = kubectl("get", "pods", "-o", "wide").splitlines()
    assert ("NODE" in header.split(), len(rows)) == (True, 3)
    assert kubectl("get", "pods", "-o", "name").startswith("pod/web-")
    assert "tainted" in kubectl("taint", "node", node, "old=true:NoSchedule")
    assert "untainted" in kubectl("taint", "node", node, "old-")
    config_map = kubectl("get", "configmap", "rescheduler", "-o", "yaml", namespace="rescheduler")
    assert "replaced" in kubectl("replace", "-f", "-", stdin=config_map, namespace="rescheduler")
    assert "created" in kubectl("create", "pdb", "web", "--selector=app=web", "--min-available=3")
    assert "deleted" in kubectl("delete", "pdb", "web")
    kubectl("delete", "deployment", "web", "--wait=false")


def test_a_deployment_lives(kubectl, world):
    world.node("a")
    world.workload("Deployment", "web", 1, cpu="100m")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    kubectl("scale", "deployment/web", "--replicas=2")
    kubectl("wait", "deployment/web", "--for=jsonpath={.status.readyReplicas}=2", "--timeout=30s")
    header, *rows = kubectl("get", "pods", "-o", "wide").splitlines()
    assert header.split()[:3] == ["NAME", "READY", "STATUS"]
    assert [row.split()[1:3] for row in rows] == [["1/1", "Running"]] * 2
    assert "web" in kubectl("describe", "deployment", "web")
    kubectl("delete", "deployment", "web", "--wait=false")
    world.wait(lambda: not world.pods("web"))


def test_a_node_is_cordoned_and_drained(kubectl, world):
    node = world.node("a")
    (pod,) = world.running("Deployment", "web", 1, cpu="100m")
    kubectl("drain", node, "--timeout=30s", "--force", "--ignore-daemonsets", "--delete-emptydir-data")
    world.wait_gone(pod)
    assert "SchedulingDisabled" in kubectl("get", "node", node)
    kubectl("uncordon", node)
    world.wait_ready("web", 1)


def test_labels_and_annotations(kubectl, world):
    world.pod("p", gates=["example.com/wait"])
    kubectl("label", "pod", "p", "colour=red")
    kubectl("annotate", "pod", "p", "note=hello")
    assert (
        kubectl("get", "pods", "-l", "colour=red", "-o", "jsonpath={.items[*].metadata.annotations.note}")
        == "hello"
    )
    kubectl("patch", "pod", "p", "-p", '{"metadata":{"labels":{"colour":null}}}')
    assert kubectl("get", "pods", "-l", "colour=red", "-o", "name") == ""


def test_what_is_not_there_is_said_so(kubectl):
    assert 'pods "nothing" not found' in kubectl("get", "pod", "nothing", fails=True)
