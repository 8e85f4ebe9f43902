"""Options and API client of the ``reserve`` commands; ``scale`` uses some of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from rescheduler.cli.api_access import api_of
from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.options import ENVIRONMENT
from rescheduler.kube.client import KubeApi
from rescheduler.model.times import DurationError, parse_duration

F = TypeVar("F", bound=Callable[..., Any])

API_TIMEOUT_S = 10.0
"""An API server that does not answer is reported after this time."""


def api_client(kubeconfig: str | None, context: str | None) -> KubeApi:
    """A client of the API server that the options name."""
    return api_of(kubeconfig, context, API_TIMEOUT_S)


def namespace_option(command: F) -> F:
    """-n, --namespace."""
    return click.option(
        "-n",
        "--namespace",
        envvar=f"{ENVIRONMENT}NAMESPACE",
        default="default",
        show_default=True,
        metavar="NAME",
        help="Namespace of the workload or of the pods.",
    )(command)


def timeout_option(default: str, text: str) -> Callable[[F], F]:
    """--timeout."""
    return click.option("--timeout", default=default, show_default=True, metavar="DURATION", help=text)


def parse_seconds(option: str, text: str) -> float:
    """Seconds of a duration such as 90s, 5m or 1h30m. Raises CommandError if it is invalid or negative."""
    try:
        seconds = parse_duration(text)
    except DurationError as error:
        message = f"{option}: {text!r} is not a duration; write it like 90s, 5m or 1h30m"
        raise CommandError(message, EXIT_USAGE) from error
    if seconds < 0:
        raise CommandError(f"{option}: {text!r} is negative", EXIT_USAGE)
    return seconds
