"""The files that the report and the live page are made of: one style sheet, one set of parts, and a script for each.

They are files of the package, not strings of Python; nothing else is loaded by either page.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

STYLE: Final = "style.css"
PARTS: Final = "parts.js"
LIVE_PAGE: Final = "live.html"
LIVE_SCRIPT: Final = "live.js"
REPORT_SCRIPT: Final = "report.js"


@cache
def asset(name: str) -> str:
    """The text of one file."""
    return files("rescheduler.reports.html").joinpath("assets", name).read_text(encoding="utf-8")
