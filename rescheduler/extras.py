"""Optional parts of the installation: which extra brings which packages, and what to say where one is missing.

The controller's image installs no extra (Dockerfile). A part that needs one imports it inside ``needs``, so that a
person reads which extra to install, and not which module Python did not find.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from rescheduler.errors import ReschedulerError


class Extra(enum.StrEnum):
    """The extras of ``pyproject.toml`` that a command or a mode cannot do without."""

    WEBHOOK = "webhook"
    ZSTD = "zstd"
    PROVE = "prove"


PACKAGES: Final[Mapping[Extra, frozenset[str]]] = {
    Extra.WEBHOOK: frozenset({"cryptography"}),
    Extra.ZSTD: frozenset({"zstandard"}),
    Extra.PROVE: frozenset({"highspy"}),
}
"""What is imported of each extra: top-level packages that nothing else installs or uses."""


class MissingExtraError(ReschedulerError):
    """The installation lacks an extra; its administrator must install it."""

    def __init__(self, extra: Extra, user: str) -> None:
        self.extra = extra
        """The one that is missing."""
        self.remedy = f"pip install '.[{extra}]' in a clone of the project; for the image: docker build --build-arg EXTRAS={extra}"
        """What to do about it."""
        super().__init__(f"{user} needs the extra '{extra}', which is not installed ({self.remedy})")


@contextmanager
def needs(extra: Extra, user: str) -> Iterator[None]:
    """Around the imports of what ``user`` (words for people) needs of an extra.

    Raises:
        MissingExtraError: the extra is not installed. Any other failing import is a fault and stays what it is.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in PACKAGES[extra]:
            raise
        raise MissingExtraError(extra, user) from error
