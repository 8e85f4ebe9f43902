"""Exit codes, and how errors reach a person: one clear message on stderr, never a traceback.

0 done, 1 failed (the world: no API server, refused, timed out), 2 wrong usage or input (the caller must
act), 3 done but something stays blocked (``plan --exit-code``), 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

import click

from rescheduler.cli.sources import InputError
from rescheduler.config import ConfigurationError
from rescheduler.kube.errors import ApiError, KubeconfigError
from rescheduler.kube.transport import TransportError

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_BLOCKED: Final = 3
EXIT_INTERRUPTED: Final = 130

P = ParamSpec("P")
R = TypeVar("R")


class CommandError(Exception):
    """A message for people and an exit code."""

    def __init__(self, message: str, exit_code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def reports_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the errors that a user can act on into a message and an exit code; bugs stay tracebacks."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt as error:
            _say("interrupted", error)
            raise SystemExit(EXIT_INTERRUPTED) from None
        except CommandError as error:
            _say(f"error: {error}", error)
            raise SystemExit(error.exit_code) from error
        except (ConfigurationError, InputError, KubeconfigError) as error:
            _say(f"error: {error}", error)
            raise SystemExit(EXIT_USAGE) from error
        except ApiError as error:
            _say(f"error: the API server refused: {error}", error)
            raise SystemExit(EXIT_FAILED) from error
        except TransportError as error:
            _say(f"error: no answer from the API server: {error}", error)
            raise SystemExit(EXIT_FAILED) from error

    return wrapped


def _say(message: str, error: BaseException) -> None:
    """The message, and what those that the error passed have noted on it."""
    click.echo("\n".join([message, *getattr(error, "__notes__", ())]), err=True)
