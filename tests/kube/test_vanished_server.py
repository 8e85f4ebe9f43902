"""A server that vanishes without a word: its connections stay open, and nothing comes over them any more.

As behind a load balancer or a firewall that forgets connections. The watch must be back within the limits of
``tests/controller/limits_of_a_move.py``; here the silence is shortened, after it was compared with that table.
"""

import dataclasses
import queue
import socket
import threading
import time
from contextlib import suppress

import pytest

from rescheduler.kube.config_map_informer import ConfigMapInformer
from rescheduler.kube.connection import connect_to
from rescheduler.kube.informer import Informer, SharedDecoder
from rescheduler.kube.transport import Request, TransportError
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.times import SILENCE_S

SHORT_S = 0.5
ENOUGH_S = 20.0
IDLE = 4
GET = Request(method="GET", path="/api/v1/nodes", timeout_s=SHORT_S)


def node(name, version):
    return {"kind": "Node", "metadata": {"name": name, "uid": name, "resourceVersion": version}}


def serves(*added, kind="Node"):
    """Lists are empty; each watch has one of these nodes, in turn, and then nothing."""
    left = list(added)

    def answer(exchange):
        if "watch" not in exchange.call.query:
            exchange.json(200, {"kind": f"{kind}List", "metadata": {"resourceVersion": "1"}, "items": []})
            return
        exchange.open_stream()
        if left:
            exchange.event("ADDED", left.pop(0))
        exchange.hang()

    return answer


def at_once(number, function):
    threads = [threading.Thread(target=function) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Between:
    """A proxy. ``vanish``: what is connected now stays so, and nothing passes any more; new connections are served."""

    def __init__(self, port):
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets, self._live = [], []
        threading.Thread(target=self._accept, daemon=True).start()

    def vanish(self):
        for passes in self._live:
            passes.clear()
        self._live = []

    def close(self):
        for one in (self._listener, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                passes = threading.Event()
                passes.set()
                self._sockets += [near, far]
                self._live.append(passes)
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=(source, sink, passes), daemon=True).start()

    def _pump(self, source, sink, passes):
        with suppress(OSError):
            while data := source.recv(65_536):
                if passes.is_set():
                    sink.sendall(data)


class Shortened:
    """Passes requests on with a shorter silence, and keeps that of watches as it was asked for."""

    def __init__(self, transport):
        self.transport, self.silences_s = transport, []

    def send(self, request):
        return self.transport.send(request)

    def stream(self, request):
        self.silences_s.append(request.timeout_s)
        return self.transport.stream(dataclasses.replace(request, timeout_s=SHORT_S))


@pytest.fixture
def between(fault_server):
    made = []

    def start(script):
        server = fault_server(script)
        made.append(Between(int(server.url.rsplit(":", 1)[1])))
        return made[0]

    yield start
    for one in made:
        one.close()


def test_a_watch_whose_server_vanished_is_back_after_one_silence(between):
    proxy = between(serves(node("a", "11"), node("b", "12")))
    transport, seen = Shortened(connect_to(proxy.url)), queue.SimpleQueue()
    decoder = SharedDecoder(Decoder())
    informer = Informer(
        Kind.NODE, RESOURCES[Kind.NODE], transport, decoder, seen, watch_list=False, chance=lambda: 0.01
    )
    informer.start()
    try:
        assert until(seen, "a")
        proxy.vanish()
        since_s = time.monotonic()
        assert until(seen, "b")
        assert time.monotonic() - since_s < 2 * SHORT_S
    finally:
        informer.stop()
        assert informer.join(5)
    assert transport.silences_s == [SILENCE_S, SILENCE_S]


def until(seen, name):
    while (event := seen.get(timeout=ENOUGH_S)).record is None or event.record.name != name:
        pass
    return True


@pytest.mark.parametrize("noticed_by", ["call", "watch"])
def test_once_one_connection_is_dead_no_idle_one_is_used(between, noticed_by):
    """Else each of the next calls, and of the watches that begin again, would wait for a whole time limit."""
    together, lists = threading.Barrier(IDLE), serves()

    def answer(exchange):
        if "watch" not in exchange.call.query:
            together.wait(ENOUGH_S)  # each of them on a connection of its own
        lists(exchange)

    proxy = between(answer)
    transport, statuses = connect_to(proxy.url), []
    at_once(IDLE, lambda: statuses.append(transport.send(GET).status))
    watch = transport.stream(dataclasses.replace(GET, query={"watch": "1"}))
    proxy.vanish()
    with pytest.raises(TransportError):
        transport.send(GET) if noticed_by == "call" else list(watch)
    at_once(IDLE, lambda: statuses.append(transport.send(GET).status))
    watch.close()
    assert not list(watch), "its reader gives the connection back"
    transport.close()
    assert statuses == [200] * 2 * IDLE


def test_the_watch_of_a_config_map_is_left_after_the_same_silence(between):
    transport = Shortened(connect_to(between(serves(kind="ConfigMap")).url))
    informer = ConfigMapInformer(transport, "rescheduler", "gate-keys")
    informer.start()
    try:
        ends_s = time.monotonic() + ENOUGH_S
        while len(transport.silences_s) < 2 and time.monotonic() < ends_s:
            time.sleep(0.01)
    finally:
        informer.stop()
    assert len(transport.silences_s) >= 2
    assert set(transport.silences_s) == {SILENCE_S}
