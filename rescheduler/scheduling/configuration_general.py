"""What a KubeSchedulerConfiguration says beside the rules: nothing that changes a verdict, and still refused where wrong.

kube-scheduler would not start with such a document, so a person that gives it to us has another one in force than they
believe. Limits, defaults and places are those of its own validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rescheduler.model.times import DurationError, parse_duration
from rescheduler.scheduling.configuration_wire import ConfigurationWire, LeaderElectionWire, ProfileWire

Path = tuple[str | int, ...]

_LEASES: Final = "leases"
_DEFAULT_SECONDS: Final = {"leaseDuration": 15.0, "renewDeadline": 10.0, "retryPeriod": 2.0}


class Fault(NamedTuple):
    """``path``: of the field in the document."""

    path: Path
    message: str
    remedy: str


def faults(wire: ConfigurationWire) -> Iterator[Fault]:
    """What kube-scheduler refuses of them, in its order."""
    yield from _leader_election(wire.leader_election or LeaderElectionWire())
    profiles = wire.profiles or []
    for at, profile in enumerate(profiles):
        if len(profiles) > 1 and not profile.scheduler_name:
            where: Path = ("profiles", at, "schedulerName")
            yield Fault(where, "is missing", "name every profile where there is more than one")
    yield from _queue_sort(profiles)
    first = 1 if wire.pod_initial_backoff_seconds is None else wire.pod_initial_backoff_seconds
    last = 10 if wire.pod_max_backoff_seconds is None else wire.pod_max_backoff_seconds
    if last < first:
        message = f"is {last}, less than podInitialBackoffSeconds ({first})"
        yield Fault(("podMaxBackoffSeconds",), message, f"use {first} or more")


def _leader_election(wire: LeaderElectionWire) -> Iterator[Fault]:
    if wire.leader_elect is False:
        return
    if wire.resource_lock and wire.resource_lock != _LEASES:
        yield Fault(("leaderElection", "resourceLock"), f"is {wire.resource_lock!r}", f"use {_LEASES}")
    given = {
        "leaseDuration": wire.lease_duration,
        "renewDeadline": wire.renew_deadline,
        "retryPeriod": wire.retry_period,
    }
    seconds: dict[str, float] = {}
    for name, text in given.items():
        try:
            seconds[name] = (parse_duration(text) if text else 0.0) or _DEFAULT_SECONDS[name]
        except DurationError as error:
            yield Fault(("leaderElection", name), str(error), "write it like 15s")
            return
        if seconds[name] < 0:
            yield Fault(("leaderElection", name), f"is {text}", "use more than 0s")
    if seconds["leaseDuration"] <= seconds["renewDeadline"]:
        message = f"is {seconds['leaseDuration']:g} s, no longer than renewDeadline ({seconds['renewDeadline']:g} s)"
        yield Fault(("leaderElection", "leaseDuration"), message, "make it longer than renewDeadline")


def _queue_sort(profiles: Sequence[ProfileWire]) -> Iterator[Fault]:
    """One queue serves all profiles, and one plugin sorts it."""
    sets = [profile.plugins.queue_sort if profile.plugins else None for profile in profiles]
    plugins = [
        (tuple((p.name, p.weight) for p in s.enabled or ()), tuple(p.name for p in s.disabled or ()))
        if s is not None
        else ((), ())
        for s in sets
    ]
    for at, (enabled, disabled) in enumerate(plugins):
        path: Path = ("profiles", at, "plugins", "queueSort")
        if len(enabled) > 1:
            yield Fault((*path, "enabled"), "has several plugins", "enable one")
        elif not enabled and {"*", "PrioritySort"} & set(disabled):
            yield Fault(path, "leaves no plugin that sorts the queue", "enable PrioritySort")
        elif any(name != "PrioritySort" for name, _ in enabled):
            yield Fault((*path, "enabled"), f"{enabled[0][0]} does not sort the queue", "enable PrioritySort")
        if plugins[0] != (enabled, disabled):
            yield Fault(path, "differs from that of the first profile", "make it the same for all profiles")
