"""Label queries as kubectl takes them (``app=web,tier!=db,zone in (a,b),!spot``), for what is chosen here and not by an API server. Pure."""

from __future__ import annotations

import re
from typing import Final

from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.model.selectors import LabelSelector, Operator, Requirement

_KEY: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_TERM: Final = re.compile(
    rf"(?P<absent>!)\s*(?P<missing>{_KEY})"
    rf"|(?P<key>{_KEY})(?:\s*(?P<sign>==|=|!=)\s*(?P<value>[-A-Za-z0-9_.]*)"
    r"|\s+(?P<word>in|notin)\s*\((?P<values>[-A-Za-z0-9_.,\s]*)\))?"
)
_BETWEEN: Final = re.compile(r",(?![^()]*\))")


def label_query(option: str, text: str) -> LabelSelector:
    """The selector; of an empty text one that selects everything. Raises CommandError: it is none."""
    terms = [part.strip() for part in _BETWEEN.split(text)] if text.strip() else []
    return LabelSelector(tuple(_requirement(option, term) for term in terms))


def _requirement(option: str, term: str) -> Requirement:
    found = _TERM.fullmatch(term)
    if found is None:
        raise CommandError(
            f"{option}: {term!r} is no label query; write it like app=web, tier!=db or 'zone in (a,b)'",
            EXIT_USAGE,
        )
    if found["absent"]:
        return Requirement(found["missing"], Operator.DOES_NOT_EXIST)
    if found["sign"]:
        operator = Operator.NOT_IN if found["sign"] == "!=" else Operator.IN
        return Requirement(found["key"], operator, (found["value"],))
    if found["word"]:
        values = tuple(sorted(value.strip() for value in found["values"].split(",")))
        return Requirement(found["key"], Operator.IN if found["word"] == "in" else Operator.NOT_IN, values)
    return Requirement(found["key"], Operator.EXISTS)
