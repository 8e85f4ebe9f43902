"""HTTP/1.1 server for an ``ApiServer``: keep-alive, chunked watches, one write for each response and event.

It listens on the loopback interface by default, and asks nobody who they are.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import msgspec
import yaml

from kube_sandbox.apiserver.errors import StatusError
from kube_sandbox.apiserver.server import ApiServer
from kube_sandbox.apiserver.watch import WatchStream
from rescheduler.kube.transport import Request, Response

_LARGEST_BODY = 3 * 1024 * 1024
_REASONS = {200: "OK", 201: "Created", 404: "Not Found", 409: "Conflict"}


class HttpServer:
    """A running server. Clients connect by ``url`` or ``kubeconfig_text``; ``close`` ends it and its watches."""

    def __init__(self, app: ApiServer, host: str, port: int) -> None:
        self._http = _Listener((host, port), _Handler)
        self._http.app = app
        self.port: int = self._http.server_address[1]
        self.url = f"http://{host}:{self.port}"
        self._thread = threading.Thread(target=self._http.serve_forever, name="apiserver", daemon=True)
        self._thread.start()

    @property
    def kubeconfig_text(self) -> str:
        """A kubeconfig with one context, ``sandbox``."""
        context = {"cluster": "sandbox", "user": "sandbox", "namespace": "default"}
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "sandbox", "cluster": {"server": self.url}}],
                "users": [{"name": "sandbox", "user": {}}],
                "contexts": [{"name": "sandbox", "context": context}],
                "current-context": "sandbox",
            },
            sort_keys=False,
        )

    def close(self) -> None:
        """Stop accepting, and end open watches and connections."""
        self._http.shutdown()
        self._http.end_connections()
        self._http.server_close()
        self._thread.join(timeout=5)


def serve(app: ApiServer, *, host: str = "127.0.0.1", port: int = 0) -> HttpServer:
    """Start serving ``app``. ``port`` 0: a free port."""
    return HttpServer(app, host, port)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
    app: ApiServer

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._guard = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._streams: set[WatchStream] = set()

    def joined(self, connection: socket.socket) -> None:
        with self._guard:
            self._connections.add(connection)

    def left(self, connection: socket.socket) -> None:
        with self._guard:
            self._connections.discard(connection)

    def streaming(self, stream: WatchStream) -> None:
        with self._guard:
            self._streams.add(stream)

    def streamed(self, stream: WatchStream) -> None:
        with self._guard:
            self._streams.discard(stream)

    def end_connections(self) -> None:
        with self._guard:
            connections, streams = tuple(self._connections), tuple(self._streams)
        for stream in streams:
            stream.close()
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that clients drop."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Listener
    disable_nagle_algorithm = True
    wbufsize = 0
    _bodyless: ClassVar[frozenset[str]] = frozenset({"GET", "HEAD"})

    def setup(self) -> None:
        super().setup()
        self.server.joined(self.connection)

    def finish(self) -> None:
        self.server.left(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Do not log requests."""

    def _serve(self) -> None:
        split = urlsplit(self.path)
        headers = {key.lower(): value for key, value in self.headers.items()}
        body = self._body(headers)
        if body is None:
            self._send(
                _refusal_of(StatusError(413, "RequestEntityTooLarge", "the body is larger than 3 MiB"))
            )
            return
        request = Request(
            method=self.command,
            path=split.path,
            query=dict(parse_qsl(split.query, keep_blank_values=True)),
            body=body,
            content_type=headers.get("content-type", ""),
        )
        if self.server.app.is_watch(request):
            self._watch(request, headers)
        else:
            self._send(self.server.app.handle(request, headers))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _serve  # noqa: N815 - http.server

    def _body(self, headers: Mapping[str, str]) -> bytes | None:
        length = int(headers.get("content-length") or 0)
        if length > _LARGEST_BODY:
            self.close_connection = True
            return None
        return self.rfile.read(length) if length else b""

    def _lines_of_all(self) -> tuple[str, ...]:
        date = formatdate(self.server.app.store.clock(), usegmt=True)
        return (
            "audit-id: 00000000-0000-0000-0000-000000000000",
            "cache-control: no-cache, private",
            f"date: {date}",
        )

    def _send(self, answer: Response) -> None:
        body = answer.body
        lines = [f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'Status')}", *self._lines_of_all()]
        lines += [f"{key}: {value}" for key, value in answer.headers.items()]
        lines.append(f"content-length: {len(body)}")
        if self.close_connection:
            lines.append("connection: close")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
        self.wfile.write(head if self.command == "HEAD" else head + body)

    def _watch(self, request: Request, headers: Mapping[str, str]) -> None:
        try:
            stream = self.server.app.open_watch(request, headers)
        except StatusError as error:
            self._send(_refusal_of(error))
            return
        self.server.streaming(stream)
        lines = [
            "HTTP/1.1 200 OK",
            *self._lines_of_all(),
            "content-type: application/json",
            "transfer-encoding: chunked",
        ]
        try:
            self.wfile.write(("\r\n".join(lines) + "\r\n\r\n").encode())
            for line in stream:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
        finally:
            stream.close()
            self.server.streamed(stream)


def _refusal_of(error: StatusError) -> Response:
    headers = {"content-type": "application/json", **{k.lower(): v for k, v in error.headers.items()}}
    return Response(error.code, msgspec.json.encode(error.status_object), headers)
