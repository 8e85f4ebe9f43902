"""How pods are born: what their controllers create of a template, and what the API server makes of it.

By the rules of the Kubernetes sources that each function names, from manifests alone: nothing here is taken from the
code that plans, so that plans can be checked against it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.differential.manifests import Manifest

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_LIVENESS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATED_S = 300


@dataclass(frozen=True, slots=True)
class Admission:
    """What the API server of one cluster makes of pods that are created."""

    priorities: Mapping[str, int]
    """Values of PriorityClasses by name."""
    sidecars: Mapping[str, Manifest] = field(default_factory=dict)
    """Containers that a webhook adds to pods, by namespace."""
    tolerations: Mapping[str, Manifest] = field(default_factory=dict)
    """Tolerations that a webhook adds to pods, by namespace."""
    default_class: str = ""
    """The PriorityClass of pods that name none; "" if there is none."""

    def admit(self, pod: Manifest) -> Manifest:
        """The pod as it is stored, in place."""
        spec, namespace = pod["spec"], pod["metadata"]["namespace"]
        if namespace in self.sidecars:
            spec["containers"].append(copy.deepcopy(self.sidecars[namespace]))
        if namespace in self.tolerations:
            spec["tolerations"] = [*spec.get("tolerations", ()), self.tolerations[namespace]]
        if self.default_class:
            spec.setdefault("priorityClassName", self.default_class)
        spec["priority"] = self.priorities.get(spec.get("priorityClassName", ""), 0)
        _tolerate_dead_nodes(spec)
        merge_label_keys(pod)
        return pod


def _tolerate_dead_nodes(spec: Manifest) -> None:
    """DefaultTolerationSeconds: a toleration of each of two taints, unless there is one for NoExecute."""
    given = spec.get("tolerations", ())
    missing = [key for key in _LIVENESS if not any(_covers(toleration, key) for toleration in given)]
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED_S}
        for key in missing
    ]
    spec["tolerations"] = [*given, *added]


def _covers(toleration: Manifest, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def merge_label_keys(pod: Manifest) -> None:
    """Values of matchLabelKeys and mismatchLabelKeys become part of selectors (podStrategy.PrepareForCreate)."""
    labels, spec = pod["metadata"].get("labels") or {}, pod["spec"]
    affinity = spec.get("affinity") or {}
    for side in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(side) or {}
        preferred = [wish["podAffinityTerm"] for wish in terms.get(_PREFERRED) or ()]
        for term in [*(terms.get(_REQUIRED) or ()), *preferred]:
            _merge(term, "matchLabelKeys", "In", labels)
            _merge(term, "mismatchLabelKeys", "NotIn", labels)
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge(constraint, "matchLabelKeys", "In", labels)


def _merge(owner: Manifest, field_name: str, operator: str, labels: Mapping[str, str]) -> None:
    selector = owner.get("labelSelector")
    if selector is None:
        return
    for key in owner.get(field_name) or ():
        if key in labels:
            wanted = {"key": key, "operator": operator, "values": [labels[key]]}
            selector.setdefault("matchExpressions", []).append(wanted)


def pod_of(template: Manifest, owner: Manifest, name: str) -> Manifest:
    """The pod that a controller makes of a template (controller.GetPodFromTemplate)."""
    given, meta = copy.deepcopy(template.get("metadata") or {}), owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"],
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "uid": f"uid-{meta['namespace']}-{name}",
            "labels": given.get("labels") or {},
            "annotations": given.get("annotations") or {},
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [reference],
        },
        "spec": copy.deepcopy(template["spec"]),
        "status": {"phase": "Pending"},
    }


def ordinal_of(name: str) -> int:
    """The number at the end of the name of a pod of a StatefulSet."""
    return int(name.rpartition("-")[2])


def stateful_pod(template: Manifest, revision: str, owner: Manifest, ordinal: int) -> Manifest:
    """The pod with a number of a StatefulSet (newStatefulSetPod, setPodRevision)."""
    name = f"{owner['metadata']['name']}-{ordinal}"
    pod = pod_of(template, owner, name)
    pod["metadata"]["labels"] |= {
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(ordinal),
        "controller-revision-hash": revision,
    }
    claims = [claim["metadata"]["name"] for claim in owner["spec"].get("volumeClaimTemplates") or ()]
    own = [
        {"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}"}} for claim in sorted(claims)
    ]
    others = [volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in claims]
    if own or others:
        pod["spec"]["volumes"] = [*own, *others]
    return pod


def comes_from_current(owner: Manifest, ordinal: int) -> bool:
    """True if a StatefulSet makes this pod of its current revision (newVersionedStatefulSetPod)."""
    strategy = owner["spec"].get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate")
    first = (owner["spec"].get("ordinals") or {}).get("start", 0)
    if rolling is not None:
        return bool(ordinal < first + rolling.get("partition", 0))
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return False
    return bool(ordinal < first + (owner.get("status") or {}).get("currentReplicas", 0))
