"""Built-in admission plugins: NamespaceLifecycle, Priority, DefaultTolerationSeconds, ServiceAccount and others."""

from __future__ import annotations

from kube_sandbox.apiserver.admission import Attributes
from kube_sandbox.apiserver.admission_policies import PolicyEngine
from kube_sandbox.apiserver.errors import Json, forbidden, not_found
from kube_sandbox.apiserver.store import ObjectStore

SYSTEM_PRIORITIES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_EVICT_AFTER_S = 300
_MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_LIFE_S = 3607
_CLASSES = "priorityclasses.scheduling.k8s.io"


def check_namespace(store: ObjectStore, attributes: Attributes) -> None:
    """Raises 404 if the namespace does not exist, 403 if it is terminating, or if a system namespace is deleted."""
    if attributes.resource.name == "namespaces":
        if attributes.operation == "DELETE" and attributes.name in _IMMORTAL:
            raise forbidden("", "namespaces", attributes.name, "this namespace may not be deleted")
        return
    if attributes.operation != "CREATE" or not attributes.namespace:
        return
    namespace = store.find("namespaces", "", attributes.namespace)
    if namespace is None:
        raise not_found("", "namespaces", attributes.namespace)
    if namespace["metadata"].get("deletionTimestamp"):
        resource = attributes.resource
        why = (
            f"unable to create new content in namespace {attributes.namespace} because it is being terminated"
        )
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {attributes.namespace} is being terminated",
            "field": "metadata.namespace",
        }
        raise forbidden(resource.group, resource.plural, attributes.name, why, [cause])


def resolve_priority(store: ObjectStore, pod: Json) -> None:
    """Set priority and preemptionPolicy from the PriorityClass, or from the global default. Raises 403."""
    spec = pod["spec"]
    name = spec.get("priorityClassName") or ""
    if not name:
        default = next((c for c in store.objects.items(_CLASSES) if c.get("globalDefault")), None)
        found = default
        if default is not None:
            spec["priorityClassName"] = default["metadata"]["name"]
    else:
        found = store.find(_CLASSES, "", name)
        if found is None:
            why = f"no PriorityClass with name {name} was found"
            raise forbidden("", "pods", pod["metadata"].get("name", ""), why)
    value = found.get("value", 0) if found else 0
    policy = (found.get("preemptionPolicy") if found else None) or "PreemptLowerPriority"
    if spec.get("priority") is not None and spec["priority"] != value:
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority "
            f"admission controller computed {value} from the given PriorityClass name"
        )
        raise forbidden("", "pods", pod["metadata"].get("name", ""), why)
    spec["priority"] = value
    if spec.get("preemptionPolicy") not in (None, policy):
        why = (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod "
            f"spec; priority admission controller computed {policy} from the given PriorityClass name"
        )
        raise forbidden("", "pods", pod["metadata"].get("name", ""), why)
    spec["preemptionPolicy"] = policy


def add_default_tolerations(pod: Json) -> None:
    """Add tolerations of not-ready and unreachable nodes for five minutes, unless the pod has its own."""
    tolerations = pod["spec"].get("tolerations") or []
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_covers(t, key) for t in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _EVICT_AFTER_S}
            )
    pod["spec"]["tolerations"] = tolerations


def mount_service_account(pod: Json, suffix: str) -> None:
    """Set the default service account and mount its token, as the ServiceAccount plugin does."""
    spec = pod["spec"]
    account = spec.get("serviceAccountName") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = account
    if spec.get("automountServiceAccountToken") is False or "kubernetes.io/config.mirror" in (
        pod["metadata"].get("annotations") or {}
    ):
        return
    name = f"kube-api-access-{suffix}"
    used = False
    for container in [*(spec.get("initContainers") or ()), *spec.get("containers", ())]:
        mounts = container.setdefault("volumeMounts", [])
        if not any(mount.get("mountPath") == _MOUNT_PATH for mount in mounts):
            mounts.append({"name": name, "readOnly": True, "mountPath": _MOUNT_PATH})
            used = True
    if used:
        spec.setdefault("volumes", []).append({"name": name, "projected": _token_sources()})


def _token_sources() -> Json:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_LIFE_S, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": 420,
    }


def taint_new_node(node: Json) -> None:
    """Add the not-ready taint, which the node lifecycle controller removes (TaintNodesByCondition)."""
    taints = node.setdefault("spec", {}).setdefault("taints", [])
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    if taint not in taints:
        taints.append(taint)


def _covers(toleration: Json, key: str) -> bool:
    return toleration.get("key") in (key, "", None) and toleration.get("effect") in ("NoExecute", "", None)


def check_global_default(store: ObjectStore, attributes: Attributes, obj: Json) -> None:
    """Raises 403 for a second PriorityClass that is the global default."""
    if not obj.get("globalDefault"):
        return
    for other in store.objects.items(_CLASSES):
        if other.get("globalDefault") and other["metadata"]["name"] != attributes.name:
            why = f"PriorityClass {other['metadata']['name']} is already marked as default. Only one default can exist"
            raise forbidden("scheduling.k8s.io", "priorityclasses", attributes.name, why)


class BuiltinAdmission:
    """The built-in plugins, then the admission policies of the cluster."""

    def __init__(self, store: ObjectStore, policies: PolicyEngine) -> None:
        self._store = store
        self._policies = policies

    def mutate(self, attributes: Attributes, obj: Json) -> Json:
        """The object to store."""
        check_namespace(self._store, attributes)
        new_pod = attributes.resource.name == "pods" and attributes.operation == "CREATE"
        if attributes.resource.name == "pods" and not attributes.subresource:
            add_default_tolerations(obj)
        if new_pod:
            resolve_priority(self._store, obj)
            mount_service_account(obj, self._store.name_suffix())
        if attributes.resource.name == "nodes" and attributes.operation == "CREATE":
            taint_new_node(obj)
        changed = self._policies.mutate(attributes, obj)
        if changed is not obj:
            self._store.strategies.default(attributes.resource, changed)
            if new_pod:
                changed["status"] = self._store.strategies.new_status(attributes.resource, changed)
        return changed

    def validate(self, attributes: Attributes, obj: Json) -> None:
        """Raises StatusError to reject the request."""
        if attributes.operation == "DELETE":
            check_namespace(self._store, attributes)
        elif attributes.resource.name == _CLASSES:
            check_global_default(self._store, attributes, obj)
        self._policies.validate(attributes, obj)
