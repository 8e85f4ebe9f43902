"""A proxy or a login page that answers 200, and servers that answer another shape: never a success, never a crash."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.kube.answers import NotAnApiServerError
from rescheduler.kube.client import KubeApi
from rescheduler.kube.config_maps import read_config_map
from rescheduler.kube.discovery import discover, served_kinds
from rescheduler.kube.errors import ApiError
from rescheduler.kube.gate import Gate
from rescheduler.kube.metrics_api import node_usage
from rescheduler.kube.retry import NO_RETRY
from rescheduler.kube.transport import Response
from rescheduler.model.eviction import EvictionOutcome
from rescheduler.model.records import OwnerRef
from rescheduler.webhook.registration import WebhookConfiguration
from rescheduler.webhook.secret import CertificateStore

LOGIN = b"\n<!DOCTYPE html><html><body>Please sign in</body></html>"
OWNER = OwnerRef("apps/v1", "ReplicaSet", "web", "u")
READERS = {
    "discover": discover,
    "served kinds": lambda api: served_kinds(api, "apps/v1", "ReplicaSet"),
    "config map": lambda api: read_config_map(api, "rescheduler", "gate-keys"),
    "gate": lambda api: Gate(api).holds_for(OWNER, "default"),
    "usage": node_usage,
    "pages": lambda api: list(api.list("/api/v1/pods")),
    "create": lambda api: api.create("/api/v1/namespaces/default/pods", {"metadata": {"name": "a"}}),
    "try creation": lambda api: api.try_creation("/api/v1/namespaces/default/pods", b"{}"),
    "patch": lambda api: api.merge_patch("/api/v1/pods/a", {}),
    "delete": lambda api: api.delete("/api/v1/pods/a", uid="u"),
    "secret": lambda api: CertificateStore(api, "rescheduler").read(),
    "webhook": lambda api: WebhookConfiguration(api).holds(()),
}


class Says:
    def __init__(self, body):
        self.body = body

    def send(self, request):
        return Response(200, self.body, {"content-type": "text/html"})


def api_that_says(body):
    return KubeApi(Says(body), retry=NO_RETRY)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("body", [LOGIN, b"", b"null", b"[]", b'"ok"', b"\xff\xfe"], ids=repr)
def test_what_is_no_json_object_is_no_success(read, body):
    if read is node_usage:
        assert read(api_that_says(body)) == (), "usage only helps: nothing is measured then"
        return
    with pytest.raises(NotAnApiServerError, match="check the server's address"):
        read(api_that_says(body))


@pytest.mark.parametrize("body", [LOGIN, b"", b"null"], ids=repr)
def test_no_eviction_is_believed_because_of_it(body):
    assert api_that_says(body).evict("default", "a", "u").outcome is EvictionOutcome.UNKNOWN


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["metadata", "items", "data", "spec", "resources", "major", "webhooks", "name", "kind", "x"]),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@given(
    body=st.dictionaries(st.sampled_from(["metadata", "items", "data", "spec", "resources", "major"]), JSON)
)
@settings(max_examples=60, deadline=None)
def test_any_json_is_read_or_refused_in_words(read, body):
    try:
        read(api_that_says(json.dumps(body).encode()))
    except ApiError as error:
        assert error.message  # noqa: PT017 - any outcome but another error is right
