"""The configuration in force: read again when it changes; a bad version never replaces a good one.

A source gives text and a version; ``LiveConfiguration`` parses it and remembers what is wrong with the
newest version, so that the loop can report it as an Event, a metric and a log line, once per version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from rescheduler.config import Configuration, ConfigurationError, default_configuration, parse_configuration
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import NotFoundError
from rescheduler.model.kinds import Resource
from rescheduler.model.names import CONFIG_KEY

CONFIG_MAPS = Resource("", "v1", "configmaps", namespaced=True)


@dataclass(frozen=True, slots=True)
class Text:
    """One version of a document. ``origin``: what error messages call it."""

    content: bytes
    origin: str

    @property
    def version(self) -> str:
        """Digest of the content."""
        return hashlib.sha256(self.content).hexdigest()[:12]


class Source(Protocol):
    """Where the document comes from."""

    def read(self) -> Text | None:
        """The newest version; None if there is no document. Raises OSError, ApiError or TransportError."""
        ...


class FileSource:
    """A file, for example of a mounted ConfigMap: read as a whole, so a swap in between is never seen half."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def read(self) -> Text | None:
        """The file's content."""
        return Text(self._path.read_bytes(), str(self._path))


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] | None = None


class ConfigMapSource:
    """The key ``config.yaml`` of a ConfigMap."""

    def __init__(self, api: KubeApi, namespace: str, name: str) -> None:
        self._api = api
        self._path = CONFIG_MAPS.object_path(namespace, name)
        self._origin = f"configmap {namespace}/{name} {CONFIG_KEY}"

    def read(self) -> Text | None:
        """The key's content; None if the ConfigMap or the key is missing."""
        try:
            body = self._api.get(self._path)
        except NotFoundError:
            return None
        text = (msgspec.json.decode(body, type=_ConfigMap).data or {}).get(CONFIG_KEY)
        return None if text is None else Text(text.encode(), self._origin)


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a look at the source brought. ``error``: the newest version is bad; the old one stays in force."""

    configuration: Configuration
    changed: bool
    version: str
    error: ConfigurationError | None = None


class LiveConfiguration:
    """The configuration in force. Used by the core thread only."""

    def __init__(self, source: Source, *, tried_every_s: float = 5.0, clock: Callable[[], float]) -> None:
        self._source = source
        self._every_s = tried_every_s
        self._clock = clock
        self._due_s = 0.0
        self._seen = ""
        self.version = "built-in"
        self.current = default_configuration()
        self.error: ConfigurationError | None = None
        self._adapt: Callable[[Configuration], Configuration] = lambda configuration: configuration

    def adapt(self, adapt: Callable[[Configuration], Configuration]) -> None:
        """From now on every configuration is what ``adapt`` makes of it, the one in force included.

        Raises:
            ConfigurationError: ``adapt`` refuses the one in force.
        """
        self.current = adapt(self.current)
        self._adapt = adapt

    def start(self) -> None:
        """First reading.

        Raises:
            ConfigurationError: the first version is bad: there is no good one to stay with.
            OSError, ApiError, TransportError: the source cannot be read.
        """
        self._take(self._source.read(), first=True)
        self._due_s = self._clock() + self._every_s

    def reload(self) -> Reloaded | None:
        """Look again when it is due; None if nothing new was seen. Raises what the source raises."""
        if self._clock() < self._due_s:
            return None
        self._due_s = self._clock() + self._every_s
        return self._take(self._source.read(), first=False)

    def _take(self, text: Text | None, *, first: bool) -> Reloaded | None:
        version = text.version if text else "built-in"
        if version == self._seen:
            return None
        self._seen = version
        try:
            read = parse_configuration(text.content, text.origin) if text else default_configuration()
            found = self._adapt(read)
        except ConfigurationError as error:
            if first:
                raise
            self.error = error
            return Reloaded(self.current, changed=False, version=version, error=error)
        self.current, self.version, self.error = found, version, None
        return Reloaded(found, changed=True, version=version)
