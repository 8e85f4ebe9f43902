"""Reads a DeschedulerPolicy, v1alpha1 or v1alpha2; where it stands in what people keep says ``places``.

Both versions become the same: settings of the whole policy, and the plugins of each profile with their arguments. What
is written is kept as it is; what it means here is said by ``evictor`` and ``plugins``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from rescheduler.configuration.problems import Problem
from rescheduler.configuration.reader import SectionReader
from rescheduler.configuration.strictyaml import Document, Path, Word
from rescheduler.conversion.converted_document import Remark, Section
from rescheduler.conversion.places import VERSIONS, find_policy
from rescheduler.model.names import NAMESPACE_SYNTAX

T = TypeVar("T")

EVICTOR: Final = "DefaultEvictor"
_NESTED: Final = (
    "nodeResourceUtilizationThresholds",
    "podsHavingTooManyRestarts",
    "podLifeTime",
    "removeDuplicates",
    "failedPods",
    "removeFailedPods",
)
"""Of ``params`` in v1alpha1: mappings whose keys are arguments of the plugin in v1alpha2."""
_FILTERS: Final = ("filter", "preEvictionFilter", "preevictionfilter")
"""Extension points whose plugins decide which pods may be evicted, as descheduler and its operator write them."""


class Fields:
    """The keys of one mapping, or of several that are read as one; each is read once, and tells its line."""

    def __init__(self, reader: SectionReader, document: Document, places: tuple[Path, ...]) -> None:
        self._reader = reader
        self._document = document
        self._place = places[0]
        self._found: dict[str, Path] = {}
        for place in places:
            value = reader.convert(document.at(place), dict[str, Any], place) or {}
            self._found |= {key: (*place, key) for key in value}
        self._read: set[str] = set()
        self.line = document.line(places[0])
        """Of the mapping itself."""

    def get(self, key: str, kind: type[T]) -> T | None:
        """The value as a ``kind``; None if it is not there, null or, with a complaint, wrong."""
        self._read.add(key)
        value = self.raw(key)
        return None if value is None else self._reader.convert(value, kind, self._found[key])

    def name(self) -> str:
        """The text at ``name``; "", with a complaint, if there is none."""
        name = self.get("name", str)
        if not name:
            self._reader.complain((*self._place, "name"), "is missing", "add the name of the plugin")
        return name or ""

    def raw(self, key: str) -> Any:
        """The value as it is written; None if it is not there."""
        return self._document.at(self._found[key]) if key in self._found else None

    def line_of(self, key: str) -> int:
        """Where the key stands."""
        return self._document.line(self._found[key]) if key in self._found else self.line

    def line_of_item(self, key: str, index: int) -> int:
        """Where an item of the list at a key stands."""
        return self._document.line((*self._found[key], index))

    def within(self, key: str) -> Fields | None:
        """The mapping at a key; None if it is not there or null."""
        self._read.add(key)
        return None if self.raw(key) is None else Fields(self._reader, self._document, (self._found[key],))

    def items(self, key: str) -> Iterator[Fields]:
        """Each mapping of the list at a key."""
        for index in range(len(self.get(key, list[Any]) or ())):
            yield Fields(self._reader, self._document, ((*self._found[key], index),))

    def joined(self, key: str, *inner: str) -> Fields | None:
        """The mapping at a key together with those that it holds under ``inner``; None if it is not there."""
        self._read.add(key)
        if self.raw(key) is None:
            return None
        outer = self._found[key]
        written = self.raw(key)
        nested = [name for name in inner if isinstance(written, dict) and isinstance(written.get(name), dict)]
        joined = Fields(self._reader, self._document, (outer, *((*outer, name) for name in nested)))
        joined._read.update(nested)
        return joined

    def leave_out(self, part: Section, key: str, reason: str, value: Any = None, *, name: str = "") -> None:
        """Say in ``part`` why the key, or what ``name`` calls it, is not there."""
        part.leave_out(self.line_of(key), name or key, value, reason)

    def tell_unread(self, part: Section, name: str) -> None:
        """Say in ``part`` which keys of this mapping, which is called ``name``, descheduler does not have either."""
        for key in self.unread():
            self.leave_out(part, key, "descheduler has no such key", self.raw(key), name=f"{name}.{key}")

    def namespaces(self, key: str, part: Section) -> list[str]:
        """Those of the list that can exist; of the others ``part`` says why they are not there."""
        found: list[str] = []
        for index, name in enumerate(self.get(key, list[str]) or ()):
            if re.fullmatch(NAMESPACE_SYNTAX, name):
                found.append(name)
                continue
            reason = "namespaces are compared by their whole names, so it means none: name them one by one"
            part.leave_out(self.line_of_item(key, index), f"namespaces.{key}", name, reason)
        return found

    def unread(self) -> tuple[str, ...]:
        """The keys that nobody asked for, in the order of the text."""
        return tuple(key for key in self._found if key not in self._read)

    def __contains__(self, key: str) -> bool:
        return key in self._found


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin of a profile (a strategy, in v1alpha1)."""

    name: str
    line: int
    enabled: bool
    arguments: Fields | None
    """None if it has none."""


@dataclass(frozen=True, slots=True)
class PolicyProfile:
    """What is evicted by which plugins; in v1alpha1 there is one of them, without a name."""

    name: str
    evictor: Fields | None
    """Arguments of DefaultEvictor; in v1alpha1, and in early versions of v1alpha2, keys of the whole policy."""
    plugins: tuple[Plugin, ...]
    filters: tuple[tuple[str, int], ...] = ()
    """Plugins besides DefaultEvictor that keep pods from being evicted, each with its line."""
    unknown: tuple[tuple[int, str], ...] = ()
    """Keys of plugins that stand beside ``args`` where descheduler does not look for them, each with its line."""

    def has(self, plugin: str) -> bool:
        """True if that plugin is switched on."""
        return any(one.enabled for one in self.plugins if one.name == plugin)


@dataclass(frozen=True, slots=True)
class DeschedulerPolicy:
    """A policy that could be read."""

    version: str
    settings: Fields
    """The keys at the top."""
    profiles: tuple[PolicyProfile, ...]
    """At least one."""
    problems: list[Problem]
    """What has the wrong type; grows while the values are read."""
    remarks: tuple[Remark, ...] = ()
    """About what stands around the policy."""


def read_policy(text: str | bytes, file: str, word: Word) -> DeschedulerPolicy:
    """Read a policy. ``word``: what an unquoted word means to Kubernetes.

    Raises:
        ConfigurationError: the text is no YAML, or holds no DeschedulerPolicy, or several.
    """
    place = find_policy(text, file, word)
    reader = SectionReader(file, place.document)
    top = Fields(reader, place.document, (place.path,))
    for key in ("apiVersion", "kind", "metadata"):
        top.get(key, object)
    profiles = tuple(_strategies(top) if place.version == VERSIONS[0] else _profiles(top))
    return DeschedulerPolicy(
        place.version, top, profiles or (PolicyProfile("", None, ()),), reader.problems, place.remarks
    )


def _profiles(top: Fields) -> Iterator[PolicyProfile]:
    """The profiles of v1alpha2. Plugins that are only configured come last, as not enabled."""
    for profile in top.items("profiles"):
        named = profile.get("name", object)
        configured = {one.name(): one for one in profile.items("pluginConfig")}
        plugins = profile.within("plugins")
        enabled = tuple(_enabled(plugins, ("deschedule", "balance"))) if plugins is not None else ()
        filters = dict(_enabled(plugins, _FILTERS)) if plugins is not None else {}
        names = dict.fromkeys((*(name for name, _ in enabled), *configured))
        lines = dict(reversed(enabled))
        found = (
            Plugin(
                name=name,
                line=lines[name] if name in lines else configured[name].line,
                enabled=name in lines,
                arguments=configured[name].within("args") if name in configured else None,
            )
            for name in names
            if name != EVICTOR and (name in lines or name not in filters)
        )
        evictor = configured[EVICTOR].within("args") if EVICTOR in configured else None
        plugins_found = tuple(found)
        for one in configured.values():
            one.get("args", object)
        unknown = tuple((one.line_of(key), key) for one in configured.values() for key in one.unread())
        others = tuple((name, line) for name, line in filters.items() if name != EVICTOR)
        yield PolicyProfile(str(named or ""), evictor, plugins_found, others, unknown)


def _enabled(plugins: Fields, points: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Names and lines of what is enabled at extension points, in the order in which descheduler runs them."""
    for point in points:
        stage = plugins.within(point)
        if stage is not None:
            for index, name in enumerate(stage.get("enabled", list[str]) or ()):
                yield name, stage.line_of_item("enabled", index)


def _strategies(top: Fields) -> Iterator[PolicyProfile]:
    """The strategies of v1alpha1, as one profile."""
    strategies = top.within("strategies")
    if strategies is None:
        return
    plugins = []
    for name in strategies.unread():
        strategy = strategies.within(name)
        if strategy is not None:
            enabled = strategy.get("enabled", bool) or False
            arguments = strategy.joined("params", *_NESTED)
            plugins.append(Plugin(name, strategies.line_of(name), enabled, arguments))
    yield PolicyProfile("", None, tuple(plugins))
