"""Structured logs: one JSON object per line on stderr, or a readable line on a terminal.

Keys: ``ts`` (RFC 3339 UTC), ``level``, ``logger``, ``msg`` (a constant sentence), and one key for each datum.
``bind`` adds keys to every line of the current thread or task (``cycle``, ``plan``). The command line calls
``configure`` once; modules only call ``structlog.get_logger(NAME)``.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Hashable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, Final, TextIO

import structlog

from rescheduler.visible import visible

LEVELS: Final = ("debug", "info", "warning", "error")


def configure(
    level: str = "info",
    *,
    stream: TextIO | None = None,
    console: bool | None = None,
    environ: Mapping[str, str] | None = None,
) -> None:
    """Send all logs, the standard library's too, to ``stream`` (stderr).

    ``console`` None: readable lines if the stream is a terminal. NO_COLOR and FORCE_COLOR are honoured.
    Raises ValueError for an unknown level.
    """
    if level not in LEVELS:
        raise ValueError(f"unknown log level {level!r}: one of {', '.join(LEVELS)}")
    stream = stream or sys.stderr
    console = stream.isatty() if console is None else console
    number = logging.getLevelNamesMapping()[level.upper()]
    before = _common()
    renderers = _console(stream, os.environ if environ is None else environ) if console else _json()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _named,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *before,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *before],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # hides its warnings about retries and pool sizes


@contextmanager
def bind(**keys: Any) -> Iterator[None]:
    """Add ``keys`` to every line that is logged in the block."""
    with structlog.contextvars.bound_contextvars(**keys):
        yield


def _common() -> list[structlog.typing.Processor]:
    return [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
    ]


def _json() -> list[structlog.typing.Processor]:
    return [_ordered, structlog.processors.JSONRenderer(_json_line)]


def _json_line(event: Any, **_: Any) -> str:
    return visible(json.dumps(event, ensure_ascii=False, default=str))


def _console(stream: TextIO, environ: Mapping[str, str]) -> list[structlog.typing.Processor]:
    colours = bool(environ.get("FORCE_COLOR")) or (stream.isatty() and not environ.get("NO_COLOR"))
    return [_visible, structlog.dev.ConsoleRenderer(colors=colours, timestamp_key="ts")]


def _visible(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Before the colours come in: no datum of a cluster steers the terminal."""
    return {key: visible(value) if isinstance(value, str) else value for key, value in event.items()}


def _named(logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    event.setdefault("logger", getattr(logger, "name", ""))
    return event


def _ordered(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The fixed keys first, then the data."""
    head = {
        "ts": event.pop("ts", ""),
        "level": event.pop("level", ""),
        "logger": event.pop("logger", ""),
        "msg": event.pop("event", ""),
    }
    return {**head, **event}


class Seldom:
    """Which lines of a repeated problem are logged: the first one, and another one after each pause. Used by one thread."""

    def __init__(self, pause_s: float = 3_600.0, most: int = 1_000) -> None:
        """``most``: problems that are remembered; the oldest is forgotten first."""
        self._pause_s, self._most = pause_s, most
        self._said: dict[Hashable, float] = {}

    def due(self, problem: Hashable, now_s: float) -> bool:
        """True if ``problem`` is to be logged now; it then counts as logged."""
        said_s = self._said.get(problem)
        if said_s is not None and now_s < said_s + self._pause_s:
            return False
        self._said.pop(problem, None)
        if len(self._said) >= self._most:
            del self._said[next(iter(self._said))]
        self._said[problem] = now_s
        return True
