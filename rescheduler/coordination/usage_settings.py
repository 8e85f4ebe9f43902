"""Section ``usage``: over which time measured usage counts, and which number stands for it. Values only."""

from __future__ import annotations

from typing import Annotated

import msgspec

from rescheduler.model.usage import UsageStatistic
from rescheduler.model.written import SECONDS, DocumentSection


class UsageSettings(DocumentSection, frozen=True, kw_only=True):
    """How the usage of nodes and pods is measured, for policies with ``usage: actual``."""

    window_s: Annotated[float, SECONDS, msgspec.Meta(ge=120.0, le=7 * 86_400.0)] = 300.0
    """So old a sample may be. At least four of them; of a long window the means of 48 parts count."""
    statistic: UsageStatistic = UsageStatistic.MEAN
