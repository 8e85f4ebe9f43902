"""What a pod's volumes allow, computed from the objects of the API server without the program's own rules."""

from __future__ import annotations

from collections.abc import Iterator

from kube_sandbox.controllers.api import Api
from kube_sandbox.controllers.daemonset import node_affinity_allows
from kube_sandbox.controllers.unstructured import CLAIM, VOLUME, Obj, key, spec

_SHARED = frozenset({"ReadWriteMany", "ReadOnlyMany"})


def out_of_reach(api: Api, pod: Obj, node: Obj) -> list[str]:
    """Names of the pod's claims whose volumes cannot be used from the node."""
    found = []
    for claim in claims_of(api, pod):
        volume = api.get(VOLUME, "", spec(claim).get("volumeName") or "")
        required = (spec(volume or {}).get("nodeAffinity") or {}).get("required")
        rule = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        if required is not None and not node_affinity_allows({"affinity": rule}, node):
            found.append(key(claim).name)
    return found


def for_one_place(api: Api, pod: Obj) -> bool:
    """True if one of the pod's volumes cannot be used from two nodes at once."""
    return any(_SHARED.isdisjoint(spec(claim)["accessModes"]) for claim in claims_of(api, pod))


def claims_of(api: Api, pod: Obj) -> Iterator[Obj]:
    """The pod's claims that are there."""
    for volume in spec(pod).get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        claim = api.get(CLAIM, key(pod).namespace, name) if name else None
        if claim is not None:
            yield claim
