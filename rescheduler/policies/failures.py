"""What code of other packages raised, in one line that names the place: its author reads it, not ours."""

from __future__ import annotations

import traceback
from pathlib import PurePath
from typing import Final

FAILURES: Final = (Exception, SystemExit)
"""What a policy of another package may raise: it must not end the process either."""


def raised(error: BaseException) -> str:
    """As "raised KeyError: 'x' (noise.py:7)"."""
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"raised {type(error).__name__}: {error} ({PurePath(last.filename).name}:{last.lineno})"
