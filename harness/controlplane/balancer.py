"""A balancer of TCP connections in front of several API servers, as clusters with more than one have it.

A new connection goes to the first server that accepts one; when a server ends, its connections end, and clients open them
again. It looks at no content, so TLS is spoken between client and server.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from typing import Final, Self

_CONNECT_S: Final = 2.0
_PIECE: Final = 65_536


class Balancer:
    """Context manager; listens on a free port. ``ports`` may be set at any time."""

    def __init__(self) -> None:
        self.ports: Sequence[int] = ()
        self._turn = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()

    @property
    def url(self) -> str:
        """Where clients connect to."""
        return f"https://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="balancer", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in list(self._open):
            _end(each)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = self._connected()
            if server is None:
                client.close()
                continue
            self._open |= {client, server}
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _connected(self) -> socket.socket | None:
        """A connection to one of the servers, in turn."""
        self._turn += 1
        for index in range(len(self.ports)):
            port = self.ports[(self._turn + index) % len(self.ports)]
            with contextlib.suppress(OSError):
                server = socket.create_connection(("127.0.0.1", port), timeout=_CONNECT_S)
                server.settimeout(None)
                return server
        return None

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE):
                target.sendall(piece)
        for each in (source, target):
            _end(each)
            self._open.discard(each)


def _end(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
