"""Input that the API server would not have let in, or that refers to nothing: kube-scheduler's own answer.

``test_differential.py`` asks kube-scheduler's code about the same cases; here its answers stand, so that
they are checked where Go is missing, too.
"""

import pytest

from harness.differential.comparison import profile_of, snapshot_of
from harness.differential.named import NAMED, node, pod, question
from rescheduler.scheduling.state import SchedulingState

AFFINITY = ("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
WITHIN = '"Within" is not a valid label selector operator'
HARD = 'running PreFilter plugin "PodTopologySpread": get constraints from pod'
SOFT = 'running PreScore plugin "PodTopologySpread": calculating preScoreState'
FILTER = 'running "VolumeBinding" filter plugin'
IMMEDIATE = ("VolumeBinding", "pod has unbound immediate PersistentVolumeClaims")
EXPECTED = {
    "a nominated pod of another scheduler": [],
    "a nominated pod of another profile of the same scheduler": [("NodeResourcesFit", "Insufficient cpu")],
    "zones with an empty name beside nodes without a zone, by default spread": [],
    "a bound volume whose affinity names another node by a field": [],
    "a free volume whose affinity names another node by a field, and its zone": [],
    "a volume whose affinity has a malformed field": [("VolumeBinding", "node(s) didn't match PersistentVolume's node affinity")],
    "unknown operator in node affinity": [AFFINITY],
    "unknown operator in preferred node affinity": [("PreScore", 'running PreScore plugin "NodeAffinity": "Within" is not a valid node selector operator')],
    "preferred node affinity of weight 0 that is malformed": [],
    "a value that no label has, among others": [AFFINITY],
    "a key that no label has": [AFFINITY],
    "Gt with a text": [AFFINITY],
    "Gt with a label that is no number": [AFFINITY],
    "Lt with a number that is too long": [AFFINITY],
    "NotIn and DoesNotExist on a missing label": [],
    "In on a missing label": [AFFINITY],
    "malformed anti-affinity": [("InterPodAffinity", f"parsing pod: requiredAntiAffinityTerms: {WITHIN}")],
    "malformed required and preferred pod affinity": [("InterPodAffinity", f"parsing pod: [requiredAntiAffinityTerms: {WITHIN}, preferredAffinityTerms: {WITHIN}]")],
    "a running pod's malformed anti-affinity": [],
    "malformed hard spread": [("PodTopologySpread", f"{HARD}: obtaining pod's hard topology spread constraints: {WITHIN}")],
    "malformed soft spread": [("PreScore", f"{SOFT}: obtaining pod's soft topology spread constraints: {WITHIN}")],
    "malformed preferences, and affinity to a nominated pod": [("InterPodAffinity", "node(s) didn't match pod affinity rules")],
    "a resource that no node offers, ignored, beside devices": [("DynamicResources", "cannot fit resource")],
    "allocatable of 0": [],
    "allocatable of 0 and a request": [("NodeResourcesFit", "Insufficient cpu")],
    "allocatable without cpu and memory": [],
    "allocatable without pods": [("NodeResourcesFit", "Too many pods")],
    "an overfull node and a pod without requests": [],
    "an overfull node and a small pod": [("NodeResourcesFit", "Insufficient cpu")],
    "a pod bound to a node that does not exist": [],
    "a claim that does not exist": [("VolumeRestrictions", 'persistentvolumeclaim "gone" not found')],
    "a claim bound to a volume that does not exist": [("VolumeZone", 'persistentvolume "gone" not found')],
    "two claims bound to one volume": [],
    "a claim that asks for a volume of another claim": [IMMEDIATE],
    "a volume that is kept for a claim that names another": [IMMEDIATE],
    "a volume whose zones have an empty one among them": [],
    "a claim and a volume of different attributes": [("VolumeBinding", "node(s) didn't find available persistent volumes to bind")],
    "a claim and a volume of the same attributes": [],
    "a claim with a malformed selector": [("VolumeBinding", f"{FILTER}: error creating internal label selector for claim: default/c: {WITHIN}")],
    "a class that does not exist": [IMMEDIATE],
}  # fmt: skip


def on_node_a(asked):
    snapshot = snapshot_of(asked.objects)
    verdicts = SchedulingState(snapshot, profile_of(asked)).explain(snapshot.pods["default", "asked"])
    return next(verdict for verdict in verdicts if verdict.node == "a")


@pytest.mark.parametrize("name", NAMED)
def test_the_answer_is_that_of_kube_scheduler(name):
    verdict = on_node_a(NAMED[name])
    assert [(refusal.plugin, refusal.reason) for refusal in verdict.refusals] == EXPECTED[name]
    assert verdict.feasible == (not EXPECTED[name])


def device_class(name="gpus", resource=""):
    spec = {"extendedResourceName": resource} if resource else {}
    meta = {"name": name, "uid": name}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": meta, "spec": spec}


def wanting(**amounts):
    made = pod(cpu="1")
    made["spec"]["containers"][0]["resources"]["requests"] |= amounts
    return made


IMPLICIT = "deviceclass.resource.kubernetes.io/gpus"


@pytest.mark.parametrize("resource", ["x/gpu", IMPLICIT])
def test_devices_behind_an_extended_resource_are_not_judged(resource):
    classes = device_class(resource="x/gpu")
    verdict = on_node_a(question(node(), classes, wanting(**{resource: "1"})))
    (refusal,) = verdict.refusals
    assert refusal.plugin == "DynamicResources"
    assert refusal.reason.startswith(f"not judged: allocating devices for {resource}")
    assert on_node_a(question(node(), classes, wanting(**{resource: "0"}))).feasible


def test_a_node_that_offers_the_resource_itself_is_judged_as_ever():
    offering = node(room={"cpu": "4", "memory": "8Gi", "pods": "9", "x/gpu": "2"})
    classes = device_class(resource="x/gpu")
    assert on_node_a(question(offering, classes, wanting(**{"x/gpu": "2"}))).feasible
    found = on_node_a(question(offering, classes, wanting(**{"x/gpu": "3"})))
    assert [(one.plugin, one.reason) for one in found.refusals] == [
        ("NodeResourcesFit", "Insufficient x/gpu")
    ]


@pytest.mark.parametrize("classes", [[], [device_class()], [device_class(resource="x/other")]])
def test_without_a_class_behind_it_a_resource_is_missing(classes):
    found = on_node_a(question(node(), *classes, wanting(**{"x/gpu": "1"})))
    assert [one.reason for one in found.refusals] == ["Insufficient x/gpu"]
