"""Writes a converted configuration: YAML in which every line that has no equivalent is a comment with the reason."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rescheduler.visible import visible

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*", re.ASCII)
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9-]+", re.ASCII)
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_LONGEST_VALUE: Final = 60
"""Characters of a value in a comment."""
_WIDTH: Final = 110


@dataclass(frozen=True, slots=True)
class Remark:
    """A line of the policy that has no equivalent, or whose equivalent differs."""

    line: int
    what: str
    """The key with its value, as it is written there."""
    reason: str

    def __str__(self) -> str:
        return visible(f"line {self.line}: {self.what}: {self.reason}")


@dataclass(slots=True)
class Section:
    """One mapping of the result."""

    values: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    """By key: what stands above it as a comment."""
    sources: dict[str, int] = field(default_factory=dict)
    """By key: the line that it comes from."""
    remarks: list[Remark] = field(default_factory=list)
    """What has no equivalent, below the keys."""

    def put(self, key: str, value: Any, note: str = "", *, line: int = 1) -> None:
        """Set a key; ``line``: where its value comes from."""
        self.values[key] = value
        self.sources[key] = line
        if note:
            self.notes[key] = note

    def leave_out(self, line: int, key: str, value: Any, reason: str) -> None:
        """Say why a line of the policy is not here."""
        shown = "" if value is None or isinstance(value, bool) else f": {flow(value)}"
        if len(shown) > _LONGEST_VALUE:
            shown = f"{shown[:_LONGEST_VALUE]}..."
        self.remarks.append(Remark(line, f"{key}{shown}", reason))

    def drop(self, key: str, reason: str) -> None:
        """Take a key back, because its value cannot be used here."""
        self.leave_out(self.sources[key], key, self.values.pop(key), reason)

    def lines(self, indent: str) -> list[str]:
        """The keys, each below its comment, and the remarks."""
        found: list[str] = []
        for key, value in self.values.items():
            if key in self.notes:
                found += _comment(self.notes[key], indent)
            found.append(f"{indent}{key}: {flow(value)}")
        for remark in self.remarks:
            found += _comment(str(remark), indent)
        return found


@dataclass(slots=True)
class PolicyEntry(Section):
    """One entry of ``policies``."""

    name: str = ""
    line: int = 0
    """Of the plugin that it comes from."""

    def switch_off(self, reason: str) -> None:
        """It would move pods that descheduler leaves, until somebody has looked at it."""
        said = self.notes.get("enabled", "")
        self.put("enabled", False, f"{said}; {reason}" if said else reason)


@dataclass(slots=True)
class ProfilePart:
    """What one profile becomes."""

    name: str
    protections: Section = field(default_factory=Section)
    """In the end, those that not all profiles have."""
    policies: list[PolicyEntry] = field(default_factory=list)
    off: list[str] = field(default_factory=list)
    """Why its policies are switched off: descheduler protects pods by a rule that cannot be said here."""


@dataclass(slots=True)
class Result:
    """The sections of the configuration."""

    head: str
    """What the first comment says."""
    limits: Section = field(default_factory=Section)
    protections: Section = field(default_factory=Section)
    """Of all profiles."""
    failed_pods: Section = field(default_factory=Section)
    profiles: list[ProfilePart] = field(default_factory=list)
    left_out: list[Remark] = field(default_factory=list)
    """Of the policy as a whole, and plugins without an equivalent."""

    @property
    def policies(self) -> list[PolicyEntry]:
        """Those of all profiles."""
        return [policy for profile in self.profiles for policy in profile.policies]

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Everything that has no equivalent, by line."""
        own = (profile.protections for profile in self.profiles)
        parts = (self.limits, self.protections, self.failed_pods, *own, *self.policies)
        found = dict.fromkeys((*self.left_out, *(remark for part in parts for remark in part.remarks)))
        return tuple(sorted(found, key=lambda remark: remark.line))

    def gather_protections(self) -> None:
        """What all profiles have alike stands once."""
        sections = [profile.protections for profile in self.profiles]
        first = sections[0] if sections else Section()
        for key, value in tuple(first.values.items()):
            if all(key in one.values and one.values[key] == value for one in sections):
                self.protections.put(key, value, first.notes.get(key, ""), line=first.sources[key])
                for one in sections:
                    del one.values[key]
        self.protections.remarks = [r for r in first.remarks if all(r in one.remarks for one in sections)]
        for one in sections:
            one.remarks = [remark for remark in one.remarks if remark not in self.protections.remarks]

    def text(self) -> str:
        """The document: with profiles where their protections differ, or a policy stands in several."""
        lines = [
            *_comment(self.head, ""),
            "apiVersion: rescheduler.dev/v1alpha1",
            "kind: ReschedulerConfiguration",
        ]
        sections = {"limits": self.limits, "protections": self.protections, "failedPods": self.failed_pods}
        for name, part in sections.items():
            lines += _section(name, part, "")
        names = [policy.name for policy in self.policies]
        if any(profile.protections.values for profile in self.profiles) or len(set(names)) < len(names):
            lines += ["profiles:"]
            for name, profile in zip(self._names(), self.profiles, strict=True):
                lines += [f"- name: {flow(name)}", *_section("protections", profile.protections, "  ")]
                lines += _policies(profile.policies, "  ")
        else:
            lines += [line for one in self.profiles for line in one.protections.lines("")]
            lines += _policies(self.policies, "")
        if self.left_out:
            lines += ["# Without an equivalent:"]
            for remark in self.left_out:
                lines += _comment(str(remark), "")
        return "\n".join(lines) + "\n"

    def _names(self) -> list[str]:
        """Names that differ, of the characters that a name may have."""
        found: list[str] = []
        for number, profile in enumerate(self.profiles, 1):
            name = _NO_NAME.sub("-", profile.name)[:50].strip("-") or f"profile-{number}"
            found.append(name if name not in found else f"{name}-{number}")
        return found


def _section(name: str, part: Section, indent: str) -> list[str]:
    if not part.values:
        return part.lines(indent)
    return [f"{indent}{name}:", *part.lines(f"{indent}  ")]


def _policies(policies: list[PolicyEntry], indent: str) -> list[str]:
    lines = [f"{indent}policies:" if policies else f"{indent}policies: []"]
    for policy in policies:
        lines += [f"{indent}- name: {policy.name}", *policy.lines(f"{indent}  ")]
    return lines


def flow(value: Any) -> str:
    """A value on one line, as YAML 1.2 and 1.1 read it alike."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(str(key))}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(flow(inner) for inner in value) + "]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value)


def _comment(text: str, indent: str) -> list[str]:
    prefix = f"{indent}# "
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=prefix,
        subsequent_indent=f"{prefix}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
