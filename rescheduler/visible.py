r"""Text from others that cannot steer a terminal: everything that is not seen is written as an escape sequence.

Names, messages and annotations come from the cluster and from files. A control character in them can clear the screen,
and a bidi mark can make a name read as another. What replaces them is the escape of JSON (``\u202e``), so that a JSON
document keeps its meaning. Line ends and tabs stay: the program itself writes them.
"""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e0fff"
)
"""Control and format characters, half surrogates, separators of lines and paragraphs: the inside of a character class."""

_HIDDEN: Final = re.compile(f"[{HIDDEN}]")
_HIDDEN_OR_BREAK: Final = re.compile(f"[{HIDDEN}\n\t]")


def visible(text: str) -> str:
    """``text`` with an escape sequence in place of each character that is not seen."""
    return _HIDDEN.sub(lambda found: escaped(found[0]), text)


def visible_line(text: str) -> str:
    """The same, on one line."""
    return _HIDDEN_OR_BREAK.sub(lambda found: " " if found[0] in "\n\t" else escaped(found[0]), text)


def escaped(character: str) -> str:
    """The escape of JSON for one character."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2))
