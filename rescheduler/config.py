"""The configuration document: kind ReschedulerConfiguration, from text to values, strictly.

Every problem names file, line and remedy, and all problems are reported together. A document with a
problem yields no configuration at all, so that a bad version never replaces a good one half-way. Pure: the
text is handed in.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from rescheduler.config_rooms import ReservationDefaults, ReservationsWire, read_reservations
from rescheduler.model.durations import parse_duration
from rescheduler.model.migration import MoveMode
from rescheduler.model.names import API_VERSION
from rescheduler.planning.aggressiveness import NAMED_LEVELS, limits_for
from rescheduler.planning.limits import Limits, NamespaceFilter, PlanningInputs, Protections
from rescheduler.policies.framework import Policy
from rescheduler.policies.registry import REGISTRY
from rescheduler.policies.wire import LabelSelectorArgs, PolicyArgs
from rescheduler.scheduling.configuration import SchedulerConfigurationError, parse_scheduler_configuration
from rescheduler.scheduling.framework import Profile
from rescheduler.strictyaml import Document, Path, YamlError, load, looks_like_yaml11_bool

KIND: Final = "ReschedulerConfiguration"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a document, with the place and what to do about it."""

    file: str
    line: int
    field: str
    message: str
    remedy: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}"
        what = f"{self.field}: {self.message}" if self.field else self.message
        return f"{where}: {what}" + (f" ({self.remedy})" if self.remedy else "")


class ConfigurationError(Exception):
    """The document cannot be used; its author must act. Carries every problem found."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(p) for p in problems))
        self.problems = tuple(problems)


class GateMode(enum.StrEnum):
    """Who holds replacements at their creation. Auto: the policy where the cluster has such, else the webhook."""

    AUTO = "Auto"
    POLICY = "Policy"
    WEBHOOK = "Webhook"


class GateDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """How the gate is brought about. ``port``, ``url``: of the webhook; "" is through its Service."""

    mode: GateMode = GateMode.AUTO
    port: int = 9443
    url: str = ""


class ConfiguredPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of ``policies``: its name and its own arguments."""

    name: str
    args: PolicyArgs

    def build(self) -> Policy:
        """The policy itself."""
        return REGISTRY[self.name].build(self.args)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A whole, valid configuration. Times in seconds."""

    aggressiveness: float = 0.5
    interval_s: float = 60.0
    mode: MoveMode = MoveMode.AUTO
    limits: Limits = field(default_factory=Limits)
    protections: Protections = field(default_factory=Protections)
    reservations: ReservationDefaults = field(default_factory=ReservationDefaults)
    gate: GateDefaults = field(default_factory=GateDefaults)
    policies: tuple[ConfiguredPolicy, ...] = ()
    profile: Profile = field(default_factory=Profile)
    leader_election: bool = True
    server_port: int = 8080

    @property
    def modes(self) -> dict[str, MoveMode]:
        """Modes that policies declare for their own moves, by the policy's name."""
        return {p.name: MoveMode(p.args.mode) for p in self.policies if p.args.mode and p.args.enabled}

    def inputs(self, *, unlimited: bool = False, max_moves: int | None = None) -> PlanningInputs:
        """What planning takes of it."""
        return PlanningInputs(
            limits=self.limits,
            protections=self.protections,
            aggressiveness=self.aggressiveness,
            mode=self.mode,
            modes=self.modes,
            unlimited=unlimited,
            max_moves=max_moves,
        )

    def build_policies(self) -> tuple[Policy, ...]:
        """The policies that are switched on, in their order."""
        return tuple(p.build() for p in self.policies if p.args.enabled)


class _LimitsWire(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    moves_at_once: int | None = None
    moves_per_hour: int | None = None
    per_node: int | None = None
    per_namespace: int | None = None
    per_workload: int | None = None
    minimum_gain: float | None = None
    workload_cooldown: str | None = None
    budget_buffer: int | None = None


class _NamespacesWire(msgspec.Struct, forbid_unknown_fields=True):
    include: list[str] | None = None
    exclude: list[str] | None = None


class _ProtectionsWire(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    priority_threshold: int | None = None
    min_replicas: int | None = None
    min_age: str | None = None
    local_storage: bool | None = None
    persistent_volumes: bool | None = None
    without_budget: bool | None = None
    namespaces: _NamespacesWire | None = None
    label_selector: LabelSelectorArgs | None = None


class _GateWire(msgspec.Struct, forbid_unknown_fields=True):
    mode: GateMode = GateMode.AUTO
    port: int = 9443
    url: str = ""


class _LeaderElectionWire(msgspec.Struct, forbid_unknown_fields=True):
    enabled: bool = True


class _ServerWire(msgspec.Struct, forbid_unknown_fields=True):
    port: int = 8080


_TOP_LEVEL: Final = (
    "apiVersion",
    "kind",
    "metadata",
    "aggressiveness",
    "interval",
    "mode",
    "limits",
    "reservations",
    "gate",
    "protections",
    "policies",
    "schedulerConfiguration",
    "leaderElection",
    "server",
)
_DEFAULT_POLICIES: Final = (
    "NodeTaints",
    "NodeAffinity",
    "InterPodAntiAffinity",
    "TopologySpread",
    "LowNodeUtilization",
)
_AT_PATH: Final = re.compile(r" - at `\$(?P<path>.*)`$")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")
_HTTPS_URL: Final = re.compile(r"https://([-.\w]+|\[[0-9a-fA-F:.]+\])(:\d{1,5})?(/[-./\w]*)?")
_UNKNOWN: Final = re.compile(r"unknown field `(?P<name>[^`]+)`")


def parse_configuration(text: str | bytes, file: str) -> Configuration:
    """Read a document.

    Raises:
        ConfigurationError: with every problem found, each with file, line and remedy.
    """
    try:
        document = load(text)
    except YamlError as error:
        raise ConfigurationError([Problem(file, error.line, "", error.message, error.remedy)]) from error
    reader = _Reader(file, document)
    configuration = reader.configuration()
    if reader.problems or configuration is None:
        raise ConfigurationError(sorted(reader.problems, key=lambda p: (p.line, p.field)))
    return configuration


def default_configuration() -> Configuration:
    """What holds where no document is given."""
    return parse_configuration(f"apiVersion: {API_VERSION}\nkind: {KIND}\n", "defaults")


class _Reader:
    """Reads one document section by section and gathers problems."""

    def __init__(self, file: str, document: Document) -> None:
        self._file = file
        self._document = document
        self._data: dict[str, Any] = document.data if isinstance(document.data, dict) else {}
        self.problems: list[Problem] = []

    def configuration(self) -> Configuration | None:
        if not isinstance(self._document.data, dict):
            found = "nothing" if self._document.data is None else type(self._document.data).__name__
            self._complain((), f"expected a mapping, found {found}", f"start: 'apiVersion: {API_VERSION}'")
            return None
        self._check_head()
        aggressiveness = self._aggressiveness()
        return Configuration(
            aggressiveness=aggressiveness,
            interval_s=self._duration(("interval",), self._data.get("interval"), 60.0, least=1.0),
            mode=self._section("mode", MoveMode) or MoveMode.AUTO,
            limits=self._limits(aggressiveness),
            protections=self._protections(),
            reservations=self._reservations(),
            gate=self._gate(),
            policies=self._policies(),
            profile=self._profile(),
            leader_election=(
                self._section("leaderElection", _LeaderElectionWire) or _LeaderElectionWire()
            ).enabled,
            server_port=self._port(),
        )

    def _check_head(self) -> None:
        for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
            if key not in self._data:
                self._complain((), f"'{key}' is missing", f"add '{key}: {expected}'")
            elif self._data[key] != expected:
                self._complain((key,), f"is {self._data[key]!r}", f"this version reads only {expected!r}")
        for key in self._data:
            if key not in _TOP_LEVEL:
                self._complain((key,), "unknown key", f"known keys: {', '.join(_TOP_LEVEL)}")

    def _aggressiveness(self) -> float:
        value = self._data.get("aggressiveness", "balanced")
        if isinstance(value, str) and value in NAMED_LEVELS:
            return NAMED_LEVELS[value]
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
            return float(value)
        self._complain(
            ("aggressiveness",), f"is {value!r}", f"use a number from 0 to 1, or {', '.join(NAMED_LEVELS)}"
        )
        return NAMED_LEVELS["balanced"]

    def _limits(self, aggressiveness: float) -> Limits:
        base = limits_for(aggressiveness)
        wire = self._section("limits", _LimitsWire)
        if wire is None:
            return base
        given: dict[str, Any] = {
            name: value
            for name in wire.__struct_fields__
            if name != "workload_cooldown" and (value := getattr(wire, name)) is not None
        }
        for name, value in given.items():
            if value < 0 or (name == "minimum_gain" and value > 1):
                top = " and at most 1" if name == "minimum_gain" else ""
                self._complain(("limits", _camel(name)), f"is {value}", f"must be at least 0{top}")
        given["workload_cooldown_s"] = self._duration(
            ("limits", "workloadCooldown"), wire.workload_cooldown, base.workload_cooldown_s
        )
        return msgspec.structs.replace(base, **given)

    def _protections(self) -> Protections:
        base = Protections()
        wire = self._section("protections", _ProtectionsWire)
        if wire is None:
            return base
        given: dict[str, Any] = {
            name: value
            for name in (
                "priority_threshold",
                "min_replicas",
                "local_storage",
                "persistent_volumes",
                "without_budget",
            )
            if (value := getattr(wire, name)) is not None
        }
        given["min_age_s"] = self._duration(("protections", "minAge"), wire.min_age, base.min_age_s)
        given["namespaces"] = self._namespaces(wire.namespaces, base.namespaces)
        if wire.label_selector is not None:
            selector = wire.label_selector.compiled()
            if selector.invalid:
                self._complain(("protections", "labelSelector"), selector.invalid, "see labels and selectors")
            given["label_selector"] = selector
        return msgspec.structs.replace(base, **given)

    def _namespaces(self, wire: _NamespacesWire | None, base: NamespaceFilter) -> NamespaceFilter:
        if wire is None:
            return base
        if wire.include and wire.exclude:
            self._complain(
                ("protections", "namespaces"), "both include and exclude are given", "keep one of them"
            )
        if wire.include:
            return NamespaceFilter(include=tuple(wire.include), exclude=())
        return NamespaceFilter(exclude=tuple(base.exclude if wire.exclude is None else wire.exclude))

    def _reservations(self) -> ReservationDefaults:
        wire = self._section("reservations", ReservationsWire)
        return read_reservations(wire or ReservationsWire(), self._duration, self._complain)

    def _gate(self) -> GateDefaults:
        wire = self._section("gate", _GateWire) or _GateWire()
        if not 0 < wire.port < 65536:  # noqa: PLR2004 - the port range of TCP
            self._complain(("gate", "port"), f"is {wire.port}", "use a port from 1 to 65535")
        if wire.url and not _HTTPS_URL.fullmatch(wire.url):
            remedy = "write https://HOST or https://HOST:PORT, without a query"
            self._complain(("gate", "url"), f"is {wire.url!r}", remedy)
        return GateDefaults(mode=wire.mode, port=wire.port, url=wire.url)

    def _policies(self) -> tuple[ConfiguredPolicy, ...]:
        raw = self._data.get("policies")
        if raw is None:
            return tuple(ConfiguredPolicy(name=n, args=REGISTRY[n].args()) for n in _DEFAULT_POLICIES)
        if not isinstance(raw, list):
            self._complain(("policies",), "is not a list", "write '- name: NodeAffinity' entries")
            return ()
        found: list[ConfiguredPolicy] = []
        for index, entry in enumerate(raw):
            policy = self._policy(index, entry)
            if policy is None:
                continue
            # A move tells its policy by name only, so all entries of one name must declare the same.
            if any(p.name == policy.name and p.args.mode != policy.args.mode for p in found):
                self._complain(
                    ("policies", index, "mode"), f"another {policy.name} says otherwise", "write the same"
                )
            found.append(policy)
        return tuple(found)

    def _policy(self, index: int, entry: object) -> ConfiguredPolicy | None:
        path: Path = ("policies", index)
        known = ", ".join(sorted(REGISTRY))
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            self._complain(path, "has no name", f"add 'name:' with one of {known}")
            return None
        name = entry["name"]
        if name not in REGISTRY:
            self._complain((*path, "name"), f"unknown policy {name!r}", f"known policies: {known}")
            return None
        kind = REGISTRY[name]
        args = self._convert({k: v for k, v in entry.items() if k != "name"}, kind.args, path)
        if args is None:
            return None
        for where, message in kind.problems(args):
            self._complain((*path, *where), message, "see docs/policies.md")
        return ConfiguredPolicy(name=name, args=args)

    def _profile(self) -> Profile:
        raw = self._data.get("schedulerConfiguration")
        if raw is None:
            return Profile()
        try:
            return parse_scheduler_configuration(raw)
        except SchedulerConfigurationError as error:
            path = ("schedulerConfiguration", *error.path)
            self._complain(path, str(error), "see docs/scheduling.md")
            return Profile()

    def _port(self) -> int:
        wire = self._section("server", _ServerWire) or _ServerWire()
        if not 0 <= wire.port < 65536:  # noqa: PLR2004 - the port range of TCP
            self._complain(
                ("server", "port"), f"is {wire.port}", "use a port from 1 to 65535, or 0 for any free one"
            )
        return wire.port

    def _section(self, key: str, kind: type[T]) -> T | None:
        value = self._data.get(key)
        return None if value is None else self._convert(value, kind, (key,))

    def _convert(self, value: object, kind: type[T], path: Path) -> T | None:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            inner, message = _split(str(error))
            unknown = _UNKNOWN.search(message)
            if unknown:
                inner = (*inner, unknown["name"])
                message = "unknown key"
            self._complain(
                (*path, *inner), message, self._remedy(kind, (*path, *inner), unknown=unknown is not None)
            )
            return None

    def _remedy(self, kind: type[Any], path: Path, *, unknown: bool) -> str:
        if unknown:
            fields = getattr(kind, "__struct_encode_fields__", ())
            return f"known keys: {', '.join(fields)}" if fields else "remove it"
        value: Any = self._document.data
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return ""
        return "write true or false" if looks_like_yaml11_bool(value) else ""

    def _duration(self, path: Path, value: object, default: float, *, least: float = 0.0) -> float:
        if value is None:
            return default
        remedy = "write a duration such as 90s, 5m or 1h30m"
        if not isinstance(value, str):
            self._complain(path, f"is {value!r}, not a duration", remedy)
            return default
        try:
            seconds = parse_duration(value)
        except ValueError as error:
            self._complain(path, str(error), remedy)
            return default
        if seconds < least:
            self._complain(path, f"is {value}", f"must be at least {least:g}s")
        return seconds

    def _complain(self, path: Path, message: str, remedy: str) -> None:
        name = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
        self.problems.append(Problem(self._file, self._document.line(path), name, message, remedy))


def _split(message: str) -> tuple[Path, str]:
    """Path and text of a msgspec message such as "Expected `int` - at `$.a[0]`"."""
    found = _AT_PATH.search(message)
    if not found:
        return (), message
    steps: list[str | int] = []
    for name, index in _STEP.findall(found["path"]):
        if name:
            steps.append(name)
        elif index:
            steps.append(int(index))
    return tuple(steps), message[: found.start()]


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
