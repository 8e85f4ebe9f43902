"""``rescheduler version``: the program's version and the API that it speaks."""

from __future__ import annotations

import platform

import click

from rescheduler import __version__
from rescheduler.cli.output import emit
from rescheduler.model.names import API_VERSION


@click.command("version")
def version_command() -> None:
    """Print the version."""
    print_version()


def print_version() -> None:
    """The program, the API that it speaks, and Python."""
    emit(f"rescheduler {__version__} (API {API_VERSION}, Python {platform.python_version()})\n")
