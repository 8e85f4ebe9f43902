"""What counts as a sign of life of a node autoscaler, in the forms in which the programs write it."""

import pytest
from tenacity import stop_after_attempt

from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import RejectedError
from rescheduler.kube.node_autoscaler import LAST_UPDATED, node_autoscaler_reports
from rescheduler.kube.retry import Retry
from rescheduler.model.times import parse_timestamp

NOW_S = parse_timestamp("2026-09-15T04:10:00Z")
FRESH = "2026-09-15 04:05:52.354884346 +0000 UTC"
STATUS = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"


@pytest.fixture
def api(fake_transport):
    """Factory: an API over answers given one after the other; the last one repeats."""

    def make(*answers):
        left = list(answers)
        transport = fake_transport(lambda _: left.pop(0) if len(left) > 1 else left[0])
        return KubeApi(transport, Retry(stop=stop_after_attempt(2), sleep=lambda _: None)), transport.sent

    return make


def status(text):
    return {"kind": "ConfigMap", "metadata": {"annotations": {LAST_UPDATED: text}}, "data": {"status": "..."}}


def test_a_status_that_was_written_a_moment_ago(api):
    client, sent = api(status(FRESH))
    assert node_autoscaler_reports(client, NOW_S)
    assert [request.path for request in sent] == [STATUS]


@pytest.mark.parametrize("text", [
    "2026-09-15 03:55:52.354884346 +0000 UTC",
    "2026-09-15 04:05:52 +0500 UTC",
    "",
    "soon",
    "a b c",
    "2026-09-15 x y",
], ids=["ten minutes old", "another zone", "none", "a word", "three words", "no time"])  # fmt: skip
def test_an_old_or_unreadable_status_says_nothing(api, refusal, text):
    client, _ = api(status(text), refusal(404, "NotFound"))
    assert not node_autoscaler_reports(client, NOW_S)


@pytest.mark.parametrize(
    ("items", "works"), [([], False), (None, False), ([{"metadata": {"name": "a"}}], True)]
)
def test_karpenter_has_node_pools(api, refusal, items, works):
    client, sent = api(refusal(404, "NotFound"), {"items": items})
    assert node_autoscaler_reports(client, NOW_S) is works
    assert (sent[1].path, sent[1].query) == ("/apis/karpenter.sh/v1/nodepools", {"limit": "1"})


@pytest.mark.parametrize("code", [401, 403, 404, 429, 503])
def test_what_may_not_or_cannot_be_read_says_nothing(api, refusal, code):
    client, _ = api(*[refusal(code)] * 20)
    assert not node_autoscaler_reports(client, NOW_S)


def test_an_answer_that_means_something_else_is_an_error(api, refusal):
    client, _ = api(refusal(400, "BadRequest"))
    with pytest.raises(RejectedError):
        node_autoscaler_reports(client, NOW_S)
