"""A ConfigMap that is kept equal to a computed mapping by patches of single keys.

Level-triggered: what a crash left behind differs from what should be, and so is removed like anything else.
The stored content is read now and then, and after each failure; in between the last known one is compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

READ_AGAIN_S: Final = 30.0


class Switch(Protocol):
    """A ConfigMap that an admission policy reads, by controller uid. Raises ApiError, TransportError."""

    def entries(self) -> dict[str, str]:
        """What is stored."""
        ...

    def write(self, add: dict[str, str], remove: tuple[str, ...]) -> None:
        """Set and remove keys."""
        ...


@dataclass(slots=True, kw_only=True)
class Mirror:
    """Follows what should be. ``lenient``: a value that is right for another key is right (Reservation names)."""

    switch: Switch
    lenient: bool = False
    _stored: dict[str, str] | None = None
    _read_at_s: float = 0.0

    def follow(self, should: Mapping[str, str], now_s: float) -> None:
        """Write the difference, if there is one. Raises ApiError, TransportError."""
        stored = self._stored
        self._stored = None  # unknown until this has gone well
        if stored is None or now_s >= self._read_at_s + READ_AGAIN_S:
            stored, self._read_at_s = self.switch.entries(), now_s
        add, remove = difference(should, stored, lenient=self.lenient)
        if add or remove:
            self.switch.write(add, remove)
            stored = {**{key: text for key, text in stored.items() if key not in remove}, **add}
        self._stored = stored


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
