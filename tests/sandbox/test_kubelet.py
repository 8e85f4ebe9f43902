"""The kubelet's decisions in virtual time: admission, life, ending, faults."""

import itertools
import json

import pytest

from kube_sandbox.kubelet import Kubelet, KubeletSettings, kubelet_node, pod_on_node
from rescheduler.model.resources import Resources

SETTINGS = KubeletSettings(start_s=1, ready_s=2, stop_s=3, reject_s=0.5)
STOPPED = [("PATCH", "Failed", "False"), ("DELETE", None, None)]
_uids = itertools.count()


def node(name="n", cpu="4", pods="10", *, ready="True"):
    return kubelet_node({
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": pods}, "conditions": [{"type": "Ready", "status": ready}]},
    })  # fmt: skip


def pod(name="p", cpu="1", **overrides):
    body = {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}-{next(_uids)}"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Pending"},
    }  # fmt: skip
    for key, value in overrides.items():
        section, _, field = key.partition("__")
        body[section][field] = value
    return body


def deleting(body, grace=30):
    metadata = {
        **body["metadata"],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": grace,
    }
    return {**body, "metadata": metadata}


@pytest.fixture
def kubelet():
    kubelet = Kubelet(SETTINGS)
    kubelet.node_changed(node(), 0)
    return kubelet


def see(kubelet, body, now):
    kubelet.pod_changed(pod_on_node(body), now)


def sent(kubelet, now):
    """What is sent at that time: (method, phase or None, Ready or None)."""
    found = []
    for action in kubelet.due(now):
        status = json.loads(action.request.body).get("status", {})
        ready = {c["type"]: c["status"] for c in status.get("conditions", [])}.get("Ready")
        found.append((action.request.method, status.get("phase"), ready))
    return found


def test_a_pod_starts_gets_ready_stops_and_goes(kubelet):
    body = pod()
    see(kubelet, body, 10)
    assert sent(kubelet, 10.9) == []
    assert sent(kubelet, 11) == [("PATCH", "Running", "False")]
    assert sent(kubelet, 13) == [("PATCH", "Running", "True")]
    see(kubelet, deleting(body), 20)
    assert kubelet.used("n").cpu_milli == 1000
    assert sent(kubelet, 22.9) == []
    assert kubelet.used("n").pods == 1
    assert sent(kubelet, 23) == STOPPED
    assert kubelet.used("n") == Resources()
    kubelet.pod_deleted(body["metadata"]["uid"], 24)
    assert kubelet.pod_uids() == frozenset()
    assert kubelet.next_due_s() is None


def test_the_grace_bounds_the_stop(kubelet):
    body = pod()
    see(kubelet, body, 0)
    sent(kubelet, 5)
    see(kubelet, deleting(body, grace=1), 10)
    assert sent(kubelet, 11) == STOPPED


def test_a_shorter_grace_hastens_the_stop(kubelet):
    body = pod()
    see(kubelet, body, 0)
    sent(kubelet, 5)
    see(kubelet, deleting(body, grace=30), 10)
    see(kubelet, deleting(body, grace=1), 10.5)
    assert sent(kubelet, 11.5) == STOPPED
    assert sent(kubelet, 13) == []


def test_what_does_not_fit_is_rejected_for_good(kubelet):
    see(kubelet, pod("a", "3"), 0)
    see(kubelet, pod("b", "2"), 0)
    assert not kubelet.due(0)
    (action,) = kubelet.due(0.5)
    status = json.loads(action.request.body)["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
    assert status["message"] == (
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000"
    )
    assert kubelet.used("n").cpu_milli == 3000


def test_an_exactly_full_node_takes_the_pod(kubelet):
    see(kubelet, pod("a", "4"), 0)
    assert sent(kubelet, 1) == [("PATCH", "Running", "False")]


def test_pods_are_counted(kubelet):
    kubelet.node_changed(node(pods="1"), 0)
    see(kubelet, pod("a", "100m"), 0)
    see(kubelet, pod("b", "100m"), 0)
    (action,) = kubelet.due(0.5)
    assert json.loads(action.request.body)["status"]["reason"] == "OutOfpods"


def test_a_terminating_pod_counts_until_it_has_stopped(kubelet):
    first = pod("a", "4")
    see(kubelet, first, 0)
    see(kubelet, deleting(first), 1)
    see(kubelet, pod("b", "1"), 2)
    assert ("PATCH", "Failed", None) in sent(kubelet, 2.5)
    sent(kubelet, 4)
    see(kubelet, pod("c", "1"), 4)
    assert ("PATCH", "Running", "False") in sent(kubelet, 5)


def test_a_force_deleted_pod_counts_until_it_has_stopped(kubelet):
    first = pod("a", "4")
    see(kubelet, first, 0)
    sent(kubelet, 3)
    kubelet.pod_deleted(first["metadata"]["uid"], 10)
    assert kubelet.used("n").cpu_milli == 4000
    assert sent(kubelet, 13) == []
    assert kubelet.used("n") == Resources()


def test_a_finished_pod_holds_nothing(kubelet):
    body = pod("job", "4", spec__restartPolicy="Never", metadata__annotations={
        "sandbox.rescheduler.dev/run-for": "5",
        "sandbox.rescheduler.dev/exit-code": "0",
    })  # fmt: skip
    see(kubelet, body, 0)
    assert sent(kubelet, 1) == [("PATCH", "Running", "False")]
    assert sent(kubelet, 3) == [("PATCH", "Running", "True")]
    assert sent(kubelet, 6) == [("PATCH", "Succeeded", "False")]
    assert kubelet.used("n") == Resources()


def test_a_pod_that_is_always_restarted_does_not_end(kubelet):
    see(kubelet, pod(metadata__annotations={"sandbox.rescheduler.dev/run-for": "5"}), 0)
    sent(kubelet, 1)
    sent(kubelet, 3)
    assert kubelet.next_due_s() is None


def test_never_ready_stays_so(kubelet):
    see(kubelet, pod(metadata__annotations={"sandbox.rescheduler.dev/ready-after": "never"}), 0)
    assert sent(kubelet, 1) == [("PATCH", "Running", "False")]
    assert kubelet.next_due_s() is None


def test_a_silent_node_does_nothing_until_it_is_back(kubelet):
    body = pod()
    see(kubelet, body, 0)
    kubelet.node_changed(node(ready="Unknown"), 0.5)
    assert sent(kubelet, 5) == []
    kubelet.node_changed(node(), 6)
    assert sent(kubelet, 6) == [("PATCH", "Running", "False")]


def test_a_failed_write_is_tried_again(kubelet):
    see(kubelet, pod(), 0)
    (action,) = kubelet.due(1)
    kubelet.failed(action, 1)
    assert sent(kubelet, 1.5) == [("PATCH", "Running", "False")]


def test_a_pod_seen_before_its_node_waits(kubelet):
    see(kubelet, pod(spec__nodeName="later"), 0)
    assert kubelet.next_due_s() is None
    kubelet.node_changed(node("later"), 3)
    assert sent(kubelet, 4) == [("PATCH", "Running", "False")]


def test_a_restarted_kubelet_takes_running_pods_as_they_are(kubelet):
    see(kubelet, pod("a", "4", status__phase="Running"), 0)
    see(kubelet, pod("b", "4", status__phase="Running"), 0)
    assert kubelet.used("n").cpu_milli == 8000
    assert ("PATCH", "Failed", None) not in sent(kubelet, 2)


def test_a_deleted_node_takes_its_pods_with_it(kubelet):
    see(kubelet, pod(), 0)
    kubelet.node_deleted("n")
    assert kubelet.used("n").cpu_milli == 0
    assert sent(kubelet, 10) == []


def test_a_machine_that_comes_back_under_its_name_runs_the_pods_that_are_bound_to_it(kubelet):
    see(kubelet, pod(), 0)
    kubelet.node_deleted("n")
    kubelet.node_changed(node(), 10)
    assert kubelet.used("n").cpu_milli == 1000
    assert sent(kubelet, 20) != []
