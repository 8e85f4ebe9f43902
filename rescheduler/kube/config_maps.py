"""Single ConfigMaps, such as the controller's own: read once, or kept current by an informer for one of them.

They are no part of a Snapshot: the configuration, the gate keys, the nodes to avoid. Every replica that serves the
webhook follows the keys, leading or not, since it must answer also while the leader's caches are being filled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rescheduler.kube.answers import read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import NotFoundError
from rescheduler.kube.informer import Informer, SharedDecoder
from rescheduler.kube.reflector import ChangeType, InformerEvent
from rescheduler.kube.transport import Transport
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import CONFIG_MAPS, Kind
from rescheduler.model.names import ANNOTATION_VALID_UNTIL
from rescheduler.model.times import parse_timestamp

_JOIN_S: Final = 5.0


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _ConfigMap(msgspec.Struct):
    metadata: _Meta | None = None
    data: dict[str, str] | None = None


_CONFIG_MAP: Final = msgspec.json.Decoder(
    _ConfigMap
)  # made at import: a first use is not safe from two threads


@dataclass(frozen=True, slots=True)
class StoredConfigMap:
    """A ConfigMap as it was read. ``version``: its resourceVersion; empty if it does not exist."""

    data: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    valid_until_s: float = 0.0
    """Until when its keys hold pods, by the API server's time; 0: they hold none."""
    annotations: Mapping[str, str] = field(default_factory=dict)


def read_config_map(api: KubeApi, namespace: str, name: str) -> StoredConfigMap:
    """The ConfigMap as stored now; empty and without a version if there is none. Raises ApiError, TransportError."""
    try:
        body = api.get(CONFIG_MAPS.object_path(namespace, name))
    except NotFoundError:
        return StoredConfigMap()
    found = read_answer(body, _CONFIG_MAP)
    meta = found.metadata or _Meta()
    noted = meta.annotations or {}
    return StoredConfigMap(found.data or {}, meta.resource_version, _valid_until_s(noted), noted)


def _valid_until_s(annotations: Mapping[str, str]) -> float:
    """0 if there is no time, or one that cannot be read: then the gate policy holds no pod either."""
    try:
        return parse_timestamp(annotations.get(ANNOTATION_VALID_UNTIL, ""))
    except ValueError:
        return 0.0


class ConfigMapInformer:
    """Follows ConfigMap ``name`` from ``start`` to ``stop``. Properties may be read by any thread."""

    def __init__(
        self, transport: Transport, namespace: str, name: str, *, changed: Callable[[], None] = lambda: None
    ) -> None:
        """``changed`` is called by the informer's thread after each change; it must not block."""
        self._changed = changed
        self._stored: StoredConfigMap | None = None
        self.informer = Informer(
            Kind.CONFIG_MAP,
            CONFIG_MAPS,
            transport,
            SharedDecoder(Decoder()),
            self,
            namespace=namespace,
            field_selector=f"metadata.name={name}",
        )
        """For health and metrics."""

    @property
    def data(self) -> Mapping[str, str] | None:
        """The last known content, never changed in place; empty if there is none; None: not read yet."""
        return None if self._stored is None else self._stored.data

    @property
    def seen(self) -> StoredConfigMap | None:
        """What the watch has shown last, another object after each change; None: not read yet."""
        return self._stored

    @property
    def stored(self) -> StoredConfigMap:
        """The same with its time limit; empty also if it was not read yet."""
        return self._stored or StoredConfigMap()

    def start(self) -> None:
        """Begin to list and watch."""
        self.informer.start()

    def stop(self) -> None:
        """End the watch."""
        self.informer.stop()
        self.informer.join(_JOIN_S)

    def put(self, event: InformerEvent) -> None:
        """Take a change from the informer, on its thread."""
        if event.type is not ChangeType.SYNCED:
            record = event.record
            self._stored = (
                StoredConfigMap()
                if event.type in (ChangeType.DELETED, ChangeType.LOST)
                else StoredConfigMap(record.data, record.resource_version, _valid_until_s(record.annotations))
            )
        elif self._stored is None:
            self._stored = StoredConfigMap()  # the first list is complete and has no such ConfigMap
        self._changed()
