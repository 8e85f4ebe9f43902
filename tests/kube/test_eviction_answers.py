import json

import pytest

from rescheduler.kube.client import KubeApi
from rescheduler.kube.eviction import interpret
from rescheduler.kube.transport import TransportError
from rescheduler.model.outcomes import EvictionOutcome as Outcome

BUDGET = {
    "reason": "DisruptionBudget",
    "message": "The disruption budget web needs 3 healthy pods and has 3 currently",
}
STALE = {
    "reason": "DisruptionBudget",
    "message": "The disruption budget web is still being processed by the server.",
}
VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."


@pytest.mark.parametrize(("code", "reason", "message", "details", "outcome", "retry_after_s"), [
    (429, "TooManyRequests", VIOLATION, {"causes": [BUDGET]}, Outcome.BLOCKED, None),
    (429, "TooManyRequests", VIOLATION, {"causes": [BUDGET], "retryAfterSeconds": 0}, Outcome.BLOCKED, None),
    (429, "TooManyRequests", VIOLATION, {"causes": [STALE], "retryAfterSeconds": 10}, Outcome.STALE, 10.0),
    (429, "TooManyRequests", "too many requests", {"retryAfterSeconds": 1}, Outcome.OVERLOADED, 1.0),
    (504, "Timeout", "couldn't update PodDisruptionBudget due to conflicts", {"retryAfterSeconds": 10}, Outcome.OVERLOADED, 10.0),
    (504, "Timeout", "the request was not completed in time", {}, Outcome.UNKNOWN, None),
    (503, "ServiceUnavailable", "etcd", {}, Outcome.UNKNOWN, None),
    (500, "InternalError", 'failed calling webhook "x"', {}, Outcome.OVERLOADED, None),
    (404, "NotFound", 'pods "p" not found', {"name": "p", "kind": "pods"}, Outcome.GONE, None),
    (404, "NotFound", 'pods "p" not found', {}, Outcome.UNKNOWN, None),
    (404, "NotFound", 'namespaces "n" not found', {"name": "n", "kind": "namespaces"}, Outcome.FAILED, None),
    (409, "Conflict", "Precondition failed: UID in precondition: a, UID in object meta: b", {}, Outcome.REPLACED, None),
    (409, "Conflict", "the object has been modified; please apply your changes to the latest version", {}, Outcome.STALE, None),
    (500, "", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", {}, Outcome.MULTIPLE_BUDGETS, None),
    (409, "Conflict", "the UID in the precondition (a) does not match the UID in record (b). The object might have been deleted", {}, Outcome.REPLACED, None),
    (500, "InternalError", "etcdserver: request timed out", {}, Outcome.UNKNOWN, None),
    (502, "", "", {}, Outcome.UNKNOWN, None),
    (403, "Forbidden", "admission webhook denied", {}, Outcome.FORBIDDEN, None),
    (401, "Unauthorized", "", {}, Outcome.FORBIDDEN, None),
    (400, "BadRequest", "name mismatch", {}, Outcome.FORBIDDEN, None),
    (422, "Invalid", "ValidatingAdmissionPolicy 'a' with binding 'a' denied request", {}, Outcome.FORBIDDEN, None),
    (413, "RequestEntityTooLarge", "", {}, Outcome.FAILED, None),
])  # fmt: skip
def test_each_refusal_has_one_meaning(  # noqa: PLR0917 - a row of the table
    refusal, code, reason, message, details, outcome, retry_after_s
):
    result = interpret(refusal(code, reason, message, **details))
    assert (result.outcome, result.retry_after_s) == (outcome, retry_after_s)
    assert message in result.message


def test_the_message_names_the_budget_that_blocks(refusal):
    result = interpret(refusal(429, "TooManyRequests", VIOLATION, causes=[BUDGET]))
    assert "disruption budget web needs 3 healthy pods" in result.message


def test_success_is_a_status_that_says_so(answer):
    success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    assert interpret(answer(201, success)).outcome is Outcome.EVICTED
    assert interpret(answer(201, {"kind": "Eviction", "metadata": {"name": "p"}})).outcome is Outcome.EVICTED


def test_a_failure_under_a_2xx_is_a_refusal(answer, refusal):
    several = refusal(500, "", "This pod has more than one PodDisruptionBudget, which ...")
    assert interpret(answer(201, several.body)).outcome is Outcome.MULTIPLE_BUDGETS


def test_html_from_a_proxy_is_no_eviction(answer):
    assert interpret(answer(503, b"<html>busy</html>", {"retry-after": "2"})).retry_after_s == 2.0


def test_a_balancer_without_a_server_does_not_say_that_the_pod_is_gone(answer):
    assert interpret(answer(404, b"404 page not found")).outcome is Outcome.UNKNOWN
    assert interpret(answer(302, b"")).outcome is Outcome.UNKNOWN


def test_the_uid_is_always_a_precondition_and_the_version_never(fake_transport):
    transport = fake_transport(lambda _: {"kind": "Status", "status": "Success"})
    assert KubeApi(transport).evict("ns", "p", "u-1", 5, dry_run=True).outcome is Outcome.EVICTED
    (request,) = transport.sent
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/ns/pods/p/eviction")
    assert request.query == {"dryRun": "All"}
    body = json.loads(request.body)
    assert body["apiVersion"] == "policy/v1"
    assert body["deleteOptions"] == {"preconditions": {"uid": "u-1"}, "gracePeriodSeconds": 5}


def test_without_a_grace_the_pods_own_one_counts(fake_transport):
    transport = fake_transport(lambda _: {"kind": "Status", "status": "Success"})
    KubeApi(transport).evict("ns", "p", "u-1")
    assert json.loads(transport.sent[0].body)["deleteOptions"] == {"preconditions": {"uid": "u-1"}}
    assert transport.sent[0].query == {}


@pytest.mark.parametrize("code", [429, 500, 503, 504])
def test_an_eviction_is_never_sent_twice(fake_transport, refusal, code):
    transport = fake_transport(lambda _: refusal(code, "", "", retryAfterSeconds=1))
    KubeApi(transport).evict("ns", "p", "u-1")
    assert len(transport.sent) == 1


def test_a_lost_answer_is_unknown_and_not_repeated(fake_transport):
    transport = fake_transport(lambda _: TransportError("reset"))
    assert KubeApi(transport).evict("ns", "p", "u-1").outcome is Outcome.UNKNOWN
    assert len(transport.sent) == 1


def test_a_cause_that_repeats_the_message_is_said_once(refusal):
    """As a ValidatingAdmissionPolicy answers."""
    denied = "policy 'p' denied request: no"
    words = f'pods "web-0" is forbidden: {denied}'
    result = interpret(refusal(422, "Invalid", words, causes=[{"message": denied}]))
    assert result.message == words
