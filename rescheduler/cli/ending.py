"""How every command ends: with an exit code, and one message on stderr where something is wrong.

0 done, 1 failed (no API server, request rejected, timeout), 2 wrong usage or input (the user must correct it),
3 done but something stays blocked (``plan --exit-code``), 130 interrupted. Only a defect of the program has a traceback.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any, Final

import click

from rescheduler.cli.errors import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, CommandError
from rescheduler.cli.output import tell
from rescheduler.cli.streams import reason, settled
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.errors import PolicyError
from rescheduler.extras import MissingExtraError
from rescheduler.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ForbiddenError,
    KubeconfigError,
    UnauthorizedError,
)
from rescheduler.kube.transport import TransportError

_ROLES: Final = "docs/security.md says which of the roles rescheduler-read, -user, -reserver and -operator a command needs"


def exit_code_of(command: Callable[[], Any]) -> int:
    """Run a command and tell what is wrong; the exit code. What is left for stdout is written.

    ``command`` raises instead of exiting, as click does it without its standalone mode. A defect of the program is raised.
    """
    try:
        code = _code(command())
    except SystemExit as end:
        code = _code(end.code)
    except BaseException as error:
        ended = _told(error)
        if ended is None:
            raise
        code = ended
    unwritten = settled(sys.stdout)
    if unwritten is None or code not in (EXIT_DONE, EXIT_FAILED):
        return code
    if code == EXIT_DONE and not isinstance(unwritten, BrokenPipeError):
        tell(_cannot_write(unwritten))
    return EXIT_FAILED


def _code(result: object) -> int:
    return result if isinstance(result, int) else EXIT_DONE


def _told(error: BaseException) -> int | None:
    """The exit code of an error that a user can act on, after its message; None for any other."""
    cause = error.__cause__ if isinstance(error, click.Abort) and error.__cause__ else error
    if isinstance(cause, KeyboardInterrupt):
        return _say("interrupted", cause, EXIT_INTERRUPTED)
    match error:
        case click.ClickException():
            shown = io.StringIO()
            error.show(shown)
            said = shown.getvalue().rstrip("\n")
            for kind, words in (
                ("integer", "whole number"),
                ("float", "number"),
            ):  # click's words for a type with bounds
                said = said.replace(f"is not a valid {kind} range", f"is not a {words}")
            # a group without a command shows its help alone
            usage, refused, message = said.rpartition("Error: ")
            return _say(f"{usage}error: {message}" if refused else said, error, error.exit_code)
        case CommandError() | PolicyError():
            return _say(f"error: {error}", error, getattr(error, "exit_code", EXIT_FAILED))
        case ConfigurationError() | KubeconfigError() | MissingExtraError():
            return _say(f"error: {error}", error, EXIT_USAGE)
        case ApiError():
            return _say(f"error: {_rejection(error)}", error, EXIT_FAILED)
        case TransportError():
            return _say(f"error: no answer from the API server: {error}", error, EXIT_FAILED)
        case MemoryError():
            return _say("error: there is not enough memory for it", error, EXIT_FAILED)
        case OSError():  # without a file it is of stdout: whoever calls a server turns its errors into TransportError
            return _say(f"error: {error}" if error.filename else _cannot_write(error), error, EXIT_FAILED)
        case _:
            return None


def _rejection(error: ApiError) -> str:
    match error:
        case UnauthorizedError():
            remedy = "log in again, or give another --kubeconfig or --context"
            return f"the API server does not accept the credentials: {error} ({remedy})"
        case ForbiddenError():
            said = error.message or "the API server says no more"
            return f"you may not do this: {said} ({_ROLES})"
        case AlreadyExistsError() if error.message:
            return error.message
        case _:
            return f"the API server rejected the request: {error}"


def _cannot_write(error: OSError) -> str:
    return f"error: standard output: cannot write: {reason(error)}"


def _say(message: str, error: BaseException, code: int) -> int:
    """Print the message and the notes of the error."""
    tell("\n".join([message, *getattr(error, "__notes__", ())]))
    return code
