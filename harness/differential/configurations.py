"""Random scheduler configurations."""

# ruff: noqa: PLR2004 -- the numbers are chances, each said where it is used

from __future__ import annotations

import random

from harness.differential.manifests import Manifest
from harness.differential.pod_resources import GPU, HUGE, NIC
from harness.differential.pods import SCHEDULERS

SWITCHED = (
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "NodeDeclaredFeatures",
    "ImageLocality",
    "NodeResourcesBalancedAllocation",
)


def random_configuration(rng: random.Random) -> Manifest | None:
    """A KubeSchedulerConfiguration, or None for the default, every second time."""
    if rng.random() < 0.5:
        return None
    resources = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 2}]
    if rng.random() < 0.6:
        more = rng.sample((GPU, NIC, HUGE, "ephemeral-storage"), rng.choice((1, 1, 2)))
        resources.extend({"name": name, "weight": rng.choice((1, 3, 100))} for name in more)
    if rng.random() < 0.1:
        resources = resources[2:] or resources
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
        args.append(_plugin_args("PodTopologySpread", **_defaulting(rng)))
    if rng.random() < 0.4:
        args.append(_plugin_args("NodeAffinity", addedAffinity=_added_affinity(rng)))
    profile: Manifest = {"schedulerName": "default-scheduler", "pluginConfig": args}
    if rng.random() < 0.4:
        profile["plugins"] = rng.choice((
            {"score": {"disabled": [{"name": "ImageLocality"}], "enabled": [{"name": "NodeAffinity", "weight": 9}]}},
            {"multiPoint": {"disabled": [{"name": name} for name in rng.sample(SWITCHED, 3)]}},
        ))  # fmt: skip
    profiles = [profile]
    if rng.random() < 0.4:
        profiles.append({"schedulerName": SCHEDULERS[1]})
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": profiles,
    }


def _fit(rng: random.Random, resources: list[Manifest]) -> Manifest:
    kind = rng.choice(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    strategy: Manifest = {"type": kind, "resources": resources}
    if kind == "RequestedToCapacityRatio":
        places = sorted(rng.sample(range(101), rng.choice((1, 2, 3, 5))))
        shape = [{"utilization": x, "score": rng.randint(0, 10)} for x in places]
        strategy["requestedToCapacityRatio"] = {"shape": shape}
    ignored = [GPU] if rng.random() < 0.2 else []
    groups = ["example.com"] if rng.random() < 0.1 else []
    return _plugin_args(
        "NodeResourcesFit", scoringStrategy=strategy, ignoredResources=ignored, ignoredResourceGroups=groups
    )


def _added_affinity(rng: random.Random) -> Manifest:
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1", "z2"]}
    pool = {"key": "pool", "operator": rng.choice(("Exists", "DoesNotExist"))}
    size = {"key": "size", "operator": rng.choice(("Gt", "Lt")), "values": ["1"]}
    made: Manifest = {}
    if rng.random() < 0.6:
        terms = [{"matchExpressions": [one]} for one in rng.sample((zone, pool, size), rng.choice((1, 2)))]
        made["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if not made or rng.random() < 0.5:
        made["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": rng.choice((1, 7)), "preference": {"matchExpressions": [one]}}
            for one in rng.sample((zone, pool, size), rng.choice((1, 2)))
        ]
    return made


def _defaulting(rng: random.Random) -> Manifest:
    if rng.random() < 0.2:
        return {"defaultingType": "System"}
    constraints = _default_constraints(rng) if rng.random() < 0.9 else []
    return {"defaultingType": "List", "defaultConstraints": constraints}


def _default_constraints(rng: random.Random) -> list[Manifest]:
    actions = ("ScheduleAnyway", "DoNotSchedule")
    keys = rng.sample(("kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"), rng.choice((1, 2)))
    return [
        {"maxSkew": rng.choice((1, 2, 3)), "topologyKey": key, "whenUnsatisfiable": rng.choice(actions)}
        for key in keys
    ]


def _plugin_args(plugin: str, **fields: object) -> Manifest:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": f"{plugin}Args"}
    return {"name": plugin, "args": {**head, **fields}}
