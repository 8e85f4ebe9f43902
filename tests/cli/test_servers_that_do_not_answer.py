"""A server that is not there, hangs, is none, or knows no Reservations: told early, in words, and not tried for long."""

import contextlib
import itertools
import socket
import time

import pytest

from kube_sandbox.sandbox import Sandbox
from rescheduler.cli.clients import CommandTransport
from rescheduler.kube.client import KubeApi
from rescheduler.kube.retry import Retry
from rescheduler.kube.transport import Request, Response, TransportError, UnreachableError

COMMANDS = (
    ("plan",),
    ("explain", "pod", "a/b"),
    ("reserve", "list"),
    ("reserve", "watch"),
    ("reserve", "release", "room"),
    ("reserve", "create", "--cpu", "1", "--owner-selector", "app=x"),
    ("scale", "deployment/web", "--replicas", "2"),
    ("scale", "deployment/web", "--replicas", "2", "--dry-run"),
    ("uninstall", "--dry-run"),
    ("move", "pod", "web-1"),
    ("drain", "n1"),
    ("uncordon", "n1"),
    ("status",),
)


@pytest.fixture
def listening():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(64)
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_nobody_listens(command, kubeconfig_of, words):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    done = command(*words, "--kubeconfig", kubeconfig_of(url))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: no answer from the API server: {url}: connection refused (GET /")
    assert "is it running, and are the address" in done.stderr


def test_a_host_without_a_name(command, kubeconfig_of):
    done = command("plan", "--kubeconfig", kubeconfig_of("http://no-such-host.invalid:6443"))
    assert done.exit_code == 1
    assert "no-such-host.invalid:6443: " in done.stderr
    assert "HTTPConnection" not in done.stderr


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_server_that_hangs_is_waited_for_aloud_and_not_for_ever(
    command, kubeconfig_of, listening, words, monkeypatch
):
    monkeypatch.setattr("rescheduler.cli.clients.NOTICE_S", 0.01)
    monkeypatch.setattr("rescheduler.cli.clients.REQUEST_TIMEOUT_S", 3.0)
    monkeypatch.setattr("rescheduler.cli.clients.PATIENCE_S", 0.1)
    for module in ("scale", "uninstall"):
        monkeypatch.setattr(f"rescheduler.cli.{module}.DEADLINE_S", 0.1)
    monkeypatch.setattr("rescheduler.cli.reservation_client.API_TIMEOUT_S", 0.1)
    done = command(*words, "--kubeconfig", kubeconfig_of(listening))
    assert (done.exit_code, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    assert "waiting for the API server ..." in lines
    (said,) = (line for line in lines if line.startswith("error: "))
    assert said.startswith(f"error: no answer from the API server: {listening}: no answer within 3 s (GET /")


@pytest.mark.parametrize("words", COMMANDS[:3], ids=" ".join)
def test_a_login_page_is_no_api_server(command, kubeconfig_of, answering, words):
    url = answering(200, b"<html>Sign in</html>")
    done = command(*words, "--kubeconfig", kubeconfig_of(url))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "what answers is no API server" in done.stderr


@pytest.mark.parametrize("words", [
    ("reserve", "list"),
    ("reserve", "watch"),
    ("reserve", "release", "-l", "a=b"),
    ("reserve", "create", "--cpu", "1", "--owner-selector", "app=x"),
    ("reserve", "create", "--cpu", "1", "--owner-selector", "app=x", "--dry-run"),
], ids=" ".join)  # fmt: skip
def test_a_cluster_without_rescheduler_is_told_with_what_to_do(command, tmp_path, words):
    kubeconfig = tmp_path / "kubeconfig"
    with Sandbox() as cluster:
        cluster.start(kubeconfig=kubeconfig)
        done = command(*words, "--kubeconfig", kubeconfig)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "error: rescheduler is not installed in this cluster" in done.stderr
    assert "kubectl apply -k manifests/" in done.stderr


class Answers:
    """A transport that gives these answers, one after the other."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def send(self, request):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def api(*answers):
    pauses = []
    retry = Retry(sleep=pauses.append, gives_up=(UnreachableError,))
    return KubeApi(CommandTransport(Answers(*answers)), retry), pauses


def test_a_server_that_was_never_reached_is_not_tried_again():
    client, pauses = api(UnreachableError("refused"), Response(200, b"{}"))
    with pytest.raises(UnreachableError):
        client.get("/api")
    assert pauses == []


def test_a_server_that_was_reached_is_tried_again():
    client, pauses = api(Response(200, b"{}"), UnreachableError("refused"), Response(200, b'{"a":1}'))
    client.get("/api")
    assert client.get("/api") == b'{"a":1}'
    assert len(pauses) == 1
    client, _ = api(Response(200, b"{}"), TransportError("reset"), Response(200, b'{"a":1}'))
    client.get("/api")
    assert client.get("/api") == b'{"a":1}'


BUSY = Response(429, b'{"kind":"Status","reason":"TooManyRequests","message":"too many requests"}')
STARTS = Response(503, b'{"kind":"Status","reason":"ServiceUnavailable","message":"starting"}')
WELL = Response(200, b"{}")


def told_of(capsys, seconds, *answers):
    """What a person reads while a command gets these answers, each after ``seconds``."""
    given = Answers(*answers)
    asked = itertools.count()
    transport = CommandTransport(given, lambda: next(asked) * seconds / 2)
    while given.answers:
        with contextlib.suppress(TransportError):
            transport.send(Request(method="GET", path="/api"))
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("failure", [UnreachableError("refused"), TransportError("reset"), STARTS, BUSY])
def test_a_server_that_is_away_is_told_once_until_it_is_back(capsys, failure):
    away = [failure] * 9
    lines = told_of(capsys, 1.0, WELL, *away, STARTS, WELL, *away, WELL)
    assert len(lines) == 2
    assert len(set(lines)) == 1
    assert lines[0].startswith("waiting for the API server: ")


def test_what_passes_soon_is_not_told(capsys):
    assert told_of(capsys, 1.0, WELL, BUSY, STARTS, WELL, TransportError("reset"), WELL) == []


def test_a_refusal_is_nothing_to_wait_for(capsys):
    refusal = Response(404, b'{"kind":"Status","reason":"NotFound","message":"no","details":{"name":"x"}}')
    assert told_of(capsys, 9.0, WELL, refusal, refusal) == []


def test_a_request_that_hangs_and_then_fails_is_told_once(monkeypatch, capsys):
    monkeypatch.setattr("rescheduler.cli.clients.NOTICE_S", 0.01)

    class Hangs(Answers):
        def send(self, request):
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                time.sleep(0.2)
                raise answer
            return answer

    hanging = Hangs(WELL, TransportError("no answer"), TransportError("no answer"), STARTS)
    transport = CommandTransport(hanging)
    while hanging.answers:
        with contextlib.suppress(TransportError):
            transport.send(Request(method="GET", path="/api"))
    assert capsys.readouterr().err.splitlines() == ["waiting for the API server ..."]
