"""What holds for every value of a document, whatever its section: it is there, and it is no absurd number.

A key without a value can mean "none" or "as by default", and its author thinks of one of them: so it means neither. A number
beyond any cluster is a slip of the hand, and would mean "no limit" where a limit was wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import inspect

from rescheduler.configuration.strictyaml import Path

MOST: Final = (1 << 31) - 1
"""The largest priority of a pod, and more than anything else here."""
MOST_IN_LIMITS: Final = 1_000_000
"""Moves, or moves in an hour: several for each pod of the largest cluster."""

VALUE_KINDS: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}
"""What people call the kinds of values, by what msgspec calls them."""
_KIND_NAMES: Final = {int: "int", float: "float", str: "str", bool: "bool", list: "array", dict: "object"}

_JUDGED_ELSEWHERE: Final = (("schedulerConfiguration",), ("metadata",), ("reservations", "shares"))
"""Of Kubernetes, or amounts of resources."""

ValueProblem = tuple[Path, str, str]
"""Where, what is wrong, and the remedy."""


def value_problems(value: Any, path: Path = ()) -> Iterator[ValueProblem]:
    """What is wrong in ``value``, which stands at ``path``."""
    if value is None and path:
        yield path, "has no value", "write one, or remove the key"
    if path in _JUDGED_ELSEWHERE:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from value_problems(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from value_problems(inner, (*path, index))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        most = MOST_IN_LIMITS if path[:1] == ("limits",) else MOST
        if abs(value) > most:
            yield path, f"is {value:.4g}", f"must be at most {most:,}"


def value_kind(value: object) -> str:
    """What people call the kind of a value; "nothing" of none."""
    return VALUE_KINDS[_KIND_NAMES[type(value)]] if type(value) in _KIND_NAMES else "nothing"


def allowed_words(kind: Any) -> tuple[str, ...]:
    """The words that a ``kind`` allows; empty where any may stand there."""
    return tuple(dict.fromkeys(_words(inspect.type_info(kind))))


def _words(kind: inspect.Type) -> Iterator[str]:
    if isinstance(kind, inspect.UnionType):
        for part in kind.types:
            yield from _words(part)
    elif isinstance(kind, inspect.EnumType):
        yield from (str(member.value) for member in kind.cls)
    elif isinstance(kind, inspect.LiteralType):
        yield from map(str, kind.values)
    elif isinstance(kind, inspect.BoolType):
        yield from ("true", "false")
