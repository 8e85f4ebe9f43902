"""Named scheduler configurations beside the random ones: what kube-scheduler refuses, and what it takes."""

from __future__ import annotations

from typing import Final

from harness.differential.clusters import Question
from harness.differential.manifests import Manifest
from harness.differential.named import ZONE, near, node, pod, question

_API: Final = "kubescheduler.config.k8s.io/v1"
_CPU: Final = [{"name": "cpu", "weight": 1}]
_SHAPE: Final = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}
_HARD: Final = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def document(*profiles: Manifest, **profile: object) -> Manifest:
    """A configuration with one profile, or with the given ones."""
    given = list(profiles) or [{"schedulerName": "default-scheduler", **profile}]
    return {"apiVersion": _API, "kind": "KubeSchedulerConfiguration", "profiles": given}


def arguments(plugin: str, *, kind: str = "", **fields: object) -> Manifest:
    """A configuration with arguments of one plugin."""
    args = {"apiVersion": _API, "kind": kind or f"{plugin}Args", **fields}
    return document(pluginConfig=[{"name": plugin, "args": args}])


def about(configuration: Manifest) -> Question:
    """A question that the configuration may change the answer of."""
    wish = near({"key": "pool", "operator": "In", "values": ["x"]}, preferred=True)
    nodes = (node(labels={"pool": "x", ZONE: "z"}), node("b", labels={"pool": "y"}))
    return question(*nodes, pod(cpu="1", affinity=wish))._replace(configuration=configuration)


def _scored(*plugins: Manifest) -> Manifest:
    return document(plugins={"score": {"enabled": list(plugins)}})


def _strategy(**fields: object) -> Manifest:
    return arguments("NodeResourcesFit", scoringStrategy=fields)


def _listed(*constraints: Manifest) -> Manifest:
    return arguments("PodTopologySpread", defaultingType="List", defaultConstraints=list(constraints))


def _weighing(weight: int) -> Manifest:
    return _strategy(type="MostAllocated", resources=[{"name": "cpu", "weight": weight}])


def _added(*terms: Manifest) -> Manifest:
    return arguments("NodeAffinity", addedAffinity={_REQUIRED: {"nodeSelectorTerms": list(terms)}})


REFUSED: Final = {
    "a weight that is too large": _scored({"name": "NodeAffinity", "weight": 2**31}),
    "a negative weight": _scored({"name": "NodeAffinity", "weight": -1}),
    "two profiles of one name": document({"schedulerName": "x"}, {"schedulerName": "x"}),
    "an unknown plugin": _scored({"name": "Mine"}),
    "an unknown plugin everywhere": document(plugins={"multiPoint": {"enabled": [{"name": "Mine"}]}}),
    "PreScore is no plugin": document(plugins={"filter": {"enabled": [{"name": "PreScore"}]}}),
    "a plugin twice": _scored({"name": "ImageLocality"}, {"name": "ImageLocality", "weight": 2}),
    "a plugin that does not score": _scored({"name": "NodePorts"}),
    "arguments twice": document(pluginConfig=[{"name": "InterPodAffinity"}, {"name": "InterPodAffinity"}]),
    "arguments of another plugin": arguments("InterPodAffinity", kind="NodeAffinityArgs"),
    "an unknown argument": arguments("InterPodAffinity", surprise=1),
    "an unknown field": {**document(), "surprise": 1},
    "nothing at once": {**document(), "parallelism": 0},
    "more than all nodes scored": {**document(), "percentageOfNodesToScore": 101},
    "a profile that scores fewer than no nodes": document(percentageOfNodesToScore=-1),
    "no first wait": {**document(), "podInitialBackoffSeconds": 0},
    "a first wait longer than the last": {**document(), "podInitialBackoffSeconds": 11},
    "two sorters of the queue": document(plugins={"queueSort": {"enabled": [{"name": "PrioritySort"}, {"name": "NodeName"}]}}),
    "a sorter that does not sort": document(plugins={"queueSort": {"enabled": [{"name": "NodeName"}]}}),
    "no sorter of the queue": document(plugins={"queueSort": {"disabled": [{"name": "*"}]}}),
    "queues sorted in two ways": document({"schedulerName": "default-scheduler"},
        {"schedulerName": "b", "plugins": {"queueSort": {"enabled": [{"name": "PrioritySort"}]}}}),
    "a profile without a name": document({"schedulerName": "default-scheduler"}, {}),
    "a lease no longer than its renewal": {**document(), "leaderElection": {"leaderElect": True, "leaseDuration": "10s"}},
    "another lock than leases": {**document(), "leaderElection": {"leaderElect": True, "resourceLock": "endpoints"}},
    "a burst below nothing": {**document(), "clientConnection": {"burst": -1}},
    "binding that times out before it begins": arguments("VolumeBinding", bindTimeoutSeconds=-1),
    "preemption that looks at no node": arguments("DefaultPreemption", minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0),
    "preemption that looks at 101 %": arguments("DefaultPreemption", minCandidateNodesPercentage=101),
    "a strategy without a type": _strategy(resources=_CPU),
    "a ratio that is not used": _strategy(type="MostAllocated", resources=_CPU, requestedToCapacityRatio=_SHAPE),
    "a ratio that is missing": _strategy(type="RequestedToCapacityRatio", resources=_CPU),
    "a resource of weight 101": _weighing(101),
    "a resource of weight -1": _weighing(-1),
    "an ignored resource that is none": arguments("NodeResourcesFit", ignoredResources=["a/b/c"]),
    "an ignored group that is none": arguments("NodeResourcesFit", ignoredResourceGroups=["a.example/b"]),
    "balance of weight 2": arguments("NodeResourcesBalancedAllocation", resources=[{"name": "cpu", "weight": 2}]),
    "balance of a resource twice": arguments("NodeResourcesBalancedAllocation", resources=_CPU * 2),
    "an unknown action": _listed({**_HARD, "whenUnsatisfiable": "Never"}),
    "no action": _listed({"maxSkew": 1, "topologyKey": ZONE}),
    "a key that no label has": _listed({**_HARD, "topologyKey": "a/b/c"}),
    "a skew of 0": _listed({**_HARD, "maxSkew": 0}),
    "a constraint twice": _listed(_HARD, _HARD),
    "a shape out of range": arguments("VolumeBinding", shape=[{"utilization": 5, "score": 11}]),
    "a shape that does not rise": arguments("VolumeBinding", shape=[{"utilization": 5, "score": 1}, {"utilization": 5, "score": 2}]),
    "added affinity that is malformed": _added({"matchExpressions": [{"key": "a", "operator": "In", "values": ["{}"]}]}),
}  # fmt: skip

TAKEN: Final = {
    "what changes no verdict": {
        **document(),
        "parallelism": 1,
        "percentageOfNodesToScore": 0,
        "podInitialBackoffSeconds": 10,
        "leaderElection": {"leaderElect": False, "leaseDuration": "1s"},
        "clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf", "qps": 50, "burst": 100},
        "enableProfiling": True,
    },
    "durations of 0 are the usual ones": {
        **document(),
        "leaderElection": {"leaderElect": True, "leaseDuration": "0s", "renewDeadline": "0s"},
    },
    "the sorter named again": document(
        plugins={"queueSort": {"enabled": [{"name": "PrioritySort"}], "disabled": [{"name": "*"}]}}
    ),
    "no patience at all": arguments("VolumeBinding", bindTimeoutSeconds=0),
    "a weight of 0 is 1": _scored({"name": "NodeAffinity", "weight": 0}),
    "the greatest weight": document(
        plugins={
            "score": {
                "disabled": [{"name": "NodeAffinity"}],
                "enabled": [{"name": "NodeAffinity", "weight": 2**31 - 1}],
            }
        }
    ),
    "a weight everywhere": document(
        plugins={"multiPoint": {"enabled": [{"name": "ImageLocality", "weight": 7}]}}
    ),
    "all off but a few": document(
        plugins={
            "multiPoint": {
                "disabled": [{"name": "*"}],
                "enabled": [
                    {"name": "NodeResourcesFit", "weight": 4},
                    *({"name": name} for name in ("NodeAffinity", "DefaultBinder", "PrioritySort")),
                ],
            }
        }
    ),
    "a strategy without resources": _strategy(type="MostAllocated"),
    "a resource of weight 0 is 1": _weighing(0),
    "a resource twice": _strategy(type="MostAllocated", resources=_CPU * 2),
    "balance of one resource": arguments("NodeResourcesBalancedAllocation", resources=_CPU),
    "added affinity without terms": _added(),
    "added affinity of an empty term": _added({}),
    "arguments without a kind": document(
        pluginConfig=[{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 5}}]
    ),
    "no profiles": {**document(), "profiles": []},
    "a profile without a name": document({}),
}
