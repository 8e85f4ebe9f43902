"""Events are stored once, in the form of core/v1; ``events.k8s.io/v1`` is another view of them."""

from __future__ import annotations

from rescheduler.sim.apiserver.errors import Json

_RENAMED = (
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
)


def event_from_v1(event: Json) -> Json:
    """The stored form of an ``events.k8s.io/v1`` Event."""
    return _renamed(event, dict(_RENAMED), "v1")


def event_to_v1(event: Json) -> Json:
    """The ``events.k8s.io/v1`` form of a stored Event."""
    return _renamed(event, {core: new for new, core in _RENAMED}, "events.k8s.io/v1")


def _renamed(event: Json, names: dict[str, str], api_version: str) -> Json:
    return {**{names.get(key, key): value for key, value in event.items()}, "apiVersion": api_version}
