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
class Result:
    """The sections of the configuration."""

    head: str
    """What the first comment says."""
    limits: Section = field(default_factory=Section)
    protections: Section = field(default_factory=Section)
    failed_pods: Section = field(default_factory=Section)
    policies: list[PolicyEntry] = field(default_factory=list)
    left_out: list[Remark] = field(default_factory=list)
    """Of the policy as a whole, and plugins without an equivalent."""

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Everything that has no equivalent, by line."""
        parts = (self.limits, self.protections, self.failed_pods, *self.policies)
        return tuple(sorted((*self.left_out, *(r for p in parts for r in p.remarks)), key=lambda r: r.line))

    def text(self) -> str:
        """The document."""
        lines = [
            *_comment(self.head, ""),
            "apiVersion: rescheduler.dev/v1alpha1",
            "kind: ReschedulerConfiguration",
        ]
        sections = {"limits": self.limits, "protections": self.protections, "failedPods": self.failed_pods}
        for name, part in sections.items():
            inner = part.lines("  ")
            if part.values:
                lines += [f"{name}:", *inner]
            else:
                lines += part.lines("")
        lines += ["policies:"] if self.policies else ["policies: []"]
        for policy in self.policies:
            lines += [f"- name: {policy.name}", *policy.lines("  ")]
        if self.left_out:
            lines += ["# Without an equivalent:"]
            for remark in self.left_out:
                lines += _comment(str(remark), "")
        return "\n".join(lines) + "\n"


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
