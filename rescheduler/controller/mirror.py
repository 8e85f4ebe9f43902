"""Keeps a ConfigMap equal to a computed mapping, by patches of single keys.

Level-triggered: keys that a crash left behind are removed like any others. The stored content is read at intervals and
after each failure; in between, the last known content is compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from rescheduler.controller.call_table import create_config_map, set_keys
from rescheduler.controller.sender import Sender
from rescheduler.kube.client import KubeApi
from rescheduler.kube.config_maps import read_config_map
from rescheduler.kube.errors import NotFoundError
from rescheduler.model.records import ObjectKey

READ_AGAIN_S: Final = 30.0


class Switch(Protocol):
    """A ConfigMap that an admission policy reads. Raises ApiError, TransportError."""

    def entries(self) -> dict[str, str]:
        """What is stored."""
        ...

    def write(self, add: dict[str, str], remove: tuple[str, ...], content: dict[str, str]) -> None:
        """Set and remove keys, so that ``content`` is stored."""
        ...


@dataclass(frozen=True, slots=True)
class ConfigMapKeys:
    """The keys of one ConfigMap: read from the API server, written by a sender, so that a dry run only shows them."""

    api: KubeApi
    sender: Sender
    config_map: ObjectKey

    def entries(self) -> dict[str, str]:
        """What is stored; empty if the ConfigMap is missing."""
        return read_config_map(self.api, *self.config_map)

    def write(self, add: dict[str, str], remove: tuple[str, ...], content: dict[str, str]) -> None:
        """Set and remove keys in one call; a missing ConfigMap is created with the whole content."""
        try:
            self.sender.send(set_keys(self.config_map, add, remove))
        except NotFoundError:
            if content:
                self.sender.send(create_config_map(self.config_map, content))


@dataclass(slots=True, kw_only=True)
class Mirror:
    """Writes what should be stored. ``lenient``: keep a stored value that is correct for some other key."""

    switch: Switch
    lenient: bool = False
    _stored: dict[str, str] | None = None
    _read_at_s: float = 0.0

    def follow(self, should: Mapping[str, str], now_s: float) -> None:
        """Write the difference, if there is one. Raises ApiError, TransportError."""
        stored = self.read(now_s)
        add, remove = difference(should, stored, lenient=self.lenient)
        if add or remove:
            content = {**{key: text for key, text in stored.items() if key not in remove}, **add}
            # Forgotten first: if the call fails, it is not known whether the keys were written.
            self._stored = None
            self.switch.write(add, remove, content)
            self._stored = content

    def read(self, now_s: float) -> Mapping[str, str]:
        """What is stored, as of the last reading or writing. Raises ApiError, TransportError."""
        stored = self._stored
        if stored is None or now_s >= self._read_at_s + READ_AGAIN_S:
            self._stored = None
            stored = self.switch.entries()
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
