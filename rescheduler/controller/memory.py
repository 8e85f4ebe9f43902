"""Memory during a decision: no garbage collection while it runs, and free memory is returned to the system afterwards.

A decision on a large cluster needs working memory that the C library keeps afterwards: a third of the process at
150,000 pods. Without ``malloc_trim`` (musl, other systems) it is not returned.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from rescheduler.kube.gc_pause import PROCESS_PAUSE


@contextmanager
def sparing(first: bool) -> Iterator[None]:  # noqa: FBT001 - the Protocol of the loop hands in nothing else
    """A context for a decision. What it leaves stays for the next one, so the collector is told to skip it; of the ``first`` after a look."""
    with PROCESS_PAUSE.during():
        if first:
            PROCESS_PAUSE.settle()
        else:
            PROCESS_PAUSE.keep()
        yield
    give_back()


def give_back() -> None:
    """Return free memory to the system; takes some milliseconds."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    return found
