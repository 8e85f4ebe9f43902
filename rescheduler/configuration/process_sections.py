"""Sections ``gate``, ``leaderElection`` and ``server``: what a controller process opens, takes and asks for at its start.

None of it can change while the process runs (``configuration.live.START_ONLY``).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from rescheduler.model.written import DocumentSection, Mistake, Port, PortOrAny, is_url


class GateMode(enum.StrEnum):
    """What holds replacements at their creation."""

    AUTO = "Auto"
    """The policy where the cluster has such, else the webhook."""
    POLICY = "Policy"
    WEBHOOK = "Webhook"


class GateSection(DocumentSection, frozen=True, kw_only=True):
    """How the gate is brought about."""

    mode: GateMode = GateMode.AUTO
    port: Port = 9443
    """Of the webhook."""
    url: str = ""
    """Where API servers reach the webhook; "" is through its Service."""

    def mistakes(self) -> Iterator[Mistake]:
        """A URL that is none."""
        if self.url and not is_url(self.url, "https"):
            yield ("url",), f"is {self.url!r}", "write https://HOST or https://HOST:PORT, without a query"


class LeaderElectionSection(DocumentSection, frozen=True, kw_only=True):
    """Whether the process asks for the Lease before it acts."""

    enabled: bool = True


class ServerSection(DocumentSection, frozen=True, kw_only=True):
    """Health checks and metrics."""

    port: PortOrAny = 8080
    """0: any free one."""
    page: bool = False
    """Also the live page, with the names of nodes and of pods that are moved."""
