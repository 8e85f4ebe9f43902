"""Sections ``policies`` and ``profiles``: which policies decide, in which order, with which arguments and protections.

Policies are those of this package, and those that other installed packages offer by entry point. A package is looked at only if
the configuration names one of its policies: what is merely installed is never imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rescheduler.configuration.reader import SectionReader
from rescheduler.configuration.strictyaml import Path
from rescheduler.errors import ReschedulerError
from rescheduler.model.written import DocumentSection
from rescheduler.planning.limits import Protections
from rescheduler.policies.framework import Policy
from rescheduler.policies.high_node_utilization import HighNodeUtilizationArgs
from rescheduler.policies.keeping_empty import KeepingRule
from rescheduler.policies.low_node_utilization import LowNodeUtilizationArgs
from rescheduler.policies.registry import INTERFACE, REGISTRY, PolicyType
from rescheduler.policies.simple import FAILURES, raised
from rescheduler.policies.wire import NamespaceFilter, PolicyArgs, in_profile
from rescheduler.suggestions import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

DEFAULT_POLICIES: Final = (
    "NodeTaints",
    "NodeAffinity",
    "InterPodAntiAffinity",
    "TopologySpread",
    "LowNodeUtilization",
)
"""Where the section is not there."""


_PROFILE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?", re.ASCII)


class ConfiguredPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """One entry: the policy's registered name, its own arguments, and the profile that it is in."""

    name: str
    args: PolicyArgs
    profile: str = ""

    @property
    def title(self) -> str:
        """What plans, moves, metrics and change windows call it."""
        return in_profile(self.profile, self.name)

    @property
    def keeping(self) -> KeepingRule | None:
        """How nodes that the policy empties are kept so; None: they are not."""
        rule = self.args.keeping() if isinstance(self.args, HighNodeUtilizationArgs) else None
        return replace(rule, policy=self.title) if rule is not None else None

    def build(self) -> Policy:
        """The policy itself."""
        policy = policy_type(self.name).build(self.args)
        if self.profile:
            policy.name = self.title
        return policy


class ConfiguredProfile(DocumentSection, frozen=True, kw_only=True):
    """One entry of ``profiles``: policies with protections and a node selector of their own."""

    name: str
    protections: Protections = Protections()
    """What is not written is as in section ``protections``."""
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    """It is part of the arguments of its policies already."""
    policies: tuple[ConfiguredPolicy, ...] = ()


def read_policies(reader: SectionReader, document: Mapping[str, Any]) -> tuple[ConfiguredPolicy, ...]:
    """The entries of ``policies`` in their order, those that are switched off included."""
    if "profiles" in document:
        if "policies" in document:
            reader.complain(
                ("policies",), "stands beside profiles", "write its policies into a profile of their own"
            )
        return ()
    if (raw := document.get("policies")) is None:
        return tuple(ConfiguredPolicy(name=n, args=REGISTRY[n].args()) for n in DEFAULT_POLICIES)
    found = _entries(reader, raw, ("policies",), ConfiguredProfile(name=""))
    _check_pools(reader, found, ("policies",))
    return found


def read_profiles(
    reader: SectionReader, document: Mapping[str, Any], protections: Protections
) -> tuple[ConfiguredProfile, ...]:
    """The profiles in their order; what one does not say of protections, ``protections`` says."""
    raw = document.get("profiles", [])
    if not isinstance(raw, list) or ("profiles" in document and not raw):
        remedy = "write '- name: NAME' entries with policies, or policies without profiles"
        reader.complain(("profiles",), "is no list of profiles", remedy)
        return ()
    found: list[ConfiguredProfile] = []
    for index, entry in enumerate(raw):
        path: Path = ("profiles", index)
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            reader.complain(path, "has no name", "add 'name:', by which plans and moves call it")
            continue
        if not _PROFILE.fullmatch(entry["name"]):
            reader.complain(
                (*path, "name"), f"is {entry['name']!r}", "use letters, digits and '-', at most 63"
            )
        if any(other.name == entry["name"] for other in found):
            reader.complain((*path, "name"), "another profile has this name", "give it one of its own")
        if "policies" not in entry:
            reader.complain(path, "'policies' is missing", "name the policies of the profile")
        base = ConfiguredProfile(
            name="", protections=_without_overridden(protections, entry.get("protections"))
        )
        rest = {key: value for key, value in entry.items() if key != "policies"}
        profile = reader.overlay(base, rest, path)
        policies = _entries(reader, entry.get("policies", []), (*path, "policies"), profile)
        found.append(msgspec.structs.replace(profile, policies=policies))
    _check_pools(reader, [policy for profile in found for policy in profile.policies], ("profiles",))
    return tuple(found)


def _without_overridden(protections: Protections, written: object) -> Protections:
    """A profile that names namespaces means these, not others besides."""
    if isinstance(written, dict) and "namespaces" in written:
        return msgspec.structs.replace(protections, namespaces=NamespaceFilter())
    return protections


def _entries(
    reader: SectionReader, raw: object, path: Path, profile: ConfiguredProfile
) -> tuple[ConfiguredPolicy, ...]:
    if not isinstance(raw, list):
        reader.complain(path, "is not a list", "write '- name: NodeAffinity' entries")
        return ()
    found: list[ConfiguredPolicy] = []
    for index, entry in enumerate(raw):
        policy = _policy(reader, (*path, index), entry, profile)
        if policy is None:
            continue
        if any(other.name == policy.name for other in found):
            remedy = "write each into a profile of its own: profiles: [{name: a, policies: [...]}, ...]"
            reader.complain((*path, index, "name"), f"another entry is {policy.name}, too", remedy)
            continue
        found.append(policy)
    return tuple(found)


def _check_pools(reader: SectionReader, found: Sequence[ConfiguredPolicy], path: Path) -> None:
    """Complain if one policy fills the nodes that another one empties."""
    if _fill_and_empty(found):
        reader.complain(
            path,
            "LowNodeUtilization and HighNodeUtilization are both on for the same nodes: what one fills the other empties",
            "switch one of them off, or give both a nodeSelector with the same label and different values",
        )


def _fill_and_empty(policies: Sequence[ConfiguredPolicy]) -> bool:
    """True if a node could take part in a policy that fills nodes which are hardly used, and in one that empties them."""
    on = [policy.args for policy in policies if policy.args.enabled]
    low = [args for args in on if isinstance(args, LowNodeUtilizationArgs)]
    high = [args for args in on if isinstance(args, HighNodeUtilizationArgs)]
    return any(not one.disjoint(other) for one in low for other in high)


def _policy(
    reader: SectionReader, path: Path, entry: object, profile: ConfiguredProfile
) -> ConfiguredPolicy | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        reader.complain(path, "has no name", f"add 'name:' with one of {', '.join(policy_names())}")
        return None
    name = entry["name"]
    try:
        kind = policy_type(name)
    except PolicyTypeError as e:
        reader.complain((*path, "name"), e.problem, e.remedy)
        return None
    if isinstance(entry.get("args"), dict):
        reader.complain(
            (*path, "args"),
            "unknown key",
            "write the arguments beside 'name', without 'args'; rescheduler convert does it for a policy of descheduler",
        )
        return None
    args = reader.convert({k: v for k, v in entry.items() if k != "name"}, kind.args, path)
    if args is None:
        return None
    pool = profile.node_selector
    for key in (
        key for key in pool.keys() & args.node_selector.keys() if args.node_selector[key] != pool[key]
    ):
        message = f"is {args.node_selector[key]!r}, but {pool[key]!r} for all policies of the profile"
        reader.complain((*path, "nodeSelector", key), message, "keep one of them")
    args = msgspec.structs.replace(args, node_selector={**pool, **args.node_selector})
    found = ConfiguredPolicy(name=name, args=args, profile=profile.name)
    try:
        problems = [((*path, *where), message) for where, message in kind.problems(args)]
        if not problems and args.enabled:
            found.build()
    except FAILURES as e:
        # Told now: a controller keeps its last good configuration then, and validate says it.
        reader.complain(
            path,
            f"policy {name} cannot be made of these arguments: it {raised(e)}",
            "correct them, or the package",
        )
        return None
    for where, message in problems:
        reader.complain(where, message, "see docs/policies.md")
    return found


GROUP: Final = "rescheduler.policies"
"""Entry points of this group are named as their policies are, and point at a ``PolicyType``."""


_REMOVE: Final = re.compile("^Remove(PodsViolating|PodsHaving)?(?=.)")
"""How names of descheduler's plugins begin; what follows is much like the name of the policy that does the same."""


class PolicyTypeError(ReschedulerError):
    """A policy cannot be had by its name."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem} ({remedy})")
        self.problem = problem
        self.remedy = remedy


def policy_names() -> tuple[str, ...]:
    """All names that a configuration can use here, sorted."""
    return tuple(sorted({*REGISTRY, *(point.name for point in _offered())}))


def policy_type(name: str) -> PolicyType:
    """The policy of that name.

    Raises:
        PolicyTypeError: nothing offers it, several packages do, or what is offered is none that this version can use.
    """
    if name in REGISTRY:
        return REGISTRY[name]
    offered = sorted((point for point in _offered() if point.name == name), key=_package)
    if not offered:
        names = policy_names()
        problem = f"unknown policy {name!r}{did_you_mean(_REMOVE.sub('', name), names)}"
        raise PolicyTypeError(problem, f"known policies: {', '.join(names)}")
    if len({point.value for point in offered}) > 1:
        packages = ", ".join(map(_package, offered))
        raise PolicyTypeError(f"policy {name!r} is offered by {packages}", "uninstall all but one")
    return _loaded(offered[0])


def _offered() -> Iterable[EntryPoint]:
    """What packages offer. Reads the files of every installed one."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - few name policies of others, and it takes 20 ms

    return entry_points(group=GROUP)


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
