"""What can be wrong with what a user gave to read."""

from __future__ import annotations

from dataclasses import dataclass


class InputError(Exception):
    """An input that cannot be used; the user must act. ``line`` 0: the file as a whole."""

    def __init__(self, path: str, line: int, message: str, remedy: str) -> None:
        place = f"{path}:{line}" if line else path
        super().__init__(f"{place}: {message}; {remedy}" if remedy else f"{place}: {message}")
        self.path = path
        self.line = line
        self.message = message
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class SourceWarning:
    """Something in an input that was left out or decided; ``object_name`` "": not about one object."""

    path: str
    message: str
    object_name: str = ""

    def __str__(self) -> str:
        about = f"{self.object_name}: " if self.object_name else ""
        return f"{self.path}: {about}{self.message}"
