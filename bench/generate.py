"""Makes dumps of clusters of any size, with the shapes that hurt a scheduler. Same seed, same bytes.

``python bench/generate.py --nodes 500 --pods-per-node 30 --out dump.json``

The cluster is untidy on purpose: a third of the nodes is crowded, a third nearly empty; half of the apps
carry anti-affinity (by hostname or zone), half prefer nodes by label, a third spreads over zones, 5 % of
the nodes are tainted, and pods were placed without looking at any of it. ``--full`` makes a cluster in
which nothing fits anywhere. The dump is a List as ``kubectl get -o json`` writes it, without line breaks
(``--pretty`` for kubectl's own indentation); pods have the size of real ones, 5 to 6 KB.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

JsonObject = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
CREATED = "2026-11-01T08:00:00Z"
NODE_CPU_MILLI = 16_000
NODE_MEMORY_MIB = 65_536
DAEMONS = ("node-agent", "log-shipper")
WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "PodDisruptionBudget")
DAEMON_CPU_MILLI = 100
DAEMON_MEMORY_MIB = 128
"""What the daemons of a node hold together."""
PLACES_TRIED = 12


@dataclass(frozen=True)
class Shape:
    """What cluster to make."""

    nodes: int = 500
    pods_per_node: int = 30
    seed: int = 1
    full: bool = False
    zones: int = 5
    apps_per_namespace: int = 20
    apps_per_pod: float = 1 / 25

    @property
    def pods(self) -> int:
        """Pods of apps; daemons come on top."""
        return self.nodes * self.pods_per_node


@dataclass
class App:
    """One workload and the constraints of its pods."""

    index: int
    kind: str
    namespace: str
    name: str
    replicas: int
    cpu_milli: int
    memory_mib: int
    anti_affinity: str = ""
    prefers: str = ""
    spread: bool = False
    tolerates: bool = False
    priority: int = 0

    @property
    def owner(self) -> tuple[str, str]:
        """Kind and name of what owns the pods."""
        if self.kind == "Deployment":
            return "ReplicaSet", f"{self.name}-{self.index:08x}"
        return self.kind, self.name


@dataclass
class Room:
    """What is left on a node while pods are placed."""

    name: str
    zone: int
    cpu_milli: int = NODE_CPU_MILLI
    memory_mib: int = NODE_MEMORY_MIB
    pods: int = 110
    share: float = 1.0
    tainted: bool = False

    def takes(self, app: App) -> bool:
        """True if the pod fits into what may be used of the node."""
        reserve = int(NODE_CPU_MILLI * (1 - self.share))
        return (
            self.pods > 0 and self.cpu_milli - reserve >= app.cpu_milli and self.memory_mib >= app.memory_mib
        )

    def take(self, app: App) -> None:
        """Put the pod there."""
        self.cpu_milli -= app.cpu_milli
        self.memory_mib -= app.memory_mib
        self.pods -= 1


def objects(shape: Shape) -> Iterator[bytes]:
    """Every object of the cluster as JSON."""
    rng = random.Random(shape.seed)
    rooms = [_room(shape, rng, index) for index in range(shape.nodes)]
    apps = list(_apps(shape, rng))
    yield from (_encode(_node(room, rng)) for room in rooms)
    yield from (_encode(item) for item in _priority_classes())
    for namespace in sorted({app.namespace for app in apps} | {"kube-system"}):
        yield _encode(
            _object("v1", "Namespace", namespace, labels={"kubernetes.io/metadata.name": namespace})
        )
    daemons = [
        App(1_000_000 + number, "DaemonSet", "kube-system", name, shape.nodes, 50, 64, tolerates=True)
        for number, name in enumerate(DAEMONS)
    ]
    for kind in WORKLOADS:  # kubectl writes one kind after the other
        items = (item for app in (*apps, *daemons) for item in _workload(app))
        yield from (_encode(item) for item in items if item["kind"] == kind)
    for daemon, name in zip(daemons, DAEMONS, strict=True):
        template = _pod_template(daemon)
        for index, room in enumerate(rooms):
            room.take(daemon)
            yield _pod(template, daemon, f"{name}-{index:05x}", room, rng)
    placer = Placer(rooms, rng, full=shape.full)
    for app in apps:
        template = _pod_template(app)
        for replica in range(app.replicas):
            room = placer.place(app)
            yield _pod(template, app, _pod_name(app, replica, rng), room, rng)


def write(shape: Shape, out: BinaryIO, *, pretty: bool = False) -> int:
    """Write the dump as one List; gives the number of objects."""
    out.write(b'{\n    "apiVersion": "v1",\n    "items": [\n' if pretty else b'{"apiVersion":"v1","items":[')
    count = 0
    for item in objects(shape):
        if count:
            out.write(b",\n" if pretty else b",")
        out.write(_indented(item) if pretty else item)
        count += 1
    out.write(b'\n    ],\n    "kind": "List"\n}\n' if pretty else b'],"kind":"List","metadata":{}}\n')
    return count


def _indented(item: bytes) -> bytes:
    lines = msgspec.json.format(item, indent=4).split(b"\n")
    return b"\n".join(b"        " + line for line in lines)


def _encode(item: JsonObject) -> bytes:
    return msgspec.json.encode(item)


def _apps(shape: Shape, rng: random.Random) -> Iterator[App]:
    left, index = shape.pods, 0
    while left > 0:
        apart = ("", "", HOSTNAME, ZONE)[index % 4]
        typical = int(1 / shape.apps_per_pod)
        replicas = min(
            left, shape.zones if apart == ZONE else rng.choice((1, 3, typical, typical * 2, typical // 2))
        )
        cpu = (
            (NODE_CPU_MILLI - DAEMON_CPU_MILLI) // shape.pods_per_node
            if shape.full
            else rng.choice((50, 100, 250, 500, 1000))
        )
        memory = (
            (NODE_MEMORY_MIB - DAEMON_MEMORY_MIB) // shape.pods_per_node
            if shape.full
            else rng.choice((128, 256, 512, 1024, 2048))
        )
        yield App(
            index=index,
            kind="StatefulSet" if index % 7 == 3 else "Deployment",
            namespace=f"team-{index // shape.apps_per_namespace:04d}",
            name=f"app-{index:05d}",
            replicas=replicas,
            cpu_milli=cpu,
            memory_mib=memory,
            anti_affinity=apart,
            prefers=f"z{index % shape.zones}" if index % 2 else "",
            spread=index % 3 == 0,
            tolerates=index % 20 == 0,
            priority=1000 if index % 10 == 0 else 0,
        )
        left -= replicas
        index += 1


def _room(shape: Shape, rng: random.Random, index: int) -> Room:
    share = 1.0 if shape.full else (0.95, 0.6, 0.25)[index % 3]
    tainted = rng.random() < 0.05
    return Room(f"node-{index:05d}", index % shape.zones, share=share, tainted=tainted, pods=110)


class Placer:
    """Chooses nodes without looking at constraints, so that there is something to tidy up."""

    def __init__(self, rooms: list[Room], rng: random.Random, *, full: bool) -> None:
        self._rooms = rooms
        self._rng = rng
        self._full = full
        self._next = 0

    def place(self, app: App) -> Room:
        """A node that takes a pod of the app; the emptiest one where none was found."""
        room = self._turn(app) if self._full else self._chance(app)
        room = room or max(self._rooms, key=lambda room: room.cpu_milli)
        room.take(app)
        return room

    def _turn(self, app: App) -> Room | None:
        for _ in self._rooms:
            room = self._rooms[self._next % len(self._rooms)]
            self._next += 1
            if room.takes(app):
                return room
        return None

    def _chance(self, app: App) -> Room | None:
        for _ in range(PLACES_TRIED):
            room = self._rooms[int(len(self._rooms) * self._rng.random())]
            if room.takes(app):
                return room
        return None


def _object(api_version: str, kind: str, name: str, namespace: str = "", **fields: Any) -> JsonObject:
    meta: JsonObject = {
        "creationTimestamp": CREATED,
        "generation": 1,
        "labels": fields.pop("labels", {}),
        "name": name,
        "resourceVersion": str(1000 + len(name)),
        "uid": f"{kind.lower()}-{namespace}-{name}",
    }
    if namespace:
        meta["namespace"] = namespace
    meta.update(fields.pop("metadata", {}))
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **fields}


def _priority_classes() -> Iterator[JsonObject]:
    yield _object("scheduling.k8s.io/v1", "PriorityClass", "important", value=1000)
    yield _object("scheduling.k8s.io/v1", "PriorityClass", "system-node-critical", value=2_000_001_000)


def _node(room: Room, rng: random.Random) -> JsonObject:
    amounts = {
        "cpu": "16",
        "memory": "64Gi",
        "pods": "110",
        "ephemeral-storage": "200Gi",
        "hugepages-2Mi": "0",
    }
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    spec: JsonObject = {"podCIDR": "10.0.0.0/24", "providerID": f"example:///{room.name}"}
    if room.tainted:
        spec["taints"] = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]
    images = [
        {"names": [f"registry.example/app-{n:05d}:1.{n % 10}"], "sizeBytes": 20_000_000 + n * 1000}
        for n in sorted(rng.sample(range(500), 25))
    ]
    return _object(
        "v1",
        "Node",
        room.name,
        labels={
            HOSTNAME: room.name,
            ZONE: f"z{room.zone}",
            "topology.kubernetes.io/region": "r1",
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "node.kubernetes.io/instance-type": "m.4xlarge",
        },
        spec=spec,
        status={
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [
                {
                    "type": kind,
                    "status": "True" if kind == "Ready" else "False",
                    "lastHeartbeatTime": CREATED,
                    "lastTransitionTime": CREATED,
                    "reason": "Kubelet",
                    "message": "kubelet reports",
                }
                for kind in kinds
            ],
            "images": images,
        },
    )


def _workload(app: App) -> Iterator[JsonObject]:
    """The controller chain of an app, and a budget for most of them."""
    labels = {"app": app.name}
    template = {"metadata": {"labels": labels}, "spec": _spec(app)}
    status = {
        "observedGeneration": 1,
        "replicas": app.replicas,
        "updatedReplicas": app.replicas,
        "readyReplicas": app.replicas,
    }
    spec = {"replicas": app.replicas, "selector": {"matchLabels": labels}, "template": template}
    if app.kind == "DaemonSet":
        del spec["replicas"]
        status = {
            "observedGeneration": 1,
            "desiredNumberScheduled": app.replicas,
            "numberReady": app.replicas,
        }
    yield _object("apps/v1", app.kind, app.name, app.namespace, labels=labels, spec=spec, status=status)
    if app.kind == "Deployment":
        kind, name = app.owner
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": app.name, "controller": True}
        owner["uid"] = f"deployment-{app.namespace}-{app.name}"
        hashed = {**labels, "pod-template-hash": f"{app.index:08x}"}
        spec = {
            "replicas": app.replicas,
            "selector": {"matchLabels": hashed},
            "template": {"metadata": {"labels": hashed}, "spec": _spec(app)},
        }
        meta = {"ownerReferences": [owner], "annotations": {"deployment.kubernetes.io/revision": "1"}}
        yield _object(
            "apps/v1", kind, name, app.namespace, labels=hashed, metadata=meta, spec=spec, status=status
        )
    if app.kind != "DaemonSet" and app.index % 5:
        healthy = app.replicas
        budget = {
            "observedGeneration": 1,
            "disruptionsAllowed": max(1, healthy // 4),
            "currentHealthy": healthy,
            "desiredHealthy": healthy - max(1, healthy // 4),
            "expectedPods": healthy,
        }
        spec = {"maxUnavailable": "25%", "selector": {"matchLabels": labels}}
        yield _object("policy/v1", "PodDisruptionBudget", app.name, app.namespace, spec=spec, status=budget)


def _spec(app: App) -> JsonObject:
    """The pod spec of a template."""
    selector = {"matchLabels": {"app": app.name}}
    requests = {"cpu": f"{app.cpu_milli}m", "memory": f"{app.memory_mib}Mi"}
    probe = {
        "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
        "periodSeconds": 10,
        "timeoutSeconds": 1,
    }
    spec: JsonObject = {
        "containers": [
            {
                "name": "main",
                "image": f"registry.example/app-{app.index % 500:05d}:1.{app.index % 10}",
                "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/server", "--listen=:8080", f"--name={app.name}"],
                "env": [{"name": f"SETTING_{n}", "value": f"value-{n}-{app.index}"} for n in range(8)],
                "livenessProbe": probe,
                "readinessProbe": probe,
                "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
                "resources": {"limits": {"memory": requests["memory"]}, "requests": requests},
                "terminationMessagePath": "/dev/termination-log",
                "volumeMounts": [{"mountPath": "/etc/settings", "name": "settings"}],
            }
        ],
        "volumes": [{"name": "settings", "configMap": {"name": app.name, "defaultMode": 420}}],
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "serviceAccountName": app.name,
        "terminationGracePeriodSeconds": 30,
        "priority": app.priority,
    }
    affinity: JsonObject = {}
    if app.anti_affinity:
        term = {"labelSelector": selector, "topologyKey": app.anti_affinity}
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    if app.prefers:
        expression = {"key": ZONE, "operator": "In", "values": [app.prefers]}
        preferred = [{"weight": 50, "preference": {"matchExpressions": [expression]}}]
        affinity["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    if affinity:
        spec["affinity"] = affinity
    if app.spread:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector,
            }
        ]
    if app.tolerates:
        spec["tolerations"] = [{"operator": "Exists"}]
    return spec


def _pod_template(app: App) -> bytes:
    """A running pod of the app as JSON, with marks where pods differ."""
    kind, owner = app.owner
    labels = {"app": app.name}
    if kind == "ReplicaSet":
        labels["pod-template-hash"] = f"{app.index:08x}"
    spec = _spec(app)
    spec["nodeName"] = "@NODE@"
    tolerations = [
        {
            "effect": "NoExecute",
            "key": f"node.kubernetes.io/{why}",
            "operator": "Exists",
            "tolerationSeconds": 300,
        }
        for why in ("not-ready", "unreachable")
    ]
    spec["tolerations"] = [*spec.get("tolerations", []), *tolerations]
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    roots = {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}}
    projected = {"defaultMode": 420, "sources": [token, roots]}
    spec["volumes"] = [*spec["volumes"], {"name": "kube-api-access-@SUFFIX@", "projected": projected}]
    main = spec["containers"][0]
    secrets = "/var/run/secrets/kubernetes.io/serviceaccount"
    mount = {"mountPath": secrets, "name": "kube-api-access-@SUFFIX@", "readOnly": True}
    main["volumeMounts"] = [*main["volumeMounts"], mount]
    reference = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": owner,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    reference["uid"] = f"{kind.lower()}-{app.namespace}-{owner}"
    pod = _object("v1", "Pod", "@NAME@", app.namespace, labels=labels, spec=spec, status=_pod_status(main))
    pod["metadata"].update(
        uid="@UID@",
        resourceVersion="@VERSION@",
        ownerReferences=[reference],
        annotations={"checksum/settings": "a" * 64},
        managedFields=_managed_fields(),
    )
    return _encode(pod)


def _pod_status(main: JsonObject) -> JsonObject:
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    conditions = [
        {"lastProbeTime": None, "lastTransitionTime": CREATED, "status": "True", "type": k} for k in kinds
    ]
    return {
        "conditions": conditions,
        "containerStatuses": [
            {
                "allocatedResources": main["resources"]["requests"],
                "containerID": "containerd://" + "b" * 64,
                "image": main["image"],
                "imageID": "registry.example/app@sha256:" + "c" * 64,
                "lastState": {},
                "name": "main",
                "ready": True,
                "resources": main["resources"],
                "restartCount": 0,
                "started": True,
                "state": {"running": {"startedAt": CREATED}},
            }
        ],
        "hostIP": "10.1.2.3",
        "phase": "Running",
        "podIP": "10.4.5.6",
        "podIPs": [{"ip": "10.4.5.6"}],
        "qosClass": "Burstable",
        "startTime": CREATED,
    }


def _managed_fields() -> list[JsonObject]:
    """As much as two managers leave on a pod: about 1.6 KB that nobody needs."""
    fields = {
        f"f:{name}": {".": {}, "f:name": {}, "f:value": {}} for name in ("env", "image", "ports", "resources")
    }
    containers = {"f:containers": {f'k:{{"name":"c{n}"}}': fields for n in range(3)}}
    status = {
        "f:conditions": {f'k:{{"type":"t{n}"}}': {".": {}, "f:status": {}, "f:type": {}} for n in range(5)}
    }
    return [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": CREATED,
            "fieldsType": "FieldsV1",
            "fieldsV1": content,
        }
        for manager, content in (
            ("kube-controller-manager", {"f:spec": containers}),
            ("kubelet", {"f:status": status}),
        )
    ]


def _pod_name(app: App, replica: int, rng: random.Random) -> str:
    if app.kind == "StatefulSet":
        return f"{app.name}-{replica}"
    return f"{app.owner[1]}-{rng.getrandbits(25):07x}"


def _pod(template: bytes, app: App, name: str, room: Room, rng: random.Random) -> bytes:
    number = rng.getrandbits(96)
    return (
        template.replace(b"@NAME@", name.encode())
        .replace(b"@NODE@", room.name.encode())
        .replace(b"@SUFFIX@", f"{number & 0xFFFFF:05x}".encode())
        .replace(b"@UID@", f"{app.index:08x}-{number:024x}".encode())
        .replace(b"@VERSION@", str(1000 + (number & 0xFFFFFF)).encode())
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Make a dump of a cluster.")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods-per-node", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--zones", type=int, default=5)
    parser.add_argument("--apps-per-namespace", type=int, default=20)
    parser.add_argument("--full", action="store_true", help="nothing fits anywhere")
    parser.add_argument("--pretty", action="store_true", help="indented as kubectl does")
    parser.add_argument("--out", default="-", help="file, or - for standard output")
    given = parser.parse_args()
    shape = Shape(
        nodes=given.nodes,
        pods_per_node=given.pods_per_node,
        seed=given.seed,
        full=given.full,
        zones=given.zones,
        apps_per_namespace=given.apps_per_namespace,
    )
    if given.out == "-":
        write(shape, sys.stdout.buffer, pretty=given.pretty)
        return
    with Path(given.out).open("wb") as out:
        count = write(shape, out, pretty=given.pretty)
    sys.stderr.write(f"{count} objects, {Path(given.out).stat().st_size / 1e6:.0f} MB\n")


if __name__ == "__main__":
    main()
