"""Random scheduler configurations."""

# ruff: noqa: PLR2004 -- the numbers are chances, each said where it is used

from __future__ import annotations

import random

from rescheduler.testing.differential.manifests import Manifest
from rescheduler.testing.differential.pods import GPU


def random_configuration(rng: random.Random) -> Manifest | None:
    """A KubeSchedulerConfiguration, or None for the default, every second time."""
    if rng.random() < 0.5:
        return None
    resources = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 2}]
    if rng.random() < 0.4:
        resources.append({"name": rng.choice((GPU, "ephemeral-storage")), "weight": 3})
    args = [_fit(rng, resources)]
    if rng.random() < 0.4:
        even = [{"name": item["name"], "weight": 1} for item in resources]
        args.append(_plugin_args("NodeResourcesBalancedAllocation", resources=even))
    if rng.random() < 0.4:
        ignore = rng.random() < 0.3
        weight = rng.choice((0, 5, 100))
        args.append(
            _plugin_args(
                "InterPodAffinity", hardPodAffinityWeight=weight, ignorePreferredTermsOfExistingPods=ignore
            )
        )
    if rng.random() < 0.4:
        constraints = _default_constraints(rng)
        args.append(_plugin_args("PodTopologySpread", defaultingType="List", defaultConstraints=constraints))
    if rng.random() < 0.3:
        args.append(_plugin_args("NodeAffinity", addedAffinity=_added_affinity(rng)))
    profile: Manifest = {"schedulerName": "default-scheduler", "pluginConfig": args}
    if rng.random() < 0.4:
        profile["plugins"] = rng.choice(
            (
                {
                    "score": {
                        "disabled": [{"name": "ImageLocality"}],
                        "enabled": [{"name": "NodeAffinity", "weight": 9}],
                    }
                },
                {"multiPoint": {"disabled": [{"name": "NodePorts"}, {"name": "PodTopologySpread"}]}},
            )
        )
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


def _fit(rng: random.Random, resources: list[Manifest]) -> Manifest:
    kind = rng.choice(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    strategy: Manifest = {"type": kind, "resources": resources}
    if kind == "RequestedToCapacityRatio":
        shapes = (((0, 0), (100, 10)), ((10, 10), (40, 3), (90, 7)))
        shape = [{"utilization": x, "score": y} for x, y in rng.choice(shapes)]
        strategy["requestedToCapacityRatio"] = {"shape": shape}
    ignored = [GPU] if rng.random() < 0.3 else []
    return _plugin_args("NodeResourcesFit", scoringStrategy=strategy, ignoredResources=ignored)


def _added_affinity(rng: random.Random) -> Manifest:
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1", "z2"]}
    term = {"matchExpressions": [zone]}
    if rng.random() < 0.5:
        return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": term}]}


def _default_constraints(rng: random.Random) -> list[Manifest]:
    action = rng.choice(("ScheduleAnyway", "DoNotSchedule"))
    keys = rng.sample(("kubernetes.io/hostname", "topology.kubernetes.io/zone"), rng.choice((1, 2)))
    return [{"maxSkew": rng.choice((1, 2)), "topologyKey": key, "whenUnsatisfiable": action} for key in keys]


def _plugin_args(plugin: str, **fields: object) -> Manifest:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": f"{plugin}Args"}
    return {"name": plugin, "args": {**head, **fields}}
