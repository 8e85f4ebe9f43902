"""Converts a whole DeschedulerPolicy, and checks that what comes out is a valid configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rescheduler.configuration.document import parse_configuration
from rescheduler.configuration.problems import ConfigurationError, Problem
from rescheduler.configuration.strictyaml import Word
from rescheduler.conversion.converted_document import Remark, Result
from rescheduler.conversion.evictor import convert_evictors, convert_settings
from rescheduler.conversion.plugins import convert_plugins
from rescheduler.conversion.policy_document import read_policy

_OTHER_VERSION: Final = (
    "descheduler/v1alpha2 has profiles in place of strategies, so descheduler does nothing with them: "
    "write apiVersion descheduler/v1alpha1 to have them converted"
)


@dataclass(frozen=True, slots=True)
class Conversion:
    """A configuration, and what of the policy is not in it."""

    text: str
    """A valid ReschedulerConfiguration."""
    remarks: tuple[Remark, ...]
    """Lines without an equivalent; each is a comment in the text, too."""


def convert_policy(text: str | bytes, file: str, word: Word) -> Conversion:
    """Convert a DeschedulerPolicy. ``word``: what an unquoted word of its YAML means.

    Raises:
        ConfigurationError: it cannot be read, or has values of wrong types.
    """
    policy = read_policy(text, file, word)
    result = Result(head=f"Converted from {file.rsplit('/', 1)[-1]} ({policy.version}).")
    convert_settings(policy, result)
    rules = convert_evictors(policy, result)
    convert_plugins(policy, rules, result)
    result.left_out += policy.remarks
    for key in policy.settings.unread():
        reason = _OTHER_VERSION if key == "strategies" else "descheduler has no such key"
        result.left_out.append(Remark(policy.settings.line_of(key), key, reason))
    for line, key in (found for profile in policy.profiles for found in profile.unknown):
        reason = "it stands beside 'args' of its plugin, where descheduler does not look for it"
        result.left_out.append(Remark(line, key, reason))
    if policy.problems:
        raise ConfigurationError(sorted(policy.problems, key=lambda problem: problem.line))
    _drop_invalid(result, file)
    return Conversion(result.text(), result.remarks)


def _drop_invalid(result: Result, file: str) -> None:
    """Leave out what this program refuses, with its reason: policies as a whole. Raises ConfigurationError."""
    try:
        parse_configuration(result.text(), file)
    except ConfigurationError as error:
        wrong = {_section(problem): problem for problem in error.problems}
    else:
        return
    refused: set[int] = set()
    for (section, key), problem in wrong.items():
        reason = problem.message + (f" ({problem.remedy})" if problem.remedy else "")
        if section == "protections" and key in result.protections.values:
            result.protections.drop(key, reason)
            for part in result.policies:
                part.switch_off(f"a protection of the policy cannot be used: {key}")
        elif section.startswith("policies["):
            refused.add(index := int(section[len("policies[") : -1]))
            part = result.policies[index]
            result.left_out.append(Remark(part.line, part.name, f"{key}: {reason}"))
    result.policies = [part for index, part in enumerate(result.policies) if index not in refused]
    parse_configuration(result.text(), file)


def _section(problem: Problem) -> tuple[str, str]:
    """The section of a key and its name below: ``policies[0]``, ``thresholds``."""
    section, _, key = problem.field.partition(".")
    return section, key.partition(".")[0]
