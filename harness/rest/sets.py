"""The sets of policies that are tried: every shipped document, every two policies with arguments of any kind, in both orders, and pools."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from rescheduler.configuration.document import parse_configuration
from rescheduler.planning.limits import PlanningInputs
from rescheduler.policies.framework import Policy
from rescheduler.policies.node_prices import NodePriceArgs
from rescheduler.policies.registry import REGISTRY

DOCUMENTS: Final = Path(__file__).parents[2] / "policies"
INSTALLED: Final = Path(__file__).parents[2] / "manifests/base/configmaps.yaml"

_EVEN: Final[dict[str, Any]] = {
    "use_deviation_thresholds": True,
    "thresholds": {"cpu": 10.0, "pods": 10.0},
    "target_thresholds": {"cpu": 10.0, "pods": 10.0},
}
_SSD: Final = NodePriceArgs(node_selector={"disk": "ssd"}, price=1.1)
_FULL: Final[dict[str, Any]] = {"thresholds": {"cpu": 50.0}, "target_thresholds": {"cpu": 90.0}}

VARIANTS: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("taints", "NodeTaints", {"include_prefer_no_schedule": True}),
    ("health", "NodeHealth", {"after_s": 0.0}),
    ("affinity", "NodeAffinity", {"types": ("required", "preferred"), "minimum_difference": 0.1}),
    ("score", "NodeAffinity", {"types": ("score",), "minimum_score_difference": 0.05}),
    ("apart", "InterPodAntiAffinity", {}),
    ("spread", "TopologySpread", {"constraints": ("DoNotSchedule", "ScheduleAnyway")}),
    ("balance", "LowNodeUtilization", {}),
    ("even", "LowNodeUtilization", _EVEN),
    ("pack", "HighNodeUtilization", _FULL),
    ("rooms", "Defragmentation", {"template": {"cpu": "1500m"}}),
    ("workloads", "WorkloadSpread", {}),
)
"""Name, policy and arguments: those of each policy that make it want the most moves."""


class PolicySet(NamedTuple):
    """Policies that plan together."""

    name: str
    policies: tuple[Policy, ...]
    inputs: PlanningInputs
    hints: bool
    """Moves leave hints on nodes, as in a cluster; without them rest comes from the badness alone."""


def documents() -> Iterator[PolicySet]:
    """Every document of ``policies/``, and the installed one: as the controller runs it, and without limits and hints; pods are of any age."""
    texts = {path.stem: path.read_text() for path in sorted(DOCUMENTS.glob("*.yaml"))}
    maps = yaml.safe_load_all(INSTALLED.read_text())
    texts["installed"] = next(
        one["data"]["config.yaml"] for one in maps if "config.yaml" in one.get("data", {})
    )
    for name, text in texts.items():
        document = parse_configuration(text, name)
        for unlimited in (False, True):
            inputs = document.inputs(unlimited=unlimited)
            title = f"{name}{' unlimited' if unlimited else ''}"
            yield PolicySet(title, document.build_policies(), _of_any_age(inputs), hints=not unlimited)


def pairs() -> Iterator[PolicySet]:
    """Two policies each, in both orders, and all of them."""
    for chosen in permutations(VARIANTS, 2):
        if chosen[0][1] != chosen[1][1] and not _contradict(chosen):
            yield _set(chosen)
    ordinary = tuple(variant for variant in VARIANTS if variant[0] != "pack")
    packing = tuple(variant for variant in VARIANTS if variant[1] != "LowNodeUtilization")
    for several in (ordinary, ordinary[::-1], packing, packing[::-1]):
        yield _set(several)
    yield from pools()


def pools() -> Iterator[PolicySet]:
    """One pool is balanced and another packed, side by side; rules are kept in one of them, the other, or both; nodes with prices."""
    even, pack = _in_pool("ssd", "even", "balance"), _in_pool("hdd", "pack")
    rules = tuple(variant for variant in VARIANTS if "Utilization" not in variant[1])
    names = [name for name, _, _ in rules]
    fast, slow = _in_pool("ssd", *names), _in_pool("hdd", *names)
    for chosen in (even + pack, fast + even + pack, pack + even + slow, fast + pack + slow + even):
        yield _set(chosen)
    priced = (("priced", "HighNodeUtilization", _FULL | {"prices": (_SSD,), "default_price": 0.4}),)
    yield _set((*rules, *priced))
    yield _set((*priced, *rules))


def _set(chosen: tuple[tuple[str, str, dict[str, Any]], ...]) -> PolicySet:
    policies = tuple(REGISTRY[policy].build(REGISTRY[policy].args(**args)) for _, policy, args in chosen)
    inputs = PlanningInputs(aggressiveness=1.0, unlimited=True)
    return PolicySet("+".join(name for name, _, _ in chosen), policies, inputs, hints=False)


def _in_pool(disk: str, *names: str) -> tuple[tuple[str, str, dict[str, Any]], ...]:
    return tuple(
        (f"{name}@{disk}", policy, {**args, "node_selector": {"disk": disk}})
        for name, policy, args in VARIANTS
        if name in names
    )


def _contradict(chosen: tuple[tuple[str, str, dict[str, Any]], ...]) -> bool:
    """True if nobody can want both on the same nodes: a configuration that asks for it is refused."""
    return {"LowNodeUtilization", "HighNodeUtilization"} <= {policy for _, policy, _ in chosen}


def _of_any_age(inputs: PlanningInputs) -> PlanningInputs:
    protections = msgspec.structs.replace(inputs.protections, min_age_s=0.0)
    return msgspec.structs.replace(inputs, protections=protections)
