"""What an unquoted word of a YAML dump means, as the tools of Kubernetes read it.

They read YAML with go-yaml (``resolve`` of sigs.k8s.io/yaml), which is neither YAML 1.1 nor 1.2: ``yes`` is true, ``012`` is
ten, ``12:30`` is a text, and so is ``2e832088``, because it is too large for a number. kubectl leaves such a text unquoted.
Other writers leave more unquoted (``2e83``, ``08``, ``y``), each by its own idea of a number. So where the API demands a
text, a word is the text as it is written, whatever it looks like.
"""

from __future__ import annotations

import math
import re
from typing import Final

from rescheduler.model.decode.text_fields import Path, is_text

Word = str | int | float | bool | None

_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE: Final = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_DECIMAL: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)", re.ASCII)
_OTHER_BASE: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<x>[0-9a-fA-F]+)|0[oO]?(?P<o>[0-7]+)|0[bB](?P<b>[01]+))", re.ASCII
)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_BETWEEN_DIGITS: Final = re.compile(r"(?<=[0-9])_(?=[0-9])", re.ASCII)
_LEAST: Final = -(2**63)
_MOST: Final = 2**64 - 1


def dump_word(word: str, path: Path) -> Word:
    """The value of an unquoted word that stands at ``path``."""
    value = resolved(word)
    return word if value is not None and not isinstance(value, str) and is_text(path) else value


def resolved(word: str) -> Word:
    """What go-yaml takes an unquoted word for. Infinity and no-number, which JSON does not have, stay texts."""
    if word in _NULL:
        return None
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    if word[:1] not in "+-.0123456789":
        return word
    plain = word.replace("_", "") if word[0] != "." else _BETWEEN_DIGITS.sub("", word)
    whole = _whole(plain)
    if whole is not None:
        return whole
    if not _FLOAT.fullmatch(plain):
        return word
    number = float(plain)
    if not math.isfinite(number):
        return word
    return int(number) if number.is_integer() else number


def _whole(plain: str) -> int | None:
    """A whole number in any base that Go knows; None if it is none, or none of 64 bits."""
    if _DECIMAL.fullmatch(plain):
        # Longer ones are out of range in any case, and Python refuses to read very long ones.
        found = int(plain) if len(plain) <= 21 else _MOST + 1  # noqa: PLR2004 -- digits of 2**64 and a sign
    else:
        parts = _OTHER_BASE.fullmatch(plain)
        if parts is None:
            return None
        bases = ((parts["x"], 16), (parts["o"], 8), (parts["b"], 2))
        digits, base = next((digits, base) for digits, base in bases if digits)
        found = int(parts["sign"] + digits, base)
    return found if _LEAST <= found <= _MOST else None
