"""Policies by name: those of this package, and those that other installed packages offer by entry point.

A package is looked at only if the configuration names one of its policies: what is merely installed is never imported.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Final

from rescheduler.errors import ReschedulerError
from rescheduler.policies.failures import FAILURES
from rescheduler.policies.registry import INTERFACE, REGISTRY, PolicyType
from rescheduler.policies.wire import PolicyArgs
from rescheduler.suggestions import did_you_mean

GROUP: Final = "rescheduler.policies"
"""Entry points of this group are named as their policies are, and point at a ``PolicyType``."""


class PolicyTypeError(ReschedulerError):
    """A policy cannot be had by its name."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem} ({remedy})")
        self.problem = problem
        self.remedy = remedy


def policy_names() -> tuple[str, ...]:
    """All names that a configuration can use here, sorted."""
    return tuple(sorted({*REGISTRY, *(point.name for point in entry_points(group=GROUP))}))


def policy_type(name: str) -> PolicyType:
    """The policy of that name.

    Raises:
        PolicyTypeError: nothing offers it, several packages do, or what is offered is none that this version can use.
    """
    offered = sorted(entry_points(group=GROUP, name=name), key=_package)
    if name in REGISTRY:
        return REGISTRY[name]
    if not offered:
        names = policy_names()
        problem = f"unknown policy {name!r}{did_you_mean(name, names)}"
        raise PolicyTypeError(problem, f"known policies: {', '.join(names)}")
    if len({point.value for point in offered}) > 1:
        packages = ", ".join(map(_package, offered))
        raise PolicyTypeError(f"policy {name!r} is offered by {packages}", "uninstall all but one")
    return _loaded(offered[0])


def _loaded(point: EntryPoint) -> PolicyType:
    package = _package(point)
    try:
        found = point.load()
    except FAILURES as e:
        # A package of others may fail in any way when it is imported.
        raise PolicyTypeError(
            f"policy {point.name!r} of {package} cannot be imported ({type(e).__name__}: {e})",
            f"mend {point.value} or uninstall {package}",
        ) from e
    if not isinstance(found, PolicyType) or not issubclass(found.args, PolicyArgs):
        raise PolicyTypeError(
            f"{point.value} of {package} is no PolicyType with arguments that are PolicyArgs",
            "see docs/policies.md, Policies from other packages",
        )
    if found.interface != INTERFACE:
        raise PolicyTypeError(
            f"policy {point.name!r} of {package} is written for interface {found.interface}, this is interface {INTERFACE}",
            f"install a version of {package} for interface {INTERFACE}",
        )
    if found.name != point.name:
        raise PolicyTypeError(
            f"{point.value} of {package} is named {found.name!r}, its entry point {point.name!r}",
            f"give both one name in {package}",
        )
    return found


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value
