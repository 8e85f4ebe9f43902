"""The configuration document: kind ReschedulerConfiguration, from text to values, strictly.

Every problem names file, line and remedy, and all problems are reported together. A document with a problem yields
no configuration at all, so that a bad version never replaces a good one half-way. Pure: the text is handed in. The
general keys are read here, each section in a module of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rescheduler.configuration.limits_section import (
    LimitsWire,
    ProtectionsWire,
    read_limits,
    read_protections,
)
from rescheduler.configuration.policies_section import ConfiguredPolicy, read_policies
from rescheduler.configuration.problems import ConfigurationError, Problem
from rescheduler.configuration.process_sections import (
    GateSection,
    LeaderElectionSection,
    ServerSection,
    read_gate,
    read_leader_election,
    read_server,
)
from rescheduler.configuration.reader import SectionReader, dotted
from rescheduler.configuration.replacements_section import ReplacementsWire, read_replacements
from rescheduler.configuration.reservations_section import (
    ReservationsSection,
    ReservationsWire,
    read_reservations,
)
from rescheduler.configuration.strictyaml import Document, YamlError, load
from rescheduler.configuration.value_checks import value_kind
from rescheduler.model.migration import MoveMode
from rescheduler.model.names import API_VERSION
from rescheduler.model.replacement_rules import DEFAULT_RULES, ReplacementRules
from rescheduler.planning.limits import NAMED_LEVELS, Limits, PlanningInputs, Protections
from rescheduler.policies.framework import Policy
from rescheduler.scheduling.configuration import SchedulerConfigurationError, parse_scheduler_configuration
from rescheduler.scheduling.framework import Profile
from rescheduler.scheduling.nodes import NodeTable

KIND: Final = "ReschedulerConfiguration"

_HEAD: Final = ("apiVersion", "kind", "metadata")

SECTIONS: Final[Mapping[str, type[msgspec.Struct] | None]] = {
    "aggressiveness": None,
    "interval": None,
    "mode": None,
    "limits": LimitsWire,
    "reservations": ReservationsWire,
    "gate": GateSection,
    "protections": ProtectionsWire,
    "replacements": ReplacementsWire,
    "policies": None,
    "schedulerConfiguration": None,
    "leaderElection": LeaderElectionSection,
    "server": ServerSection,
}
"""The top level below the head: a Struct for a section with keys of its own, None for a value (or a list)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A whole, valid configuration."""

    aggressiveness: float = 0.5
    """0 to 1; the limits are already set by it."""
    interval_s: float = 60.0
    """Longest time between two decisions."""
    mode: MoveMode = MoveMode.AUTO
    limits: Limits = field(default_factory=Limits)
    protections: Protections = field(default_factory=Protections)
    replacements: ReplacementRules = DEFAULT_RULES
    reservations: ReservationsSection = field(default_factory=ReservationsSection)
    gate: GateSection = field(default_factory=GateSection)
    policies: tuple[ConfiguredPolicy, ...] = ()
    profile: Profile = field(default_factory=Profile)
    """How the cluster's scheduler is configured (``schedulerConfiguration``)."""
    leader_election: LeaderElectionSection = field(default_factory=LeaderElectionSection)
    server: ServerSection = field(default_factory=ServerSection)

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
            namespace=self.reservations.namespace,
        )

    def build_policies(self) -> tuple[Policy, ...]:
        """The policies that are switched on, in their order."""
        return tuple(p.build() for p in self.policies if p.args.enabled)

    def unknown_to(self, nodes: NodeTable) -> tuple[str, ...]:
        """What policies that are switched on name and no node of the cluster has: a sentence each, with its key."""
        return tuple(
            f"{dotted(('policies', index, *path))} of {policy.name}: {message}"
            for index, policy in enumerate(self.policies)
            if policy.args.enabled
            for path, message in policy.args.unknown_to(nodes)
        )


def keys() -> tuple[str, ...]:
    """Every key that a document can set, dotted (``limits.perNode``), in the order of the sections."""
    found: list[str] = []
    for section, kind in SECTIONS.items():
        fields = msgspec.structs.fields(kind) if kind else ()
        found += [f"{section}.{f.encode_name}" for f in fields] or [section]
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
    configuration = _read(reader)
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


def _read(reader: SectionReader) -> Configuration:
    aggressiveness = _aggressiveness(reader)
    return Configuration(
        aggressiveness=aggressiveness,
        interval_s=reader.duration(("interval",), reader.value("interval"), 60.0, least=1.0),
        mode=reader.section("mode", MoveMode) or MoveMode.AUTO,
        limits=read_limits(reader, aggressiveness),
        protections=read_protections(reader),
        replacements=read_replacements(reader),
        reservations=read_reservations(reader),
        gate=read_gate(reader),
        policies=read_policies(reader),
        profile=_profile(reader),
        leader_election=read_leader_election(reader),
        server=read_server(reader),
    )


def _aggressiveness(reader: SectionReader) -> float:
    value = reader.value("aggressiveness", "balanced")
    if isinstance(value, str) and value in NAMED_LEVELS:
        return NAMED_LEVELS[value]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    remedy = f"use a number from 0 to 1, or {', '.join(NAMED_LEVELS)}"
    reader.complain(("aggressiveness",), f"is {value!r}", remedy)
    return NAMED_LEVELS["balanced"]


def _profile(reader: SectionReader) -> Profile:
    raw = reader.value("schedulerConfiguration")
    if raw is None:
        return Profile()
    try:
        return parse_scheduler_configuration(raw)
    except SchedulerConfigurationError as error:
        path = ("schedulerConfiguration", *error.path)
        reader.complain(path, str(error), "see docs/scheduling.md")
        return Profile()
