import http.client
import re
import socket

import pytest

from rescheduler.controller.metrics import Metrics, MoveResult
from rescheduler.controller.server import HealthReport, Heartbeat, Server, probes
from rescheduler.kube.reflector import EndKind
from rescheduler.model.kinds import Kind
from rescheduler.model.outcomes import EvictionOutcome
from rescheduler.planning.plan import SkipReason

_BOUNDED = {
    "answer", "outcome", "result", "reason", "kind", "key", "le", "version", "step", "policy", "tier",
    "phase", "state",
}  # fmt: skip
"""Labels of which a cluster has few values, whatever runs on it; those of ``policy`` are the policies in force."""


class FakeInformer:
    kind, decode_errors, objects, synced = Kind.POD, 2, 7, True
    relists = dict.fromkeys(EndKind, 0) | {EndKind.EXPIRED: 3}

    def stale_for_s(self):
        return 1.5


@pytest.fixture
def server():
    servers = []

    def start(**answers):
        options = {
            "health": lambda: HealthReport(ok=True),
            "ready": lambda: HealthReport(ok=True),
            "metrics": lambda: b"m 1\n",
            **answers,
        }
        servers.append(Server(port=0, host="127.0.0.1", routes=probes(**options)))
        servers[-1].start()
        return servers[-1]

    yield start
    for one in servers:
        one.stop()


def get(server, path, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request(method, path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def test_each_path_has_its_own_answer(server):
    running = server(ready=lambda: HealthReport(ok=False, reason="waiting for Pod"))
    assert get(running, "/healthz") == (200, "ok\n")
    assert get(running, "/readyz?verbose") == (503, "waiting for Pod\n")
    assert get(running, "/metrics") == (200, "m 1\n")
    assert get(running, "/secret")[0] == 404
    assert get(running, "/healthz", "HEAD") == (200, "")
    assert get(running, "/healthz", "POST")[0] == 405


def test_a_silent_client_holds_nobody_up(server):
    running = server()
    with socket.create_connection(("127.0.0.1", running.port)) as silent:
        silent.send(b"GET /hea")
        assert get(running, "/healthz")[0] == 200


def test_stopping_frees_the_port(server):
    running = server()
    port = running.port
    running.stop()
    with socket.create_server(("127.0.0.1", port)) as taken:
        assert taken.getsockname()[1] == port


def test_health_is_the_heart_beat_of_the_loop():
    now = [0.0]
    heart = Heartbeat(limit_s=60, clock=lambda: now[0])
    now[0] = 59
    assert heart.report().ok
    now[0] = 90
    assert heart.report() == HealthReport(ok=False, reason="the loop has stood still for 90 s")
    heart.beat()
    assert heart.report().ok


@pytest.fixture
def metrics():
    return Metrics()


def samples(metrics):
    lines = [line for line in metrics.render().decode().splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_every_series_is_there_from_the_start(metrics):
    found = samples(metrics)
    for outcome in EvictionOutcome:
        assert found[f'rescheduler_evictions_total{{outcome="{outcome}"}}'] == 0
    for result in MoveResult:
        assert found[f'rescheduler_moves_landed_total{{result="{result}"}}'] == 0
    for reason in SkipReason:
        assert found[f'rescheduler_moves_blocked{{reason="{reason}"}}'] == 0
    assert found["rescheduler_reservations_available_total"] == 0
    assert found["rescheduler_leader"] == 0


def test_two_registries_do_not_meet(metrics):
    metrics.moves_planned.inc()
    assert samples(Metrics())["rescheduler_moves_planned_total"] == 0


def test_blocked_moves_are_of_the_last_decision_only(metrics):
    metrics.blocked({SkipReason.NO_TARGET: 4})
    metrics.blocked({SkipReason.COOLDOWN: 1})
    found = samples(metrics)
    assert found['rescheduler_moves_blocked{reason="NoTarget"}'] == 0
    assert found['rescheduler_moves_blocked{reason="WorkloadCooldown"}'] == 1


def test_caches_are_read_when_they_are_asked_for(metrics):
    informer = FakeInformer()
    metrics.watch_informers([informer])
    assert samples(metrics)['rescheduler_cache_objects{kind="Pod"}'] == 7
    informer.objects = 8
    found = samples(metrics)
    assert found['rescheduler_cache_objects{kind="Pod"}'] == 8
    assert found['rescheduler_cache_age_seconds{kind="Pod"}'] == 1.5
    assert found['rescheduler_relists_total{kind="Pod",reason="expired"}'] == 3
    assert found['rescheduler_decode_errors_total{kind="Pod"}'] == 2


def test_names_follow_the_conventions_and_labels_are_bounded(metrics):
    metrics.watch_informers([FakeInformer()])
    for series in samples(metrics):
        name, labels = re.fullmatch(r"(\w+)(\{.*\})?", series).groups()
        assert name.startswith("rescheduler_")
        for label in re.findall(r'(\w+)="', labels or ""):
            assert label in _BOUNDED
