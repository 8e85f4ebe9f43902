"""The objects of a generated dump as the API server would give them: nodes, workloads, pods with all their fields.

A pod is made once per app, with marks in place of what differs, because a dump of 150,000 pods is to be written in seconds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec

from bench.shapes import HOSTNAME, ZONE, App, Room

JsonObject = dict[str, Any]

CREATED = "2026-11-01T08:00:00Z"


def encode(item: JsonObject) -> bytes:
    """The object as the dump has it."""
    return msgspec.json.encode(item)


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


def namespace_of(name: str) -> JsonObject:
    """A Namespace with the label that the API server puts on it."""
    return _object("v1", "Namespace", name, labels={"kubernetes.io/metadata.name": name})


def priority_classes() -> Iterator[JsonObject]:
    """Those that pods of the dump name."""
    yield _object("scheduling.k8s.io/v1", "PriorityClass", "important", value=1000)
    yield _object("scheduling.k8s.io/v1", "PriorityClass", "system-node-critical", value=2_000_001_000)


def node_of(room: Room, rng: random.Random) -> JsonObject:
    """The Node behind a room."""
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


def workload_of(app: App) -> Iterator[JsonObject]:
    """The workload of an app with what belongs to it: its ReplicaSet, its budget."""
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


def pod_template(app: App) -> bytes:
    """A pod of the app with marks for name, node, uid and version."""
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
    return encode(pod)


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


def pod_name(app: App, replica: int, rng: random.Random) -> str:
    """The name that its controller would give the replica."""
    if app.kind == "StatefulSet":
        return f"{app.name}-{replica}"
    return f"{app.owner[1]}-{rng.getrandbits(25):07x}"


def pod_from(template: bytes, app: App, name: str, room: Room, rng: random.Random) -> bytes:
    """The pod as it stands in the room."""
    number = rng.getrandbits(96)
    return (
        template.replace(b"@NAME@", name.encode())
        .replace(b"@NODE@", room.name.encode())
        .replace(b"@SUFFIX@", f"{number & 0xFFFFF:05x}".encode())
        .replace(b"@UID@", f"{app.index:08x}-{number:024x}".encode())
        .replace(b"@VERSION@", str(1000 + (number & 0xFFFFFF)).encode())
    )
