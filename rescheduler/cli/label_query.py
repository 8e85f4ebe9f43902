"""Label queries as kubectl takes them, for what is chosen here and not by an API server. Pure."""

from __future__ import annotations

from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.model import selectors
from rescheduler.model.selectors import LabelSelector


def label_query(option: str, text: str) -> LabelSelector:
    """The selector; of an empty text one that selects everything. Raises CommandError: it is none."""
    try:
        return LabelSelector(selectors.label_query(text))
    except selectors.LabelQueryError as error:
        message = (
            f"{option}: {str(error)!r} is no label query; write it like app=web, tier!=db or 'zone in (a,b)'"
        )
        raise CommandError(message, EXIT_USAGE) from error
