"""A controller that starts while its API server is away, or only starts."""

import threading

import pytest

from harness.controlplane import manifests
from rescheduler.cli.run import PATIENCE_S
from rescheduler.controller import first_look
from rescheduler.kube.discovery import Capabilities, ServerVersion
from rescheduler.kube.errors import ForbiddenError, RejectedError, TryLaterError, UnauthorizedError
from rescheduler.kube.retry import DEADLINE_S
from rescheduler.kube.transport import TransportError

SERVER = Capabilities(version=ServerVersion(1, 37, "v1.37.0"))
AWAY = [TransportError("refused"), TryLaterError(503, "", "etcd"), UnauthorizedError(401, "", ""), ForbiddenError(403, "", "")]  # fmt: skip


class Configured:
    """A configuration that can be read once the server answers."""

    def __init__(self, *errors):
        self.errors, self.tries = list(errors), 0

    def start(self):
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)


@pytest.fixture
def look(monkeypatch):
    monkeypatch.setattr(first_look, "_ASK_AGAIN_S", 0.001)
    monkeypatch.setattr(first_look, "discover", lambda _api: SERVER)

    def look(configuration, patience_s, *, stop=None):
        return first_look.first_look(configuration, None, stop or threading.Event(), patience_s=patience_s)

    return look


def test_an_api_server_that_starts_is_waited_for(look):
    configuration = Configured(*AWAY)
    assert look(configuration, 60.0) is SERVER
    assert configuration.tries == len(AWAY) + 1


@pytest.mark.parametrize("error", AWAY)
def test_without_patience_what_it_says_ends_the_process(look, error):
    with pytest.raises(type(error)):
        look(Configured(error), 0.0)


def test_what_time_does_not_cure_is_told_at_once(look):
    with pytest.raises(RejectedError):
        look(Configured(RejectedError(400, "", "")), 60.0)


def test_a_process_that_is_stopped_meanwhile_ends(look):
    stop = threading.Event()
    stop.set()
    assert look(Configured(*AWAY), 60.0, stop=stop) is None


def test_the_startup_probe_lets_it_wait_so_long():
    (pod,) = (obj["spec"]["template"]["spec"] for obj in manifests.load() if obj["kind"] == "Deployment")
    probe = pod["containers"][0]["startupProbe"]
    assert probe["failureThreshold"] * probe["periodSeconds"] > PATIENCE_S + DEADLINE_S
