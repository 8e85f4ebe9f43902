"""The scheduler of the sandbox: where pods go, what it says, whom it preempts, whose room it respects."""

from kube_sandbox.controllers.unstructured import spec, status
from kube_sandbox.nodes import SandboxNode

GATE = "rescheduler.dev/hold"


def priority_class(name, value, policy="PreemptLowerPriority"):
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": policy,
    }


def node_of(lab, name):
    return spec(lab.get("", "Pod", name)).get("nodeName", "")


def test_refused_pod_is_woken_by_a_new_node_and_by_a_lifted_taint(lab, objects):
    one = lab(machines=[SandboxNode(name="n1", taints=[("dedicated", "x", "NoSchedule")])])
    one.create(objects.pod("first"))
    one.cluster.advance(5)
    assert not node_of(one, "first")
    one.patch("", "Node", "n1", {"spec": {"taints": None}}, "")
    one.until(lambda: node_of(one, "first") == "n1", 15)


def test_pods_of_another_scheduler_are_left_alone(lab, objects):
    one = lab(1)
    one.create(objects.pod("foreign", schedulerName="other"))
    one.cluster.advance(20)
    assert not node_of(one, "foreign")


def test_higher_priority_goes_first_when_room_is_short(lab, objects):
    one = lab(1, cpu="1")
    one.create(priority_class("high", 1000, "Never"))
    one.patch("", "Node", "n1", {"spec": {"unschedulable": True}}, "")
    one.create(objects.pod("low"))
    one.create(objects.pod("urgent", priorityClassName="high"))
    one.cluster.advance(2)
    one.patch("", "Node", "n1", {"spec": {"unschedulable": None}}, "")
    one.until(lambda: node_of(one, "urgent") == "n1", 30)
    assert not node_of(one, "low")


def test_preemption_spares_pods_whose_budget_is_used_up(lab, objects):
    one = lab(2, cpu="1")
    one.create(priority_class("high", 1000))
    one.create(objects.pod("guarded", labels={"app": "guarded"}, terminationGracePeriodSeconds=1))
    one.create(objects.pod("free", labels={"app": "free"}, terminationGracePeriodSeconds=1))
    one.create(objects.budget("guarded", minAvailable=1))
    one.until(lambda: len(one.ready()) == 2)
    one.create(objects.pod("urgent", priorityClassName="high"))
    one.until(lambda: bool(node_of(one, "urgent")), 30)
    assert one.get("", "Pod", "guarded") is not None
    assert one.get("", "Pod", "free") is None


def test_nominated_pod_that_does_not_fit_loses_its_nomination(lab, objects):
    one = lab(2, cpu="2")
    one.create(
        objects.pod("held", schedulingGates=[{"name": GATE}], nodeSelector={"kubernetes.io/hostname": "n1"})
    )
    one.patch("", "Pod", "held", {"status": {"nominatedNodeName": "n1"}}, subresource="status")
    one.patch("", "Node", "n1", {"spec": {"unschedulable": True}}, "")
    one.patch("", "Pod", "held", {"spec": {"schedulingGates": None}})
    one.until(lambda: not status(one.get("", "Pod", "held")).get("nominatedNodeName"), 5)
    one.patch("", "Node", "n1", {"spec": {"unschedulable": None}}, "")
    one.until(lambda: node_of(one, "held") == "n1", 15)


def test_nominated_node_is_taken_although_another_scores_better(lab, objects):
    one = lab(2, cpu="4")
    one.create(objects.pod("ballast", cpu="2", nodeName="n1"))
    one.cluster.settle()
    one.create(objects.pod("held", schedulingGates=[{"name": GATE}]))
    one.patch("", "Pod", "held", {"status": {"nominatedNodeName": "n1"}}, subresource="status")
    one.patch("", "Pod", "held", {"spec": {"schedulingGates": None}})
    one.until(lambda: node_of(one, "held") == "n1", 5)


def test_equal_nodes_are_chosen_at_random_but_by_the_seed(lab, objects):
    def choice(seed):
        one = lab(4, seed=seed)
        one.create(objects.pod("first"))
        one.cluster.settle()
        return node_of(one, "first")

    found = [choice(seed) for seed in range(12)]
    assert len(set(found)) > 1
    assert found == [choice(seed) for seed in range(12)]


def test_scheduler_that_was_restarted_still_counts_nominations(lab, objects):
    one = lab(1, cpu="1")
    one.create(objects.pod("held", schedulingGates=[{"name": GATE}]))
    one.patch("", "Pod", "held", {"status": {"nominatedNodeName": "n1"}}, subresource="status")
    one.cluster.settle()
    one.cluster.restart_scheduler()
    one.create(objects.pod("rival"))
    one.cluster.advance(5)
    assert not node_of(one, "rival")
