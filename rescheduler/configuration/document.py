"""The configuration document: kind ReschedulerConfiguration, from text to values, strictly.

Every problem names file, line and remedy, and all problems are reported together. A document with a problem yields
no configuration at all, so that a bad version never replaces a good one half-way. Pure: the text is handed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec

from rescheduler.configuration.policies_section import (
    ConfiguredPolicy,
    ConfiguredProfile,
    read_policies,
    read_profiles,
)
from rescheduler.configuration.problems import ConfigurationError, Problem
from rescheduler.configuration.process_sections import GateSection, LeaderElectionSection, ServerSection
from rescheduler.configuration.reader import SectionReader, dotted, value_kind
from rescheduler.configuration.strictyaml import Document, YamlError, load
from rescheduler.guard.settings import GuardSettings
from rescheduler.model.migration import MoveMode
from rescheduler.model.names import API_VERSION
from rescheduler.model.replacement_rules import ReplacementRules
from rescheduler.model.usage_settings import UsageSettings
from rescheduler.model.written import (
    LONGEST_S,
    SECONDS,
    DocumentSection,
    Mistake,
    MistakenError,
    WrittenAs,
    keyed_fields,
)
from rescheduler.planning.failed_pods import FailedPods
from rescheduler.planning.limits import NAMED_LEVELS, Level, Limits, PlanningInputs, Protections, limits_for
from rescheduler.policies.framework import Policy
from rescheduler.policies.utilization import ACTUAL
from rescheduler.policies.wire import PolicyArgs
from rescheduler.policies.workload_spread import WorkloadSpread, WorkloadSpreadArgs
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.scheduling.configuration import SchedulerConfigurationError, parse_scheduler_configuration
from rescheduler.scheduling.framework import Profile
from rescheduler.scheduling.nodes import NodeTable
from rescheduler.suggestions import did_you_mean

KIND: Final = "ReschedulerConfiguration"

_READ_FIRST: Final = ("aggressiveness", "protections", "policies", "profiles")
_HEAD: Final = ("apiVersion", "kind", "metadata")


def _profile(written: object) -> Profile:
    try:
        return parse_scheduler_configuration(written)
    except SchedulerConfigurationError as error:
        raise MistakenError([(error.path, error.message, error.remedy)]) from error


class Configuration(DocumentSection, frozen=True, kw_only=True):
    """A whole, valid configuration."""

    aggressiveness: Level = 0.5
    """0 to 1; the limits are already set by it."""
    interval_s: Annotated[float, SECONDS, msgspec.Meta(ge=1.0, le=LONGEST_S)] = 60.0
    """Longest time between two decisions."""
    mode: MoveMode = MoveMode.AUTO
    limits: Limits = Limits()
    reservations: ReservationSettings = ReservationSettings()
    gate: GateSection = GateSection()
    guard: GuardSettings = GuardSettings()
    protections: Protections = Protections()
    replacements: ReplacementRules = ReplacementRules()
    failed_pods: FailedPods = FailedPods()
    policies: tuple[ConfiguredPolicy, ...] = ()
    """Those of all profiles, if there are any."""
    profiles: tuple[ConfiguredProfile, ...] = ()
    usage: UsageSettings = UsageSettings()
    profile: Annotated[Profile, WrittenAs(Any, _profile)] = msgspec.field(
        default=Profile(), name="schedulerConfiguration"
    )
    """How the cluster's scheduler is configured."""
    leader_election: LeaderElectionSection = LeaderElectionSection()
    server: ServerSection = ServerSection()

    def mistakes(self) -> Iterator[Mistake]:
        """A window names a policy that is not in the list."""
        known = [*dict.fromkeys(name for one in self.policies for name in (one.title, one.name))]
        for index, window in enumerate(self.limits.windows):
            for place, name in enumerate(window.policies):
                if name not in known:
                    where = ("limits", "windows", index, "policies", place)
                    yield (
                        where,
                        f"is {name!r}{did_you_mean(name, known)}",
                        "name policies of the list `policies`",
                    )

    @property
    def goes_by_measurement(self) -> bool:
        """True if a policy that is switched on asks for measured usage."""
        return any(getattr(p.args, "usage", "") == ACTUAL for p in self.policies if p.args.enabled)

    @property
    def modes(self) -> dict[str, MoveMode]:
        """Modes that policies declare for their own moves, by the policy's name."""
        return {p.title: MoveMode(p.args.mode) for p in self.policies if p.args.mode and p.args.enabled}

    @property
    def hints(self) -> dict[str, float]:
        """For how long a node is avoided that a pod leaves, in seconds, where policies say it for their own moves."""
        said = ((p.title, p.args.hint) for p in self.policies if p.args.enabled)
        return {name: hint_s for name, hint_s in said if hint_s is not None}

    @property
    def protections_by_policy(self) -> dict[str, Protections]:
        """Of the policies that are in a profile; WorkloadSpread, which proposes nothing, goes with the first of them."""
        found = {policy.title: one.protections for one in self.profiles for policy in one.policies}
        return {WorkloadSpread.name: self.profiles[0].protections, **found} if found else {}

    @property
    def echoes(self) -> frozenset[str]:
        """Policies of profiles that look at the same as one of an earlier profile: what is bad counts once."""
        seen: list[tuple[str, PolicyArgs]] = []
        found: list[str] = []
        for one in (one for profile in self.profiles for one in profile.policies if one.args.enabled):
            looks_at = one.name, msgspec.structs.replace(one.args, mode=None, hint=None)
            if looks_at in seen:
                found.append(one.title)
            seen.append(looks_at)
        return frozenset(found)

    def inputs(self, *, unlimited: bool = False, max_moves: int | None = None) -> PlanningInputs:
        """What planning takes of it."""
        return PlanningInputs(
            limits=self.limits,
            protections=self.protections,
            profiles=self.protections_by_policy,
            echoes=self.echoes,
            aggressiveness=self.aggressiveness,
            mode=self.mode,
            modes=self.modes,
            unlimited=unlimited,
            max_moves=max_moves,
            namespace=self.reservations.namespace,
        )

    def build_policies(self) -> tuple[Policy, ...]:
        """The policies that are switched on, in their order; WorkloadSpread beside them, unless an entry says otherwise."""
        found = tuple(p.build() for p in self.policies if p.args.enabled)
        named = not found or any(p.name == WorkloadSpread.name for p in self.policies)
        return found if named else (*found, WorkloadSpread(WorkloadSpreadArgs()))

    def unknown_to(self, nodes: NodeTable) -> tuple[str, ...]:
        """What policies that are switched on name and no node of the cluster has: a sentence each, with its key."""
        lists = (
            [((), self.policies)]
            if not self.profiles
            else [(("profiles", index), one.policies) for index, one in enumerate(self.profiles)]
        )
        return tuple(
            f"{dotted((*where, 'policies', index, *path))} of {policy.title}: {message}"
            for where, policies in lists
            for index, policy in enumerate(policies)
            if policy.args.enabled
            for path, message in policy.args.unknown_to(nodes)
        )


SECTIONS: Final = tuple(keyed_fields(Configuration))
"""The top level below the head."""


def keys() -> tuple[str, ...]:
    """Every key that a document can set, dotted (``limits.perNode``), in the order of the sections."""
    found: list[str] = []
    for section, field in keyed_fields(Configuration).items():
        own = keyed_fields(field.type) if isinstance(field.default, DocumentSection) else {}
        found += [f"{section}.{key}" for key in own] or [section]
    return tuple(found)


def parse_configuration(text: str | bytes, file: str) -> Configuration:
    """Read a document.

    Raises:
        ConfigurationError: with every problem found, each with file, line and remedy.
    """
    try:
        document = load(text)
    except YamlError as error:
        raise ConfigurationError([Problem(file, error.line, "", error.message, error.remedy)]) from error
    _check_mapping(document, file)
    reader = SectionReader(file, document)
    reader.check_values()
    _check_top_level(reader, document)
    configuration = _read(reader, document.data)
    if reader.problems:
        raise ConfigurationError(sorted(reader.problems, key=lambda p: (p.line, p.field)))
    return configuration


def default_configuration() -> Configuration:
    """What holds where no document is given."""
    return parse_configuration(f"apiVersion: {API_VERSION}\nkind: {KIND}\n", "defaults")


def _check_mapping(document: Document, file: str) -> None:
    if isinstance(document.data, dict):
        return
    found = "nothing" if document.data is None else value_kind(document.data)
    remedy = f"start: 'apiVersion: {API_VERSION}'"
    problem = Problem(file, document.line(()), "", f"expected a mapping, found {found}", remedy)
    raise ConfigurationError([problem])


def _check_top_level(reader: SectionReader, document: Document) -> None:
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if key not in document.data:
            reader.complain((), f"'{key}' is missing", f"add '{key}: {expected}'")
        elif document.data[key] != expected:
            reader.complain((key,), f"is {document.data[key]!r}", f"this version reads only {expected!r}")
    known = (*_HEAD, *SECTIONS)
    for key in document.data:
        if key not in known:
            reader.complain_of_key((key,), known)


def _read(reader: SectionReader, data: dict[str, Any]) -> Configuration:
    """What is written goes before the defaults, and those of the limits follow from the aggressiveness."""
    level = reader.convert(data.get("aggressiveness", "balanced"), Level, ("aggressiveness",))
    level = NAMED_LEVELS["balanced"] if level is None else level
    protections = reader.overlay(Protections(), data.get("protections", {}), ("protections",))
    profiles = read_profiles(reader, data, protections)
    policies = read_policies(reader, data) or tuple(one for profile in profiles for one in profile.policies)
    base = Configuration(
        aggressiveness=level,
        limits=limits_for(level),
        protections=protections,
        profiles=profiles,
        policies=policies,
    )
    rest = {key: data[key] for key in SECTIONS if key in data and key not in _READ_FIRST}
    return reader.overlay(base, rest)
