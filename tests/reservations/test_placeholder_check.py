"""A placeholder as it is stored and bound, compared with what was asked for."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import documents
from rescheduler.model.decode.decoder import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.records import Node, PodPhase, PriorityClass
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSet
from rescheduler.reservations.placeholder import Part, placeholder_manifest
from rescheduler.reservations.placeholder_check import (
    PREEMPTED,
    Surroundings,
    how_lost,
    unlike_asked,
    unremovable,
)
from rescheduler.reservations.settings import ReservationSettings
from tests.records import changed

AROUND = Surroundings(
    Node(name="n2", labels=LabelSet({"disk": "ssd"})), PriorityClass("rescheduler-placeholder", 10**9)
)
TEMPLATE = {
    "spec": {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "containers": [
            {
                "name": "c",
                "image": "c",
                "resources": {
                    "requests": {"cpu": "1500m", "memory": "1Gi", "ephemeral-storage": "1Gi"},
                    "limits": {"example.com/gpu": "2"},
                },
                "ports": [{"containerPort": 80, "hostPort": 80}],
            }
        ],
    }
}


def reservation(**spec):
    owners = [{"object": {"namespace": "default", "name": "p"}}]
    body = documents.own("Reservation", "r", {"template": TEMPLATE, "owners": owners, **spec}, uid="u")
    return Decoder().record(Kind.RESERVATION, json.dumps(body).encode())


def stored(change=lambda pod: None, *, room=None, node="n2", part=None):
    """The placeholder as the API server has it after ``change``, bound to ``node``."""
    manifest = placeholder_manifest(room or reservation(), "n2", ReservationSettings(), part or Part())
    pod = json.loads(manifest)
    pod["metadata"]["uid"] = "p"
    pod["spec"] |= {"priority": 10**9, "nodeName": node}
    change(pod)
    return Decoder().record(Kind.POD, json.dumps(pod).encode())


def put(path, value):
    def change(pod):
        *way, last = path.split("/")
        at = pod
        for step in way:
            at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
        at[last] = value

    return change


def found(change=lambda pod: None, **options):
    return unlike_asked(reservation(), stored(change, **options), AROUND)


CONTAINER = "spec/containers/0/resources/requests"


def test_what_is_stored_as_it_was_sent_is_as_asked():
    assert not found()
    assert not found(part=Part(size=Resources(cpu_milli=250), suffix="x", waits=True))


@pytest.mark.parametrize(("field", "change"), [
    ("request for cpu is 10m instead of 1500m", put(f"{CONTAINER}/cpu", "10m")),
    ("request for memory", put(f"{CONTAINER}/memory", "1Mi")),
    ("request for example.com/gpu", lambda pod: pod["spec"]["containers"][0].pop("resources")),
    ("cpu that is held", put("status/containerStatuses", None)),
    ("host ports", lambda pod: pod["spec"]["containers"][0].pop("ports")),
    ("metadata.finalizers", put("metadata/finalizers", ["example.com/audit"])),
    ("metadata.ownerReferences", put("metadata/ownerReferences", [])),
    ("label rescheduler.dev/placeholder", put("metadata/labels", {})),
    ("spec.schedulerName", put("spec/schedulerName", "other")),
    ("spec.tolerations", put("spec/tolerations", [{"operator": "Exists"}])),
    ("spec.tolerations", put("spec/tolerations", [])),
    ("spec.affinity.nodeAffinity", put("spec/affinity", {})),
    ("spec.nodeName", put("spec/nodeName", "n3")),
    ("spec.priorityClassName", put("spec/priorityClassName", "low")),
    ("spec.priority is 5", put("spec/priority", 5)),
    ("spec.preemptionPolicy", put("spec/preemptionPolicy", "PreemptLowerPriority")),
    ("spec.activeDeadlineSeconds", put("spec/activeDeadlineSeconds", 60)),
    ("spec.resourceClaims", put("spec/resourceClaims", [{"name": "gpu"}])),
    ("spec.volumes", put("spec/volumes", [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])),
])  # fmt: skip
def test_what_breaks_the_promise_is_named(field, change):
    if field == "cpu that is held":

        def change(pod):
            pod["status"] = {
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
                "containerStatuses": [{"name": "placeholder", "resources": {"requests": {"cpu": "10m"}}}],
            }

    words = found(change)
    assert field in words
    assert "rescheduler/" in words, "it names the pod"


@pytest.mark.parametrize(
    "change",
    [
        put(f"{CONTAINER}/cpu", "2"),
        put("spec/containers/0/resources/limits", {"cpu": "1500m", "memory": "1Gi", "example.com/gpu": "2"}),
        put("spec/containers/0/resources/limits/cpu", "64"),
        put("metadata/labels/team", "a"),
        put("metadata/annotations/note", "a"),
        put("spec/imagePullSecrets", [{"name": "s"}]),
        put(
            "spec/volumes",
            [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}],
        ),
        put("metadata/finalizers", ["foregroundDeletion"]),
        lambda pod: pod["spec"]["containers"].append(
            {"name": "proxy", "resources": {"requests": {"cpu": "100m"}}}
        ),
        lambda pod: pod["spec"]["tolerations"].extend(
            {
                "key": f"node.kubernetes.io/{key}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for key in ("not-ready", "unreachable")
        ),
        lambda pod: pod["spec"]["tolerations"].append({"key": "example.com/gpu", "operator": "Exists"}),
        lambda pod: pod["spec"]["nodeSelector"].update({"example.com/any": "x"}),
    ],
)
def test_what_keeps_the_promise_passes(change):
    assert not found(change)


def test_a_selector_that_its_node_does_not_match_is_told_before_its_scheduler_is():
    change = put("spec/nodeSelector", {"disk": "ssd", "pool": "other"})
    assert "spec.nodeSelector" in found(change, node="")


def test_a_second_term_without_the_node_lets_it_elsewhere():
    def loosen(pod):
        affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        affinity["nodeSelectorTerms"].append({"matchExpressions": [{"key": "disk", "operator": "Exists"}]})

    assert "spec.affinity.nodeAffinity" in found(loosen)


def test_the_manager_that_wrote_it_is_named():
    def patched(pod):
        pod["metadata"]["finalizers"] = ["example.com/audit"]
        pod["metadata"]["managedFields"] = [
            {"manager": "rescheduler", "fieldsV1": {"f:metadata": {"f:finalizers": {}}}},
            {"manager": "audit-operator", "fieldsV1": {"f:metadata": {"f:finalizers": {".": {}}}}},
            {"manager": "kubelet", "fieldsV1": {"f:status": {}}},
        ]

    pod = stored(patched)
    assert "(written by audit-operator)" in unremovable([pod])
    assert "by admission" in unremovable([stored(put("metadata/finalizers", ["x/y"]))])


def test_a_part_is_as_large_as_was_noted_no_more_and_no_less():
    room, part = reservation(allocateOnce=False), Part(size=Resources(cpu_milli=500), suffix="x")
    assert not unlike_asked(room, stored(room=room, part=part), AROUND)
    for cpu in ("499m", "501m"):
        words = unlike_asked(room, stored(put(f"{CONTAINER}/cpu", cpu), room=room, part=part), AROUND)
        assert f"request for cpu is {cpu} instead of 500m" in words


@given(
    st.sampled_from(["cpu", "memory", "ephemeral-storage"]),
    st.fractions(min_value=0, max_value=2, max_denominator=8),
)
def test_less_of_anything_is_told_and_more_is_not(resource, share):
    asked = {"cpu": 1500, "memory": 2**30, "ephemeral-storage": 2**30}[resource]
    amount = int(asked * share)
    words = found(put(f"{CONTAINER}/{resource}", f"{amount}m" if resource == "cpu" else str(amount)))
    assert bool(words) == (amount < asked)


BEFORE, AFTER = 10.0, 30.0
LOST = changed(stored(), deleting=True, disruption_reason=PREEMPTED, created_at_s=20.0)


def other(name, *, priority=2_000_000_000, node="", nominated="", created_at_s=BEFORE):
    spec = msgspec.structs.replace(LOST.spec, priority=priority)
    return changed(
        LOST, namespace="default", name=name, spec=spec, node=node, nominated_node=nominated,
        created_at_s=created_at_s, deleting=False,
    )  # fmt: skip


@pytest.mark.parametrize(("others", "word"), [
    ([other("a", nominated="n2"), other("b", node="n2", created_at_s=AFTER)], "by pod default/a, "),
    ([other("a", node="n2", created_at_s=AFTER)], "by pod default/a, "),
    ([other("a", node="n2"), other("b", nominated="n1")], "by a pod of higher priority"),
    ([other("a", nominated="n2", priority=0)], "by a pod of higher priority"),
], ids=["nominated", "bound already", "of others", "lower"])  # fmt: skip
def test_who_preempted_a_placeholder_is_found(others, word):
    assert word in how_lost([LOST], {pod.key: pod for pod in others})


@pytest.mark.parametrize(("lost", "words"), [
    ([], "is gone"),
    ([stored()], "is gone"),
    ([changed(stored(), deleting=True)], "was deleted"),
    ([changed(stored(), deleting=True, disruption_reason="EvictionByEvictionAPI")], "was deleted (EvictionByEvictionAPI)"),
    ([changed(stored(), phase=PodPhase.FAILED, disruption_reason="TerminationByKubelet")], "has failed (TerminationByKubelet)"),
])  # fmt: skip
def test_what_became_of_a_placeholder_is_said(lost, words):
    assert how_lost(lost, {}) == words
