"""Workloads of every kind in every state: rolled out, in the middle of it, scaled to 0, with budgets that overlap."""

# ruff: noqa: PLR2004 -- the numbers are chances, each said where it is used

from __future__ import annotations

import copy
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.differential.manifests import Manifest, metadata, namespaced
from harness.differential.plans.births import pod_of, stateful_pod
from harness.shapes.nodes import DRIVER, HOST, ZONE, Site
from harness.shapes.templates import NAMESPACES, template_of

APPS: Final = ("a", "b", "c", "d", "e")
_HASH: Final = "pod-template-hash"
_KINDS: Final = (
    *("Deployment",) * 6,
    *("ReplicaSet",) * 3,
    *("StatefulSet",) * 4,
    *("ReplicationController", "Job", "DaemonSet", "Pod"),
)
SHARED_MODES: Final = ("ReadWriteMany", "ReadWriteOncePod")
"""Claims that several pods name begin so, in small letters."""
_CLAIM: Final = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "wait",
}


@dataclass(slots=True)
class Made:
    """The objects of one workload, and its pods, which have no nodes yet."""

    objects: list[Manifest] = field(default_factory=list)
    pods: list[Manifest] = field(default_factory=list)


def workload(rng: random.Random, number: int, sites: Sequence[Site]) -> Made:
    """A workload with up to 9 pods, as its controller makes them."""
    app, namespace = rng.choice(APPS), rng.choice(sorted(NAMESPACES))
    name, made = f"{app}{number}", Made()
    template = template_of(rng, app)
    template["metadata"]["labels"]["own"] = name
    replicas = rng.choice((1, 2, 3, 3, 4, 6, 6, 9))
    kind = rng.choice(_KINDS)
    if kind == "Deployment":
        _deployment(rng, namespaced("apps/v1", kind, namespace, name, {}), template, replicas, made)
    elif kind == "StatefulSet":
        _stateful(rng, namespaced("apps/v1", kind, namespace, name, {}), template, replicas, made)
    elif kind == "DaemonSet":
        _daemons(namespaced("apps/v1", kind, namespace, name, {}), template, sites, made)
    elif kind == "Pod":
        _bare(rng, namespace, name, template, made)
    else:
        versions = {"ReplicaSet": "apps/v1", "ReplicationController": "v1", "Job": "batch/v1"}
        _plain(rng, namespaced(versions[kind], kind, namespace, name, {}), template, replicas, made)
    return made


def _deployment(rng: random.Random, owner: Manifest, template: Manifest, replicas: int, made: Made) -> None:
    """Rolled out, paused between two ReplicaSets, in the middle of a change, or with an old ReplicaSet of 0."""
    state = rng.choice((*("done",) * 8, "paused", "rolling", "old", "old"))
    replicas = max(replicas, 2) if state in ("paused", "rolling") else replicas
    labels = {"own": owner["metadata"]["name"]}
    owner["spec"] = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    owner["metadata"]["generation"] = 2
    before = copy.deepcopy(template)
    before["metadata"]["labels"]["version"] = "0"
    parts = [(template, replicas, "5d4f8c7b9")]
    if state in ("paused", "rolling"):
        old = rng.randint(1, replicas - 1)
        parts = [(before, old, "77e31"), (template, replicas - old, "5d4f8c7b9")]
        if state == "paused":
            owner["spec"]["paused"] = True
    elif state == "old":
        parts.insert(0, (before, 0, "77e31"))
    updated = parts[-1][1]
    owner["status"] = {
        "observedGeneration": 2, "replicas": replicas, "updatedReplicas": updated, "readyReplicas": replicas,
    }  # fmt: skip
    made.objects.append(owner)
    for one, count, digest in parts:
        _replica_set(owner, one, count, digest, made)


def _replica_set(owner: Manifest, template: Manifest, count: int, digest: str, made: Made) -> None:
    meta, template = owner["metadata"], copy.deepcopy(template)
    template["metadata"]["labels"][_HASH] = digest
    selector = {"matchLabels": {"own": meta["name"], _HASH: digest}}
    spec = {"replicas": count, "selector": selector, "template": template}
    found = namespaced("apps/v1", "ReplicaSet", meta["namespace"], f"{meta['name']}-{digest}", spec)
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": meta["name"], "uid": meta["uid"]}
    found["metadata"] |= {"ownerReferences": [{**reference, "controller": True}], "generation": 1}
    found["metadata"]["labels"] = dict(template["metadata"]["labels"])
    found["status"] = {"observedGeneration": 1, "replicas": count, "readyReplicas": count}
    made.objects.append(found)
    made.pods.extend(pod_of(template, found, f"{found['metadata']['name']}-{i}") for i in range(count))


def _stateful(rng: random.Random, owner: Manifest, template: Manifest, replicas: int, made: Made) -> None:
    """Some with a volume for each pod."""
    name, revision = owner["metadata"]["name"], f"{owner['metadata']['name']}-86c5"
    owner["spec"] = {
        "replicas": replicas,
        "serviceName": name,
        "selector": {"matchLabels": {"own": name}},
        "template": template,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    }
    if rng.random() < 0.5:
        owner["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": _CLAIM}]
    owner["metadata"]["generation"] = 1
    owner["status"] = {
        "observedGeneration": 1, "replicas": replicas, "readyReplicas": replicas,
        "currentReplicas": replicas, "updatedReplicas": replicas, "currentRevision": revision,
        "updateRevision": revision,
    }  # fmt: skip
    made.objects.append(owner)
    made.objects.append(revision_of(owner, revision, template))
    made.pods.extend(stateful_pod(template, revision, owner, i) for i in range(replicas))


def revision_of(owner: Manifest, name: str, template: Manifest, number: int = 1) -> Manifest:
    """As the controller of StatefulSets stores it (newRevision)."""
    meta = owner["metadata"]
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": meta["name"], "uid": meta["uid"]}
    labels = {**template["metadata"]["labels"], "controller.kubernetes.io/hash": name.rpartition("-")[2]}
    found = namespaced("apps/v1", "ControllerRevision", meta["namespace"], name, {})
    del found["spec"]
    found["metadata"] |= {"labels": labels, "ownerReferences": [{**reference, "controller": True}]}
    return {**found, "data": {"spec": {"template": {**template, "$patch": "replace"}}}, "revision": number}


def _plain(rng: random.Random, owner: Manifest, template: Manifest, replicas: int, made: Made) -> None:
    """A ReplicaSet or ReplicationController without anything above it, or a Job; some are scaled to 0 already."""
    kind, name = owner["kind"], owner["metadata"]["name"]
    own = {"own": name}
    spec: Manifest = {"selector": own if kind == "ReplicationController" else {"matchLabels": own}}
    spec["template"] = template
    if kind == "Job":
        spec |= {"parallelism": replicas, "backoffLimit": 0}
    else:
        spec["replicas"] = 0 if rng.random() < 0.1 else replicas
    owner["spec"] = spec
    made.objects.append(owner)
    made.pods.extend(pod_of(template, owner, f"{name}-{i}x") for i in range(replicas))


def _daemons(owner: Manifest, template: Manifest, sites: Sequence[Site], made: Made) -> None:
    """A small pod on each node, as the controller pins it there."""
    name = owner["metadata"]["name"]
    template["spec"] = {"containers": template["spec"]["containers"]}
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "50m", "memory": "64Mi"}}
    template["spec"]["containers"][0].pop("ports", None)
    template["spec"]["tolerations"] = [{"operator": "Exists"}]
    owner["spec"] = {"selector": {"matchLabels": {"own": name}}, "template": template}
    made.objects.append(owner)
    for site in sites:
        pod = pod_of(template, owner, f"{name}-{site.name}")
        fields = [{"key": "metadata.name", "operator": "In", "values": [site.name]}]
        required = {"nodeSelectorTerms": [{"matchFields": fields}]}
        pod["spec"]["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
        }
        made.pods.append(pod)


def _bare(rng: random.Random, namespace: str, name: str, template: Manifest, made: Made) -> None:
    """A pod that nobody owns, or one that a kubelet runs from a file."""
    owner = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n0", "uid": "uid-n0", "namespace": namespace},
    }
    pod = pod_of(template, owner, name)
    if rng.random() < 0.7:
        del pod["metadata"]["ownerReferences"]
    else:
        pod["metadata"]["annotations"] = {
            "kubernetes.io/config.mirror": "x",
            "kubernetes.io/config.source": "file",
        }
    made.pods.append(pod)


def claims(rng: random.Random, pod: Manifest, site: Site | None) -> Iterator[Manifest]:
    """The claims of a pod, bound to volumes that can be used in its zone, on its node, or anywhere."""
    namespace = pod["metadata"]["namespace"]
    for volume in pod["spec"].get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if name is None:
            continue
        modes = [mode for mode in SHARED_MODES if name.startswith(mode.lower())] or _CLAIM["accessModes"]
        claim = namespaced("v1", "PersistentVolumeClaim", namespace, name, {**_CLAIM, "accessModes": modes})
        claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        claim["spec"]["volumeName"] = f"{namespace}-{name}"
        claim["status"] = {"phase": "Bound"}
        spec: Manifest = {
            "capacity": {"storage": "1Gi"},
            "accessModes": modes,
            "storageClassName": "wait",
            "csi": {"driver": DRIVER, "volumeHandle": f"{namespace}-{name}"},
            "claimRef": {"namespace": namespace, "name": name, "uid": claim["metadata"]["uid"]},
        }
        where = rng.choice((HOST, ZONE, ZONE, ""))
        value = site.manifest["metadata"]["labels"].get(where) if site is not None else None
        if value:
            near = {"key": where, "operator": "In", "values": [value]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [near]}]}}
        head = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata(f"{namespace}-{name}")}
        yield claim
        yield {**head, "spec": spec, "status": {"phase": "Bound"}}


def budgets(rng: random.Random, made: Made) -> Iterator[Manifest]:
    """Of one workload, of one application or of a whole namespace: the last two overlap with others."""
    if not made.pods or rng.random() > 0.4:
        return
    labels, meta = made.pods[0]["metadata"]["labels"], made.pods[0]["metadata"]
    kind = rng.random()
    selector = {"own": labels["own"]} if kind < 0.7 else {"app": labels["app"]} if kind < 0.9 else {}
    spec: Manifest = {"selector": {"matchLabels": selector}}
    spec[rng.choice(("minAvailable", "maxUnavailable"))] = rng.choice(("0%", "30%", "50%", "100%", 0, 1, 2))
    if rng.random() < 0.5:
        spec["unhealthyPodEvictionPolicy"] = rng.choice(("AlwaysAllow", "IfHealthyBudget"))
    yield namespaced("policy/v1", "PodDisruptionBudget", meta["namespace"], f"{labels['own']}-budget", spec)


def count(budget: Manifest, pods: Sequence[Manifest]) -> None:
    """Fill in its status, as the controller of budgets does."""
    selector, spec = budget["spec"]["selector"]["matchLabels"].items(), budget["spec"]
    namespace = budget["metadata"]["namespace"]
    covered = [
        pod
        for pod in pods
        if pod["metadata"]["namespace"] == namespace and selector <= pod["metadata"]["labels"].items()
    ]
    healthy = sum(_is_ready(pod) for pod in covered)
    if "minAvailable" in spec:
        desired = _share(spec["minAvailable"], len(covered))
    else:
        desired = max(0, len(covered) - _share(spec["maxUnavailable"], len(covered)))
    allowed = max(0, healthy - desired) if covered else 0
    budget["metadata"]["generation"] = 1
    budget["status"] = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": len(covered),
    }


def _is_ready(pod: Manifest) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    conditions = pod["status"].get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _share(value: int | str, of: int) -> int:
    return value if isinstance(value, int) else math.ceil(int(value.rstrip("%")) * of / 100)
