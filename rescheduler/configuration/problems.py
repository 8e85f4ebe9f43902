"""What can be wrong in a configuration document: each problem names file, line and remedy, and all are told together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rescheduler.errors import ReschedulerError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a document."""

    file: str
    line: int
    """1-based; 0 where the problem is not in the text."""
    field: str
    """Dotted path of the key; "" for the document as a whole."""
    message: str
    remedy: str
    """What its author has to write instead."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        what = f"{self.field}: {self.message}" if self.field else self.message
        return f"{where}: {what}" + (f" ({self.remedy})" if self.remedy else "")


class ConfigurationError(ReschedulerError):
    """The document cannot be used; its author must act."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(p) for p in problems))
        self.problems = tuple(problems)
        """Every problem that was found."""
