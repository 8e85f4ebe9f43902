"""A live cluster and its dump give the same Snapshot; a second client library sees the same pods."""

import dataclasses
import json
import subprocess
import urllib.error
import urllib.request

import msgspec
import pytest

from harness.controlplane.binaries import find
from kube_sandbox.demo.scenario import build
from kube_sandbox.installing import install
from kube_sandbox.sandbox import Sandbox
from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.snapshot_input import read_input
from rescheduler.model.kinds import RESOURCES
from rescheduler.model.records import ObjectKey
from rescheduler.model.replacement_rules import DEFAULT_RULES

NOW = "2026-11-21T10:00:00Z"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The demonstration's untidy cluster, served over HTTP: (kubeconfig, address). Its time stands still, so Jobs begin no pods meanwhile."""
    kubeconfig = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    with Sandbox(seed=7) as running:
        install(running.transport)
        build(running)
        running.advance(60.0)
        server = running.start(kubeconfig=kubeconfig)
        yield kubeconfig, server.url


def snapshot(*, paths=(), kubeconfig=None):
    found = read_input(NamedCluster(kubeconfig=kubeconfig), paths=paths, now=NOW)
    return found.snapshot


def served(url):
    """(resource, list) of every kind that the server has."""
    for resource in RESOURCES.values():
        try:
            with urllib.request.urlopen(url + resource.collection_path) as answer:  # noqa: S310 - our own server
                yield resource, answer.read()
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 404:
                raise


def compare(dumped, live):
    # A dump keeps no versions of pods: nothing newer can come.
    pods = {key: msgspec.structs.replace(pod, resource_version="") for key, pod in live.pods.items()}
    assert pods != live.pods
    live = dataclasses.replace(live, pods=pods)
    for name in ("nodes", "pods", "budgets", "workloads", "namespaces"):
        if hasattr(live, name):
            assert getattr(dumped, name) == getattr(live, name), name
    # A dump may lack controllers, and has no API server to ask about others.
    assert (bool(live.replacement_rules.watched), dumped.replacement_rules) == (True, DEFAULT_RULES)
    assert dumped == dataclasses.replace(live, replacement_rules=DEFAULT_RULES)
    assert len(live.nodes) == 9
    assert len(live.pods) > 20


def test_a_dump_of_its_lists_is_the_live_cluster(cluster, tmp_path):
    kubeconfig, url = cluster

    def dump():
        for resource, body in served(url):
            (tmp_path / f"{resource.plural}.json").write_bytes(body)
        return snapshot(paths=(str(tmp_path),))

    compare(dump(), snapshot(kubeconfig=str(kubeconfig)))


@pytest.mark.realcluster
def test_a_dump_by_kubectl_is_the_live_cluster(cluster, tmp_path):
    kubeconfig, url = cluster
    kubectl = find().path("kubectl")
    kinds = ",".join(f"{r.plural}.{r.group}" if r.group else r.plural for r, _ in served(url))
    for form in ("json", "yaml"):

        def dump(form=form):
            words = [kubectl, "--kubeconfig", str(kubeconfig), "get", kinds, "-A", "-o", form]
            done = subprocess.run(words, capture_output=True, check=True, timeout=60)
            (tmp_path / f"dump.{form}").write_bytes(done.stdout)
            return snapshot(paths=(str(tmp_path / f"dump.{form}"),))

        compare(dump(), snapshot(kubeconfig=str(kubeconfig)))


def test_pykube_reads_the_same_pods(cluster):
    pykube = pytest.importorskip("pykube")
    kubeconfig, _ = cluster
    api = pykube.HTTPClient(pykube.KubeConfig.from_file(str(kubeconfig)))

    def pods():
        found = pykube.Pod.objects(api).filter(namespace=pykube.all)
        return {(pod.namespace, pod.name): pod.obj for pod in found}

    try:
        seen, live = pods(), snapshot(kubeconfig=str(kubeconfig))
    finally:
        api.session.close()
    ours = live.pods
    assert {(key.namespace, key.name) for key in ours} == set(seen)
    for (namespace, name), obj in seen.items():
        pod = ours[ObjectKey(namespace, name)]
        assert pod.node == obj["spec"].get("nodeName", "")
        assert pod.uid == obj["metadata"]["uid"]
        assert dict(pod.labels) == obj["metadata"].get("labels", {})
    assert json.dumps(sorted(seen)) != "[]"
