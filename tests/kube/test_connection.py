import ssl
import threading
import time

import pytest

from rescheduler.kube.connection import HttpTransport, connect_to, tls_context
from rescheduler.kube.kubeconfig import Access
from rescheduler.kube.transport import Request, SilenceError, TransportError

GET = Request(method="GET", path="/x", timeout_s=0.5)


@pytest.fixture
def transport_to(fault_server):
    def make(handler):
        server = fault_server(handler)
        return connect_to(server.url), server

    return make


def test_a_request_arrives_as_it_was_meant(transport_to):
    transport, server = transport_to(lambda x: x.json(201, {"ok": 1}, {"X-Thing": "v"}))
    answer = transport.send(
        Request(
            method="PATCH",
            path="/apis/g/v1/namespaces/a b/things/é:x",
            query={"fieldSelector": "status.phase!=Failed,a=b", "dryRun": "All"},
            body=b'{"a":1}',
            content_type="application/merge-patch+json",
        )
    )
    assert (answer.status, answer.body, answer.headers["x-thing"]) == (201, b'{"ok": 1}', "v")
    (call,) = server.calls
    assert call.path == "/apis/g/v1/namespaces/a%20b/things/%C3%A9:x"
    assert call.query == {"fieldSelector": "status.phase!=Failed,a=b", "dryRun": "All"}
    assert call.headers["content-type"] == "application/merge-patch+json"
    assert call.headers["user-agent"].startswith("rescheduler/")
    assert call.body == b'{"a":1}'


def test_connections_are_reused(transport_to):
    transport, server = transport_to(lambda x: x.json(200, {}))
    for _ in range(5):
        transport.send(GET)
    assert server.connections == 1


def test_a_refused_connection_is_no_answer_at_once(fault_server):
    server = fault_server(lambda x: None)
    url = server.url
    server.close()
    with pytest.raises(TransportError):
        connect_to(url).send(GET)


@pytest.mark.parametrize("fault", [
    lambda x: x.reset(),
    lambda x: x.cut(),
    lambda x: x.hang(),
    lambda x: (x.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), x.cut()),
    lambda x: (x.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), x.hang()),
    lambda x: (x.open_stream(), x.raw(b"5\r\n{"), x.cut()),
    lambda x: (x.raw(b"this is not HTTP\r\n\r\n"), x.cut()),
], ids=["reset", "closed", "silent", "cut in the body", "silent in the body", "cut in a chunk", "not HTTP"])  # fmt: skip
def test_whatever_breaks_an_answer_is_no_answer_and_never_repeated(transport_to, fault):
    transport, server = transport_to(fault)
    with pytest.raises(TransportError):
        transport.send(Request(method="POST", path="/x", body=b"{}", timeout_s=0.5))
    assert len(server.calls) == 1


def test_an_answer_that_drips_for_ever_ends_at_the_time_limit(transport_to):
    def drip(x):
        x.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            x.raw(b" ")
            time.sleep(0.05)

    transport, _ = transport_to(drip)
    started = time.monotonic()
    with pytest.raises(TransportError, match="did not end in time"):
        transport.send(GET)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("code", [429, 500, 503])
def test_the_pool_does_not_try_again_by_itself(transport_to, code):
    transport, server = transport_to(lambda x: x.status(code, headers={"Retry-After": "2"}))
    assert transport.send(GET).status == code
    assert len(server.calls) == 1


def test_redirects_are_answers(transport_to):
    transport, _ = transport_to(lambda x: x.answer(302, b"", {"Location": "http://127.0.0.1:1/"}))
    assert transport.send(GET).status == 302


def test_a_proxy_of_the_environment_is_not_used_for_this_machine(transport_to, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    transport, _ = transport_to(lambda x: x.json(200, {}))
    assert transport.send(GET).status == 200


def test_a_stream_gives_bytes_as_they_come(transport_to):
    more = threading.Event()

    def handler(x):
        x.open_stream()
        x.chunk(b"one\n")
        more.wait(5)
        x.chunk(b"two\n")
        x.end_stream()

    transport, _ = transport_to(handler)
    stream = transport.stream(GET)
    chunks = iter(stream)
    assert (stream.status, next(chunks)) == (200, b"one\n")
    more.set()
    assert list(chunks) == [b"two\n"]


@pytest.mark.parametrize(
    "fault",
    [lambda x: x.hang(), lambda x: x.reset(), lambda x: x.cut(), lambda x: (x.raw(b"9\r\n{"), x.cut())],
)
def test_a_stream_that_breaks_or_falls_silent_says_so(transport_to, fault):
    transport, _ = transport_to(lambda x: (x.open_stream(), x.chunk(b"one\n"), fault(x)))
    chunks = iter(transport.stream(GET))
    assert next(chunks) == b"one\n"
    with pytest.raises(TransportError):
        list(chunks)


def test_silence_is_told_apart_from_a_broken_connection(transport_to):
    transport, _ = transport_to(lambda x: (x.open_stream(), x.hang()))
    with pytest.raises(SilenceError):
        list(transport.stream(GET))


def test_any_thread_may_close_a_stream_that_waits(transport_to):
    transport, _ = transport_to(lambda x: (x.open_stream(), x.chunk(b"one\n"), x.hang()))
    stream = transport.stream(Request(method="GET", path="/x", timeout_s=60))
    chunks, ended = iter(stream), threading.Event()
    next(chunks)
    reader = threading.Thread(target=lambda: (list(chunks), ended.set()))
    reader.start()
    time.sleep(0.1)
    stream.close()
    assert ended.wait(5)
    reader.join()


def test_a_stream_closed_before_it_is_read_is_empty(transport_to):
    transport, _ = transport_to(lambda x: (x.open_stream(), x.chunk(b"one\n"), x.hang()))
    stream = transport.stream(GET)
    stream.close()
    assert list(stream) == []


def test_a_refused_watch_keeps_status_headers_and_body(transport_to):
    transport, _ = transport_to(lambda x: x.status(429, headers={"Retry-After": "3"}))
    stream = transport.stream(GET)
    assert (stream.status, stream.headers["retry-after"]) == (429, "3")
    assert b"Status" in stream.read_all()


class Tokens:
    """A configuration whose token file is rotated; the old one is refused from then on."""

    def __init__(self, url):
        self.url, self.file, self.loads = url, "old", 0

    def load(self):
        self.loads += 1
        configuration = Access(host=self.url)
        configuration.proxy = None
        configuration.api_key["BearerToken"] = f"Bearer {self.file}"
        return configuration


@pytest.fixture
def guarded(fault_server):
    valid = {"old"}

    def handler(x):
        token = x.call.headers.get("authorization", "").removeprefix("Bearer ")
        x.json(200, {}) if token in valid else x.status(401, "Unauthorized")

    tokens = Tokens(fault_server(handler).url)
    return HttpTransport(tokens.load), tokens, valid


def test_a_rotated_token_is_picked_up_without_a_failed_call(guarded):
    transport, tokens, valid = guarded
    assert transport.send(GET).status == 200
    tokens.file = "new"
    valid.symmetric_difference_update({"old", "new"})
    assert transport.send(GET).status == 200
    assert transport.stream(GET).status == 200


def test_credentials_that_stay_refused_are_not_loaded_in_a_loop(guarded):
    transport, tokens, valid = guarded
    valid.clear()
    assert [transport.send(GET).status for _ in range(10)] == [401] * 10
    assert tokens.loads <= 2


@pytest.mark.parametrize("verify", [True, False])
def test_certificates_are_verified_without_the_strict_form_of_python_3_13(verify):
    """The authorities of many clusters lack a key usage or an identifier that it asks for."""
    configuration = Access()
    configuration.verify_ssl = verify
    context = tls_context(configuration)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_mode == (ssl.CERT_REQUIRED if verify else ssl.CERT_NONE)
    assert context.check_hostname is verify
