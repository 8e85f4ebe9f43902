"""What few clusters have, of ports, huge pages, features of nodes, scheduling groups, resizes in place and volumes.

Drawn apart from all else, which is the same with and without.
"""

# ruff: noqa: PLR2004 -- the numbers are chances, each said where it is used

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from harness.differential.clusters import FEATURES
from harness.differential.manifests import Manifest, metadata, namespaced
from harness.differential.pod_resources import GPU, HUGE
from harness.shapes.nodes import DRIVER, ZONE, Site
from harness.shapes.workloads import SHARED_MODES, Made

_STORAGE: Final = "storage.k8s.io/v1"
_ON_DEMAND: Final = "on-demand"
_NEXT: Final = {
    "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "4Gi"}}, "storageClassName": _ON_DEMAND,
}  # fmt: skip


class Rare:
    """The rare things of one cluster."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"rare {seed}")  # noqa: S311 -- test data, not secrets

    def objects(self, sites: Sequence[Site]) -> list[Manifest]:
        """What the nodes have besides, in place; and classes, drivers and capacities."""
        rng = self._rng
        for site in sites:
            status = site.manifest["status"]
            status["declaredFeatures"] = sorted(one for one in FEATURES if rng.random() < 0.6)
            if rng.random() < 0.5:
                status["allocatable"][HUGE] = rng.choice(("8Mi", "64Mi"))
        grows: Manifest = {"provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
        if rng.random() < 0.4:
            reached = [{"key": ZONE, "values": rng.sample("abcd", 2)}]
            grows["allowedTopologies"] = [{"matchLabelExpressions": reached}]
        driver = {"storageCapacity": rng.random() < 0.6, "preventPodSchedulingIfMissing": rng.random() < 0.5}
        made = [_cluster("StorageClass", _ON_DEMAND, **grows), _cluster("CSIDriver", DRIVER, spec=driver)]
        made.extend(self._capacity(zone) for zone in "abcd" if rng.random() < 0.7)
        if rng.random() < 0.2:
            head = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata("gpus")}
            made.append({**head, "spec": {"extendedResourceName": GPU}})
        return made

    def _capacity(self, zone: str) -> Manifest:
        made = namespaced(_STORAGE, "CSIStorageCapacity", "red", f"{_ON_DEMAND}-{zone}", {})
        del made["spec"]
        made |= {"storageClassName": _ON_DEMAND, "nodeTopology": {"matchLabels": {ZONE: zone}}}
        return made | {"capacity": self._rng.choice(("1Gi", "4Gi", "100Gi"))}

    def change(self, made: Made) -> list[Manifest]:
        """The workload; with the claims that its next pods are the first to use."""
        rng = self._rng
        owner: Manifest = made.objects[0] if made.objects else {"kind": ""}
        if owner["kind"] == "DaemonSet":
            return []
        for shape in rng.sample(_SHAPES, rng.choice((0, 0, 1, 1, 2))):
            change = shape(rng)
            for spec in _specs(made):
                change(spec)
        if owner["kind"] not in ("ReplicaSet", "ReplicationController") or rng.random() >= 0.3:
            return []
        name, template = f"next-{owner['metadata']['name']}", owner["spec"]["template"]["spec"]
        template.setdefault("volumes", []).append({"name": "n", "persistentVolumeClaim": {"claimName": name}})
        claim = namespaced("v1", "PersistentVolumeClaim", owner["metadata"]["namespace"], name, _NEXT)
        return [claim | {"status": {"phase": "Pending"}}]

    def lived(self, objects: Sequence[Manifest], pods: Sequence[Manifest]) -> list[Manifest]:
        """The pods, and what is attached. Volumes get labels of zones in place: mostly that of a pod's node among them."""
        rng, known = self._rng, {item["metadata"]["uid"]: item for item in objects}
        nodes = [item["metadata"]["name"] for item in objects if item["kind"] == "Node"]
        made: list[Manifest] = []
        for pod in pods:
            node = pod["spec"].get("nodeName")
            for volume in pod["spec"].get("volumes") or () if node else ():
                claim = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
                bound = known.get(f"uid-{pod['metadata']['namespace']}-{claim}")
                if bound is not None:
                    self._zone(bound, known[f"uid-{node}"]["metadata"]["labels"].get(ZONE))
                    places = (node, 0.8), (rng.choice(nodes), 0.2)
                    made.extend(
                        _attachment(bound, place, f"attached-{len(made)}-{place}")
                        for place, chance in places
                        if rng.random() < chance
                    )
            made.append(self._resized(pod) if node and rng.random() < 0.1 else pod)
        return made

    def _zone(self, volume: Manifest, zone: str | None) -> None:
        rng = self._rng
        if zone and rng.random() < 0.3:
            others = "".join(f"__{one}" for one in rng.sample("abcd", rng.choice((0, 1, 2))))
            key = rng.choice((ZONE, "failure-domain.beta.kubernetes.io/zone"))
            volume["metadata"]["labels"] = {key: f"{zone}{others}"}

    def _resized(self, pod: Manifest) -> Manifest:
        """In the middle of a resize, or its kubelet could not do it."""
        rng = self._rng
        asked, given = ({"cpu": rng.choice(("10m", "800m", "2")), "memory": "512Mi"} for _ in range(2))
        known = {
            "name": pod["spec"]["containers"][0]["name"], "image": "plain", "imageID": "", "ready": True, "restartCount": 0,
            "resources": {"requests": asked}, "allocatedResources": given,
        }  # fmt: skip
        condition = rng.choice(
            ({"type": "PodResizeInProgress"}, {"type": "PodResizePending", "reason": "Infeasible"})
        )
        conditions = [*pod["status"].get("conditions", ()), {**condition, "status": "True"}]
        return {**pod, "status": {**pod["status"], "containerStatuses": [known], "conditions": conditions}}


def _cluster(kind: str, name: str, **fields: object) -> Manifest:
    return {"apiVersion": _STORAGE, "kind": kind, "metadata": metadata(name), **fields}


def _attachment(volume: Manifest, node: str, name: str) -> Manifest:
    source = {"persistentVolumeName": volume["metadata"]["name"]}
    return _cluster("VolumeAttachment", name, spec={"attacher": DRIVER, "nodeName": node, "source": source})


def _specs(made: Made) -> Iterator[Manifest]:
    """The spec of each template and pod, once."""
    seen: set[int] = set()
    for one in (*made.objects, *made.pods):
        body = one["data"] if one["kind"] == "ControllerRevision" else one
        spec = body["spec"].get("template", body)["spec"]
        if id(spec) not in seen:
            seen.add(id(spec))
            yield spec


_Change = Callable[[Manifest], None]


def _address(rng: random.Random) -> _Change:
    """A port of one address, or of all; of the second container as well, if it is a sidecar."""
    ports = [
        {"containerPort": 80, "hostPort": rng.choice((8080, 8081)), "protocol": rng.choice(("TCP", "TCP", "UDP")),
         "hostIP": rng.choice(("", "0.0.0.0", "10.0.0.1", "10.0.0.2", "::"))}  # noqa: S104 -- a value of the API
    ]  # fmt: skip
    beside = rng.random() < 0.3

    def change(spec: Manifest) -> None:
        holders = spec.get("initContainers") if beside else None
        (holders or spec["containers"])[0]["ports"] = ports

    return change


def _huge(rng: random.Random) -> _Change:
    amount = {HUGE: rng.choice(("2Mi", "8Mi", "30Mi"))}

    def change(spec: Manifest) -> None:
        requests = spec["containers"][0]["resources"]["requests"]
        requests |= amount

    return change


def _feature(rng: random.Random) -> _Change:
    kind = rng.choice(FEATURES)

    def change(spec: Manifest) -> None:
        if kind == "UserNamespacesHostNetworkSupport":
            spec |= {"hostNetwork": True, "hostUsers": False}
        elif kind == "VolumeBindMountOptions":
            mount = {"name": "m", "mountPath": "/m", "bindMountOptions": ["noexec"]}
            spec["containers"][0]["volumeMounts"] = [mount]
        else:
            exits = {"operator": "In", "values": [42]}
            spec["containers"][0]["restartPolicyRules"] = [
                {"action": "RestartAllContainers", "exitCodes": exits}
            ]

    return change


def _group(rng: random.Random) -> _Change:
    group = {"podGroupName": rng.choice("gh")}

    def change(spec: Manifest) -> None:
        spec["schedulingGroup"] = group

    return change


def _shared(rng: random.Random) -> _Change:
    name = f"{rng.choice((*SHARED_MODES, SHARED_MODES[0])).lower()}-{rng.choice('pq')}"

    def change(spec: Manifest) -> None:
        if any(volume["name"] == name for volume in spec.get("volumes", ())):
            return
        volume = {"name": name, "persistentVolumeClaim": {"claimName": name}}
        spec["volumes"] = [*spec.get("volumes", ()), volume]

    return change


_SHAPES: Final = (_address, _address, _huge, _feature, _group, _shared, _shared)
