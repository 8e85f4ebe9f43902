"""A raw client for tests: one call, one answer, JSON in and out, nothing retried or hidden.

Independent of ``rescheduler.kube`` on purpose: tests look at an API server with other eyes than the program.
"""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import urllib3
import yaml
from urllib3.exceptions import HTTPError, ReadTimeoutError

from rescheduler.kube.transport import Request, Response, SilenceError, Stream, TransportError

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"

Json = dict[str, Any]


_BROKEN: Final = (HTTPError, OSError, ValueError, AttributeError)
"""AttributeError: closed by another thread while it was read."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Status code, decoded body (empty for none) and headers in lower case."""

    status: int
    body: Json
    headers: Mapping[str, str]

    @property
    def ok(self) -> bool:
        """2xx."""
        return self.status < 300  # noqa: PLR2004  HTTP

    @property
    def uid(self) -> str:
        """metadata.uid of the object answered."""
        return str(self.body["metadata"]["uid"])

    @property
    def version(self) -> str:
        """metadata.resourceVersion of the object or list answered."""
        return str(self.body["metadata"]["resourceVersion"])

    @property
    def items(self) -> list[Json]:
        """The items of a list."""
        return list(self.body.get("items") or ())

    def expect(self, *statuses: int) -> Answer:
        """Itself, if the status is one of these (default: any 2xx); AssertionError with the body otherwise."""
        if (self.status in statuses) if statuses else self.ok:
            return self
        raise AssertionError(f"HTTP {self.status}: {json.dumps(self.body)[:2000]}")


class HttpStream:
    """An open watch over urllib3 (``kube.transport.Stream``)."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = {key.lower(): value for key, value in response.headers.items()}
        self._response = response
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        """Chunks as they arrive, until the server ends the stream or ``close`` is called."""
        try:
            yield from self._response.stream(amt=None, decode_content=True)
        except ReadTimeoutError as error:
            if not self._closed.is_set():
                raise SilenceError(str(error)) from error
        except _BROKEN as error:
            if not self._closed.is_set():
                raise TransportError(str(error)) from error

    def read_all(self) -> bytes:
        """The rest of the body."""
        return self._response.read()

    def close(self) -> None:
        """Shuts the socket down, so that a reader returns."""
        if not self._closed.is_set():
            self._closed.set()
            with contextlib.suppress(ValueError, RuntimeError):  # the server has ended it: no socket any more
                self._response.shutdown()
            # The reader has returned, and closes it at the same moment: http.client is not made for two threads.
            with contextlib.suppress(ValueError, AttributeError):
                self._response.close()


class HttpTransport:
    """``kube.transport.Transport`` over urllib3 with a bearer token."""

    def __init__(
        self, url: str, token: str = "", ca: str | None = None, accept: str = "", user: str = ""
    ) -> None:
        """``ca``: certificates as PEM text; None trusts the system's. ``accept``: the form of answers to ask for.

        ``user``: in whose name requests are sent, by impersonation; "": the token's.
        """
        headers = {"authorization": f"Bearer {token}"} if token else {}
        headers |= {"accept": accept} if accept else {}
        headers |= {"impersonate-user": user} if user else {}
        context = ssl.create_default_context(cadata=ca) if url.startswith("https") else None
        self._url = url.rstrip("/")
        self._pool = urllib3.PoolManager(
            maxsize=32, retries=False, headers=headers, ssl_context=context, cert_reqs="CERT_REQUIRED"
        )

    def send(self, request: Request) -> Response:
        """One request, one answer."""
        try:
            answer = self._open(request, preload=True)
        except (HTTPError, OSError) as error:
            raise TransportError(str(error)) from error
        return Response(
            answer.status, answer.data, {key.lower(): value for key, value in answer.headers.items()}
        )

    def stream(self, request: Request) -> Stream:
        """Opens a watch."""
        try:
            return HttpStream(self._open(request, preload=False))
        except (HTTPError, OSError) as error:
            raise TransportError(str(error)) from error

    def close(self) -> None:
        """Closes idle connections."""
        self._pool.clear()

    def _open(self, request: Request, *, preload: bool) -> urllib3.BaseHTTPResponse:
        url = self._url + request.path
        if request.query:
            url += "?" + urlencode(dict(request.query))
        headers = dict(self._pool.headers)
        if request.body:
            headers["content-type"] = request.content_type
        timeout = urllib3.Timeout(connect=5.0, read=request.timeout_s)
        return self._pool.request(
            request.method, url, body=request.body or None, headers=headers, timeout=timeout,
            preload_content=preload,
        )  # fmt: skip


class Api:
    """Short calls for tests. Paths are whole API paths; query values are given by keyword."""

    def __init__(self, transport: HttpTransport) -> None:
        self.transport = transport

    @classmethod
    def from_kubeconfig(cls, path: Path | str, accept: str = "") -> Api:
        """Client of the current context of a kubeconfig with a token (or none) and inline or named CA."""
        document = yaml.safe_load(Path(path).read_text())
        context = next(c["context"] for c in document["contexts"] if c["name"] == document["current-context"])
        cluster = next(c["cluster"] for c in document["clusters"] if c["name"] == context["cluster"])
        user: Json = next(
            (u["user"] for u in document.get("users", ()) if u["name"] == context.get("user")), {}
        )
        ca = cluster.get("certificate-authority-data")
        text = base64.b64decode(ca).decode() if ca else None
        if text is None and "certificate-authority" in cluster:
            text = Path(cluster["certificate-authority"]).read_text()
        return cls(HttpTransport(cluster["server"], user.get("token", ""), text, accept))

    def call(
        self,
        method: str,
        path: str,
        body: Json | list[Any] | None = None,
        /,
        *,
        content_type: str = "application/json",
        **query: str,
    ) -> Answer:
        """One call."""
        data = b"" if body is None else json.dumps(body).encode()
        answer = self.transport.send(
            Request(method=method, path=path, query=query, body=data, content_type=content_type)
        )
        try:
            decoded = json.loads(answer.body) if answer.body else {}
        except ValueError:
            decoded = {"text": answer.body.decode(errors="replace")}
        return Answer(answer.status, decoded, answer.headers)

    def get(self, path: str, **query: str) -> Answer:
        """GET."""
        return self.call("GET", path, None, **query)

    def create(self, path: str, body: Json, **query: str) -> Answer:
        """POST."""
        return self.call("POST", path, body, **query)

    def update(self, path: str, body: Json, **query: str) -> Answer:
        """PUT."""
        return self.call("PUT", path, body, **query)

    def patch(self, path: str, body: Json | list[Any], kind: str = MERGE, **query: str) -> Answer:
        """PATCH of one of the kinds."""
        return self.call("PATCH", path, body, content_type=kind, **query)

    def delete(self, path: str, body: Json | None = None, **query: str) -> Answer:
        """DELETE."""
        return self.call("DELETE", path, body, **query)

    def watch(self, path: str, *, seconds: int = 10, **query: str) -> Iterator[Json]:
        """Events of one watch of at most that many seconds; the stream is closed when the caller stops."""
        everything = {**query, "watch": "true", "timeoutSeconds": str(seconds)}
        stream = self.transport.stream(
            Request(method="GET", path=path, query=everything, timeout_s=seconds + 5.0)
        )
        try:
            if stream.status != 200:  # noqa: PLR2004  HTTP
                yield {"type": "HTTP", "object": json.loads(stream.read_all()), "status": stream.status}
                return
            yield from lines(stream)
        finally:
            stream.close()


def lines(stream: Stream) -> Iterator[Json]:
    """Decoded lines of a watch."""
    rest = b""
    for chunk in stream:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (json.loads(line) for line in whole if line.strip())
