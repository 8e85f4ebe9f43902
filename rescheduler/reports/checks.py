"""What ``rescheduler check`` found, as one document and as text: each part of an installation is in order, or what mends it."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Final

import msgspec

from rescheduler import __version__
from rescheduler.model.names import API_VERSION
from rescheduler.reports.table import wrapped

_NAME: Final = 16
_STATE: Final = 9


class CheckState(enum.StrEnum):
    """How a part is."""

    OK = "OK"
    BROKEN = "Broken"
    UNKNOWN = "Unknown"
    """It may not be looked at."""
    UNUSED = "Unused"
    """Nothing needs it."""


class CheckLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One part."""

    name: str
    state: CheckState
    message: str
    remedy: str = ""
    """The command that mends it; "" if it is in order."""


class CheckReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All parts."""

    api_version: str = API_VERSION
    kind: str = "Check"
    version: str = __version__
    """Of this program."""
    at: str
    checks: tuple[CheckLine, ...]

    @property
    def broken(self) -> bool:
        """Something must be mended."""
        return any(one.state is CheckState.BROKEN for one in self.checks)

    @property
    def unknown(self) -> bool:
        """Something could not be looked at."""
        return any(one.state is CheckState.UNKNOWN for one in self.checks)


def check_text(report: CheckReport, width: int) -> str:
    """A line for each part, its remedy below it, and how many are broken."""
    lines = [line for one in report.checks for line in _lines(one, width)]
    broken = [one.name for one in report.checks if one.state is CheckState.BROKEN]
    unknown = [one.name for one in report.checks if one.state is CheckState.UNKNOWN]
    ends = [
        f"{word}: {', '.join(names)}" for word, names in (("broken", broken), ("not known", unknown)) if names
    ]
    return "\n".join([*lines, "", "; ".join(ends) or "everything is in order"]) + "\n"


def _lines(one: CheckLine, width: int) -> Iterator[str]:
    head, rest = f"{one.state.ljust(_STATE)}{one.name.ljust(_NAME)}", (_STATE + _NAME) * " "
    yield from wrapped(one.message, width, head, rest)
    if one.remedy:
        yield f"{rest}mend: {one.remedy}"
