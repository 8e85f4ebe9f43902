"""The cluster that a command talks to, and what may go wrong there in words: one client for all commands.

A person waits for a command. So a request has a short time limit, a line on stderr says what is waited for, a server that was
never reached is not tried again and again, and a kind that is not served or a right that is missing is told with its remedy.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeVar

from tenacity import stop_before_delay

from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.options import parse_seconds
from rescheduler.cli.output import tell
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import (
    ApiError,
    ForbiddenError,
    NotFoundError,
    NotServedError,
    RejectedError,
    TryLaterError,
    error_of,
)
from rescheduler.kube.list_page import read_page
from rescheduler.kube.retry import Retry
from rescheduler.kube.store import namespace_of
from rescheduler.kube.transport import Request, Response, Stream, Transport, TransportError, UnreachableError
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.names import API_VERSION, DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from rescheduler.kube.connection import HttpTransport

Record = TypeVar("Record")
Thing = TypeVar("Thing")

NOTICE_S: Final = 3.0
"""After so long a person is told what is waited for."""
REQUEST_TIMEOUT_S: Final = 15.0
PATIENCE_S: Final = 5.0
"""For so long what may pass by itself is tried again."""
_LOOK: Final = 64
_REMEDY: Final = "is it running, and are the address and the certificate in the kubeconfig right?"
_INSTALL: Final = "install it: kubectl apply -k manifests/, docs/installing.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCluster:
    """The cluster that the options of a command name, and its controller."""

    kubeconfig: str | None = None
    context: str | None = None
    controller_namespace: str = DEFAULT_NAMESPACE
    config_file: str | None = None
    """A configuration to go by instead of that of the controller."""
    as_user: str = ""
    """Whom to impersonate."""
    request_timeout: str = ""
    """Of each request, as kubectl takes it; "" and 0: the usual one."""

    def connected(self) -> HttpTransport:
        """A connection; a credential plugin that is slow is told. Raises KubeconfigError."""
        from rescheduler.kube.connection import connect  # noqa: PLC0415 - kubernetes, which no help and no dump needs

        with notice("waiting for the credentials that the kubeconfig names ..."):
            return connect(self.kubeconfig, self.context, as_user=self.as_user)

    def api(self, patience_s: float = PATIENCE_S) -> KubeApi:
        """A client for a command. Raises CommandError, KubeconfigError."""
        retry = Retry(stop=stop_before_delay(patience_s), gives_up=(UnreachableError,))
        return KubeApi(CommandTransport(self.connected()), retry, timeout_s=self._timeout_s())

    def _timeout_s(self) -> float:
        given = self.request_timeout
        seconds = parse_seconds("--request-timeout", f"{given}s" if given.isdecimal() else given or "0s")
        return seconds or REQUEST_TIMEOUT_S

    def server(self) -> str:
        """The address of its API server. Raises KubeconfigError."""
        from rescheduler.kube.kubeconfig import load_configuration  # noqa: PLC0415 - the same

        return str(load_configuration(self.kubeconfig, self.context).host)

    def namespace(self, given: str | None) -> str:
        """``given``, or the namespace that kubectl would use. Raises KubeconfigError."""
        from rescheduler.kube.kubeconfig import default_namespace  # noqa: PLC0415 - the same

        return given or default_namespace(self.kubeconfig, self.context)


def listed(
    api: KubeApi,
    kind: Kind,
    record: type[Record],
    *,
    namespace: str = "",
    query: Mapping[str, str] | None = None,
) -> list[Record]:
    """All objects that a query selects, without damaged ones; ``namespace`` "": of all.

    Raises:
        CommandError: what the query has for a label selector is none.
        ApiError, TransportError: the server refuses for another reason, or does not answer.
    """
    resource, decoder = RESOURCES[kind], Decoder()
    path = resource.object_path(namespace, "") if namespace else resource.collection_path
    found = (one for page in api.list(path, query or {}) for one in read_page(page, decoder, kind).records)
    try:
        # A list that was restarted has some objects twice.
        newest = {(namespace_of(one), one.name): one for one in found if isinstance(one, record)}
        return list(newest.values())
    except RejectedError as error:
        selector = (query or {}).get("labelSelector")
        if selector is None or error.status != HTTPStatus.BAD_REQUEST:
            raise
        message = f"{selector!r} is no label selector: {error.message} (write it like app=web,tier!=cache)"
        raise CommandError(message, EXIT_USAGE) from error


def select(
    api: KubeApi, kind: Kind, record: type[Record], *, namespace: str = "", label: str = "", right: str = ""
) -> list[Record]:
    """Objects of one of our kinds by a label query, sorted by name; without damaged ones. ``right``: what gives the right to list them.

    Raises CommandError, ApiError, TransportError.
    """
    plural, every = RESOURCES[kind].plural, " in all namespaces" if RESOURCES[kind].namespaced else ""
    what = f"list {plural}{f' in namespace {namespace}' if namespace else every}"
    with installed(plural), allowed(what, right) if right else nullcontext():
        found = listed(api, kind, record, namespace=namespace, query=by_label(label))
    return sorted(found, key=lambda one: (getattr(one, "namespace", ""), getattr(one, "name", "")))


def by_label(selector: str) -> dict[str, str]:
    """The query of a label selector; "" selects everything."""
    return {"labelSelector": selector} if selector else {}


def why_left(things: Iterable[Thing], remove: Callable[[Thing], str], at_once: int) -> dict[Thing, str]:
    """Remove all of them in parallel; why those are left that are. ``remove``: says why; its errors of the API are told, too."""
    given = list(things)

    def why(thing: Thing) -> str:
        try:
            return remove(thing)
        except NotFoundError:
            return ""
        except (ApiError, TransportError) as error:
            return why_refused(error)

    with ThreadPoolExecutor(min(len(given), at_once) or 1) as pool:
        return {thing: text for thing, text in zip(given, pool.map(why, given), strict=True) if text}


def why_refused(error: ApiError | TransportError) -> str:
    """What the API server said, for people; that it did not answer, if it did not."""
    if isinstance(error, ApiError):
        return error.message or str(error.status)
    return "no answer from the API server"


@contextmanager
def installed(plural: str) -> Iterator[None]:
    """Around calls of the collection itself: it is not found only where its kind is not served. Raises CommandError."""
    try:
        yield
    except (NotFoundError, NotServedError) as error:
        message = f"rescheduler is not installed in this cluster: it does not serve {plural} of {API_VERSION}"
        raise CommandError(f"{message} ({_INSTALL})") from error


@contextmanager
def allowed(what: str, remedy: str) -> Iterator[None]:
    """Around calls for which a right may be missing. ``what``: "list pods in namespace shop". Raises CommandError."""
    try:
        yield
    except ForbiddenError as error:
        said = error.message or "the API server refuses"
        raise CommandError(f"you may not {what}: {said} ({remedy})") from error


@contextmanager
def notice(text: str, say: Callable[[str], None] = tell) -> Iterator[None]:
    """Tell ``text`` if the block takes long."""
    timer = threading.Timer(NOTICE_S, say, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class CommandTransport:
    """A ``Transport`` whose first failure to reach the server is final. Usable from many threads.

    A server that has not been of use for NOTICE_S, because it does not answer or answers that it cannot now, is told once, until it is of
    use again: nothing above says that it waits for the API server.
    """

    def __init__(self, inner: Transport, clock: Callable[[], float] = time.monotonic) -> None:
        self._inner = inner
        self._clock = clock
        self._reached = False
        self._of_no_use_since_s = math.inf
        self._told = False

    def send(self, request: Request) -> Response:
        """See ``Transport.send``; what answers and is no API server counts as no answer."""
        asked_s = self._clock()
        try:
            with notice("waiting for the API server ...", self._tell):
                answer = self._inner.send(request)
        except TransportError as error:
            if not isinstance(error, UnreachableError):
                self._failed(error, asked_s)
                raise
            if self._reached:
                self._failed(error, asked_s)
                raise TransportError(str(error)) from error
            raise UnreachableError(f"{error}; {_REMEDY}") from error
        if answer.status < HTTPStatus.MULTIPLE_CHOICES and not answer.body[:_LOOK].lstrip().startswith(b"{"):
            raise UnreachableError("what answers is no API server: is a proxy or a login page in between?")
        self._reached = True
        if answer.status >= HTTPStatus.BAD_REQUEST:
            refusal = error_of(answer.status, answer.body, answer.headers)
            if isinstance(refusal, TryLaterError) and not isinstance(refusal, NotServedError):
                self._failed(refusal, asked_s)
                return answer
        self._of_no_use_since_s, self._told = math.inf, False
        return answer

    def _failed(self, why: Exception, asked_s: float) -> None:
        self._of_no_use_since_s = min(self._of_no_use_since_s, asked_s)
        if self._clock() - self._of_no_use_since_s >= NOTICE_S:
            self._tell(f"waiting for the API server: {why}")

    def _tell(self, text: str) -> None:
        if not self._told:
            self._told = True
            tell(text)

    def stream(self, request: Request) -> Stream:
        """See ``Transport.stream``."""
        return self._inner.stream(request)
