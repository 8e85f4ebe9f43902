"""An API server that only reads: a generated cluster as paged lists and watches, then as many events as asked.

``python -m bench.apiserver --nodes 5000`` prints its port. It exists to measure the controller and the commands from
outside: it knows no writes, no selectors and no history. ``/bench/rate?per_second=2000`` sets how many pods a second
change.
"""

from __future__ import annotations

import argparse
import itertools
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from bench.generate import objects
from bench.shapes import Shape
from rescheduler.model.decode.dump import TypeName, items_within
from rescheduler.model.kinds import RESOURCES, Kind

_VERSION = re.compile(rb'"resourceVersion":"\d+"')
_FIRST_VERSION = 100_000_000
_CHUNK_BYTES = 1 << 16
_BOOKMARK_S = 20.0
_TICK_S = 0.01
_GROUPS = {
    "/apis/rescheduler.dev/v1alpha1": ("reservations", "podmigrations"),
    "/apis/events.k8s.io/v1": ("events",),
    "/apis/admissionregistration.k8s.io/v1": ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
}


class World:
    """The objects, by the path of their collection, and the pace of events."""

    def __init__(self, shape: Shape) -> None:
        self.collections: dict[str, list[bytes]] = {r.collection_path: [] for r in RESOURCES.values()}
        paths = {kind.value: resource.collection_path for kind, resource in RESOURCES.items()}
        for raw in objects(shape):
            for item in items_within(memoryview(raw), 1, TypeName()):
                self.collections[paths[item.type.kind]].append(raw)
        self.per_second = 0
        self.sent = 0
        self.versions = itertools.count(_FIRST_VERSION)

    def changed(self, raw: bytes) -> bytes:
        """The object once more, with a newer version."""
        return _VERSION.sub(b'"resourceVersion":"%d"' % next(self.versions), raw, count=1)


class Handler(BaseHTTPRequestHandler):
    """Reads only."""

    protocol_version = "HTTP/1.1"
    world: World

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing is logged."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        path, namespace = _within(parts.path)
        if parts.path == "/bench/rate":
            self.world.per_second = int(query["per_second"])
            self._answer(b'{"sent":%d}' % self.world.sent)
        elif parts.path == "/version":
            self._answer(b'{"major":"1","minor":"37","gitVersion":"v1.37.0"}')
        elif parts.path == "/apis":
            self._answer(b'{"kind":"APIGroupList","groups":[]}')
        elif parts.path in _GROUPS:
            names = ",".join(f'{{"name":"{name}"}}' for name in _GROUPS[parts.path])
            self._answer(f'{{"kind":"APIResourceList","resources":[{names}]}}'.encode())
        elif path in self.world.collections:
            self._collection(path, query, namespace)
        else:
            self._answer(b'{"kind":"Status","status":"Failure","reason":"NotFound","code":404}', 404)

    def _answer(self, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _collection(self, path: str, query: dict[str, str], namespace: bytes) -> None:
        everything = self.world.collections[path]
        if namespace:
            everything = [raw for raw in everything if b'"namespace":"%s"' % namespace in raw]
        if "watch" not in query:
            start, limit = int(query.get("continue", "0")), int(query.get("limit", "500"))
            token = str(start + limit) if start + limit < len(everything) else ""
            body = b'{"kind":"List","metadata":{"resourceVersion":"%d","continue":"%s"},"items":[%s]}'
            items = b",".join(everything[start : start + limit])
            self._answer(body % (_FIRST_VERSION, token.encode(), items))
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for piece in self._stream(path, everything, initial="sendInitialEvents" in query):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        except OSError:
            self.close_connection = True

    def _stream(self, path: str, everything: list[bytes], *, initial: bool) -> Iterator[bytes]:
        kind = next(kind for kind, resource in RESOURCES.items() if resource.collection_path == path)
        if initial:
            yield from _joined(b'{"type":"ADDED","object":%s}\n' % raw for raw in everything)
            yield _bookmark(kind, end=True)
        bookmark_at_s, due = time.monotonic() + _BOOKMARK_S, 0.0
        pods = itertools.cycle(everything[:: max(1, len(everything) // 20_000)])
        while True:
            time.sleep(_TICK_S)
            if time.monotonic() >= bookmark_at_s:
                bookmark_at_s += _BOOKMARK_S
                yield _bookmark(kind, end=False)
            if kind is not Kind.POD or not self.world.per_second:
                begun_s, count = time.monotonic(), 0
                continue
            due = (time.monotonic() - begun_s) * self.world.per_second
            number = int(due) - count
            if number > 0:
                count += number
                self.world.sent += number
                changed = (self.world.changed(raw) for raw in itertools.islice(pods, number))
                yield b"".join(b'{"type":"MODIFIED","object":%s}\n' % raw for raw in changed)


def _joined(lines: Iterator[bytes]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    size = 0
    for line in lines:
        waiting.append(line)
        size += len(line)
        if size >= _CHUNK_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def _within(path: str) -> tuple[str, bytes]:
    """The path of the collection over all namespaces, and the namespace."""
    before, found, rest = path.partition("/namespaces/")
    namespace, _, resource = rest.partition("/")
    return (f"{before}/{resource}", namespace.encode()) if found and resource else (path, b"")


def _bookmark(kind: Kind, *, end: bool) -> bytes:
    notes = b',"annotations":{"k8s.io/initial-events-end":"true"}' if end else b""
    return b'{"type":"BOOKMARK","object":{"kind":"%s","metadata":{"resourceVersion":"%d"%s}}}\n' % (
        kind.value.encode(),
        _FIRST_VERSION,
        notes,
    )


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description="Serve a generated cluster for reading.")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods-per-node", type=int, default=30)
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    Handler.world = World(Shape(nodes=given.nodes, pods_per_node=given.pods_per_node))
    server = ThreadingHTTPServer(("127.0.0.1", given.port), Handler)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever).start()


if __name__ == "__main__":
    main()
