"""Where the configuration document of a running controller comes from: a file, or a ConfigMap that is watched.

The core thread reads the source in every turn, so no source blocks: a file is read again when its status has changed,
and the ConfigMap is followed by an informer. Only the first reading of a ConfigMap is a call, before the loop starts, so
that the process ends with the API server's message if a right is missing or the server does not answer, for minutes in a Pod.
"""

from __future__ import annotations

import os
from pathlib import Path

from rescheduler.configuration.live import ConfigurationText, UnreadableConfigurationError
from rescheduler.kube.client import KubeApi
from rescheduler.kube.config_map_informer import ConfigMapInformer
from rescheduler.kube.config_maps import read_config_map
from rescheduler.model.config_map import ConfigMap
from rescheduler.model.names import CONFIG_KEY


class FileSource:
    """A file, for example of a mounted ConfigMap. It is read as a whole, so that a replaced file is never mixed with the old."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._status: tuple[int, int, int] | None = None
        self._text: ConfigurationText | None = None

    def read(self) -> ConfigurationText | None:
        """The file's content; it is read again only after it was written or replaced."""
        try:
            status = _status(self._path.stat())
            if status != self._status:
                self._text = ConfigurationText(self._path.read_bytes(), str(self._path))
                self._status = status
        except OSError as error:
            self._status = None
            raise UnreadableConfigurationError(f"{self._path}: {error.strerror or error}") from error
        return self._text


def _status(stat: os.stat_result) -> tuple[int, int, int]:
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


class ConfigMapSource:
    """The key ``config.yaml`` of a ConfigMap. Follows it from ``start`` to ``stop``."""

    def __init__(self, api: KubeApi, namespace: str, name: str) -> None:
        self._api = api
        self._namespace, self._name = namespace, name
        self._origin = f"configmap {namespace}/{name} {CONFIG_KEY}"
        self._fetched: ConfigMap | None = None
        """Result of the first reading; used until the informer has read the ConfigMap."""
        self._watch = ConfigMapInformer(api.transport, namespace, name)
        self.informer = self._watch.informer

    def start(self) -> None:
        """Begin to watch."""
        self._watch.start()

    def stop(self) -> None:
        """End the watch."""
        self._watch.stop()

    def read(self) -> ConfigurationText | None:
        """The key's content; None if the ConfigMap or the key is missing.

        Raises:
            ApiError, TransportError: the first reading, which is a call, failed.
        """
        if self._fetched is None:
            self._fetched = read_config_map(self._api, self._namespace, self._name)
        document = (self._watch.seen or self._fetched).document(CONFIG_KEY)
        return None if document is None else ConfigurationText(document, self._origin)
