"""Follows a single ConfigMap by an informer of its own: the configuration, the gate keys, the nodes to avoid.

Every replica that serves the webhook follows the keys, leading or not, since it must answer also while the leader's caches
are being filled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from rescheduler.kube.informer import Informer, SharedDecoder
from rescheduler.kube.reflector import ChangeType, InformerEvent
from rescheduler.kube.transport import Transport
from rescheduler.model.config_map import MISSING, ConfigMap
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import CONFIG_MAPS, Kind

_JOIN_S: Final = 5.0


class ConfigMapInformer:
    """Follows ConfigMap ``name`` from ``start`` to ``stop``. Properties may be read by any thread."""

    def __init__(
        self, transport: Transport, namespace: str, name: str, *, changed: Callable[[], None] = lambda: None
    ) -> None:
        """``changed`` is called by the informer's thread after each change; it must not block."""
        self._changed = changed
        self._stored: ConfigMap | None = None
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
    def seen(self) -> ConfigMap | None:
        """What the watch has shown last, another object after each change; None: not read yet."""
        return self._stored

    @property
    def stored(self) -> ConfigMap:
        """The same with its time limit; empty also if it was not read yet."""
        return self._stored or MISSING

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
            gone = event.type in (ChangeType.DELETED, ChangeType.LOST)
            self._stored = MISSING if gone else event.record
        elif self._stored is None:
            self._stored = MISSING  # the first list is complete and has no such ConfigMap
        self._changed()
