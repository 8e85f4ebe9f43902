"""Section ``policies``: which policies decide, in which order, with which arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from rescheduler.configuration.policy_types import PolicyTypeError, policy_names, policy_type
from rescheduler.configuration.reader import SectionReader
from rescheduler.configuration.strictyaml import Path
from rescheduler.policies.failures import FAILURES, raised
from rescheduler.policies.framework import Policy
from rescheduler.policies.high_node_utilization import HighNodeUtilizationArgs
from rescheduler.policies.keeping_empty import KeepingRule
from rescheduler.policies.low_node_utilization import LowNodeUtilizationArgs
from rescheduler.policies.registry import REGISTRY
from rescheduler.policies.wire import PolicyArgs

DEFAULT_POLICIES: Final = (
    "NodeTaints",
    "NodeAffinity",
    "InterPodAntiAffinity",
    "TopologySpread",
    "LowNodeUtilization",
)
"""Where the section is not there."""


_OF_MOVES: Final = ("mode", "hint")
"""Moves name the policy, not the entry."""


class ConfiguredPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """One entry: the policy's name and its own arguments."""

    name: str
    args: PolicyArgs

    @property
    def keeping(self) -> KeepingRule | None:
        """How nodes that the policy empties are kept so; None: they are not."""
        return self.args.keeping() if isinstance(self.args, HighNodeUtilizationArgs) else None

    def build(self) -> Policy:
        """The policy itself."""
        return policy_type(self.name).build(self.args)


def read_policies(reader: SectionReader, document: Mapping[str, Any]) -> tuple[ConfiguredPolicy, ...]:
    """The entries in their order, those that are switched off included."""
    if (raw := document.get("policies")) is None:
        return tuple(ConfiguredPolicy(name=n, args=REGISTRY[n].args()) for n in DEFAULT_POLICIES)
    if not isinstance(raw, list):
        reader.complain(("policies",), "is not a list", "write '- name: NodeAffinity' entries")
        return ()
    found: list[ConfiguredPolicy] = []
    for index, entry in enumerate(raw):
        policy = _policy(reader, index, entry)
        if policy is None:
            continue
        # A move tells its policy by name only, so all entries of one name must declare the same.
        others = [p.args for p in found if p.name == policy.name]
        for key in _OF_MOVES:
            if any(getattr(args, key) != getattr(policy.args, key) for args in others):
                reader.complain(
                    ("policies", index, key), f"another {policy.name} says otherwise", "write the same"
                )
        found.append(policy)
    if _fill_and_empty(found):
        reader.complain(
            ("policies",),
            "LowNodeUtilization and HighNodeUtilization are both on for the same nodes: what one fills the other empties",
            "switch one of them off, or give both a nodeSelector with the same label and different values",
        )
    return tuple(found)


def _fill_and_empty(policies: Sequence[ConfiguredPolicy]) -> bool:
    """True if a node could take part in a policy that fills nodes which are hardly used, and in one that empties them."""
    on = [policy.args for policy in policies if policy.args.enabled]
    low = [args for args in on if isinstance(args, LowNodeUtilizationArgs)]
    high = [args for args in on if isinstance(args, HighNodeUtilizationArgs)]
    return any(not one.disjoint(other) for one in low for other in high)


def _policy(reader: SectionReader, index: int, entry: object) -> ConfiguredPolicy | None:
    path: Path = ("policies", index)
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
    try:
        problems = [((*path, *where), message) for where, message in kind.problems(args)]
        if not problems and args.enabled:
            kind.build(args)
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
    return ConfiguredPolicy(name=name, args=args)
