"""A proxy or a login page that answers 200, and servers that answer another shape: never a success, never a crash."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rescheduler
from rescheduler.cli.workload import parse_workload, read_workload
from rescheduler.kube.answers import NotAnApiServerError, read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.kube.config_maps import read_config_map
from rescheduler.kube.discovery import discover
from rescheduler.kube.errors import ApiError
from rescheduler.kube.gate import Gate
from rescheduler.kube.list_page import read_page
from rescheduler.kube.metrics_api import node_usage
from rescheduler.kube.retry import NO_RETRY
from rescheduler.kube.transport import Response
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.outcomes import EvictionOutcome
from rescheduler.model.records import OwnerRef
from rescheduler.webhook.registration import MutatingWebhook, WebhookConfiguration
from rescheduler.webhook.secret import CertificateStore

LOGIN = b"\n<!DOCTYPE html><html><body>Please sign in</body></html>"
OWNER = OwnerRef("apps/v1", "ReplicaSet", "web", "u")
READERS = {
    "discover": discover,
    "config map": lambda api: read_config_map(api, "rescheduler", "gate-keys"),
    "gate": lambda api: Gate(api).holds_for(OWNER, "default"),
    "usage": node_usage,
    "pages": lambda api: list(api.list("/api/v1/pods")),
    "create": lambda api: api.create("/api/v1/namespaces/default/pods", {"metadata": {"name": "a"}}),
    "try creation": lambda api: api.try_creation("/api/v1/namespaces/default/pods", b"{}"),
    "patch": lambda api: api.merge_patch("/api/v1/pods/a", {}),
    "delete": lambda api: api.delete("/api/v1/pods/a", uid="u"),
    "secret": lambda api: CertificateStore(api, "rescheduler").read(),
    "webhook": lambda api: WebhookConfiguration(api, MutatingWebhook).holds(()),
}


class Says:
    def __init__(self, body):
        self.body = body

    def send(self, request):
        return Response(200, self.body, {"content-type": "text/html"})


def api_that_says(body):
    return KubeApi(Says(body), retry=NO_RETRY)


@pytest.mark.crossed
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


@pytest.mark.parametrize(
    "body", [b"[]", b'{"items":7}', b'{"metadata":{"continue":"t"},"items":[{"kind"'], ids=repr
)
def test_a_page_that_is_no_list_is_not_that_of_an_api_server(body):
    with pytest.raises(NotAnApiServerError, match="check the server's address"):
        read_page(body, Decoder(), Kind.POD)


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


COMMANDS = {
    "workload": lambda api: read_workload(api, parse_workload("deployment/web", "default")),
    "replica sets": lambda api: read_workload(Answers(api, "replicasets", {"metadata": {"uid": "u"}, "spec": {}}), parse_workload("deployment/web", "d")),
}  # fmt: skip


class Answers:
    """The API of a server that answers something else for paths with one word only."""

    def __init__(self, api, word, other):
        self.api, self.word, self.other = api, word, json.dumps(other).encode()

    def get(self, path):
        return self.api.get(path) if self.word in path else self.other

    def list(self, path):
        return [self.api.get(path)]


@pytest.mark.crossed
@pytest.mark.parametrize("read", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize(
    "body", [b'{"metadata": 7}', b'{"metadata":{},"spec":[]}', b'{"items":[7]}'], ids=repr
)
def test_an_answer_of_another_shape_is_told_by_the_commands(read, body):
    if b"metadata" in body and read is COMMANDS["replica sets"]:
        body = b'{"items":[' + body + b"]}"
    with pytest.raises(NotAnApiServerError, match="not that of an API server"):
        read(api_that_says(body))


NO_ANSWERS = {
    "answers.py": "the one place",
    "election.py": "its errors are those of an answer to the elector",
    "metrics_api.py": "items of a list, of which each may be damaged",
    "reservation_client.py": "the template that the command was given",
    "reserve_create.py": "the files that the command was given, and what it is about to send",
}
"""Modules that decode JSON by other means than ``read_answer``, and what it is that they decode."""


def test_every_answer_goes_through_the_one_decoder():
    package = Path(rescheduler.__file__).parent
    found = {
        path.name
        for part in ("kube", "cli", "controller", "webhook")
        for path in (package / part).rglob("*.py")
        if "msgspec.json.decode(" in path.read_text()
    }
    assert found <= set(NO_ANSWERS)


def test_threads_that_meet_at_the_first_use_of_a_type_all_read_the_answer():
    """While msgspec looks at a type it shows the unfinished result to other threads, which ended the process (SIGSEGV)."""
    threads, patience_s = 8, sys.getswitchinterval()
    body, together = b'{"a0": {"b0": 7}}', Barrier(threads)

    def read(shape):
        together.wait()
        return read_answer(body, shape).a0.b0

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(threads) as pool:
            for number in range(50):
                inner = msgspec.defstruct(f"Inner{number}", [(f"b{i}", int, 0) for i in range(20)])
                outer = msgspec.defstruct(
                    f"Outer{number}",
                    [(f"a{i}", inner, msgspec.field(default_factory=inner)) for i in range(20)],
                )
                assert list(pool.map(read, [outer] * threads)) == [7] * threads
    finally:
        sys.setswitchinterval(patience_s)
