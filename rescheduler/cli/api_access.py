"""The API server that a command talks to: what is slow is told early, and what does not answer ends in words.

A person waits for a command: so a request has a short time limit, a line on stderr says what is waited for, and a server
that was never reached is not tried again and again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from tenacity import stop_before_delay

from rescheduler.cli.output import tell
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ApiError
from rescheduler.kube.retry import Retry
from rescheduler.kube.transport import Request, Response, Stream, Transport, TransportError, UnreachableError

if TYPE_CHECKING:
    from rescheduler.kube.connection import HttpTransport

NOTICE_S: Final = 3.0
"""After so long a person is told what is waited for."""
REQUEST_TIMEOUT_S: Final = 15.0
PATIENCE_S: Final = 5.0
"""For so long what may pass by itself is tried again."""
_LOOK: Final = 64
_REMEDY: Final = "is it running, and are the address and the certificate in the kubeconfig right?"


def connected(kubeconfig: str | None, context: str | None) -> HttpTransport:
    """A connection by the options; a credential plugin that is slow is told. Raises KubeconfigError."""
    from rescheduler.kube.connection import connect  # noqa: PLC0415 - the help of a command needs no API client

    with notice("waiting for the credentials that the kubeconfig names ..."):
        return connect(kubeconfig, context)


def namespace_of_context(kubeconfig: str | None, context: str | None) -> str:
    """The namespace that kubectl would use. Raises KubeconfigError."""
    from rescheduler.kube.kubeconfig import default_namespace  # noqa: PLC0415 - as above

    return default_namespace(kubeconfig, context)


def api_of(kubeconfig: str | None, context: str | None, patience_s: float = PATIENCE_S) -> KubeApi:
    """A client of the API server that the options name, for a command. Raises KubeconfigError."""
    retry = Retry(stop=stop_before_delay(patience_s), gives_up=(UnreachableError,))
    return KubeApi(CommandTransport(connected(kubeconfig, context)), retry, timeout_s=REQUEST_TIMEOUT_S)


def why_refused(error: ApiError | TransportError) -> str:
    """What the API server said, for people; that it did not answer, if it did not."""
    if isinstance(error, ApiError):
        return error.message or str(error.status)
    return "no answer from the API server"


@contextmanager
def notice(text: str) -> Iterator[None]:
    """Tell ``text`` if the block takes long."""
    timer = threading.Timer(NOTICE_S, tell, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class CommandTransport:
    """A ``Transport`` whose first failure to reach the server is final. Usable from many threads."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._reached = False

    def send(self, request: Request) -> Response:
        """See ``Transport.send``; what answers and is no API server counts as no answer."""
        try:
            with notice("waiting for the API server ..."):
                answer = self._inner.send(request)
        except UnreachableError as error:
            if self._reached:
                raise TransportError(str(error)) from error
            raise UnreachableError(f"{error}; {_REMEDY}") from error
        if answer.status < HTTPStatus.MULTIPLE_CHOICES and not answer.body[:_LOOK].lstrip().startswith(b"{"):
            raise UnreachableError("what answers is no API server: is a proxy or a login page in between?")
        self._reached = True
        return answer

    def stream(self, request: Request) -> Stream:
        """See ``Transport.stream``."""
        return self._inner.stream(request)
