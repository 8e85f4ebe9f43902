"""Shared pieces of the tests on the sandbox."""

import copy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import documents
from kube_sandbox.controllers.unstructured import GroupKind, spec, status
from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Sandbox

sys.path.insert(0, str(Path(__file__).parent))

POD = GroupKind("", "Pod")


class Lab:
    """A cluster in virtual time with short words for what tests do to it."""

    def __init__(self, machines, *, seed, **more):
        self.cluster = Sandbox(machines, seed=seed, **more)
        self.api = self.cluster.api

    def pods(self, app="", namespace="default"):
        found = [p for p in self.api.list(POD) if p["metadata"]["namespace"] == namespace]
        return [p for p in found if not app or p["metadata"].get("labels", {}).get("app") == app]

    def ready(self, app=""):
        return [p for p in self.pods(app) if is_ready(p) and "deletionTimestamp" not in p["metadata"]]

    def get(self, group, kind, name, namespace="default"):
        return self.api.get(GroupKind(group, kind), namespace, name)

    def create(self, obj):
        return self.api.create(copy.deepcopy(obj))

    def patch(self, group, kind, name, change, namespace="default", subresource=""):  # noqa: PLR0917 - as short as kubectl
        return self.api.patch(self.get(group, kind, name, namespace), change, subresource=subresource)

    def until(self, predicate, limit_s=60.0):
        return self.cluster.run_until(predicate, limit_s)

    def deployment(self, name="web", replicas=3, **more):
        self.create(workload("Deployment", name, replicas, **more))
        if more.get("wait", True):
            self.until(lambda: len(self.ready(name)) == replicas)

    def spread_of(self, app):
        return sorted(spec(p).get("nodeName", "") for p in self.pods(app))


def is_ready(pod):
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status(pod).get("conditions", ()))


def workload(kind, name, replicas, *, cpu="1", pod=None, wait=True, **spec_fields):
    pod = documents.pod_spec(cpu, **(pod or {}))
    return documents.workload(kind, name, replicas, pod, namespace="default", **spec_fields)


def bare_pod(name, *, cpu="1", labels=None, **pod_spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels or {"app": name}},
        "spec": documents.pod_spec(cpu, **pod_spec),
    }


def budget(name, **fields):
    return documents.budget(f"{name}-pdb", name, namespace="default", **fields)


@pytest.fixture
def lab():
    """Makes labs: ``lab(3, cpu="4")``; machines n1, n2, ... in zones z1, z2, z3."""
    made = []

    def make(count=3, *, cpu="4", seed=1, machines=None, **more):
        machines = machines or [
            SandboxNode(name=f"n{i}", cpu=cpu, zone=f"z{(i - 1) % 3 + 1}") for i in range(1, count + 1)
        ]
        made.append(Lab(machines, seed=seed, **more))
        return made[-1]

    yield make
    for each in made:
        each.cluster.stop()


@pytest.fixture
def objects():
    """Builders of wire objects."""
    return SimpleNamespace(workload=workload, pod=bare_pod, budget=budget, is_ready=is_ready)


@pytest.fixture
def scene():
    """scene(seed, replicas=3): mode StartFirst in virtual time; stopped at the end."""
    from start_first_scene import Scene  # noqa: PLC0415 - found only once the folder is on the path

    made = []

    def make(seed, **more):
        made.append(Scene(seed, **more))
        return made[-1]

    yield make
    for each in made:
        each.cluster.stop()
