"""Exit codes and error messages of the commands: one message on stderr, without a traceback.

0 done, 1 failed (no API server, request rejected, timeout), 2 wrong usage or input (the user must correct it),
3 done but something stays blocked (``plan --exit-code``), 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

import click

from rescheduler.cli.dump_reader import InputError
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.errors import ReschedulerError
from rescheduler.extras import MissingExtraError
from rescheduler.kube.errors import ApiError, KubeconfigError
from rescheduler.kube.transport import TransportError

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_BLOCKED: Final = 3
EXIT_INTERRUPTED: Final = 130

P = ParamSpec("P")
R = TypeVar("R")


class CommandError(ReschedulerError):
    """An error with a message for the user and an exit code."""

    def __init__(self, message: str, exit_code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def reports_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Print errors that a user can act on, and exit with their code. Any other exception keeps its traceback."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt as error:
            _print_error("interrupted", error)
            raise SystemExit(EXIT_INTERRUPTED) from None
        except CommandError as error:
            _print_error(f"error: {error}", error)
            raise SystemExit(error.exit_code) from error
        except (ConfigurationError, InputError, KubeconfigError, MissingExtraError) as error:
            _print_error(f"error: {error}", error)
            raise SystemExit(EXIT_USAGE) from error
        except ApiError as error:
            _print_error(f"error: the API server rejected the request: {error}", error)
            raise SystemExit(EXIT_FAILED) from error
        except TransportError as error:
            _print_error(f"error: no answer from the API server: {error}", error)
            raise SystemExit(EXIT_FAILED) from error

    return wrapped


def _print_error(message: str, error: BaseException) -> None:
    """Print the message and the notes of the error."""
    click.echo("\n".join([message, *getattr(error, "__notes__", ())]), err=True)
