"""Keeps a ConfigMap equal to a computed mapping, by patches of single keys.

Level-triggered: keys that a crash left behind are removed like any others. The stored content is read at intervals and
after each failure; in between, the last known content is compared. Each patch takes effect only on the version that it
was computed from, and a sender asks right before it whether this process leads: a process that slept and is not the
leader any more takes away nothing that the new leader wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from rescheduler.controller.call_table import create_config_map, set_keys
from rescheduler.controller.effects import Effect
from rescheduler.controller.sender import Sender
from rescheduler.kube.client import KubeApi
from rescheduler.kube.config_maps import StoredConfigMap, read_config_map
from rescheduler.kube.errors import NotFoundError
from rescheduler.model.records import ObjectKey

READ_AGAIN_S: Final = 30.0


class Switch(Protocol):
    """A ConfigMap that an admission policy reads. Raises ApiError, TransportError, NotLeaderError."""

    def read(self) -> StoredConfigMap:
        """What is stored."""
        ...

    def write(
        self, stored: StoredConfigMap, add: dict[str, str], remove: tuple[str, ...], valid_until_s: float
    ) -> StoredConfigMap:
        """Set and remove keys of the version ``stored``; returns what is stored then. ConflictError: another version.

        ``valid_until_s``: when all keys end to hold pods; 0: no limit is written.
        """
        ...


@dataclass(frozen=True, slots=True)
class ConfigMapKeys:
    """The keys of one ConfigMap: read from the API server, written by a sender, so that a dry run only shows them."""

    api: KubeApi
    sender: Sender
    config_map: ObjectKey

    def read(self) -> StoredConfigMap:
        """What is stored; empty if the ConfigMap is missing."""
        return read_config_map(self.api, *self.config_map)

    def write(
        self, stored: StoredConfigMap, add: dict[str, str], remove: tuple[str, ...], valid_until_s: float
    ) -> StoredConfigMap:
        """Set and remove keys in one call; a missing ConfigMap is created with the whole content."""
        content = {**{key: text for key, text in stored.data.items() if key not in remove}, **add}
        try:
            if stored.version:
                call = set_keys(self.config_map, stored.version, add, remove, valid_until_s=valid_until_s)
                version = _version_after(self.sender.send(call)) or stored.version
                return StoredConfigMap(content, version, valid_until_s)
        except NotFoundError:
            pass
        if content:
            call = create_config_map(self.config_map, content, valid_until_s=valid_until_s)
            return StoredConfigMap(content, _version_after(self.sender.send(call)), valid_until_s)
        return StoredConfigMap()


def _version_after(effect: Effect) -> str:
    """The resourceVersion after a write; empty after one that was only shown."""
    return effect.touched[0].version if effect.touched else ""


@dataclass(slots=True, kw_only=True)
class Mirror:
    """Writes what should be stored. ``lenient``: keep a stored value that is correct for some other key."""

    switch: Switch
    lenient: bool = False
    lasts_s: float = 0.0
    """How long keys are valid after they were written last, so that they end if nobody leads; 0: for ever.

    They are renewed when a third of that time has passed. Without keys nothing is renewed.
    """
    _stored: StoredConfigMap | None = None
    _read_at_s: float = 0.0

    def follow(self, should: Mapping[str, str], now_s: float) -> None:
        """Write the difference, if there is one. Raises ApiError, TransportError, NotLeaderError."""
        stored = self._current(now_s)
        add, remove = difference(should, stored.data, lenient=self.lenient)
        ends = bool(self.lasts_s and should) and stored.valid_until_s < now_s + self.lasts_s * 2 / 3
        if add or remove or ends:
            # Forgotten first: if the call fails, it is not known whether the keys were written.
            self._stored = None
            self._stored = self.switch.write(
                stored, add, remove, now_s + self.lasts_s if self.lasts_s else 0.0
            )

    def read(self, now_s: float) -> Mapping[str, str]:
        """What is stored, as of the last reading or writing. Raises ApiError, TransportError."""
        return self._current(now_s).data

    def _current(self, now_s: float) -> StoredConfigMap:
        stored = self._stored
        if stored is None or now_s >= self._read_at_s + READ_AGAIN_S:
            self._stored = None
            stored = self.switch.read()
            self._stored, self._read_at_s = stored, now_s
        return stored


def difference(
    should: Mapping[str, str], stored: Mapping[str, str], *, lenient: bool
) -> tuple[dict[str, str], tuple[str, ...]]:
    """(to set, to remove). ``lenient``: a stored value that still occurs in ``should`` is left alone."""
    known = set(should.values()) if lenient else frozenset[str]()
    add = {
        key: text
        for key, text in should.items()
        if key not in stored or (stored[key] != text and stored[key] not in known)
    }
    return add, tuple(sorted(key for key in stored if key not in should))
