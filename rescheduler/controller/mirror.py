"""Keeps a ConfigMap equal to a computed mapping, by patches of single keys.

Level-triggered: keys that a crash left behind are removed like any others. The stored content is read at intervals and
after each failure; in between, the last known content is compared. Each patch takes effect only on the version that it
was computed from, and a sender asks right before it whether this process leads: a process that slept and is not the
leader any more takes away nothing that the new leader wrote. Calls wait for their answers elsewhere (``call_pool``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from rescheduler.calls.objects import create_config_map, set_keys
from rescheduler.controller.call_pool import CallPool, OneCall
from rescheduler.controller.effects import Effect
from rescheduler.controller.sender import Sender
from rescheduler.kube.client import KubeApi
from rescheduler.kube.config_maps import read_config_map
from rescheduler.kube.errors import NotFoundError
from rescheduler.model.config_map import MISSING, ConfigMap
from rescheduler.model.records import ObjectKey
from rescheduler.model.selectors import int64

READ_AGAIN_S: Final = 30.0
Done = Callable[[Exception | None, float], None]
"""Takes what became of a call: the error that ended it, or None; and seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class ConfigMapKeys:
    """The keys of one ConfigMap: read from the API server, written by a sender, so that a dry run only shows them.

    Methods raise ApiError, TransportError, NotLeaderError.
    """

    api: KubeApi
    sender: Sender
    config_map: ObjectKey

    def read(self) -> ConfigMap:
        """What is stored; empty if the ConfigMap is missing."""
        return read_config_map(self.api, *self.config_map)

    def write(
        self, stored: ConfigMap, add: dict[str, str], remove: tuple[str, ...], valid_until_s: float
    ) -> ConfigMap:
        """Set and remove keys of the version ``stored`` in one call; a missing ConfigMap is created with the whole content.

        Returns what is stored then. ``valid_until_s``: when all keys end to hold pods; 0: no limit is written. ConflictError: another version.
        """
        content = {**{key: text for key, text in stored.data.items() if key not in remove}, **add}
        try:
            if stored.resource_version:
                call = set_keys(
                    self.config_map, stored.resource_version, add, remove, valid_until_s=valid_until_s
                )
                version = _version_after(self.sender.send(call)) or stored.resource_version
                return ConfigMap(data=content, resource_version=version, valid_until_s=valid_until_s)
        except NotFoundError:
            pass
        if content:
            call = create_config_map(self.config_map, content, valid_until_s=valid_until_s)
            version = _version_after(self.sender.send(call))
            return ConfigMap(data=content, resource_version=version, valid_until_s=valid_until_s)
        return MISSING


def _version_after(effect: Effect) -> str:
    """The resourceVersion after a write; empty after one that was only shown."""
    return effect.touched[0].version if effect.touched else ""


def raised(error: Exception | None, now_s: float) -> None:
    """The outcome of a call for callers that take errors as exceptions."""
    del now_s
    if error is not None:
        raise error


@dataclass(slots=True, kw_only=True)
class Mirror:
    """Writes what should be stored. Used by the core thread only, and never waits: calls are carried out by ``pool``.

    At most one call is under way, so that what is written later arrives later. ``lenient``: keep a stored value that is
    correct for some other key.
    """

    switch: ConfigMapKeys
    what: str = "ConfigMap"
    pool: CallPool = field(default_factory=CallPool)
    watched: Callable[[], ConfigMap | None] = lambda: None
    """What a watch of the ConfigMap has shown last, another object after each change; None: it is not watched."""
    lenient: bool = False
    lasts_s: float = 0.0
    """How long keys are valid after they were written last, so that they end if nobody leads; 0: for ever.

    They are renewed when a third of that time has passed. Without keys nothing is renewed.
    """
    additions_wait_s: float = 0.0
    """How long a key that should be stored may wait for others, so that one call writes them all."""
    removals_wait_s: float = 0.0
    """The same of a key that should be stored no more."""
    behind: bool = True
    """True unless the last ``follow`` found all stored as it should be, but for what may wait."""
    write_at_s: float | None = None
    """When what waits is written; None: nothing waits."""
    _stored: ConfigMap | None = None
    _read_at_s: float = 0.0
    _asks: bool = False
    """A call is under way."""
    _differs_since_s: float | None = None
    """Since when something has waited."""
    _seen: ConfigMap | None = None
    """What was watched and is taken in."""
    _limited: bool = False
    """There should be keys, and they end."""
    _doubtful: bool = False
    """A write was not answered: it may still arrive, unless another one changes the version before."""

    def follow(self, should: Mapping[str, str], now_s: float, done: Done = raised) -> None:
        """Begin to write the difference, if there is one and nothing is under way.

        ``done`` is called on the core thread with what became of a call, maybe before this returns.
        """
        self.behind, self._limited = True, bool(self.lasts_s and should)
        stored = self._current(now_s, done)
        if stored is None or self._asks:
            return
        add, remove = difference(should, stored.data, lenient=self.lenient)
        ends = self._limited and (self._doubtful or stored.valid_until_s < now_s + self.lasts_s * 2 / 3)
        if ends or self._due(now_s, add=bool(add), remove=bool(remove)):
            self._differs_since_s = self.write_at_s = None
            until_s = now_s + self.lasts_s if self.lasts_s else 0.0
            self._begin(lambda: self.switch.write(stored, add, remove, until_s), now_s, done, written=True)
        else:
            self.behind = False

    def look(self) -> None:
        """Forget what is stored, and read it again, if somebody else has changed or deleted it."""
        seen = self.watched()
        if seen is None or seen is self._seen or self._asks:
            return
        self._seen = seen
        if self._stored is not None and _after(seen.resource_version, self._stored.resource_version):
            self._stored = None

    def read(self, now_s: float, done: Done = raised) -> Mapping[str, str] | None:
        """What is stored, as of the last reading or writing; None while that is not known. Begins to read if it is due."""
        stored = self._current(now_s, done)
        return None if stored is None else stored.data

    @property
    def known(self) -> Mapping[str, str] | None:
        """What is stored, as of the last reading or writing; None: not known."""
        return None if self._stored is None else self._stored.data

    def ends_before(self, at_s: float) -> bool:
        """True if keys that should be stored are not known to hold pods until then."""
        return self._limited and (self._stored is None or self._stored.valid_until_s < at_s)

    def _due(self, now_s: float, *, add: bool, remove: bool) -> bool:
        """True if the difference is to be written now."""
        if not (add or remove):
            self._differs_since_s = self.write_at_s = None
            return False
        if self._differs_since_s is None:
            self._differs_since_s = now_s
        waits_s = min(
            self.additions_wait_s if add else math.inf, self.removals_wait_s if remove else math.inf
        )
        self.write_at_s = self._differs_since_s + waits_s
        return now_s >= self.write_at_s

    def _current(self, now_s: float, done: Done) -> ConfigMap | None:
        if not self._asks and (self._stored is None or now_s >= self._read_at_s + READ_AGAIN_S):
            self._read_at_s = now_s
            self._begin(self.switch.read, now_s, done, written=False)
        return self._stored

    def _begin(self, call: Callable[[], ConfigMap], now_s: float, done: Done, *, written: bool) -> None:
        self._asks = True
        took, failed = partial(self._take, done, written), partial(self._failed, done, written)
        self.pool.begin(OneCall(self.what, call, took, failed), now_s)

    def _take(self, done: Done, written: bool, stored: ConfigMap, now_s: float) -> None:  # noqa: FBT001
        self._asks, self._stored = False, stored
        self._doubtful = self._doubtful and not written
        # After a read the next round writes the difference.
        self.behind = not written
        done(None, now_s)

    def _failed(self, done: Done, written: bool, error: Exception, now_s: float) -> None:  # noqa: FBT001
        # Forgotten: it is not known whether the keys were written.
        self._asks, self._stored = False, None
        self._doubtful = self._doubtful or written
        done(error, now_s)


def _after(seen: str, stored: str) -> bool:
    """True if the version that a watch has shown is not ours and not before ours; "": there is no object."""
    if not seen or not stored:
        return seen != stored
    newer, known = int64(seen), int64(stored)
    return seen != stored if newer is None or known is None else newer > known


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
