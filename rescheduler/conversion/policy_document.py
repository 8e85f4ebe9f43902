"""Reads a DeschedulerPolicy, v1alpha1 or v1alpha2, bare or as people keep it: in a ConfigMap or in values of the Helm chart.

Both versions become the same: settings of the whole policy, and the plugins of each profile with their arguments. What
is written is kept as it is; what it means here is said by ``evictor`` and ``plugins``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from rescheduler.configuration.config_map_manifest import text_within
from rescheduler.configuration.problems import ConfigurationError, Problem
from rescheduler.configuration.reader import SectionReader
from rescheduler.configuration.strictyaml import Document, Path, Word, YamlError, load

T = TypeVar("T")

EVICTOR: Final = "DefaultEvictor"
_KIND: Final = "DeschedulerPolicy"
_VERSIONS: Final = ("descheduler/v1alpha1", "descheduler/v1alpha2")
_CONFIG_MAP_KEY: Final = "policy.yaml"
_HELM_POLICY: Final = "deschedulerPolicy"
_HELM_VERSION: Final = "deschedulerPolicyAPIVersion"
_NESTED: Final = (
    "nodeResourceUtilizationThresholds",
    "podsHavingTooManyRestarts",
    "podLifeTime",
    "removeDuplicates",
    "failedPods",
    "removeFailedPods",
)
"""Of ``params`` in v1alpha1: mappings whose keys are arguments of the plugin in v1alpha2."""
_REMEDY: Final = (
    "give a DeschedulerPolicy, a ConfigMap that has one under policy.yaml, or values of its Helm chart"
)


class Fields:
    """The keys of one mapping, or of several that are read as one; each is read once, and tells its line."""

    def __init__(self, reader: SectionReader, document: Document, places: tuple[Path, ...]) -> None:
        self._reader = reader
        self._document = document
        self._place = places[0]
        self._found: dict[str, Path] = {}
        for place in places:
            value = reader.convert(_at(document.data, place), dict[str, Any], place) or {}
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
        return _at(self._document.data, self._found[key]) if key in self._found else None

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

    evictor: Fields | None
    """Arguments of DefaultEvictor; in v1alpha1, and in early versions of v1alpha2, keys of the whole policy."""
    plugins: tuple[Plugin, ...]
    unknown: tuple[tuple[int, str], ...] = ()
    """Keys of plugins that stand beside ``args`` where descheduler does not look for them, each with its line."""


@dataclass(frozen=True, slots=True)
class DeschedulerPolicy:
    """A policy that could be read."""

    version: str
    settings: Fields
    """The keys at the top."""
    profiles: tuple[PolicyProfile, ...]
    problems: list[Problem]
    """What has the wrong type; grows while the values are read."""


def read_policy(text: str | bytes, file: str, word: Word) -> DeschedulerPolicy:
    """Read a policy. ``word``: what an unquoted word means to Kubernetes.

    Raises:
        ConfigurationError: the text is no YAML, or holds no DeschedulerPolicy.
    """
    document, place, version = _unwrapped(_loaded(text, file, word), file, word)
    reader = SectionReader(file, document)
    top = Fields(reader, document, (place,))
    for key in ("apiVersion", "kind", "metadata"):
        top.get(key, object)
    profiles = _strategies(top) if version == _VERSIONS[0] else _profiles(top)
    return DeschedulerPolicy(version, top, tuple(profiles), reader.problems)


def _loaded(text: str | bytes, file: str, word: Word) -> Document:
    try:
        document = load(text, word)
    except YamlError as error:
        raise ConfigurationError([Problem(file, error.line, "", error.message, error.remedy)]) from error
    if not isinstance(document.data, dict):
        raise ConfigurationError([Problem(file, document.line(()), "", "this is no mapping", _REMEDY)])
    return document


def _unwrapped(document: Document, file: str, word: Word) -> tuple[Document, Path, str]:
    """The document with the policy, where in it the policy is, and its version. Raises ConfigurationError."""
    data = document.data
    if (inner := text_within(document, _CONFIG_MAP_KEY)) is not None:
        text, offset = inner
        found = _loaded(text, file, word)
        lines = {path: line + offset for path, line in found.lines.items()}
        return _unwrapped(Document(found.data, lines), file, word)
    # Values of the chart have a 'kind', too: that of the workload which runs descheduler.
    if data.get("kind") != _KIND and isinstance(data.get(_HELM_POLICY), dict):
        # Charts of descheduler 0.26 and older know one version only, and their values do not name it.
        old = "strategies" in data[_HELM_POLICY]
        version = data.get(_HELM_VERSION, _VERSIONS[0] if old else _VERSIONS[1])
        return document, (_HELM_POLICY,), _known(version, document.line((_HELM_VERSION,)), file)
    if data.get("kind") != _KIND:
        found_kind = f"the kind is {data['kind']!r}" if "kind" in data else "'kind' is missing"
        raise ConfigurationError([Problem(file, document.line(("kind",)), "kind", found_kind, _REMEDY)])
    return document, (), _known(data.get("apiVersion"), document.line(("apiVersion",)), file)


def _known(version: object, line: int, file: str) -> str:
    if isinstance(version, str) and version in _VERSIONS:
        return version
    message = f"is {version!r}"
    raise ConfigurationError([Problem(file, line, "apiVersion", message, f"use {' or '.join(_VERSIONS)}")])


def _profiles(top: Fields) -> Iterator[PolicyProfile]:
    """The profiles of v1alpha2. Plugins that are only configured come last, as not enabled."""
    for profile in top.items("profiles"):
        profile.get("name", object)
        configured = {one.name(): one for one in profile.items("pluginConfig")}
        plugins = profile.within("plugins")
        enabled = tuple(_enabled(plugins)) if plugins is not None else ()
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
            if name != EVICTOR
        )
        evictor = configured[EVICTOR].within("args") if EVICTOR in configured else None
        plugins_found = tuple(found)
        for one in configured.values():
            one.get("args", object)
        unknown = tuple((one.line_of(key), key) for one in configured.values() for key in one.unread())
        yield PolicyProfile(evictor, plugins_found, unknown)


def _enabled(plugins: Fields) -> Iterator[tuple[str, int]]:
    """Names and lines in the order in which descheduler runs them: those of Deschedule before those of Balance."""
    for point in ("deschedule", "balance"):
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
    yield PolicyProfile(None, tuple(plugins))


def _at(data: Mapping[str, Any] | list[Any], path: Path) -> Any:
    value: Any = data
    for step in path:
        value = value[step]
    return value
