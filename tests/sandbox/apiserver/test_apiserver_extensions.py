"""Custom resources, CEL and admission policies, with the project's own manifests."""

import pytest

from harness import documents
from harness.controlplane import manifests
from kube_sandbox.apiserver.cel import CelError, compiled

RSV = "/apis/rescheduler.dev/v1alpha1/reservations"
PODS = "/api/v1/namespaces/default/pods"
POLICIES = "/apis/admissionregistration.k8s.io/v1"


def path_of(client, obj):
    kind = client.server.registry.by_kind(obj["apiVersion"], obj["kind"])
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    middle = f"/namespaces/{obj['metadata']['namespace']}" if kind.namespaced else ""
    return f"{root}{middle}/{kind.plural}"


@pytest.fixture
def installed(client):
    """Everything of ``manifests/``."""
    for obj in manifests.load():
        status, body = client.post(path_of(client, obj), obj)
        assert status == 201, body
    return client


def reservation(name="r", **spec):
    return documents.reservation(name, documents.pod_spec(""), [{"object": {"name": "p"}}], **spec)


def test_a_definition_that_goes_takes_its_objects_along(installed):
    installed.post(RSV, reservation())
    installed.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/reservations.rescheduler.dev")
    assert installed.get(RSV)[0] == 404
    assert installed.server.store.list("reservations.rescheduler.dev") == []


def policy(kind, name, **spec):
    rules = [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "DELETE"], "resources": ["pods"]}
    ]
    body = {"matchConstraints": {"resourceRules": rules}, **spec}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": body,
    }


def bind_policy(client, kind, plural, name, **spec):
    body = {"policyName": name, **spec}
    obj = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": name},
    }
    assert client.post(f"{POLICIES}/{plural}bindings", {**obj, "spec": body})[0] == 201


@pytest.mark.parametrize(("failure", "code"), [("Fail", 422), ("Ignore", 201)])
def test_a_policy_that_fails_follows_its_failure_policy(client, made, failure, code):
    mutation = {
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": "Object{spec: Object.spec{hostname: object.spec.missing}}"},
    }
    body = policy("MutatingAdmissionPolicy", "p", failurePolicy=failure, mutations=[mutation])
    assert client.post(f"{POLICIES}/mutatingadmissionpolicies", body)[0] == 201
    bind_policy(client, "MutatingAdmissionPolicy", "mutatingadmissionpolicy", "p")
    assert client.post(PODS, made.pod())[0] == code


@pytest.mark.parametrize(("action", "code"), [("Allow", 201), ("Deny", 422)])
def test_a_missing_parameter_follows_its_action(client, made, action, code):
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    body = policy("ValidatingAdmissionPolicy", "p", paramKind=kind, validations=[{"expression": "true"}])
    client.post(f"{POLICIES}/validatingadmissionpolicies", body)
    reference = {"name": "none", "namespace": "default", "parameterNotFoundAction": action}
    bind_policy(client, "ValidatingAdmissionPolicy", "validatingadmissionpolicy", "p", paramRef=reference)
    assert client.post(PODS, made.pod())[0] == code


def test_a_validating_policy_denies_creations_and_deletions(client, made):
    expression = "request.operation == 'DELETE' ? oldObject.metadata.name != 'kept' : size(object.spec.containers) == 1"
    rules = [{"expression": expression, "message": "not like this"}]
    client.post(PODS, made.pod("kept"))
    client.post(
        f"{POLICIES}/validatingadmissionpolicies", policy("ValidatingAdmissionPolicy", "p", validations=rules)
    )
    bind_policy(
        client, "ValidatingAdmissionPolicy", "validatingadmissionpolicy", "p", validationActions=["Deny"]
    )
    two = [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]
    status, body = client.post(PODS, made.pod("x", containers=two))
    assert (status, body["reason"]) == (422, "Invalid")
    assert "not like this" in body["message"]
    assert client.delete(f"{PODS}/kept")[0] == 422
    assert client.post(PODS, made.pod("y"))[0] == 201


@pytest.mark.parametrize(("source", "value"), [
    ("Object{a: 1, b: Object.b{c: [Object.b.c{d: 'x'}]}}", {"a": 1, "b": {"c": [{"d": "x"}]}}),
    ("[JSONPatch{op: 'add', path: '/a', value: {'b': 1}}]", [{"op": "add", "path": "/a", "value": {"b": 1}}]),
    ("'Object{a: 1}'", "Object{a: 1}"),
    ("quantity('1Gi').asApproximateFloat() > quantity('1G').asApproximateFloat()", True),
    ("'a,b'.split(',').join('-')", "a-b"),
    ("self.list.exists_one(i, i == 'a') && self.list.all(i, i != 'z')", True),
])  # fmt: skip
def test_kubernetes_cel(source, value):
    known = {"self": {"list": ["a", "b"]}}
    assert compiled(source).evaluate(known) == value


@pytest.mark.parametrize("source", ["self.missing", "1 / 0 == 1", "nobody.knows"])
def test_faults_of_expressions_are_errors(source):
    with pytest.raises(CelError):
        compiled(source).evaluate({"self": {}})


def test_a_text_that_is_no_cel_is_an_error():
    with pytest.raises(CelError):
        compiled("((")
