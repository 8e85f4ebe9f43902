"""Named cases beside the random clusters: bad input, and disagreements that were found.

Each is a small cluster with a node "a" and a pod "default/asked"; what is right is what kube-scheduler's own
code says of it.
"""

from __future__ import annotations

from typing import Any, Final

from harness.differential.clusters import Question
from harness.differential.manifests import Manifest, metadata, namespaced

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
ZONE: Final = "topology.kubernetes.io/zone"
_BOUND: Final = {"pv.kubernetes.io/bind-completed": "yes"}


def node(
    name: str = "a", *, labels: dict[str, str] | None = None, room: dict[str, str] | None = None
) -> Manifest:
    """A node; ``room``: what is allocatable, None for an ordinary one."""
    found = room or {"cpu": "4", "memory": "8Gi", "pods": "110"}
    status: Manifest = {"allocatable": found, "capacity": found}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata(name, labels=labels), "status": status}


def pod(
    name: str = "asked", on: str = "", *, labels: dict[str, str] | None = None, cpu: str = "", **spec: object
) -> Manifest:
    """A pod with one container."""
    requests = {"cpu": cpu} if cpu else {}
    body = {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}], **spec}
    made = namespaced("v1", "Pod", "default", name, body)
    made["metadata"]["labels"] = labels or {}
    made["status"] = {"phase": "Running" if on else "Pending"}
    if on:
        body["nodeName"] = on
    return made


def near(*requirements: Manifest, preferred: bool = False) -> Manifest:
    """Node affinity of one term."""
    term = {"matchExpressions": list(requirements)}
    if preferred:
        return {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": term}]}}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}


def apart(*selectors: Manifest) -> Manifest:
    """Required anti-affinity, a term for each selector."""
    terms = [{"topologyKey": ZONE, "labelSelector": selector} for selector in selectors]
    return {"podAntiAffinity": {REQUIRED: terms}}


def spread(selector: Manifest, *, hard: bool) -> list[Manifest]:
    """One spread constraint over zones."""
    action = "DoNotSchedule" if hard else "ScheduleAnyway"
    return [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": action, "labelSelector": selector}]


def claim(name: str, *, volume: str = "", bound: bool = True, **spec: object) -> Manifest:
    """A claim of the class "wait"; with ``volume`` it names a volume."""
    body = {"storageClassName": "wait", "accessModes": ["ReadWriteOnce"], **spec}
    body["resources"] = {"requests": {"storage": "1Gi"}}
    made = namespaced("v1", "PersistentVolumeClaim", "default", name, body)
    made["status"] = {"phase": "Bound" if volume and bound else "Pending"}
    if volume:
        body["volumeName"] = volume
    if volume and bound:
        made["metadata"]["annotations"] = _BOUND
    return made


def volume(
    name: str,
    claimed: str = "",
    *,
    labels: dict[str, str] | None = None,
    attributes: str = "",
    reached_from: tuple[Manifest, ...] = (),
) -> Manifest:
    """A volume of the class "wait", bound to a claim. ``reached_from``: terms of its node affinity."""
    spec: Manifest = {
        "storageClassName": "wait",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
    }
    spec["csi"] = {"driver": "one.csi", "volumeHandle": name}
    if attributes:
        spec["volumeAttributesClassName"] = attributes
    if reached_from:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": list(reached_from)}}
    if claimed:
        uid = f"uid-PersistentVolumeClaim-default-{claimed}"
        spec["claimRef"] = {"namespace": "default", "name": claimed, "uid": uid}
    status = {"phase": "Bound" if claimed else "Available"}
    head = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata(name, labels=labels)}
    return {**head, "spec": spec, "status": status}


def use(name: str) -> list[Manifest]:
    """Volumes of a pod: one claim."""
    return [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]


def nominated(name: str, to: str, scheduler: str = "default-scheduler", **spec: Any) -> Manifest:
    """A pending pod that is nominated to a node."""
    made = pod(name, schedulerName=scheduler, **spec)
    made["status"]["nominatedNodeName"] = to
    return made


def question(*objects: Manifest) -> Question:
    """The objects with the namespace and the storage class that they are about."""
    wait = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata("wait")}
    wait |= {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata("default")}
    return Question([home, wait, *objects], ["default/asked"], None)


_POOL: Final = node(labels={"pool": "x", "size": "1_0", ZONE: "z"})
_BAD: Final = {"matchExpressions": [{"key": "app", "operator": "Within", "values": ["x"]}]}
_X: Final = {"matchLabels": {"app": "x"}}


def _pool(operator: str, *values: str, key: str = "pool") -> Manifest:
    return {"key": key, "operator": operator, "values": list(values)}


_KUBE_SCHEDULER: Final = "kubescheduler.config.k8s.io/v1"
_FIT: Final = {
    "apiVersion": _KUBE_SCHEDULER,
    "kind": "NodeResourcesFitArgs",
    "ignoredResourceGroups": ["y.example"],
}
_IGNORING: Final[Manifest] = {
    "apiVersion": _KUBE_SCHEDULER,
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": _FIT}]}],
}

_TWO_PROFILES: Final[Manifest] = {
    "apiVersion": _KUBE_SCHEDULER,
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "batch-scheduler"}],
}
_FOREIGN_ROOM: Final = question(node(), nominated("waiting", "a", "batch-scheduler", cpu="3"), pod(cpu="2"))
"""The nominated pod and the asked one do not fit together."""
_OTHER_NODE: Final = [{"key": "metadata.name", "operator": "In", "values": ["b"]}]

NAMED: Final = {
    "a nominated pod of another scheduler": _FOREIGN_ROOM,
    "a nominated pod of another profile of the same scheduler": _FOREIGN_ROOM._replace(
        configuration=_TWO_PROFILES
    ),
    "zones with an empty name beside nodes without a zone, by default spread": question(
        node("a", labels={ZONE: ""}),
        node("b"),
        node("c", labels={ZONE: "z"}),
        namespaced("v1", "Service", "default", "s", {"selector": {"app": "x"}}),
        *(pod(f"on-b-{i}", "b", labels={"app": "x"}) for i in range(3)),
        *(pod(f"on-c-{i}", "c", labels={"app": "x"}) for i in range(2)),
        pod(labels={"app": "x"}),
    ),
    "a bound volume whose affinity names another node by a field": question(
        _POOL,
        volume("v", "c", reached_from=({"matchFields": _OTHER_NODE},)),
        claim("c", volume="v"),
        pod(volumes=use("c")),
    ),
    "a free volume whose affinity names another node by a field, and its zone": question(
        _POOL,
        volume("v", reached_from=({"matchFields": _OTHER_NODE, "matchExpressions": [_pool("In", "x")]},)),
        claim("c"),
        pod(volumes=use("c")),
    ),
    "a volume whose affinity has a malformed field": question(
        _POOL,
        volume("v", "c", reached_from=({"matchFields": [{"key": "metadata.name", "operator": "Exists"}]},)),
        claim("c", volume="v"),
        pod(volumes=use("c")),
    ),
    "unknown operator in node affinity": question(_POOL, pod(affinity=near(_pool("Within", "x")))),
    "unknown operator in preferred node affinity": question(
        _POOL, pod(affinity=near(_pool("Within", "x"), preferred=True))
    ),
    "preferred node affinity of weight 0 that is malformed": question(
        _POOL,
        pod(
            affinity={
                "nodeAffinity": {
                    PREFERRED: [{"weight": 0, "preference": {"matchExpressions": [_pool("Within", "x")]}}]
                }
            }
        ),
    ),
    "a value that no label has, among others": question(_POOL, pod(affinity=near(_pool("In", "x", "{bad}")))),
    "a key that no label has": question(_POOL, pod(affinity=near(_pool("NotIn", "x", key="a/b/c")))),
    "Gt with a text": question(_POOL, pod(affinity=near(_pool("Gt", "big", key="size")))),
    "Gt with a label that is no number": question(_POOL, pod(affinity=near(_pool("Gt", "5", key="size")))),
    "Lt with a number that is too long": question(
        _POOL, pod(affinity=near(_pool("Lt", "9" * 20, key="size")))
    ),
    "NotIn and DoesNotExist on a missing label": question(
        _POOL,
        pod(affinity=near(_pool("NotIn", "x", key="absent"), {"key": "missing", "operator": "DoesNotExist"})),
    ),
    "In on a missing label": question(_POOL, pod(affinity=near(_pool("In", "x", key="absent")))),
    "malformed anti-affinity": question(_POOL, pod(affinity=apart(_BAD))),
    "malformed required and preferred pod affinity": question(
        _POOL,
        pod(
            affinity={
                **apart(_X, _BAD),
                "podAffinity": {
                    PREFERRED: [
                        {"weight": 1, "podAffinityTerm": {"topologyKey": ZONE, "namespaceSelector": _BAD}}
                    ]
                },
            }
        ),
    ),
    "a running pod's malformed anti-affinity": question(
        _POOL, pod("r", "a", affinity=apart(_X, _BAD)), pod(labels={"app": "x"})
    ),
    "malformed hard spread": question(_POOL, pod(topologySpreadConstraints=spread(_BAD, hard=True))),
    "malformed soft spread": question(_POOL, pod(topologySpreadConstraints=spread(_BAD, hard=False))),
    "malformed preferences, and affinity to a nominated pod": question(
        _POOL,
        {**pod("n", labels={"app": "x"}), "status": {"phase": "Pending", "nominatedNodeName": "a"}},
        pod(
            affinity={
                **near(_pool("Within", "x"), preferred=True),
                "podAffinity": {REQUIRED: [{"topologyKey": ZONE, "labelSelector": _X}]},
            }
        ),
    ),
    "a resource that no node offers, ignored, beside devices": question(
        node(room={"cpu": "4", "memory": "8Gi", "pods": "9", "x.example/gpu": "1"}),
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": metadata("gpus"),
            "spec": {"extendedResourceName": "x.example/gpu"},
        },
        pod(
            containers=[
                {"name": "c", "resources": {"requests": {"x.example/gpu": "1", "y.example/nic": "1"}}}
            ]
        ),
    )._replace(configuration=_IGNORING),
    "allocatable of 0": question(node(room={"cpu": "0", "memory": "0", "pods": "9"}), pod()),
    "allocatable of 0 and a request": question(
        node(room={"cpu": "0", "memory": "0", "pods": "9"}), pod(cpu="1")
    ),
    "allocatable without cpu and memory": question(node(room={"pods": "9"}), pod()),
    "allocatable without pods": question(node(room={"cpu": "4", "memory": "8Gi"}), pod()),
    "an overfull node and a pod without requests": question(node(), pod("r", "a", cpu="9"), pod()),
    "an overfull node and a small pod": question(node(), pod("r", "a", cpu="9"), pod(cpu="1m")),
    "a pod bound to a node that does not exist": question(
        _POOL, pod("r", "nowhere", labels={"app": "x"}), pod(affinity=apart(_X), cpu="1")
    ),
    "a claim that does not exist": question(_POOL, pod(volumes=use("gone"))),
    "a claim bound to a volume that does not exist": question(
        _POOL, claim("c", volume="gone"), pod(volumes=use("c"))
    ),
    "two claims bound to one volume": question(
        _POOL, volume("v", "other"), claim("other", volume="v"), claim("c", volume="v"), pod(volumes=use("c"))
    ),
    "a claim that asks for a volume of another claim": question(
        _POOL, volume("v", "other"), claim("c", volume="v", bound=False), pod(volumes=use("c"))
    ),
    "a volume that is kept for a claim that names another": question(
        _POOL, volume("v", "c"), volume("w"), claim("c", volume="w", bound=False), pod(volumes=use("c"))
    ),
    "a volume whose zones have an empty one among them": question(
        _POOL,
        volume("v", "c", labels={"failure-domain.beta.kubernetes.io/zone": "other__"}),
        claim("c", volume="v"),
        pod(volumes=use("c")),
    ),
    "a claim and a volume of different attributes": question(
        _POOL, volume("v"), claim("c", volumeAttributesClassName="gold"), pod(volumes=use("c"))
    ),
    "a claim and a volume of the same attributes": question(
        _POOL,
        volume("v", attributes="gold"),
        claim("c", volumeAttributesClassName="gold"),
        pod(volumes=use("c")),
    ),
    "a claim with a malformed selector": question(
        _POOL, volume("v"), claim("c", selector=_BAD), pod(volumes=use("c"))
    ),
    "a class that does not exist": question(
        _POOL, claim("c", storageClassName="gone"), pod(volumes=use("c"))
    ),
}
