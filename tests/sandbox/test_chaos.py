"""Seeded simulation of the sandbox in virtual time: random deeds, invariants after every one.

Components take turns at random, so each seed is another interleaving. A failure names its seed.
"""

import json
import random
from collections import defaultdict

import pytest

from kube_sandbox.controllers.unstructured import (
    GroupKind,
    deleting,
    key,
    ready,
    spec,
    status,
    terminal,
    uid,
)
from kube_sandbox.nodes import SandboxNode, ready_condition
from kube_sandbox.sandbox import Sandbox
from rescheduler.kube.transport import Request
from rescheduler.model.resources import milli
from tests.seeds import fresh

POD, NODE = GroupKind("", "Pod"), GroupKind("", "Node")
DEPLOY, SET, BUDGET = (
    GroupKind("apps", "Deployment"),
    GroupKind("apps", "StatefulSet"),
    GroupKind("policy", "PodDisruptionBudget"),
)


class Chaos:
    """One run. ``calm``: only evictions and scaling; otherwise also node failures, deletions, preemption."""

    def __init__(self, seed, objects, *, calm):
        self.rng = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self.calm = calm
        self.objects = objects
        machines = [SandboxNode(name=f"n{i}", cpu="8", zone=f"z{i % 3}") for i in range(6)]
        self.cluster = Sandbox(machines, seed=seed, interleave=True)
        self.api = self.cluster.api
        self.homes = {}
        self.faults = []
        self.evicted = 0
        self.api.subscribe(self.watch)
        self.serial = 0
        urgent = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 1000,
        }
        self.api.create(urgent)

    def watch(self, change):
        """Sees every write: a pod is bound once, and never over the capacity of its node."""
        obj = change.object
        if obj["kind"] != "Pod" or change.type == "DELETED":
            return
        node = spec(obj).get("nodeName")
        known = self.homes.setdefault(uid(obj), node)
        if known and node != known:
            self.faults.append(f"{key(obj)} moved from {known} to {node}")
        if node and not known:
            self.homes[uid(obj)] = node
            self.check_capacity(node)

    def check_capacity(self, node):
        found = self.api.get(NODE, "", node)
        if found is None:
            return
        room = milli(status(found)["allocatable"]["cpu"])
        held = sum(cpu(p) for p in self.api.list(POD) if spec(p).get("nodeName") == node and not terminal(p))
        if held > room:
            self.faults.append(f"{node} holds {held} of {room}")

    def run(self, deeds=30):
        for _ in range(3):
            self.make_workload()
        self.cluster.advance(8)
        for _ in range(deeds):
            self.rng.choice(self.deeds())()
            for _ in range(self.rng.randint(0, 3)):
                self.cluster.step()
            if self.rng.random() < 0.6:
                self.cluster.advance(self.rng.random() * 2)
            if self.calm:
                self.check_budgets()
            assert not self.faults
        self.calm_down()

    def deeds(self):
        gentle = [self.evict, self.evict, self.evict, self.cordon, self.uncordon, self.restart_scheduler]
        if self.calm:
            return gentle
        return [
            *gentle,
            self.scale,
            self.make_workload,
            self.delete_pod,
            self.fail_node,
            self.heal_nodes,
            self.urgent_pod,
            self.roll,
        ]

    def make_workload(self):
        if self.serial >= 6:
            return
        self.serial += 1
        name = f"w{self.serial}"
        kind = self.rng.choice(["Deployment", "StatefulSet"])
        replicas = self.rng.randint(2, 4)
        pod = {"terminationGracePeriodSeconds": 1}
        body = self.objects.workload(
            kind, name, replicas, cpu=self.rng.choice(["250m", "500m", "1"]), pod=pod
        )
        self.api.create(body)
        limits = [{"maxUnavailable": 1}, {"minAvailable": "50%"}, {"maxUnavailable": 0}]
        limit = limits[0] if self.serial == 1 else self.rng.choice(limits)
        self.api.create(self.objects.budget(name, **limit))

    def evict(self):
        pods = [p for p in self.api.list(POD) if not deleting(p) and spec(p).get("nodeName")]
        if not pods:
            return
        pod = self.rng.choice(pods)
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": key(pod).name, "namespace": "default"},
            "deleteOptions": {"preconditions": {"uid": uid(pod)}},
        }
        path = f"/api/v1/namespaces/default/pods/{key(pod).name}/eviction"
        request = Request(method="POST", path=path, body=json.dumps(body).encode())
        answer = self.cluster.transport.send(request).status
        assert answer in (201, 429)
        self.evicted += answer == 201

    def delete_pod(self):
        if pods := [p for p in self.api.list(POD) if not deleting(p)]:
            self.api.delete(self.rng.choice(pods))

    def scale(self):
        workloads = [*self.api.list(DEPLOY), *self.api.list(SET)]
        self.api.patch(self.rng.choice(workloads), {"spec": {"replicas": self.rng.randint(0, 5)}})

    def roll(self):
        if found := self.api.list(DEPLOY):
            label = {"version": str(self.rng.randint(1, 3))}
            self.api.patch(self.rng.choice(found), {"spec": {"template": {"metadata": {"labels": label}}}})

    def urgent_pod(self):
        name = f"urgent-{self.rng.getrandbits(40)}"
        pod = self.objects.pod(name, cpu="3", priorityClassName="urgent", terminationGracePeriodSeconds=1)
        self.api.create(pod)

    def cordon(self, *, value=True):
        nodes = [n for n in self.api.list(NODE) if bool(spec(n).get("unschedulable")) is not value]
        if len(nodes) > 2 or (nodes and not value):
            self.api.patch(self.rng.choice(nodes), {"spec": {"unschedulable": value or None}})

    def uncordon(self):
        self.cordon(value=False)

    def fail_node(self):
        self.set_ready(self.rng.choice(self.api.list(NODE)), self.rng.choice(["False", "Unknown"]))

    def heal_nodes(self):
        for node in self.api.list(NODE):
            self.set_ready(node, "True")

    def set_ready(self, node, value):
        self.api.patch(node, {"status": {"conditions": [ready_condition(value)]}}, subresource="status")

    def restart_scheduler(self):
        self.cluster.restart_scheduler()

    def check_budgets(self):
        """Only evictions disturb: no budget may ever be undercut."""
        healthy = defaultdict(int)
        for pod in self.api.list(POD):
            healthy[pod["metadata"]["labels"]["app"]] += ready(pod) and not deleting(pod)
        for budget in self.api.list(BUDGET):
            name = spec(budget)["selector"]["matchLabels"]["app"]
            owner = self.api.get(DEPLOY, "default", name) or self.api.get(SET, "default", name)
            replicas = spec(owner)["replicas"]
            assert healthy[name] >= desired(spec(budget), replicas), f"{name}: {healthy[name]} of {replicas}"

    def calm_down(self):
        """Let the cluster come to rest; then everything must be as the objects ask."""
        for pod in self.api.list(POD):
            if key(pod).name.startswith("urgent-") and not deleting(pod):
                self.api.delete(pod)
        self.heal_nodes()
        for _ in range(6):
            self.uncordon()
        self.cluster.advance(400)
        pods = self.api.list(POD)
        by_app = defaultdict(list)
        for pod in pods:
            by_app[pod["metadata"]["labels"]["app"]].append(pod)
        for owner in [*self.api.list(DEPLOY), *self.api.list(SET)]:
            mine = by_app.pop(key(owner).name, [])
            assert len(mine) == spec(owner)["replicas"] == sum(map(ready, mine)), key(owner)
            assert status(owner).get("readyReplicas", 0) == spec(owner)["replicas"]
        assert not by_app
        for budget in self.api.list(BUDGET):
            found = status(budget)
            assert found["currentHealthy"] == found["expectedPods"]
            assert not found.get("disruptedPods")
        assert not self.faults


def cpu(pod):
    return sum(milli(c["resources"]["requests"]["cpu"]) for c in spec(pod)["containers"])


def desired(budget_spec, replicas):
    if "maxUnavailable" in budget_spec:
        return replicas - budget_spec["maxUnavailable"]
    return -(-replicas * int(budget_spec["minAvailable"].removesuffix("%")) // 100)


@pytest.mark.parametrize("seed", fresh(4))
def test_calm_cluster_keeps_every_budget(seed, objects):
    run = Chaos(seed, objects, calm=True)
    run.run()
    assert run.evicted > 0


@pytest.mark.parametrize("seed", fresh(4))
def test_stormy_cluster_comes_to_rest_as_asked(seed, objects):
    Chaos(seed, objects, calm=False).run()


def test_same_seed_gives_the_same_history(objects):
    def history():
        run = Chaos(7, objects, calm=False)
        run.run(15)
        return [(key(p), uid(p), spec(p).get("nodeName")) for p in run.api.list(POD)]

    assert history() == history()
