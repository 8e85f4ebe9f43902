import json

import pytest
from tenacity import stop_before_delay

from rescheduler.cli.clients import listed
from rescheduler.kube.answers import NotAnApiServerError
from rescheduler.kube.client import RESTARTS, KubeApi, page_token
from rescheduler.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ExpiredError,
    NotFoundError,
    RejectedError,
    TryLaterError,
)
from rescheduler.kube.retry import Retry
from rescheduler.kube.transport import TransportError
from rescheduler.model.kinds import Kind
from rescheduler.model.records import Node


@pytest.fixture
def api(fake_transport):
    """Factory: an API over answers given one after the other; the last one repeats."""

    def make(*answers):
        left = list(answers)
        transport = fake_transport(lambda _: left.pop(0) if len(left) > 1 else left[0])
        return KubeApi(transport, Retry(sleep=lambda _: None)), transport.sent

    return make


def page(names, token=""):
    return {
        "metadata": {"continue": token, "resourceVersion": "7"},
        "items": [{"metadata": {"name": n}} for n in names],
    }


def test_lists_are_paged_and_ask_for_no_stale_answer(api):
    client, sent = api(page(["a"], "t1"), page(["b"], "t2"), page(["c"]))
    names = [
        item["metadata"]["name"] for body in client.list("/api/v1/pods") for item in json.loads(body)["items"]
    ]
    assert names == ["a", "b", "c"]
    assert [r.query.get("continue") for r in sent] == [None, "t1", "t2"]
    assert all(r.query["limit"] == "500" and "resourceVersion" not in r.query for r in sent)


def test_a_page_token_that_grew_too_old_restarts_the_list(api, refusal):
    client, sent = api(page(["a"], "t1"), refusal(410, "Expired"), page(["a", "b"]))
    assert len(list(client.list("/api/v1/pods"))) == 2
    assert "continue" not in sent[2].query


def test_a_command_counts_no_object_of_a_restarted_list_twice(api, refusal):
    client, _ = api(page(["a"], "t1"), refusal(410, "Expired"), page(["a", "b"]))
    assert [node.name for node in listed(client, Kind.NODE, Node)] == ["a", "b"]


def test_a_list_whose_page_tokens_are_always_too_old_ends(api, refusal):
    first, expired = page(["a"], "t1"), refusal(410, "Expired")
    client, sent = api(*[first, expired] * 10)
    with pytest.raises(ExpiredError):
        list(client.list("/api/v1/pods"))
    assert len(sent) == 2 * (RESTARTS + 1)


def test_410_on_the_first_page_is_an_error(api, refusal):
    client, _ = api(refusal(410, "Expired"))
    with pytest.raises(ExpiredError):
        list(client.list("/api/v1/pods"))


@pytest.mark.parametrize(("call", "content_type"), [
    (lambda c: c.merge_patch("/p", {"a": None}), "application/merge-patch+json"),
    (lambda c: c.strategic_patch("/p", {"a": 1}), "application/strategic-merge-patch+json"),
    (lambda c: c.json_patch("/p", [{"op": "test", "path": "/a", "value": 1}]), "application/json-patch+json"),
    (lambda c: c.apply("/p", {"kind": "X"}, manager="rescheduler"), "application/apply-patch+yaml"),
])  # fmt: skip
def test_patches_say_what_they_are_and_are_repeatable(api, refusal, call, content_type):
    client, sent = api(TransportError("reset"), refusal(503), {})
    call(client)
    assert [r.method for r in sent] == ["PATCH"] * 3
    assert sent[0].content_type == content_type
    assert sent[0].query["fieldManager"] == "rescheduler"


def test_an_unguarded_json_patch_is_sent_once(api):
    client, sent = api(TransportError("reset"))
    with pytest.raises(TransportError):
        client.json_patch("/p", [{"op": "add", "path": "/a/-", "value": 1}])
    assert len(sent) == 1


def test_a_json_patch_whose_test_fails_is_a_conflict(api, refusal):
    client, _ = api(refusal(422, "Invalid"))
    with pytest.raises(ConflictError):
        client.json_patch("/p", [{"op": "test", "path": "/a", "value": 1}])


def test_an_invalid_object_is_no_conflict(api, refusal):
    guarded = [{"op": "test", "path": "/a", "value": 1}]
    for answer, operations in (
        (refusal(422, "Invalid", causes=[{"reason": "FieldValueInvalid", "field": "spec"}]), guarded),
        (refusal(422, "Invalid"), [{"op": "add", "path": "/a", "value": 1}]),
        (refusal(400, "BadRequest"), guarded),
    ):
        client, _ = api(answer)
        with pytest.raises(RejectedError):
            client.json_patch("/p", operations)


@pytest.mark.parametrize("body", [{"metadata": {"name": "a"}}, b'{"metadata":{"name":"a"}}'])
def test_a_named_object_is_created_again_after_a_lost_answer(api, refusal, body):
    client, sent = api(TransportError("reset"), refusal(409, "AlreadyExists"))
    with pytest.raises(AlreadyExistsError):
        client.create("/api/v1/pods", body)
    assert len(sent) == 2


@pytest.mark.parametrize(
    "body", [{"metadata": {"generateName": "a-"}}, b'{"metadata":{"generateName":"a-"}}', {}]
)
def test_an_object_without_a_name_is_never_created_twice(api, body):
    client, sent = api(TransportError("reset"))
    with pytest.raises(TransportError):
        client.create("/api/v1/pods", body)
    assert len(sent) == 1


def test_a_delete_with_preconditions(api, refusal):
    client, sent = api(TransportError("reset"), refusal(409, "Conflict"))
    with pytest.raises(ConflictError):
        client.delete("/p", uid="u", resource_version="5", grace_s=1)
    assert json.loads(sent[0].body)["preconditions"] == {"uid": "u", "resourceVersion": "5"}
    assert json.loads(sent[0].body)["gracePeriodSeconds"] == 1


def test_a_delete_by_name_alone_is_sent_once(api):
    client, sent = api(TransportError("reset"))
    with pytest.raises(TransportError):
        client.delete("/p")
    assert len(sent) == 1


def test_dry_runs_go_through_the_url_but_those_of_deletes_through_the_body(api):
    client, sent = api({})
    client.create("/p", {}, dry_run=True)
    client.merge_patch("/p", {}, dry_run=True)
    client.replace("/p", {}, dry_run=True)
    client.delete("/p", dry_run=True)
    assert [r.query.get("dryRun") for r in sent] == ["All", "All", "All", None]
    assert json.loads(sent[3].body)["dryRun"] == ["All"]


def test_errors_reach_the_caller_as_they_are(api, refusal):
    client, sent = api(refusal(404, "NotFound", "no such pod", name="p", kind="pods"))
    with pytest.raises(NotFoundError, match="no such pod"):
        client.get("/p")
    assert len(sent) == 1


def test_a_server_that_stays_away_is_given_up_at_the_deadline(fake_transport, refusal, clock):
    retry = Retry(stop=stop_before_delay(10), sleep=clock.sleep)
    with pytest.raises(TryLaterError):
        KubeApi(fake_transport(lambda _: refusal(503)), retry).get("/p")
    assert 0 < clock.now_s < 10


@pytest.mark.parametrize(("text", "token"), [
    (b'{"kind":"PodList","metadata":{"continue":"t1"},"items":[{"metadata":{"name":"a"}}]}', "t1"),
    (b'{"items":[{"metadata":{"continue":"x"}}],"metadata":{"continue":"t1"}}', "t1"),
    (b'{"metadata":{"annotations":{"items":[1]},"continue":"t1"},"items":[]}', "t1"),
    (b'{"x":"\\"items\\":[","metadata":{"continue":"t1"},"items":[]}', "t1"),
    (b'{"x":{"items":[]},"metadata":{"continue":"t1"},"items":[]}', "t1"),
    (b'{"metadata":{"continue":""},"items":[{"metadata":{"continue":"x"}}]}', ""),
    (b'{"metadata":null,"items":null}', ""),
    (b"{}", ""),
])  # fmt: skip
def test_the_token_of_the_next_page_is_found_wherever_it_stands(text, token):
    assert page_token(text) == token


@pytest.mark.parametrize(
    "text", [b"[]", b"nonsense", b'{"items":[', b'{"metadata":7,"items":[]}', b'"items":[']
)
def test_what_is_no_page_is_told_as_such(text):
    with pytest.raises(NotAnApiServerError):
        page_token(text)
