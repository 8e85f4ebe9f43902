"""Validation of label keys and values, with the error texts of Kubernetes (apimachinery 1.37).

A selector with an invalid key or value is malformed. The API server accepts some of them in node affinity; the
scheduler then reports the error as the reason why a pod is not scheduled, so the texts are those of Kubernetes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from rescheduler.model.bounds import LONGEST_LABEL, LONGEST_NAME

_NAME_SYNTAX: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE_SYNTAX: Final = f"({_NAME_SYNTAX})?"
_DOMAIN_SYNTAX: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME: Final = re.compile(_NAME_SYNTAX)
_VALUE: Final = re.compile(_VALUE_SYNTAX)
_DOMAIN: Final = re.compile(_DOMAIN_SYNTAX)
_REMEMBERED: Final = 4096
_EMPTY: Final = "must be non-empty"
_ENDS: Final = "and must start and end with an alphanumeric character"
_CHARACTERS: Final = "alphanumeric characters, '-', '_' or '.',"


def _against(rule: str, syntax: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} {_ENDS} (e.g. {shown}regex used for validation is '{syntax}')"


_NAME_RULE: Final = _against(f"must consist of {_CHARACTERS}", _NAME_SYNTAX, "MyName", "my.name", "123-abc")
_VALUE_RULE: Final = _against(
    f"a valid label must be an empty string or consist of {_CHARACTERS}",
    _VALUE_SYNTAX, "MyValue", "my_value", "12345",
)  # fmt: skip
_DOMAIN_RULE: Final = _against(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',",
    _DOMAIN_SYNTAX, "example.com",
)  # fmt: skip
_KEY_RULE: Final = f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"


@lru_cache(_REMEMBERED)
def value_error(value: str) -> str:
    """The error in a label's value; empty if it is valid."""
    errors: list[str] = []
    if len(value.encode()) > LONGEST_LABEL:
        errors.append(_too_long(LONGEST_LABEL))
    if not _VALUE.fullmatch(value):
        errors.append(_VALUE_RULE)
    return "; ".join(errors)


@lru_cache(_REMEMBERED)
def key_error(key: str) -> str:
    """The error in a label's key; empty if it is valid."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return _KEY_RULE
    errors = [f"prefix part {error}" for error in _domain_errors(prefix)] if slash else []
    if not name:
        errors.append(f"name part {_EMPTY}")
    elif len(name.encode()) > LONGEST_LABEL:
        errors.append(f"name part {_too_long(LONGEST_LABEL)}")
    if not _NAME.fullmatch(name):
        errors.append(f"name part {_NAME_RULE}")
    return "; ".join(errors)


def _domain_errors(domain: str) -> list[str]:
    if not domain:
        return [_EMPTY]
    errors: list[str] = []
    if len(domain.encode()) > LONGEST_NAME:
        errors.append(_too_long(LONGEST_NAME))
    if not _DOMAIN.fullmatch(domain):
        errors.append(_DOMAIN_RULE)
    return errors


def _too_long(most: int) -> str:
    return f"must be no more than {most} bytes"
