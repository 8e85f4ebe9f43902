"""Workloads that no PodDisruptionBudget selects, or that bring pods back in order: few of their pods are away at once."""

import pytest
from scenes import Scene

from kube_sandbox.controllers.unstructured import DEPLOYMENT
from rescheduler.model.names import ANNOTATION_MODE

AGGRESSIVE = b"""
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
interval: 2s
limits: {workloadCooldown: 0s, perWorkload: 20, perNode: 20}
policies: [{name: NodeTaints, after: 0s}]
"""


class Counted:
    """A workload on node n1, and the fewest Ready pods that it had at any write."""

    def __init__(self, replicas, *, kind="Deployment", **body):
        self.scene = Scene({"n1": replicas + 1, "n2": 2 * replicas})
        self.scene.workload(kind, nodes=["n1"] * replicas, **body)
        self.replicas = self.fewest = replicas
        self.reasons = set()
        self.scene.api.subscribe(self.hear)

    def hear(self, change):
        if change.object["kind"] == "Pod":
            self.fewest = min(self.fewest, len(self.scene.ready()))
        if change.object["kind"] == "PodMigration":
            self.reasons.add((change.object.get("status") or {}).get("reason"))

    def drain(self, limit_s=300.0):
        """The controller finds all pods badly placed and moves them."""
        self.scene.start(document=AGGRESSIVE)
        self.scene.taint("n1")
        self.scene.until(self.all_moved, limit_s)

    def say_ready(self, pod, status):
        """Its kubelet reports it so."""
        conditions = [{"type": "Ready", "status": status}]
        self.scene.api.patch(pod, {"status": {"conditions": conditions}}, subresource="status")

    def all_moved(self):
        return len(self.scene.ready()) == len(self.scene.on("n2")) == self.replicas


@pytest.mark.parametrize(("kind", "replicas", "least"), [
    ("Deployment", 1, 0),
    ("Deployment", 3, 2),
    ("Deployment", 8, 6),
    ("StatefulSet", 3, 2),
    ("ReplicaSet", 4, 3),
])  # fmt: skip
def test_a_quarter_of_the_pods_and_at_least_one_are_away_at_once(kind, replicas, least):
    web = Counted(replicas, kind=kind)
    web.drain()
    assert web.fewest == least
    assert not web.scene.faults


def test_replacements_that_start_first_leave_no_pod_less():
    web = Counted(3)
    found = web.scene.api.get(DEPLOYMENT, "default", "web")
    web.scene.api.patch(found, {"metadata": {"annotations": {ANNOTATION_MODE: "StartFirst"}}})
    web.drain()
    assert web.fewest == 3
    assert "TooFewAvailable" not in web.reasons


def test_a_budget_that_allows_more_is_the_owners_word():
    web = Counted(3)
    web.scene.budget(maxUnavailable=3)
    web.scene.advance(3.0)
    web.drain()
    assert web.fewest < 2


@pytest.mark.parametrize(("replicas", "least"), [(3, 2), (8, 6)])
def test_moves_that_people_ask_for_wait_for_each_other(replicas, least):
    web = Counted(replicas)
    web.scene.start()
    moves = [web.scene.move(pod, "n2") for pod in web.scene.pods()]
    web.scene.until(lambda: web.scene.over(*moves), 300.0)
    assert {web.scene.phase(m) for m in moves} == {"Succeeded"}
    assert web.fewest == least
    assert "TooFewAvailable" in web.reasons
    assert not web.scene.leftovers()


def test_the_status_names_the_workload_and_its_pods():
    web = Counted(3)
    web.scene.start()
    moves = [web.scene.move(pod, "n2") for pod in web.scene.pods()]
    waiting = "2 of 3 pods of Deployment default/web are available"
    web.scene.until(lambda: any(waiting in web.scene.state(m).get("message", "") for m in moves))


def test_a_pod_of_the_workload_that_is_not_ready_counts():
    """Whoever is to blame: while one pod is not Ready, a move of another one waits."""
    web = Counted(3)
    web.scene.start()
    sick, moved, _ = web.scene.pods()
    web.say_ready(sick, "False")
    name = web.scene.move(moved, "n2")
    web.scene.until(lambda: web.scene.reason(name) == "TooFewAvailable")
    web.scene.advance(20.0)
    assert not web.scene.calls.of(lambda c: c.evicts)
    web.say_ready(sick, "True")
    web.scene.until(lambda: web.scene.over(name))
    assert web.scene.phase(name) == "Succeeded"
    assert web.fewest == 2


def test_a_pod_that_is_not_ready_moves_although_the_limit_is_used_up():
    web = Counted(3)
    web.scene.start()
    sick = web.scene.pods()[0]
    web.say_ready(sick, "False")
    name = web.scene.move(sick, "n2")
    web.scene.until(lambda: web.scene.over(name))
    assert web.scene.phase(name) == "Succeeded"


NUMBERED = {"podManagementPolicy": "OrderedReady", "updateStrategy": {"type": "OnDelete"}}


def test_no_pod_is_evicted_that_a_stateful_set_would_bring_back_after_one_that_is_not_ready():
    """Whatever the budget says: web-3 would be created once web-0 is available, and its room is not held as long."""
    web = Counted(4, kind="StatefulSet", **NUMBERED)
    web.scene.budget(maxUnavailable=2)
    web.scene.start()
    first, *_, last = web.scene.pods()
    web.say_ready(first, "False")
    name = web.scene.move(last, "n2")
    web.scene.until(lambda: web.scene.reason(name) == "TooFewAvailable")
    web.scene.advance(20.0)
    assert "web-0 must be available first" in web.scene.state(name)["message"]
    assert not web.scene.calls.of(lambda c: c.evicts)
    web.say_ready(first, "True")
    web.scene.until(lambda: web.scene.over(name))
    assert web.scene.phase(name) == "Succeeded"


def test_pods_that_a_stateful_set_brings_back_in_order_are_evicted_one_by_one():
    web = Counted(4, kind="StatefulSet", **NUMBERED)
    web.scene.budget(maxUnavailable=4)
    web.scene.start()
    moves = [web.scene.move(pod, "n2") for pod in web.scene.pods()]
    web.scene.until(lambda: web.scene.over(*moves), 300.0)
    assert {web.scene.phase(m) for m in moves} == {"Succeeded"}
    assert web.fewest == 3


def test_the_first_pod_of_a_stateful_set_waits_for_none():
    web = Counted(4, kind="StatefulSet", **NUMBERED)
    web.scene.budget(maxUnavailable=2)
    web.scene.start()
    first, *_, last = web.scene.pods()
    web.say_ready(last, "False")
    name = web.scene.move(first, "n2")
    web.scene.until(lambda: web.scene.over(name))
    assert web.scene.phase(name) == "Succeeded"
