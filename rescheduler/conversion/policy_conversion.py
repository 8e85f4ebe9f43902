"""Converts a whole DeschedulerPolicy, and checks that what comes out is a valid configuration."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rescheduler.configuration.document import parse_configuration
from rescheduler.configuration.problems import ConfigurationError
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
    convert_evictors(policy, result)
    convert_plugins(policy, result)
    result.left_out += policy.remarks
    for key in policy.settings.unread():
        reason = _OTHER_VERSION if key == "strategies" else "descheduler has no such key"
        result.left_out.append(Remark(policy.settings.line_of(key), key, reason))
    for line, key in (found for profile in policy.profiles for found in profile.unknown):
        reason = "it stands beside 'args' of its plugin, where descheduler does not look for it"
        result.left_out.append(Remark(line, key, reason))
    if policy.problems:
        raise ConfigurationError(sorted(dict.fromkeys(policy.problems), key=lambda problem: problem.line))
    _drop_invalid(result, file)
    return Conversion(result.text(), result.remarks)


def _drop_invalid(result: Result, file: str) -> None:
    """Leave out what this program refuses, with its reason: policies as a whole. Raises ConfigurationError."""
    try:
        parse_configuration(result.text(), file)
    except ConfigurationError as error:
        problems = error.problems
    else:
        return
    refused: set[int] = set()
    for problem in problems:
        reason = problem.message + (f" ({problem.remedy})" if problem.remedy else "")
        found = _FIELD.match(problem.field)
        if found is None:
            continue
        profiles = result.profiles if found["profile"] is None else [result.profiles[int(found["profile"])]]
        if found["entry"] is not None:
            policies = [part for profile in profiles for part in profile.policies]
            part = policies[int(found["entry"])]
            if id(part) not in refused:
                refused.add(id(part))
                result.left_out += part.remarks
            result.left_out.append(Remark(part.line, part.name, f"{found['key']}: {reason}"))
            continue
        section = result.protections if found["profile"] is None else profiles[0].protections
        if found["key"] in section.values:
            section.drop(found["key"], reason)
            for part in (part for profile in profiles for part in profile.policies):
                part.switch_off(f"a protection of the policy cannot be used: {found['key']}")
    for profile in result.profiles:
        profile.policies = [part for part in profile.policies if id(part) not in refused]
    parse_configuration(result.text(), file)


_FIELD: Final = re.compile(
    r"(profiles\[(?P<profile>\d+)\]\.)?(protections|policies\[(?P<entry>\d+)\])\.?(?P<key>\w*)"
)
"""Where a problem of the result is: a protection or an argument of a policy, of all or of one profile."""
