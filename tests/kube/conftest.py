"""A small HTTP server over raw sockets that misbehaves on command, and a fake Transport."""

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest

from rescheduler.kube.transport import Request, Response


class Clock:
    """Seconds that pass only while somebody sleeps."""

    def __init__(self):
        self.now_s, self.slept = 0.0, []

    def __call__(self):
        return self.now_s

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now_s += seconds


@pytest.fixture
def clock(mocker):
    """The clock of tenacity's strategies; a jitter is always the whole of its ceiling."""
    made = Clock()
    mocker.patch("tenacity.time.monotonic", made)
    mocker.patch("tenacity.wait.random.uniform", lambda low, high: high)
    return made


@dataclass
class Call:
    method: str
    path: str
    query: dict
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


@dataclass
class Exchange:
    """One request and the socket on which the test answers as badly as it likes."""

    call: Call
    sock: socket.socket
    stopping: threading.Event

    def raw(self, data: bytes) -> None:
        self.sock.sendall(data)

    def answer(self, status: int, body: bytes, headers: dict | None = None) -> None:
        head = {"Content-Type": "application/json", "Content-Length": len(body), **(headers or {})}
        lines = "".join(f"{key}: {value}\r\n" for key, value in head.items())
        self.raw(f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode() + body)

    def json(self, status: int, body, headers: dict | None = None) -> None:
        self.answer(status, json.dumps(body).encode(), headers)

    def status(self, code: int, reason: str = "", message: str = "", headers=None, **details) -> None:
        self.json(code, status_body(code, reason, message, **details), headers)

    def open_stream(self) -> None:
        self.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")

    def chunk(self, data: bytes) -> None:
        self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    def event(self, kind: str, item: dict) -> None:
        self.chunk(json.dumps({"type": kind, "object": item}).encode() + b"\n")

    def end_stream(self) -> None:
        self.raw(b"0\r\n\r\n")

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise ConnectionAbortedError  # unwinds the connection's thread, which closes the socket with RST

    def cut(self) -> None:
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

    def hang(self) -> None:
        """Half-open: nothing more ever comes, the connection stays."""
        self.stopping.wait(30)
        self.cut()


def status_body(code: int, reason: str = "", message: str = "", **details) -> dict:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    return {**body, "reason": reason, "message": message, **({"details": details} if details else {})}


class FaultServer:
    """Each request goes to ``handler(exchange)`` on a thread of its connection."""

    def __init__(self, handler: Callable[[Exchange], None]) -> None:
        self.handler = handler
        self.calls: list[Call] = []
        self.connections = 0
        self._stopping = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), sock, sock.makefile("rb") as reader:
            sock.settimeout(30)
            while not self._stopping.is_set() and (call := read_call(reader)):
                self.calls.append(call)
                self.handler(Exchange(call, sock, self._stopping))


def read_call(reader) -> Call | None:
    first = reader.readline().decode()
    if not first:
        return None
    method, target, _ = first.split()
    headers = {}
    while (line := reader.readline().decode().strip()) != "":
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = reader.read(int(headers.get("content-length", 0)))
    parts = urlsplit(target)
    return Call(method, parts.path, dict(parse_qsl(parts.query, keep_blank_values=True)), headers, body)


@pytest.fixture
def fault_server():
    """Factory of servers; all are closed at the end."""
    servers = []

    def start(handler) -> FaultServer:
        servers.append(FaultServer(handler))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@dataclass
class FakeTransport:
    """Answers from a function; remembers the requests. An exception instead of an answer is raised."""

    answer: Callable[[Request], object]
    sent: list = field(default_factory=list)

    def send(self, request: Request) -> Response:
        self.sent.append(request)
        found = self.answer(request)
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, Response) else reply(200, found)

    def stream(self, request: Request):
        raise AssertionError("no watch expected")


def reply(status: int, body, headers: dict | None = None) -> Response:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return Response(status, data, headers or {})


@pytest.fixture
def fake_transport():
    return FakeTransport


@pytest.fixture
def answer():
    """Make a Response: answer(status, body, headers)."""
    return reply


@pytest.fixture
def refusal():
    """Make a Response with a Status body: refusal(code, reason, message, **details)."""
    return lambda code, reason="", message="", **details: reply(
        code, status_body(code, reason, message, **details)
    )
