"""Budgets, garbage collection, node life and namespaces on the sandbox."""

from kube_sandbox.controllers.unstructured import spec, status
from kube_sandbox.nodes import ready_condition

BUDGET = ("policy", "PodDisruptionBudget")


def allowed(lab, name):
    found = status(lab.get(*BUDGET, f"{name}-pdb"))
    return tuple(
        found.get(k) for k in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    )


def test_granted_eviction_that_never_happens_is_forgotten_after_two_minutes(lab, objects):
    one = lab()
    one.deployment("web", 3)
    one.create(objects.budget("web", maxUnavailable=1))
    one.cluster.settle()
    name = one.pods("web")[0]["metadata"]["name"]
    granted = {name: "2026-09-21T14:13:20Z"}
    one.patch(*BUDGET, "web-pdb", {"status": {"disruptedPods": granted}}, subresource="status")
    one.cluster.settle()
    assert allowed(one, "web")[0] == 0
    one.until(lambda: allowed(one, "web")[0] == 1, 130)
    assert not status(one.get(*BUDGET, "web-pdb")).get("disruptedPods")


def test_budget_of_pods_with_an_unknown_controller_allows_nothing(lab, objects):
    one = lab()
    pod = objects.pod("lost", labels={"app": "lost"})
    owner = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "u-1", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    one.create(objects.budget("lost", maxUnavailable=1))
    one.create(pod)
    one.cluster.step()
    assert allowed(one, "lost")[0] == 0


def test_object_with_a_second_living_owner_stays(lab):
    one = lab()
    refs = []
    for name in ("first", "second"):
        made = one.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": ns(name)})
        refs.append({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": made["metadata"]["uid"]})
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**ns("child"), "ownerReferences": refs}}
    one.create(child)
    one.api.delete(one.get("", "ConfigMap", "first"))
    one.cluster.settle()
    left = one.get("", "ConfigMap", "child")["metadata"]["ownerReferences"]
    assert [r["name"] for r in left] == ["second"]


def test_namespace_goes_with_everything_in_it(lab, objects):
    one = lab()
    one.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    body = objects.workload("Deployment", "web", 2)
    body["metadata"]["namespace"] = "team"
    one.create(body)
    one.until(lambda: len(one.pods("web", "team")) == 2)
    one.api.delete(one.get("", "Namespace", "team", ""))
    one.until(lambda: one.get("", "Namespace", "team", "") is None)
    assert not one.pods("", "team")
    assert one.get("apps", "Deployment", "web", "team") is None


def set_ready(lab, node, value):
    lab.patch("", "Node", node, {"status": {"conditions": [ready_condition(value)]}}, "", "status")


def taints(lab, node):
    return {(t["key"], t["effect"]) for t in spec(lab.get("", "Node", node, "")).get("taints") or ()}


def test_node_that_is_not_ready_is_tainted_and_loses_its_pods_after_the_toleration(lab):
    one = lab(2)
    one.deployment("web", 2)
    before = {p["metadata"]["name"] for p in one.pods("web") if spec(p)["nodeName"] == "n1"}
    assert before
    set_ready(one, "n1", "False")
    one.cluster.settle()
    not_ready = "node.kubernetes.io/not-ready"
    assert taints(one, "n1") == {(not_ready, "NoSchedule"), (not_ready, "NoExecute")}
    one.cluster.advance(290)
    assert before <= {p["metadata"]["name"] for p in one.pods("web")}
    one.cluster.advance(60)
    assert one.spread_of("web") == ["n2", "n2"]
    set_ready(one, "n1", "True")
    one.cluster.settle()
    assert taints(one, "n1") == set()


def test_cordon_is_a_taint_as_well(lab):
    one = lab(1)
    one.patch("", "Node", "n1", {"spec": {"unschedulable": True}}, "")
    one.cluster.settle()
    assert taints(one, "n1") == {("node.kubernetes.io/unschedulable", "NoSchedule")}


def test_no_execute_taint_removes_pods_that_do_not_tolerate_it(lab, objects):
    one = lab(1)
    one.create(objects.pod("meek"))
    one.create(objects.pod("hardy", tolerations=[{"key": "maintenance", "operator": "Exists"}]))
    one.until(lambda: len(one.ready()) == 2)
    taint = [{"key": "maintenance", "effect": "NoExecute"}]
    one.patch("", "Node", "n1", {"spec": {"taints": taint}}, "")
    one.until(lambda: [p["metadata"]["name"] for p in one.pods()] == ["hardy"])


def test_pods_of_a_node_that_is_gone_are_collected(lab):
    one = lab(2)
    one.deployment("web", 2)
    one.api.delete(one.get("", "Node", "n1", ""))
    one.until(lambda: one.spread_of("web") == ["n2", "n2"], 90)


def ns(name):
    return {"name": name, "namespace": "default"}
