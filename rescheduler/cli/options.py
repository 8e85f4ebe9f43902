"""Options that several commands share, with the names of kubectl; each also as an environment variable RESCHEDULER_*."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import click

from rescheduler.cli.deferred import imported
from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.model.bounds import MOST_MOVE_TTL
from rescheduler.model.kinds import Kind
from rescheduler.model.names import DEFAULT_NAMESPACE, NAMESPACE_SYNTAX
from rescheduler.model.times import DurationError, parse_duration, parse_timestamp

F = TypeVar("F", bound=Callable[..., Any])
Complete = Callable[[click.Context, click.Parameter, str], list[str]]
ENVIRONMENT: Final = "RESCHEDULER_"
MOST_PODS: Final = 1_000_000
"""No cluster has so many: a larger number of pods, replicas or moves is a slip."""
MOST_SECONDS: Final = 604_800
"""A week."""
_YEAR_3000_S: Final = parse_timestamp("3000-01-01T00:00:00Z")


class PathText(click.ParamType[str]):
    """A path as it is given; an empty one is refused, because it would be the current folder or a default."""

    name = "path"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The path."""
        if not value:
            self.fail("the path is empty", param, ctx)
        return value


class NamespaceText(click.ParamType[str]):
    """The name of a namespace; "" is none."""

    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name."""
        if value and not re.fullmatch(NAMESPACE_SYNTAX, value):
            self.fail(f"{value!r} is no namespace: lower case letters, digits and '-'", param, ctx)
        return value


class Number(click.FloatRange):
    """A number within limits; NaN, which compares with none, is refused. Seconds: at most a week."""

    def __init__(self, least: float = 0.0, most: float = float(MOST_SECONDS)) -> None:
        super().__init__(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


def _shared(*names: str, **more: Any) -> Callable[[F], F]:
    """An option with an environment variable of its name."""
    name = next(name for name in names if name.startswith("--"))
    return click.option(*names, envvar=ENVIRONMENT + name[2:].replace("-", "_").upper(), **more)


target_namespace_option: Final = _shared(
    "-n",
    "--namespace",
    type=NamespaceText(),
    metavar="NAME",
    help="Namespace of the pods or the workload; default: that of the context.",
)
all_namespaces_option: Final = click.option("-A", "--all-namespaces", is_flag=True, help="In all namespaces.")
selector_option: Final = click.option(
    "-l",
    "--selector",
    default="",
    metavar="LABELS",
    help="Only what has these labels, as kubectl takes them.",
)
controller_namespace_option: Final = _shared(
    "--controller-namespace",
    type=NamespaceText(),
    default=DEFAULT_NAMESPACE,
    show_default=True,
    metavar="NAME",
    help="Where the controller runs.",
)
config_option: Final = _shared(
    "--config",
    "config_file",
    type=PathText(),
    metavar="FILE",
    help="A ReschedulerConfiguration document; default: that of the controller, for a dump the built-in balanced one.",
)
from_option: Final = _shared(
    "--from",
    "paths",
    multiple=True,
    type=PathText(),
    metavar="PATH",
    help="Read a dump instead of a live cluster: 'kubectl get ... -o json|yaml' output, a folder of such "
    "files, or - for standard input; gzip and zstd are decompressed. May be given several times.",
)
more_paths_argument: Final = click.argument("more_paths", nargs=-1, type=PathText(), metavar="[PATH]...")
now_option: Final = _shared(
    "--now",
    metavar="TIME",
    help="The time to decide for, as RFC 3339; default: now, or for a dump its newest timestamp.",
)


def cluster_options(command: F) -> F:
    """Which cluster, and as whom; with the options of the controller that the command has, too, they become its ``cluster``."""
    as_user = _shared("--as", "as_user", default="", metavar="USER", help="Whom to impersonate.")
    patience = _shared(
        "--request-timeout",
        default="",
        metavar="DURATION",
        help="Limit of each request to the API server, such as 5s; default: that of the command.",
    )
    context = _shared("--context", metavar="NAME", help="Context of the kubeconfig to use.")
    kubeconfig = _shared(
        "--kubeconfig",
        type=PathText(),
        metavar="FILE",
        help="Path of a kubeconfig; default: $KUBECONFIG, ~/.kube/config, or the pod's own service account.",
    )
    return kubeconfig(context(as_user(patience(command))))


def flag(*names: str, help: str) -> Callable[[F], F]:  # noqa: A002 - as click calls it
    """An option without a value."""
    return click.option(*names, is_flag=True, help=help)


def number(kind: click.ParamType[Any], default: float, *names: str, **more: Any) -> Callable[[F], F]:
    """An option with a number, whose default the help shows."""
    return click.option(*names, type=kind, default=default, show_default=True, **more)


def text(*names: str, metavar: str, help: str, **more: Any) -> Callable[[F], F]:  # noqa: A002 - as click calls it
    """An option with a word; "" if it is not given."""
    return click.option(*names, default="", metavar=metavar, help=help, **more)


def output_option(*more: str, without: str = "", only_at_end: bool = False) -> Callable[[F], F]:
    """-o text|wide|name|json|yaml, and ``more``; ``only_at_end``: the command tells what it does, too."""
    formats = [name for name in ("text", "wide", "name", "json", "yaml", *more) if name != without]
    help_text = "name, json, yaml: only that on stdout, messages on stderr." if only_at_end else None
    choice = click.Choice(formats)
    return click.option("-o", "--output", type=choice, default="text", show_default=True, help=help_text)


def names_of(kind: Kind, *, prefixes: Iterable[str] = ("",)) -> Complete:
    """A completer of names of this kind, also after one of ``prefixes`` (``pod/``)."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        found: list[str] = imported("rescheduler.cli.completion:names")(
            kind, tuple(prefixes), context, parameter, incomplete
        )
        return found

    return complete


def timeout_option(default: str, text: str) -> Callable[[F], F]:
    """--timeout."""
    return click.option("--timeout", default=default, show_default=True, metavar="DURATION", help=text)


def parse_moment(option: str, text: str) -> float:
    """Epoch seconds of a time. Raises CommandError."""
    try:
        moment = parse_timestamp(text)
    except ValueError as error:
        message = f"{option}: {text!r} is not an RFC 3339 time; write it like 2026-11-21T10:00:00Z"
        raise CommandError(message, EXIT_USAGE) from error
    if not 0 <= moment < _YEAR_3000_S:
        raise CommandError(f"{option}: {text!r} is not between the years 1970 and 3000", EXIT_USAGE)
    return moment


def parse_pairs(option: str, text: str, remedy: str = "") -> list[tuple[str, str]]:
    """KEY=VALUE,... Raises CommandError; ``remedy``: behind its message."""
    found: list[tuple[str, str]] = []
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not (key.strip() and equals) or key.endswith("!"):
            raise CommandError(f"{option}: {part!r} is not KEY=VALUE{remedy}", EXIT_USAGE)
        found.append((key.strip(), value.removeprefix("=").strip()))
    return found


def parse_seconds(option: str, text: str) -> float:
    """Seconds of a duration such as 90s, 5m or 1h30m. Raises CommandError if it is invalid or negative."""
    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise CommandError(f"{option}: {error}", EXIT_USAGE) from error
    if seconds < 0:
        raise CommandError(f"{option}: {text!r} is negative; write it without a sign", EXIT_USAGE)
    return seconds


def time_limit(text: str, option: str = "--timeout", most: str = MOST_MOVE_TTL) -> float:
    """Seconds, more than 0s; by default of a command that waits, and at most the ttl that a PodMigration may have."""
    seconds = parse_seconds(option, text)
    if not 0 < seconds <= parse_duration(most):
        raise CommandError(f"{option} {text}: more than 0s and at most {most}", EXIT_USAGE)
    return seconds
