"""The review handler: bytes in, bytes out."""

import base64
import json
import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_sandbox.apiserver.cel import Expression
from rescheduler.model.controller_key import controller_key
from rescheduler.model.names import LABEL_GATE_PROBE
from rescheduler.webhook.match_conditions import MOST_KEYS, NOTHING, UNBOUND, match_conditions
from rescheduler.webhook.review import (
    Purpose,
    UnreadableReviewError,
    answer,
    gate_keys,
    hint_keys,
    hold,
    steer,
)

ANNOTATION = "rescheduler.dev/reservation"
HELD = [{"name": "rescheduler.dev/hold"}]


def stored(**data):
    return lambda keys, _at_s: next((data[key] for key in keys if key in data), "")


GATE = Purpose(partial(gate_keys, own="own"), stored(**{
    "controller.ns.u1": "room",
    "controller..u3": "of-any",
    "named.ns.StatefulSet.db": "of-db",
    "named.ns.Deployment.web": "of-web",
    "named..CronJob.night": "of-night",
    "object.ns.by-name": "named",
    "label.ns.a__b.c": "lab",
    "labelled..any": "every",
}), hold)  # fmt: skip
HINT = Purpose(hint_keys, stored(**{"controller.ns.u1": "node-a,node-b", "u1": "node-c"}), steer)


def owner(uid="u1", kind="ReplicaSet", *, controller=True):
    return {"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": uid, "controller": controller}


def pod(*owners, spec=None, **metadata):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "x-", "ownerReferences": list(owners), **metadata},
        "spec": {"containers": [{"name": "c", "image": "i"}], **(spec or {})},
    }


def review(obj, namespace="ns"):
    request = {"uid": "r1", "operation": "CREATE", "namespace": namespace, "object": obj, "dryRun": True}
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    ).encode()


def patch_of(obj, purpose=GATE, namespace="ns"):
    found = json.loads(answer(review(obj, namespace), purpose))
    assert (found["apiVersion"], found["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = found["response"]
    assert (response["uid"], response["allowed"]) == ("r1", True)
    if "patch" not in response:
        assert response == {"uid": "r1", "allowed": True}
        return []
    assert response["patchType"] == "JSONPatch"
    return json.loads(base64.b64decode(response["patch"]))


def patched(obj, purpose=GATE):
    """The operations carried out, as RFC 6902 says for "add"."""
    result = json.loads(json.dumps(obj))
    for operation in patch_of(obj, purpose):
        assert operation["op"] == "add"
        *parents, last = [p.replace("~1", "/").replace("~0", "~") for p in operation["path"].split("/")[1:]]
        place = result
        for name in parents:
            place = place[name]
        if isinstance(place, list):
            assert last == "-"
            place.append(operation["value"])
        else:
            place[last] = operation["value"]
    return result


def test_a_new_pod_of_a_live_controller_is_held_for_its_room():
    found = patched(pod(owner()))
    assert found["spec"]["schedulingGates"] == HELD
    assert found["metadata"]["annotations"] == {ANNOTATION: "room"}


def test_other_gates_and_annotations_stay():
    found = patched(pod(owner(), spec={"schedulingGates": [{"name": "a/b"}]}, annotations={"c": "d"}))
    assert found["spec"]["schedulingGates"] == [{"name": "a/b"}, *HELD]
    assert found["metadata"]["annotations"] == {"c": "d", ANNOTATION: "room"}


def test_a_second_review_adds_no_second_gate():
    once = patched(pod(owner()))
    assert patched(once) == once


@pytest.mark.parametrize("other", [
    pod(),
    pod(owner("u2")),
    pod(owner(controller=False)),
    pod(owner(), spec={"nodeName": "n"}),
    pod(owner(kind="DaemonSet")),
    pod(owner(kind="Reservation")),
    pod(name="another"),
    pod(labels={"a/b": "d"}),
])  # fmt: skip
def test_other_pods_are_left_alone(other):
    assert patch_of(other) == []


def test_pods_are_found_by_name_and_by_label_and_first_by_their_controller():
    assert patched(pod(name="by-name"))["metadata"]["annotations"] == {ANNOTATION: "named"}
    assert patched(pod(labels={"a/b": "c"}))["metadata"]["annotations"] == {ANNOTATION: "lab"}
    assert patched(pod(labels={"any": "x"}))["metadata"]["annotations"] == {ANNOTATION: "every"}
    assert patched(pod(owner(), name="by-name"))["metadata"]["annotations"] == {ANNOTATION: "room"}


def named(kind, name):
    return owner("unknown", kind) | {"name": name}


BY_NAME = [
    (named("StatefulSet", "db"), None, "of-db"),
    (named("ReplicaSet", "web-1a2b"), "1a2b", "of-web"),
    (named("ReplicaSet", "web-1a2b"), "2b", None),
    (named("ReplicaSet", "web-1a2b"), None, None),
    (named("ReplicaSet", "web"), None, None),
    (named("Deployment", "db"), None, None),
    (named("Job", "night-29"), None, "of-night"),
    (named("Job", "night"), None, None),
]


@pytest.mark.parametrize(("ref", "template_hash", "room"), BY_NAME)
def test_a_controller_that_does_not_exist_yet_is_found_by_kind_and_name(ref, template_hash, room):
    labels = {} if template_hash is None else {"pod-template-hash": template_hash}
    made = pod(ref, labels=labels)
    for namespace, expected in (("ns", room), ("another", room if room == "of-night" else None)):
        operations = patch_of(made, namespace=namespace)
        assert (
            (patched(made)["metadata"]["annotations"] == {ANNOTATION: expected})
            if expected
            else not operations
        )
        conditions = match_conditions(
            ["named.ns.StatefulSet.db", "named.ns.Deployment.web", "named..CronJob.night"], "own"
        )
        variables = {"object": made, "request": {"namespace": namespace}}
        assert all(Expression(c.expression).evaluate(variables) for c in conditions) == bool(expected)


def test_the_controller_of_another_namespace_holds_no_pod():
    assert patch_of(pod(owner()), namespace="another") == []
    assert patch_of(pod(owner("u3")), namespace="another")


def test_a_probe_stands_for_a_pod_of_another_namespace_in_the_controllers_own_only():
    probe = pod(owner(), labels={LABEL_GATE_PROBE: "ns"})
    assert patch_of(probe, namespace="own")
    assert patch_of(probe, namespace="another") == []
    assert patch_of(pod(owner()), namespace="own") == []


@pytest.mark.parametrize("affinity", [
    None,
    {},
    {"nodeAffinity": {}},
    {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
])  # fmt: skip
def test_a_hint_is_three_more_preferred_terms(affinity):
    found = patched(pod(owner(), spec={} if affinity is None else {"affinity": affinity}), HINT)
    terms = found["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    term = terms[0]
    assert terms == [term] * 3
    (requirement,) = term["preference"]["matchExpressions"]
    assert term["weight"] == 100
    assert requirement == {
        "key": "kubernetes.io/hostname",
        "operator": "NotIn",
        "values": ["node-a", "node-b"],
    }


def test_a_hint_is_for_pods_of_the_namespace_of_the_controller():
    assert patch_of(pod(owner()), HINT, namespace="ns") != []
    assert patch_of(pod(owner()), HINT, namespace="other") == []


def test_a_hint_keeps_the_terms_that_are_there():
    own = {"weight": 1, "preference": {"matchExpressions": []}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [own]}, "podAffinity": {}}
    found = patched(pod(owner(), spec={"affinity": affinity}), HINT)["spec"]["affinity"]
    assert "podAffinity" in found
    first, *hints = found["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert first == own
    assert [term["weight"] for term in hints] == [100] * 3


def test_a_deletion_review_without_an_object_is_allowed():
    assert patch_of(None) == []


@given(
    st.binary(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps)
)
def test_whatever_arrives_is_answered_or_unreadable(body):
    raw = body if isinstance(body, bytes) else body.encode()
    with pytest.raises(UnreadableReviewError):
        answer(raw, GATE)


def test_conditions_say_nothing_for_nobody_and_stop_at_the_limit():
    assert match_conditions([], "own") == (NOTHING,)
    assert match_conditions(["'] || true || x in ['"], "own") == (NOTHING,)
    assert match_conditions(["a-uid-without-a-namespace"], "own") == (NOTHING,)
    uids = [controller_key("n" * 63, f"{number:036d}") for number in range(MOST_KEYS)]
    full = match_conditions(uids, "own")
    assert full[0] == UNBOUND
    assert all(uid in full[-1].expression for uid in uids)
    assert len(match_conditions([*uids, "controller.ns.one-more"], "own")) == len(full) - 1
    assert (
        len(match_conditions(["object.ns." + "x" * 200 + str(n) for n in range(MOST_KEYS)], "own"))
        == len(full) - 1
    )


def test_conditions_are_the_same_whatever_the_order():
    keys = ["controller.n.u2", "label.n.a.b", "labelled..a", "object.n.p", "controller..u1"]
    assert match_conditions(keys, "own") == match_conditions(reversed(keys), "own")


def test_a_pod_is_looked_up_at_the_time_that_the_api_server_noted_last():
    asked = []
    purpose = Purpose(partial(gate_keys, own="own"), lambda _keys, at_s: asked.append(at_s) or "", hold)
    times = ["1970-01-01T00:00:05Z", "1970-01-01T00:00:09Z"]
    for noted in (times, [], ["soon"], None):
        fields = None if noted is None else [{"manager": "m", "time": time} for time in noted]
        answer(review(pod(owner(), managedFields=fields)), purpose)
    assert asked == [9.0, math.inf, math.inf, math.inf]
