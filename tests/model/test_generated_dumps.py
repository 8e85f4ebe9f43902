"""The generator of dumps: same seed, same bytes; the shapes it promises; and a full cluster that is full."""

import importlib.util
import io
import sys
from pathlib import Path

import pytest

from rescheduler.model.cluster import ClusterState
from rescheduler.model.decode import BadObject, Decoder
from rescheduler.model.decode.dump import items_of


@pytest.fixture(scope="module")
def generate():
    path = Path(__file__).resolve().parents[2] / "bench" / "generate.py"
    spec = importlib.util.spec_from_file_location("bench_generate", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_generate"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["bench_generate"]


def written(generate, *, pretty=False, **shape):
    out = io.BytesIO()
    generate.write(generate.Shape(**shape), out, pretty=pretty)
    return out.getvalue()


def snapshot(text):
    decoder, state = Decoder(), ClusterState()
    for item in items_of(io.BytesIO(text).read):
        record = decoder.attempt(item.type.known, item.raw)
        assert not isinstance(record, BadObject), record
        state.apply(item.type.known, record)
    return state.snapshot(0.0)


def test_the_same_seed_gives_the_same_bytes(generate):
    shape = {"nodes": 7, "pods_per_node": 10}
    assert written(generate, **shape) == written(generate, **shape)
    assert written(generate, **shape) != written(generate, **shape, seed=2)
    assert snapshot(written(generate, **shape)) == snapshot(written(generate, pretty=True, **shape))


def test_an_untidy_cluster_has_the_shapes_that_hurt(generate):
    text = written(generate, nodes=60, pods_per_node=30)
    found = snapshot(text)
    pods = list(found.pods.values())
    apps = {pod.controller.uid: pod for pod in pods if pod.namespace != "kube-system"}.values()
    assert len(found.nodes) == 60
    assert len(pods) == 60 * 30 + 60 * 2
    assert all(pod.controller.uid in found.workloads for pod in pods)
    assert all(pod.node in found.nodes for pod in pods)
    assert 0.4 < sum(1 for pod in apps if pod.spec.pod_anti_affinity) / len(apps) < 0.6
    assert 0.4 < sum(1 for pod in apps if pod.spec.node_affinity_preferred) / len(apps) < 0.6
    assert any(pod.spec.spread for pod in apps)
    assert any(node.taints for node in found.nodes.values())
    assert {"StatefulSet", "ReplicaSet", "Deployment", "DaemonSet"} == {
        w.kind for w in found.workloads.values()
    }
    assert found.budgets
    assert 4500 < len(text) / len(pods) < 7000


def test_in_the_full_cluster_no_node_has_room_for_any_pod(generate):
    found = snapshot(written(generate, nodes=20, pods_per_node=30, full=True))
    free = {name: node.allocatable.cpu_milli for name, node in found.nodes.items()}
    movable = [pod for pod in found.pods.values() if pod.namespace != "kube-system"]
    for pod in found.pods.values():
        free[pod.node] -= pod.held.cpu_milli
    assert len(movable) == 600
    assert max(free.values()) < min(pod.spec.requests.cpu_milli for pod in movable)
    assert min(free.values()) >= 0
