"""Sections ``gate``, ``leaderElection`` and ``server``: what a controller process opens, takes and asks for at its start.

None of it can change while the process runs (``configuration.live.START_ONLY``).
"""

from __future__ import annotations

import enum
import re
from typing import Final

import msgspec

from rescheduler.configuration.reader import SectionReader

_HTTPS_URL: Final = re.compile(r"https://([-.\w]+|\[[0-9a-fA-F:.]+\])(:\d{1,5})?(/[-./\w]*)?")


class GateMode(enum.StrEnum):
    """What holds replacements at their creation."""

    AUTO = "Auto"
    """The policy where the cluster has such, else the webhook."""
    POLICY = "Policy"
    WEBHOOK = "Webhook"


class GateSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the gate is brought about."""

    mode: GateMode = GateMode.AUTO
    port: int = 9443
    """Of the webhook."""
    url: str = ""
    """Where API servers reach the webhook; "" is through its Service."""


class LeaderElectionSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether the process asks for the Lease before it acts."""

    enabled: bool = True


class ServerSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Health checks and metrics."""

    port: int = 8080
    """0: any free one."""
    page: bool = False
    """Also the live page, with the names of nodes and of pods that are moved."""


def read_gate(reader: SectionReader) -> GateSection:
    """What is written goes before the defaults."""
    gate = reader.section("gate", GateSection) or GateSection()
    reader.check_port(("gate", "port"), gate.port)
    if gate.url and not _HTTPS_URL.fullmatch(gate.url):
        remedy = "write https://HOST or https://HOST:PORT, without a query"
        reader.complain(("gate", "url"), f"is {gate.url!r}", remedy)
    return gate


def read_leader_election(reader: SectionReader) -> LeaderElectionSection:
    """What is written goes before the defaults."""
    return reader.section("leaderElection", LeaderElectionSection) or LeaderElectionSection()


def read_server(reader: SectionReader) -> ServerSection:
    """What is written goes before the defaults."""
    server = reader.section("server", ServerSection) or ServerSection()
    reader.check_port(("server", "port"), server.port, any_free=True)
    return server
