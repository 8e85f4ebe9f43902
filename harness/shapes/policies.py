"""Sets of policies beside each other in pools, with prices, templates and limits of every kind."""

# ruff: noqa: PLR2004 -- the numbers are chances, each said where it is used

from __future__ import annotations

import random
from typing import Any, Final

import msgspec

from harness.differential.manifests import Manifest
from harness.differential.pod_resources import GPU
from harness.shapes.nodes import POOL, POOLS, PRICE
from rescheduler.model.migration import MoveMode
from rescheduler.planning.limits import PlanningInputs, Protections, limits_for
from rescheduler.policies.framework import Policy
from rescheduler.policies.registry import REGISTRY

_RULES: Final = ("NodeTaints", "NodeAffinity", "InterPodAntiAffinity", "TopologySpread")
_BOTH: Final = ("DoNotSchedule", "ScheduleAnyway")


def random_policies(rng: random.Random) -> list[Policy]:
    """Some policies of rules, one or two about how full nodes are, each perhaps in one pool, in any order."""
    chosen: list[tuple[str, Manifest]] = [(name, _rule(rng, name)) for name in _RULES if rng.random() < 0.75]
    chosen.extend(_fullness(rng))
    if rng.random() < 0.5:
        chosen.append(("PendingPods", {"after": 0.0, "afterNodeAutoscaler": 0.0}))
    if rng.random() < 0.5:
        rng.shuffle(chosen)
    made: list[Policy] = []
    for name, given in chosen:
        args = msgspec.convert(given, REGISTRY[name].args)
        wrong = list(REGISTRY[name].problems(args))
        if wrong:
            raise ValueError(wrong)
        made.append(REGISTRY[name].build(args))
    return made


def _rule(rng: random.Random, name: str) -> Manifest:
    args: Manifest = {}
    if name == "NodeTaints":
        args["includePreferNoSchedule"] = rng.random() < 0.6
    elif name == "NodeAffinity":
        kinds = (("required",), ("required", "preferred"), ("required", "preferred", "score"), ("score",))
        args |= {"types": rng.choice(kinds), "minimumDifference": 0.1, "minimumScoreDifference": 0.05}
    elif name == "TopologySpread":
        args["constraints"] = rng.choice((_BOTH[:1], _BOTH, _BOTH, _BOTH[1:]))
    if rng.random() < 0.2:
        args["nodeSelector"] = {POOL: rng.choice(POOLS)}
    if rng.random() < 0.1:
        args["labelSelector"] = {"matchLabels": {"tier": "web"}}
    if rng.random() < 0.1:
        args["namespaces"] = {"exclude": ["blue"]}
    return args


def _fullness(rng: random.Random) -> list[tuple[str, Manifest]]:
    kind = rng.choice(("none", "low", "high", "rooms", "rooms+high", "side by side", "two pools"))
    one, other = rng.sample(POOLS, 2)
    match kind:
        case "low":
            return [("LowNodeUtilization", _low(rng))]
        case "high":
            return [("HighNodeUtilization", _high(rng))]
        case "rooms":
            return [("Defragmentation", _rooms(rng))]
        case "rooms+high":
            return [("Defragmentation", _rooms(rng)), ("HighNodeUtilization", _high(rng))]
        case "side by side":
            low, high = _low(rng), _high(rng)
            low["nodeSelector"], high["nodeSelector"] = {POOL: one}, {POOL: other}
            return [("LowNodeUtilization", low), ("HighNodeUtilization", high)]
        case "two pools":
            first, second = _high(rng), _high(rng)
            first["nodeSelector"], second["nodeSelector"] = {POOL: one}, {POOL: other}
            return [("HighNodeUtilization", first), ("HighNodeUtilization", second)]
    return []


def _low(rng: random.Random) -> Manifest:
    args: dict[str, Any] = {"useDeviationThresholds": rng.random() < 0.4}
    low, high = (10.0, 10.0) if args["useDeviationThresholds"] else rng.choice(((20.0, 50.0), (50.0, 60.0)))
    for name in rng.sample(("cpu", "memory", "pods", GPU), rng.choice((1, 2, 3))):
        args.setdefault("thresholds", {})[name] = low
        args.setdefault("targetThresholds", {})[name] = high
    if rng.random() < 0.3:
        args = {}
    if rng.random() < 0.3:
        args["nodeSelector"] = {POOL: rng.choice(POOLS)}
    return args


def _high(rng: random.Random) -> Manifest:
    args: dict[str, Any] = {"thresholds": {"cpu": rng.choice((20.0, 50.0, 80.0))}}
    if rng.random() < 0.3:
        args["thresholds"]["memory"] = 50.0
    if rng.random() < 0.5:
        args |= {"priceLabel": PRICE, "defaultPrice": rng.choice((0.05, 0.3, 1.0))}
    if rng.random() < 0.3:
        args["prices"] = [{"nodeSelector": {POOL: "blue"}, "price": 1.7}]
    return args


def _rooms(rng: random.Random) -> Manifest:
    template = rng.choice(
        ({"cpu": 1, "memory": "1Gi"}, {"cpu": 2}, {"memory": "3Gi"}, {GPU: 1, "cpu": "500m"})
    )
    return {"template": template} | ({"nodeSelector": {POOL: "green"}} if rng.random() < 0.3 else {})


def random_inputs(rng: random.Random) -> PlanningInputs:
    """How much may be moved, and how."""
    level = rng.choice((0.0, 0.5, 1.0, 1.0))
    kept = rng.random() < 0.25
    return PlanningInputs(
        limits=limits_for(level),
        protections=Protections(persistent_volumes=kept, local_storage=kept),
        aggressiveness=level,
        mode=rng.choice((MoveMode.AUTO, MoveMode.RESERVE_FIRST, MoveMode.START_FIRST)),
        unlimited=rng.random() < 0.7,
        max_moves=rng.choice((None, None, 1, 3, 7, 15)),
        effort=rng.choice((1, 16, 128)),
    )
