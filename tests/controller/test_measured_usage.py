"""LowNodeUtilization with ``usage: actual`` in the running controller, while metrics-server comes and goes."""

import json
import urllib.parse

import pytest
from scenes import Scene
from structlog.testing import capture_logs

from harness.histories.user_requests import MOVE
from kube_sandbox.controllers.unstructured import NODE
from kube_sandbox.usage_meter import ANNOTATION_CPU, UsageMeter
from rescheduler.kube.transport import Response
from rescheduler.model.times import format_seconds
from tests.kube.measuring_servers import say, serving

DOCUMENT = b"""
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
interval: 2s
policies:
- name: LowNodeUtilization
  usage: actual
  thresholds: {cpu: 20}
  targetThresholds: {cpu: 50}
"""


@pytest.fixture
def scene():
    """By requests node n1 is overfull; its pods use a tenth of what they request."""
    return Scene({"n1": 4, "n2": 4, "n3": 4}).workload(nodes=["n1"] * 3)


def usage(call):
    return "/metrics.k8s.io/" in call.path


def metered(scene):
    scene.cluster.add(UsageMeter(scene.cluster.server, scene.api, share=0.1))
    scene.advance(1.0)


def unmeasured(program):
    return program.metrics.registry.get_sample_value("rescheduler_nodes_unmeasured")


def moves(scene):
    return scene.api.list(MOVE)


def busy(scene):
    """Each pod of the workload uses 1.2 CPUs from now on."""
    for pod in scene.pods():
        scene.api.patch(pod, {"metadata": {"annotations": {ANNOTATION_CPU: "1200m"}}})


def test_an_outage_of_the_metrics_server_starts_no_moves(scene):
    metered(scene)
    with capture_logs() as lines:
        program = scene.start(document=DOCUMENT)
        scene.advance(40.0)
        assert unmeasured(program) == 0
        scene.refuse(503, "ServiceUnavailable", usage)
        scene.advance(300.0)
        assert not moves(scene)
        assert unmeasured(program) == 3
        (said,) = [line for line in lines if line["event"].startswith("The usage of nodes is not measured")]
        assert said["nodes"] == "n1, n2, n3"
        assert "metrics-server" in said["remedy"]
        scene.calls.answers.clear()
        busy(scene)
        scene.until(lambda: moves(scene))
    assert unmeasured(program) == 0
    assert any(line["event"].startswith("The usage of all nodes is measured again") for line in lines)


@pytest.mark.parametrize(("ahead_s", "seconds", "missing"), [
    (-200.0, 60.0, 3),
    (3600.0, 50.0, 0),
], ids=["old ones", "two by clocks that are ahead"])  # fmt: skip
def test_measurements_that_say_too_little_start_no_moves(scene, ahead_s, seconds, missing):
    """What was true of n1 a while ago; and what was measured twice, however often is decided: three times make a node known."""

    def answer(call):
        items = [{
            "metadata": {"name": name},
            "timestamp": format_seconds(call.at_s + ahead_s),
            "usage": {"cpu": cpu, "memory": "1Gi"},
        }for name, cpu in (("n1", "3600m"), ("n2", "0"), ("n3", "0"))]  # fmt: skip
        return Response(200, json.dumps({"items": items}).encode(), {"content-type": "application/json"})

    scene.calls.answer(usage, answer)
    program = scene.start(document=DOCUMENT)
    scene.advance(seconds)
    assert scene.calls.of(usage)
    assert not moves(scene)
    assert unmeasured(program) == missing


def test_without_a_metrics_server_nothing_is_proposed(scene):
    program = scene.start(document=DOCUMENT)
    scene.advance(60.0)
    assert not moves(scene)
    assert unmeasured(program) == 3


def test_by_requests_the_same_node_is_overfull(scene):
    scene.start(document=DOCUMENT.replace(b"actual", b"requests"))
    scene.advance(10.0)
    assert moves(scene)


HOT = DOCUMENT.replace(b"thresholds: {cpu: 20}", b"thresholds: {cpu: 45}").replace(b"{cpu: 50}", b"{cpu: 66}")


def hot_spot(made):
    """On n1 one pod uses 2.6 of 4 CPUs, the other three 0.1 each."""
    first, *_ = pods = made.pods()
    for pod in pods:
        cpu = "2600m" if pod is first else "100m"
        made.api.patch(pod, {"metadata": {"annotations": {ANNOTATION_CPU: cpu}}})
    return first["metadata"]["name"]


@pytest.mark.parametrize("allowed", [True, False])
def test_the_pod_that_carries_the_load_goes_and_without_the_right_to_read_pods_some_pod(allowed):
    made = Scene({"n1": 4, "n2": 4, "n3": 4}).workload(nodes=["n1"] * 4)
    name = hot_spot(made)
    metered(made)
    if not allowed:
        made.refuse(403, "Forbidden", lambda call: usage(call) and call.path.endswith("/pods"))
    made.start(document=HOT)
    made.until(lambda: moves(made))
    assert made.calls.of(lambda call: usage(call) and call.path.endswith("/pods"))
    if allowed:
        assert [move["spec"]["podRef"]["name"] for move in moves(made)] == [name]


def test_usage_of_pods_is_read_only_where_a_policy_asks_for_it(scene):
    metered(scene)
    scene.start(document=DOCUMENT.replace(b"actual", b"requests"))
    scene.advance(70.0)
    assert scene.calls.of(usage)
    assert not scene.calls.of(lambda call: usage(call) and call.path.endswith("/pods"))


def test_measurements_are_taken_however_far_decisions_are_apart(scene):
    metered(scene)
    scene.start(document=DOCUMENT.replace(b"interval: 2s", b"interval: 10m"))
    scene.advance(150.0)
    assert len(scene.calls.of(lambda call: usage(call) and call.path.endswith("/nodes"))) >= 5
    busy(scene)
    scene.advance(600.0)
    assert moves(scene)


# Prometheus -----------------------------------------------------------------------------------------


def by_prometheus(url):
    return (
        DOCUMENT
        + f"""
- name: NodeTaints
  after: 0s
usage:
  window: 10m
  prometheus:
    url: {url}
    queries: {{nodeCpu: node_cpu, nodeMemory: node_memory, podCpu: pod_cpu, podMemory: pod_memory}}
""".encode()
    )


def told_by_prometheus(scene, handler):
    """Node n1 uses 3.6 of 4 CPUs, three pods 1.2 each, the others nothing; now and, asked for it, at each step before."""
    path = urllib.parse.urlsplit(handler.path)
    query = dict(urllib.parse.parse_qsl(path.query))
    nodes = {
        "node_cpu": {"n1": "3.6", "n2": "0", "n3": "0"},
        "node_memory": dict.fromkeys(("n1", "n2", "n3"), "1"),
    }
    pods = {"pod_cpu": "1.2", "pod_memory": "1"}
    if "time" in query:
        times = [float(query["time"])]
    else:
        start, end, step = (float(query[key]) for key in ("start", "end", "step"))
        times = [start + i * step for i in range(round((end - start) / step) + 1)]
    if found := nodes.get(query["query"]):
        series = [({"node": name}, value) for name, value in found.items()]
    else:
        series = [(
            {"namespace": pod["metadata"]["namespace"], "pod": pod["metadata"]["name"]},
            pods[query["query"]],
        )for pod in scene.pods()]  # fmt: skip
    shape = (
        (lambda v: {"value": [times[0], v]})
        if "time" in query
        else (lambda v: {"values": [[t, v] for t in times]})
    )
    result = [{"metric": labels, **shape(value)} for labels, value in series]
    say(handler, {"status": "success", "data": {"result": result}})


def test_after_a_restart_prometheus_tells_where_it_was_too_full_in_the_last_day(scene):
    def answer(handler):
        """Before the window n2 and n3 used 4 CPUs."""
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(handler.path).query))
        if query.get("step") == "3600.000" and query["query"] == "node_cpu":
            start = float(query["start"])
            values = [[start + hour * 3600.0, "4"] for hour in range(24)]
            result = [{"metric": {"node": name}, "values": values} for name in ("n1", "n2", "n3")]
            say(handler, {"status": "success", "data": {"result": result}})
        else:
            told_by_prometheus(scene, handler)

    with serving(answer) as url:
        scene.start(document=by_prometheus(url))
        scene.advance(120.0)
        assert not moves(scene)


def test_after_a_restart_prometheus_fills_the_window_at_once(scene):
    asked = []

    def answer(handler):
        asked.append(handler.path.partition("?")[0])
        told_by_prometheus(scene, handler)

    with serving(answer) as url:
        scene.start(document=by_prometheus(url))
        scene.advance(1.0)
        assert moves(scene)
        scene.advance(120.0)
    assert asked[:12] == ["/api/v1/query"] * 4 + ["/api/v1/query_range"] * 8  # the last day, and the window
    assert set(asked[12:]) == {"/api/v1/query"}
    assert not scene.calls.of(usage)


def test_a_prometheus_that_answers_503_starts_no_moves_of_its_policy_and_delays_no_other(scene):
    with serving(lambda handler: say(handler, "busy", 503)) as url, capture_logs() as lines:
        scene.start(document=by_prometheus(url))
        scene.advance(60.0)
        assert not moves(scene)
        node = scene.api.get(NODE, "", "n1")
        scene.api.patch(node, {"spec": {"taints": [{"key": "bad", "effect": "NoSchedule"}]}})
        scene.until(lambda: moves(scene))
    (said,) = [line for line in lines if line["event"].startswith("Prometheus tells no usage")]
    assert "nodeCpu: HTTP 503" in said["problem"]
