"""EvictionRequests in the sandbox: one responder at a time, and the last in line calls the eviction API."""

from kube_sandbox.controllers.eviction_requests import LAST, LIFECYCLE
from kube_sandbox.controllers.unstructured import GroupKind, spec, status, uid

EVICTION = GroupKind("lifecycle.k8s.io", "Eviction")
OWN = "acme.io/checkpointer"


def asked(lab, pod, intent="Eviction"):
    return lab.create(
        {
            "apiVersion": LIFECYCLE,
            "kind": "EvictionRequest",
            "metadata": {"name": "ask", "namespace": "default"},
            "spec": {
                "target": {"pod": {"name": pod["metadata"]["name"], "uid": uid(pod)}},
                "requester": "acme.io/drainer",
                "intent": intent,
            },
        }
    )


def line(lab):
    """The Eviction, and the state of each responder in line."""
    found = lab.cluster.api.list(EVICTION)
    return found[0] if found else None, {
        one["name"]: one["state"] for e in found for one in status(e).get("targetResponders", ())
    }


def placed(lab, objects, **pod):
    lab.create(objects.workload("Deployment", "web", 1, pod=pod))
    lab.until(lambda: lab.ready("web"))
    return lab.pods("web")[0]


def gone(lab, pod):
    return uid(pod) not in {uid(other) for other in lab.pods("web")}


def test_the_owners_responder_has_its_turn_and_then_the_pod_is_evicted(lab, objects):
    lab = lab(2)
    pod = placed(lab, objects, evictionResponders=[{"name": OWN, "priority": 10_000}])
    asked(lab, pod)
    lab.until(lambda: line(lab)[1] == {OWN: "Active", LAST: "Inactive"})
    lab.cluster.advance(60)
    assert not gone(lab, pod)
    eviction, _ = line(lab)
    reports = [
        {**one, "completionTime": one["startTime"]} if one["name"] == OWN else one
        for one in status(eviction)["responders"]
    ]
    lab.cluster.api.patch(eviction, {"status": {"responders": reports}}, subresource="status")
    lab.until(lambda: gone(lab, pod))
    lab.until(lambda: lab.ready("web"))
    lab.until(lambda: status(line(lab)[0]).get("conditions"))
    assert [one["type"] for one in status(line(lab)[0])["conditions"]] == ["TargetEvicted"]


def test_a_budget_is_asked_again_until_it_allows_the_eviction(lab, objects):
    lab = lab(2)
    pod = placed(lab, objects)
    lab.create(objects.budget("web", maxUnavailable=0))
    lab.cluster.advance(2)
    asked(lab, pod)
    lab.cluster.advance(20)
    assert not gone(lab, pod)
    lab.patch("policy", "PodDisruptionBudget", "web-pdb", {"spec": {"maxUnavailable": 1}})
    lab.until(lambda: gone(lab, pod))


def test_a_request_that_is_withdrawn_cancels_it_and_one_that_is_deleted_leaves_nothing(lab, objects):
    lab = lab(2)
    pod = placed(lab, objects, evictionResponders=[{"name": OWN, "priority": 10_000}])
    request = asked(lab, pod)
    lab.until(lambda: line(lab)[1].get(OWN) == "Active")
    lab.cluster.api.patch(
        lab.get(*GroupKind("lifecycle.k8s.io", "EvictionRequest"), "ask"), {"spec": {"intent": "Withdrawn"}}
    )
    lab.until(lambda: line(lab)[1].get(OWN) == "Canceled")
    assert spec(line(lab)[0])["target"]["pod"]["uid"] == uid(pod)
    lab.cluster.api.delete(request)
    lab.until(lambda: line(lab)[0] is None)
    asked(lab, pod)
    lab.until(lambda: line(lab)[1].get(OWN) == "Active")
    assert not gone(lab, pod)
