"""How many seeds a property is tried with: few for each change, all of them in the nightly run.

``make nightly`` sets RESCHEDULER_SEEDS; then a property is tried with every seed that it names.
"""

from __future__ import annotations

import os

NIGHTLY = "RESCHEDULER_SEEDS" in os.environ


def seeds(first: int, end: int, usual: int) -> range:
    """The seeds from ``first`` to before ``end``; the first ``usual`` of them outside of the nightly run."""
    return range(first, end if NIGHTLY else min(end, first + usual))
