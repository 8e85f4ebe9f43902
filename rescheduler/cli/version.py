"""``rescheduler version``: the program's version and the API that it speaks."""

from __future__ import annotations

import platform

from rescheduler import __version__
from rescheduler.cli.output import emit
from rescheduler.model.names import API_VERSION


def run() -> None:
    """The program, the API that it speaks, and Python."""
    emit(f"rescheduler {__version__} (API {API_VERSION}, Python {platform.python_version()})\n")
