"""One ConfigMap of the controller's namespace, kept at hand by a thread of its own.

Every replica has it, leading or not, and independently of the controller's caches: the webhook must answer
also while those are being filled. Promises: a change is seen some milliseconds later; a broken watch begins
anew with the whole content; no failure ends the thread before ``stop``.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import structlog

from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ApiError, error_of
from rescheduler.kube.lines import LineSplitter, LineTooLongError
from rescheduler.kube.retry import NO_RETRY, full_jitter_s
from rescheduler.kube.transport import SilenceError, Stream, Transport, TransportError

_SILENCE_S: Final = 75.0
_BASE_S: Final = 0.2
_CAP_S: Final = 5.0
_LOOK_LIMIT_S: Final = 0.4
"""For a look during a review, which has a second in all."""


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _ConfigMap(msgspec.Struct):
    metadata: _Meta
    data: dict[str, str] | None = None


class _List(msgspec.Struct):
    metadata: _Meta
    items: list[_ConfigMap]


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


# Made here, before there is a second thread: two that decode a type for the first time at once break the process.
_CONFIG_MAP: Final = msgspec.json.Decoder(_ConfigMap)
_LIST: Final = msgspec.json.Decoder(_List)
_EVENT: Final = msgspec.json.Decoder(_Event)


class WatchedConfigMap:
    """The content of ConfigMap ``name``. ``changed`` is called by its thread after each change."""

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        name: str,
        *,
        changed: Callable[[], None],
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._api = KubeApi(transport, NO_RETRY)
        self._looker = KubeApi(transport, NO_RETRY, timeout_s=_LOOK_LIMIT_S)
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._name = name
        self._changed = changed
        self._chance = chance
        self._data: Mapping[str, str] = {}
        self._known = False
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._stream: Stream | None = None
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name=f"watch-{name}", daemon=True)
        self._log = structlog.get_logger("rescheduler.webhook")

    @property
    def data(self) -> Mapping[str, str]:
        """The last known content; never changed in place."""
        return self._data

    @property
    def known(self) -> bool:
        """It was read at least once."""
        return self._known

    def fresh(self) -> Mapping[str, str]:
        """The content right now, asked of the API server; nothing if it cannot tell in time."""
        try:
            body = self._looker.get(f"{self._path}/{self._name}")
        except (ApiError, TransportError) as error:
            self._log.info("A look at a ConfigMap failed", name=self._name, error=str(error))
            return {}
        return _CONFIG_MAP.decode(body).data or {}

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """End the watch."""
        self._stopping.set()
        with self._lock:
            if self._stream is not None:
                self._stream.close()
        if self._thread.ident is not None:
            self._thread.join(5.0)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow(self._list())
            except (ApiError, TransportError, LineTooLongError, msgspec.DecodeError) as error:
                self._fail(error)
            # Also after an ordinary end: what closes every watch at once must not be asked without pause.
            pause_s = full_jitter_s(max(1, self._failures), _BASE_S, _CAP_S, self._chance())
            self._stopping.wait(pause_s)

    def _fail(self, error: Exception) -> None:
        if self._stopping.is_set() or isinstance(error, SilenceError):
            return
        self._failures += 1
        tell = self._log.warning if self._failures == 1 else self._log.debug
        tell("A ConfigMap cannot be followed", name=self._name, error=str(error))

    def _list(self) -> str:
        """Reads the whole content; gives the version to watch from."""
        body = self._api.get(self._path, {"fieldSelector": f"metadata.name={self._name}"})
        page = _LIST.decode(body)
        self._take(page.items[0].data if page.items else None)
        return page.metadata.resource_version

    def _follow(self, version: str) -> None:
        """Watches until the stream ends. Raises what ended it, unless the server just closed it."""
        query = {"fieldSelector": f"metadata.name={self._name}", "resourceVersion": version}
        query["allowWatchBookmarks"] = "true"
        stream = self._api.watch(self._path, query, silence_s=_SILENCE_S)
        with self._lock:
            self._stream = stream
        try:
            if stream.status != 200:  # noqa: PLR2004 - OK
                raise error_of(stream.status, stream.read_all(), stream.headers)
            self._failures = 0
            splitter = LineSplitter()
            for chunk in () if self._stopping.is_set() else stream:
                for line in splitter.feed(chunk):
                    self._event(line)
        finally:
            stream.close()
            with self._lock:
                self._stream = None

    def _event(self, line: bytes) -> None:
        event = _EVENT.decode(line)
        if event.type == "ERROR":
            raise TransportError(f"the watch ended: {bytes(event.object)[:200]!r}")
        if event.type in ("ADDED", "MODIFIED"):
            self._take(_CONFIG_MAP.decode(event.object).data)
        elif event.type == "DELETED":
            self._take(None)

    def _take(self, data: Mapping[str, str] | None) -> None:
        content = data or {}
        changed = not self._known or content != self._data
        self._data, self._known = content, True
        if changed:
            self._changed()
