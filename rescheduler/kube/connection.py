"""A Transport over HTTP: the official client's TLS and credentials, urllib3's pool, no models, no retries.

Credentials are asked for before every request, so rotated tokens are used at once; after a 401 they are
loaded anew, and the request is sent once more only if they really changed (a 401 proves that nothing was
done). Connections have TCP keepalive; a stream that is silent for its time limit is broken off. Where nothing came in time, no
idle connection is used any more: they may be as dead, and each would cost its next user a whole time limit.
"""

from __future__ import annotations

import contextlib
import http.client
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlencode

import urllib3
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException
from urllib3 import exceptions
from urllib3.util.ssl_ import create_urllib3_context

from rescheduler import __version__
from rescheduler.kube.credentials import acting_as, header_value, with_pairs
from rescheduler.kube.errors import KubeconfigError
from rescheduler.kube.kubeconfig import Access, load_configuration
from rescheduler.kube.transport import Request, Response, SilenceError, TransportError, UnreachableError

CONNECT_TIMEOUT_S: Final = 10.0
DEFAULT_POOL_SIZE: Final = 64
"""Workers plus watches."""
_RELOAD_PAUSE_S: Final = 5.0
_CHUNK_BYTES: Final = 65_536
_MAX_ERROR_BYTES: Final = 1_048_576
_SAFE_IN_PATH: Final = "/-._~!$&'()*+,;=:@"
_SILENT: Final = (urllib3.exceptions.ReadTimeoutError, TimeoutError)


def connect(kubeconfig: str | None = None, context: str | None = None, *, as_user: str = "") -> HttpTransport:
    """A connection to the API server that the configuration names; nothing is sent yet.

    ``as_user``: whom to impersonate, instead of whom the kubeconfig names. Raises KubeconfigError.
    """

    def load() -> Access:
        access = load_configuration(kubeconfig, context)
        if as_user:
            access.impersonation = acting_as(as_user)
        return access

    return HttpTransport(load)


def connect_to(url: str) -> HttpTransport:
    """A connection without credentials to ``url``, past any proxy: for servers on this machine."""

    def load() -> Access:
        configuration = Access(host=url)
        configuration.proxy = None
        return configuration

    return HttpTransport(load)


class HttpTransport:
    """See ``kube.transport.Transport``. Usable from many threads."""

    def __init__(
        self,
        load: Callable[[], Access],
        *,
        pool_size: int = DEFAULT_POOL_SIZE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._pool_size = pool_size
        self._clock = clock
        self._lock = threading.Lock()
        self._reloaded_at_s = -_RELOAD_PAUSE_S
        self._session = _Session(load(), pool_size)

    def send(self, request: Request) -> Response:
        """One request; the whole answer is there within twice the time limit, or TransportError."""
        ends_s = self._clock() + request.timeout_s
        answer = self._open(request)
        try:
            body = b"".join(self._chunks(answer, ends_s))
        except BROKEN as error:
            answer.close()
            self._forget_after(error)
            raise no_answer(error, self._session.root, request) from error
        answer.release_conn()
        return Response(answer.status, body, _lower(answer.headers))

    def stream(self, request: Request) -> HttpStream:
        """Open a watch; ``timeout_s`` is the longest silence that is taken for life."""
        return HttpStream(self._open(request), self._forget_after)

    def close(self) -> None:
        """Close idle connections."""
        self._session.pool.clear()

    def _chunks(self, answer: urllib3.BaseHTTPResponse, ends_s: float) -> Iterator[bytes]:
        while chunk := answer.read1(_CHUNK_BYTES):
            if self._clock() > ends_s:
                raise TimeoutError("the answer did not end in time")
            yield chunk

    def _open(self, request: Request) -> urllib3.BaseHTTPResponse:
        session = self._session
        try:
            answer = session.open(request)
            if answer.status == HTTPStatus.UNAUTHORIZED and self._renewed(session):
                answer.close()
                answer = self._session.open(request)
        except (*BROKEN, ConfigException, KubeconfigError) as error:
            self._forget_after(error)
            raise no_answer(error, session.root, request) from error
        return answer

    def _forget_after(self, error: BaseException) -> None:
        """Use no idle connection any more if the error is that nothing came in time."""
        if isinstance(error, _SILENT):
            self.close()

    def _renewed(self, refused: _Session) -> bool:
        """True if there are other credentials now than those which were refused."""
        with self._lock:
            if self._session is not refused:
                return True
            if self._clock() - self._reloaded_at_s < _RELOAD_PAUSE_S:
                return False
            self._reloaded_at_s = self._clock()
            try:
                fresh = _Session(self._load(), self._pool_size)
            except KubeconfigError:
                return False
            if fresh.identity() == refused.identity():
                return False
            self._session = fresh
            return True


def tls_context(configuration: Access) -> ssl.SSLContext:
    """Verifies the server as every version of Python before 3.13 does, and as kubectl does.

    Since then certificates must have the form of RFC 5280 to the letter by default. The authorities of many clusters,
    EKS among them, lack an identifier or a key usage that it asks for; chain, names and times are verified all the same.
    """
    required = ssl.CERT_REQUIRED if configuration.verify_ssl else ssl.CERT_NONE
    context = create_urllib3_context(cert_reqs=required)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if configuration.verify_ssl and not (configuration.ssl_ca_cert or configuration.ca_cert_data):
        context.load_default_certs()
    return context


class _Session:
    """One set of credentials and the pool that carries its connections."""

    def __init__(self, configuration: Access, pool_size: int) -> None:
        configuration.retries = False
        configuration.keep_alive = True
        configuration.connection_pool_maxsize = pool_size
        self._configuration = configuration
        self.root: str = configuration.host.rstrip("/")
        self._lock = threading.Lock()
        self.pool: urllib3.PoolManager = RESTClientObject(configuration).pool_manager
        if not self.root.startswith("http:"):  # the system's certificates take longer to read than an answer
            self.pool.connection_pool_kw["ssl_context"] = tls_context(configuration)
        if not configuration.verify_ssl:  # as the kubeconfig says; kubectl does not warn either
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    def authorization(self) -> str | None:
        """The header's value, refreshed if its time is over; None without a token."""
        with self._lock:
            setting = self._configuration.auth_settings().get("BearerToken")
        return setting["value"] if setting else None

    def identity(self) -> tuple[object, ...]:
        """What the server knows us by."""
        return self.authorization(), self._configuration.cert_file, self._configuration.impersonation

    def open(self, request: Request) -> urllib3.BaseHTTPResponse:
        """Send, and read up to the end of the headers."""
        headers = {"Accept": "application/json", "User-Agent": f"rescheduler/{__version__}"}
        if request.body:
            headers["Content-Type"] = request.content_type
        token = self.authorization()
        if token:
            headers["Authorization"] = header_value(token)
        url = self.root + quote(request.path, safe=_SAFE_IN_PATH)
        if request.query:
            url += "?" + urlencode(request.query)
        return self.pool.urlopen(
            request.method,
            url,
            body=request.body or None,
            headers=with_pairs(headers, self._configuration.impersonation),
            timeout=urllib3.Timeout(
                connect=min(CONNECT_TIMEOUT_S, request.timeout_s), read=request.timeout_s
            ),
            retries=False,
            redirect=False,
            preload_content=False,
        )


class HttpStream:
    """See ``kube.transport.Stream``."""

    def __init__(
        self, answer: urllib3.BaseHTTPResponse, broken: Callable[[BaseException], None] = lambda _: None
    ) -> None:
        """``broken`` is told what the stream ended with, unless it was closed."""
        self._answer = answer
        self._broken = broken
        self._closed = threading.Event()
        self.status = answer.status
        self.headers: Mapping[str, str] = _lower(answer.headers)

    def __iter__(self) -> Iterator[bytes]:
        try:
            while not self._closed.is_set() and (chunk := self._answer.read1(_CHUNK_BYTES)):
                yield chunk
        except (*BROKEN, ValueError, AttributeError) as error:
            # Closing from another thread pulls the socket away under the read; what that raises varies.
            if not self._closed.is_set():
                self._broken(error)
                silent = isinstance(error, _SILENT)
                raise (SilenceError if silent else TransportError)(f"watch: {error}") from error
        finally:
            self._answer.close()

    def read_all(self) -> bytes:
        """The rest of the body, at most 1 MiB."""
        body = b""
        for chunk in self:
            body += chunk
            if len(body) >= _MAX_ERROR_BYTES:
                break
        return body

    def close(self) -> None:
        """End the stream."""
        self._closed.set()
        with contextlib.suppress(ValueError, RuntimeError, OSError):
            self._answer.shutdown()


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


BROKEN: Final = (exceptions.HTTPError, http.client.HTTPException, OSError)
"""What a request can end with."""


def no_answer(error: BaseException, server: str, request: Request) -> TransportError:
    """The error for ``request`` to ``server`` (its URL), after which ``error`` came out of the HTTP library."""
    text = f"{server}: {reason(error, request.timeout_s)} ({request.method} {request.path})"
    return UnreachableError(text) if _before_sending(error) else TransportError(text)


def reason(error: BaseException, timeout_s: float) -> str:
    """What happened."""
    match error:
        case exceptions.NameResolutionError():
            return "the name of the host is not known"
        case exceptions.NewConnectionError():
            return _system(error.__cause__) or "no connection"
        case exceptions.ConnectTimeoutError():
            return "no connection in time"
        case exceptions.SSLError():
            return _tls(error)
        case exceptions.ProxyError():
            return f"the proxy gives no connection: {_system(error.__cause__) or error}"
        case exceptions.ReadTimeoutError():
            return f"no answer within {timeout_s:g} s"
        case TimeoutError():
            return str(error) or f"no answer within {timeout_s:g} s"
        case exceptions.ProtocolError() | http.client.HTTPException() | OSError():
            return f"the connection was cut off: {_system(error) or error}"
        case _:
            return str(error)


def _before_sending(error: BaseException) -> bool:
    """True if the server has not seen the request: nobody listens, or not whom the configuration trusts."""
    kinds = exceptions.NewConnectionError | exceptions.SSLError | exceptions.ProxyError
    return isinstance(error, kinds)


def _system(error: BaseException | None) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return (error.strerror or "").lower() if isinstance(error, OSError) else ""


def _tls(error: exceptions.SSLError) -> str:
    for cause in (error, *error.args, error.__cause__):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {cause.verify_message}"
    return f"TLS fails: {error}"
