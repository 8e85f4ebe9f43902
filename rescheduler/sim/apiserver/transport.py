"""The API server as a ``Transport`` without sockets: same bytes, no network."""

from __future__ import annotations

from collections.abc import Iterator

from rescheduler.kube.transport import Request, Response, Stream
from rescheduler.sim.apiserver.errors import ApiError
from rescheduler.sim.apiserver.server import ApiServer


class RefusedStream:
    """The stream of a watch that was refused: a status and a body, no events."""

    def __init__(self, answer: Response) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._body = answer.body

    def __iter__(self) -> Iterator[bytes]:
        yield self._body

    def read_all(self) -> bytes:
        """The body."""
        return self._body

    def close(self) -> None:
        """Nothing to end."""


class InProcessTransport:
    """Sends requests to an ``ApiServer`` in this process."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def send(self, request: Request) -> Response:
        """One request, one answer."""
        return self._server.handle(request)

    def stream(self, request: Request) -> Stream:
        """Opens a watch."""
        try:
            return self._server.open_watch(request)
        except ApiError:
            return RefusedStream(self._server.handle(request))
