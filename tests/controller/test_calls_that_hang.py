"""A call that is not answered holds up what waits for it alone: the core thread goes on, and so do all other moves."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from harness.controlplane.controllers import running
from harness.controlplane.world import World, node_of
from rescheduler.controller.server import HealthReport

LIMIT_S = 120.0
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@dataclass
class Hanging:
    """A transport on which chosen requests wait until they are let go. ``threads``: those in which such requests wait."""

    transport: object
    chosen: Callable[[object], bool] = lambda _: False
    let_go: threading.Event = field(default_factory=threading.Event)
    threads: set[str] = field(default_factory=set)

    def send(self, request):
        if self.chosen(request) and not self.let_go.is_set():
            self.threads.add(threading.current_thread().name)
            assert self.let_go.wait(10 * LIMIT_S)
        return self.transport.send(request)

    def stream(self, request):
        return self.transport.stream(request)


@contextmanager
def controller(api, chosen, **changes):
    hanging = Hanging(api.transport, chosen)
    with running(hanging, **changes) as running_one:
        try:
            yield running_one, hanging
        finally:
            hanging.let_go.set()


@pytest.fixture(scope="module")
def cluster(embedded_api):
    return embedded_api


@contextmanager
def furnished(api, name):
    """A namespace with a pod on a node, and another node to go to."""
    with World(api, name) as world:
        world.node("src", cpu="2")
        world.running("Deployment", "web", 1)
        world.node("dst", cpu="2")
        yield world


@pytest.fixture
def slow(cluster):
    with furnished(cluster, "slow") as world:
        yield world


@pytest.fixture
def quick(cluster):
    with furnished(cluster, "quick") as world:
        yield world


def move(world):
    (pod,) = world.pods("web")
    there = node_of(pod)
    target = next(n for n in (f"{world.namespace}-src", f"{world.namespace}-dst") if n != there)
    return world.migrate(pod, target, ttl="20m")


def succeeded(world, name):
    phase = world.wait(lambda: _ended(world.move_status(name)), LIMIT_S)
    return phase == "Succeeded"


def _ended(status):
    return status.get("phase") if status.get("phase") in ("Succeeded", "Failed") else ""


def waits(world, hanging):
    """Until a chosen request hangs, which must not be in the core thread."""
    world.wait(lambda: hanging.threads, LIMIT_S)


def never_in_the_core_thread(hanging):
    return hanging.threads and "controller" not in hanging.threads


@pytest.mark.parametrize("what", ["patches of pods", "dry-run creations", "evictions", "everything of moves"])
def test_a_namespace_that_does_not_answer_holds_up_its_own_moves_only(cluster, slow, quick, what):
    theirs = f"/namespaces/{slow.namespace}/"
    chosen = {
        "patches of pods": lambda r: r.method == "PATCH" and f"{theirs}pods/" in r.path,
        "dry-run creations": lambda r: r.method == "POST" and r.path.endswith(f"{theirs}pods"),
        "evictions": lambda r: r.path.endswith("/eviction") and theirs in r.path,
        "everything of moves": lambda r: f"{theirs}podmigrations/" in r.path,
    }[what]
    with controller(cluster, chosen) as (work, hanging):
        late = move(slow)
        waits(slow, hanging)
        for _ in range(3):
            assert succeeded(quick, move(quick))
        assert work.controller._heartbeat.report() == HealthReport(ok=True)
        assert not _ended(slow.move_status(late))
        assert never_in_the_core_thread(hanging)
        hanging.let_go.set()
        slow.wait(lambda: _ended(slow.move_status(late)), LIMIT_S)


def test_the_core_thread_sends_nothing_itself(cluster, quick):
    """A decision, its moves, their rooms, hand-overs, probes and the ConfigMaps: all of it is sent by other threads."""
    sent = {}

    def note(request):
        if work.controller.loop is not None and work.controller.loop.decision is not None:
            sent.setdefault(threading.current_thread().name, []).append(f"{request.method} {request.path}")
        return False

    with controller(
        cluster, lambda _: False, interval="1s", policies=[{"name": "NodeTaints", "after": "0s"}]
    ) as (work, hanging):
        quick.wait(lambda: work.controller.decision, LIMIT_S)
        hanging.chosen = note
        (pod,) = quick.pods("web")
        quick.taint(node_of(pod), "example.com/old")
        quick.wait(lambda: [node_of(p) for p in quick.pods("web")] == [f"{quick.namespace}-dst"], LIMIT_S)
    lines = [line for lines in sent.values() for line in lines]
    for path in ("podmigrations", "configmaps/gate-keys", "configmaps/move-history", "/eviction"):
        assert any(path in line for line in lines), path
    assert "controller" not in sent, sent["controller"]


# On the real control plane ----------------------------------------------------------------------------


@pytest.fixture
def silent_port():
    """A port on which somebody listens and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.mark.realcluster
def test_a_webhook_that_hangs_holds_up_its_own_namespace_only(real_api, silent_port):
    webhook = {
        "name": "hangs.example.com", "clientConfig": {"url": f"https://127.0.0.1:{silent_port}/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}],
        "timeoutSeconds": 30, "failurePolicy": "Fail", "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }  # fmt: skip
    with furnished(real_api, "slow") as slow, furnished(real_api, "quick") as quick:
        only = {"matchLabels": {"kubernetes.io/metadata.name": slow.namespace}}
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": f"hangs-{slow.namespace}"},
            "webhooks": [{**webhook, "namespaceSelector": only}],
        }
        theirs = f"/namespaces/{slow.namespace}/pods/"
        real_api.create(WEBHOOKS, body).expect()
        try:
            with controller(real_api, lambda _: False) as (work, hanging):
                patched = []

                def look(request):
                    if request.method == "PATCH" and theirs in request.path:
                        patched.append(threading.current_thread().name)
                    return False

                hanging.chosen = look
                move(slow)
                slow.wait(lambda: patched, LIMIT_S)
                for _ in range(3):
                    assert succeeded(quick, move(quick))
                assert work.controller._heartbeat.report() == HealthReport(ok=True)
                assert "controller" not in patched
        finally:
            real_api.delete(f"{WEBHOOKS}/hangs-{slow.namespace}").expect()
