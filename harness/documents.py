"""The documents of what tests, histories and benches create: one function for each kind.

What a function does not name goes into the spec, ``meta`` into the metadata. Without a namespace the path of a call says it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rescheduler.model.names import API_VERSION

Json = dict[str, Any]


def own(kind: str, name: str, spec: Json, namespace: str = "", **meta: Any) -> Json:
    """An object of ``rescheduler.dev``."""
    return _document(API_VERSION, kind, spec, name=name, namespace=namespace, **meta)


def reservation(
    name: str, pod: Json, owners: Sequence[Json], *, meta: Json | None = None, **spec: Any
) -> Json:
    """Room for a pod of this spec. ``owners``: whose."""
    spec = {"template": {"spec": pod}, "owners": list(owners), **spec}
    return own("Reservation", name, spec, **(meta or {}))


def migration(
    name: str,
    pod: str,
    target: str = "",
    *,
    uid: str = "",
    namespace: str = "",
    meta: Json | None = None,
    **spec: Any,
) -> Json:
    """A move of a pod. Target "": any node."""
    reference = {"name": pod, **({"uid": uid} if uid else {})}
    to = {"target": {"nodeName": target}} if target else {}
    return own("PodMigration", name, {"podRef": reference, **to, **spec}, namespace, **(meta or {}))


def owner(name: str, namespace: str = "default", kind: str = "Deployment") -> Json:
    """An entry of a Reservation's owners: the pods of a controller."""
    return {"controller": {"apiVersion": "apps/v1", "kind": kind, "name": name, "namespace": namespace}}


def role_binding(role: str, account: str, namespace: str, *, everywhere: bool = False) -> Json:
    """A ClusterRole for a service account in its namespace, or ``everywhere``."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding" if everywhere else "RoleBinding",
        "metadata": {"name": f"{account}-{role}-{namespace}"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


def budget(name: str, app: str = "", namespace: str = "", **spec: Any) -> Json:
    """A PodDisruptionBudget of the pods with the label ``app``, which is the name if none is given."""
    spec = {"selector": {"matchLabels": {"app": app or name}}, **spec}
    return _document("policy/v1", "PodDisruptionBudget", spec, name=name, namespace=namespace)


def workload(
    kind: str,
    name: str,
    replicas: int,
    pod: Json,
    *,
    namespace: str = "",
    annotations: Mapping[str, str] | None = None,
    meta: Json | None = None,
    **spec: Any,
) -> Json:
    """A controller of pods of this spec with the label ``app``, its own name. ``annotations``: of the pods."""
    labels = {"app": name}
    noted = {"annotations": dict(annotations)} if annotations else {}
    whole = {
        **({} if kind == "DaemonSet" else {"replicas": replicas}),
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels, **noted}, "spec": pod},
        **({"serviceName": name} if kind == "StatefulSet" else {}),
        **spec,
    }
    return _document("apps/v1", kind, whole, name=name, namespace=namespace, **(meta or {}))


def pod_spec(cpu: str = "1", memory: str = "", **spec: Any) -> Json:
    """The spec of a pod with one container. An amount of "" is not requested."""
    requests = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
    resources = {"resources": {"requests": requests}} if requests else {}
    return {"containers": [{"name": "main", "image": "registry.example/app:1", **resources}], **spec}


def _document(version: str, kind: str, spec: Json, **meta: Any) -> Json:
    metadata = {key: value for key, value in meta.items() if value != ""}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
