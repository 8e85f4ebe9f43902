"""Names made of other names: short, legal everywhere in Kubernetes, and always the same for the same thing (pure)."""

from __future__ import annotations

import hashlib
import re
from typing import Final

_SLUG: Final = 40
_MAX_LABEL: Final = 63
_LABEL: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")


def slug(name: str, fallback: str) -> str:
    """``name`` as the beginning of an object name: at most 40 characters of a DNS label; never empty."""
    return re.sub(r"[^a-z0-9-]+", "-", name.lower())[:_SLUG].strip("-") or fallback


def digest(text: str) -> str:
    """Ten characters that stand for ``text``."""
    return hashlib.blake2b(text.encode(), digest_size=5).hexdigest()


def label_value(name: str) -> str:
    """``name`` as a label or taint value: cut with a digest where it is too long."""
    if len(name) <= _MAX_LABEL and _LABEL.fullmatch(name):
        return name
    return f"{slug(name, 'reservation')}-{digest(name)}"
