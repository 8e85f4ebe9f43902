"""What stands between the controller and a real API server shows it too little or too late: nothing is lost, and nothing evicted."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, field

import pytest

from harness.controlplane.api import Api
from harness.controlplane.controllers import running
from harness.controlplane.world import World, node_of
from rescheduler.kube.transport import Response, TransportError
from rescheduler.model.names import GATE_CONFIG_MAP

pytestmark = pytest.mark.realcluster

KEYS = f"/api/v1/namespaces/rescheduler/configmaps/{GATE_CONFIG_MAP}"
PLAIN = {"content-type": "text/plain; charset=utf-8"}
NOT_FOUND = b"404 page not found\n"


class Refused:
    """The stream of a request that is answered with 404 in plain text."""

    status, headers = 404, PLAIN

    def __iter__(self):
        return iter(())

    def read_all(self):
        return NOT_FOUND

    def close(self):
        pass


class Late:
    """A stream whose bytes arrive late."""

    def __init__(self, stream, between):
        self._stream, self._between = stream, between
        self.status, self.headers = stream.status, stream.headers
        self.read_all, self._chunks = stream.read_all, queue.SimpleQueue()

    def _read(self):
        try:
            for chunk in self._stream:
                self._chunks.put((time.monotonic(), chunk))
            self._chunks.put((0.0, None))
        except TransportError as error:
            self._chunks.put((0.0, error))

    def __iter__(self):
        threading.Thread(target=self._read, daemon=True).start()
        while True:
            came_s, chunk = self._chunks.get()
            if chunk is None:
                return
            if isinstance(chunk, TransportError):
                raise chunk
            time.sleep(max(0.0, came_s + self._between.late_s - time.monotonic()))
            yield chunk

    def close(self):
        self._stream.close()


@dataclass
class Between:
    """A proxy. ``unserved``: the end of paths that it answers itself, with 404; ``late_s``: how late it passes watches on."""

    transport: object
    unserved: str = ""
    late_s: float = 0.0
    refused: int = 0
    streams: list = field(default_factory=list)

    def _refuses(self, request):
        return bool(self.unserved) and self.unserved in request.path

    def send(self, request):
        if self._refuses(request):
            self.refused += 1
            return Response(404, NOT_FOUND, PLAIN)
        return self.transport.send(request)

    def stream(self, request):
        if self._refuses(request):
            self.refused += 1
            return Refused()
        found = Late(self.transport.stream(request), self)
        self.streams.append((request.path, found))
        return found

    def unserve(self, part):
        self.unserved = part
        for path, stream in self.streams:
            if part in path:
                stream.close()


@pytest.fixture
def between(control_plane):
    account = Api.from_kubeconfig(control_plane.kubeconfig_for("rescheduler", "rescheduler"))
    return Between(account.transport)


@pytest.fixture
def world(control_plane):
    with World(control_plane.api(), "sight") as world:
        yield world


def two_pods(world):
    world.node("source", cpu="4")
    world.workload("Deployment", "web", 2)
    pods = world.wait_ready("web", 2)
    return pods, world.node("target", cpu="4")


def reasons(world, *moves):
    return {world.move_status(name).get("reason") for name in moves}


def evicted(world, *moves):
    return [name for name in moves if world.move_status(name).get("evictedAt")]


def test_a_kind_that_a_proxy_does_not_serve_for_seconds_costs_time_only(world, between):
    (pod, _), target = two_pods(world)
    with running(between):
        name = world.migrate(pod, target, ttl="120s")
        world.wait(lambda: world.move_status(name).get("phase") in ("Reserving", "Evicting"))
        between.unserve("/podmigrations")
        time.sleep(6)
        assert between.refused > 3
        assert world.move_status(name).get("phase") != "Failed"
        between.unserved = ""
        world.wait(lambda: world.move_status(name).get("phase") == "Succeeded", 60)
    assert sorted(map(node_of, world.pods("web"))).count(target) == 1


def test_nothing_is_evicted_while_watches_are_late(world, between):
    pods, target = two_pods(world)
    with running(between):
        between.late_s = 8.0
        moves = [world.migrate(pod, target, ttl="300s") for pod in pods]
        world.wait(lambda: "LateWatch" in reasons(world, *moves), 90)
        time.sleep(5)
        assert evicted(world, *moves) == []
        between.late_s = 0.0
        done = ("Succeeded", "Succeeded")
        world.wait(lambda: tuple(world.move_status(n).get("phase") for n in moves) == done, 120)
    assert [node_of(pod) for pod in world.pods("web")] == [target, target]


def test_keys_that_another_controller_clears_all_the_time_stop_the_eviction(world, between):
    (pod, _), target = two_pods(world)
    stop = threading.Event()

    def clear():
        while not stop.wait(0.3):
            data = world.api.get(KEYS).body.get("data") or {}
            world.api.patch(KEYS, {"data": dict.fromkeys(data)})

    other = threading.Thread(target=clear, daemon=True)
    with running(between):
        other.start()
        name = world.migrate(pod, target, ttl="120s")
        time.sleep(6)
        assert evicted(world, name) == []
        stop.set()
        other.join()
        world.wait(lambda: world.move_status(name).get("phase") in ("Succeeded", "Failed"), 60)
    status = world.move_status(name)
    assert status["phase"] == "Succeeded" or status["reason"] == "GateNotInForce", status
