"""Is it healthy: controller, gate and configuration, one line each, the same on the terminal and on the page. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from rescheduler.planning.plan import SkipReason
from rescheduler.reports.status_document import ClusterStatus, ControllerStatus, HealthLine, Presence

_GATES: Final = {
    "InForce": (True, "in place: replacements wait for their room"),
    "Missing": (False, "missing: no pod is moved (kubectl apply -k manifests/)"),
    "Unknown": (None, "not known: you may not read admission policies"),
}


def with_health(status: ClusterStatus) -> ClusterStatus:
    """The document with what it says of controller, gate and configuration in words, and a headline that does not promise what nobody does."""
    told = status.headline
    if told and not status.controller.runs:
        work = f"n{told[1:]}" if told.startswith("Nothing") else f"planned: {told}"
        told = f"No controller runs, so no pod is moved; {work}"
    return msgspec.structs.replace(status, headline=told, health=health(status))


def health(status: ClusterStatus) -> tuple[HealthLine, ...]:
    """The lines in the order in which people read them."""
    gate_ok, gate = _GATES[status.gate]
    if refuted := refuted_gate(status):
        gate_ok, gate = False, f"{refuted} (rescheduler check says what mends it)"
    return (
        HealthLine(part="controller", ok=_runs(status.controller), says=_controller(status.controller)),
        HealthLine(part="gate", ok=gate_ok, says=gate),
        _configuration(status),
        HealthLine(part="version", ok=True, says=status.version),
    )


def refuted_gate(status: ClusterStatus) -> str:
    """What the last move found of a gate that is installed: API servers may not follow policies that come back. "": nothing."""
    ended = max(status.finished, key=lambda move: move.ended_at, default=None)
    if status.gate != "InForce" or ended is None or ended.reason != SkipReason.GATE_NOT_IN_FORCE:
        return ""
    return f"installed, but not in force, so that no pod is moved: {ended.namespace}/{ended.pod} at {ended.ended_at}"


def _configuration(status: ClusterStatus) -> HealthLine:
    found = status.controller
    ok, says = _runs(found), "in force"
    if status.configuration:
        ok, says = False, status.configuration
    elif not found.runs:
        ok, says = True, "no error found, but no controller goes by it"
    elif found.presence is Presence.UNKNOWN:
        says = "not known: who leads is not known either"
    elif found.configuration:
        version, _, source = found.configuration.partition(" ")
        says = f"in force: version {version}{f' of {source}' if source else ''}"
    return HealthLine(part="configuration", ok=ok, says=says)


def _runs(found: ControllerStatus) -> bool | None:
    return None if found.presence is Presence.UNKNOWN else found.runs


def _controller(found: ControllerStatus) -> str:
    match found.presence:
        case Presence.LEADING:
            since = f" since {found.leads_since}" if found.leads_since else ""
            names = ", ".join(image.rpartition("/")[2] for image in found.images)
            return f"{found.holder} leads{since}{f', {names}' if names else ''}"
        case Presence.STOPPED:
            return f"NOT RUNNING: {found.holder or 'nobody'} led last, until {found.renewed}{_why(found)}"
        case Presence.ABSENT:
            return f"NOT RUNNING: none has led here{_why(found)}"
        case Presence.UNKNOWN:
            return f"not known: {found.message}" if found.message else "not known"


def _why(found: ControllerStatus) -> str:
    message = f"; {found.message}" if found.message else ""
    return f"{message} ({found.remedy})" if found.remedy else message
