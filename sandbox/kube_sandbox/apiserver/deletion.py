"""Deletion (grace period, finalizers, preconditions), eviction and binding, as in the registries of a real server; dependents go in the background."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kube_sandbox.apiserver.admission import Attributes
from kube_sandbox.apiserver.errors import Json, StatusError, conflict, foreign_uid, not_found
from kube_sandbox.apiserver.json_values import deep_copy, dig, seconds
from kube_sandbox.apiserver.registry import ResourceType
from kube_sandbox.apiserver.selectors import selects
from kube_sandbox.apiserver.store import ObjectStore
from rescheduler.model.times import format_seconds

_DEFAULT_GRACE_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """metav1.DeleteOptions."""

    grace_s: int | None = None
    """None: the grace period of the object."""
    uid: str = ""
    """Precondition; empty: any."""
    resource_version: str = ""
    """Precondition; empty: any."""
    dry_run: bool = False
    admitted: bool = True
    """Whether admission is asked. An eviction is not: the API server asks about the eviction itself."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """The result of a deletion."""

    obj: Json
    gone: bool
    """False: the object is terminating."""


def delete(
    store: ObjectStore, resource: ResourceType, namespace: str, name: str, options: DeleteOptions
) -> Deletion:
    """Delete one object, or make it terminating. Raises 404 and 409 (preconditions)."""
    with store.lock:
        old = store.find(resource.table, namespace, name)
        if old is None:
            raise not_found(resource.group, resource.plural, name)
        check_preconditions(resource, old, options)
        _admit(store, resource, old, options)
        new = deep_copy(old)
        grace_s, pending = _grace(resource, new, options)
        if pending:
            return Deletion(old, gone=False)
        _mark(store, resource, new, grace_s)
        return _commit(store, resource, old, new, options)


def _admit(store: ObjectStore, resource: ResourceType, old: Json, options: DeleteOptions) -> None:
    if store.admission is not None and options.admitted:
        metadata = old["metadata"]
        attributes = Attributes(
            resource=resource,
            operation="DELETE",
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            old=old,
            dry_run=options.dry_run,
        )
        store.admission.validate(attributes, old)


def check_preconditions(resource: ResourceType, obj: Json, options: DeleteOptions) -> None:
    """Raises 409 unless uid and resourceVersion meet the preconditions."""
    metadata = obj["metadata"]
    name, why = metadata["name"], ""
    if options.uid and options.uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated"
        )
    elif options.resource_version and options.resource_version != metadata["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({metadata['resourceVersion']}). The object might have been modified"
        )
    if why:
        raise conflict(resource.group, resource.kind, name, why)


def _grace(resource: ResourceType, obj: Json, options: DeleteOptions) -> tuple[int, bool]:
    """Grace period in seconds, and whether an earlier deletion with at most this grace period is in progress."""
    metadata = obj["metadata"]
    running = metadata.get("deletionGracePeriodSeconds")
    if metadata.get("deletionTimestamp") and running:
        if options.grace_s is None or options.grace_s >= running:
            return 0, True
        return max(options.grace_s, 0), False
    if resource.name != "pods":
        return 0, False
    if not dig(obj, "spec", "nodeName") or dig(obj, "status", "phase") in {"Succeeded", "Failed"}:
        return 0, False
    wanted = options.grace_s
    if wanted is None:
        own = dig(obj, "spec", "terminationGracePeriodSeconds")
        wanted = _DEFAULT_GRACE_S if own is None else own
    return (1 if wanted < 0 else wanted), False


def _mark(store: ObjectStore, resource: ResourceType, obj: Json, grace_s: int) -> None:
    metadata = obj["metadata"]
    first = not metadata.get("deletionTimestamp")
    if first:
        metadata["deletionTimestamp"] = format_seconds(store.clock() + grace_s)
    elif metadata.get("deletionGracePeriodSeconds"):
        asked_at = seconds(metadata["deletionTimestamp"]) - metadata["deletionGracePeriodSeconds"]
        metadata["deletionTimestamp"] = format_seconds(asked_at + grace_s)
    metadata["deletionGracePeriodSeconds"] = grace_s
    if first and metadata.get("generation"):
        metadata["generation"] += 1
    if resource.name == "namespaces":
        metadata.pop("deletionGracePeriodSeconds")
        obj.setdefault("status", {})["phase"] = "Terminating"


def _commit(
    store: ObjectStore, resource: ResourceType, old: Json, new: Json, options: DeleteOptions
) -> Deletion:
    metadata = new["metadata"]
    stays = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    if resource.name == "namespaces" and dig(new, "spec", "finalizers"):
        stays = True
    if stays:
        return Deletion(store.replace(resource, old, new, dry_run=options.dry_run), gone=False)
    if options.dry_run:
        return Deletion(new, gone=True)
    key = (metadata.get("namespace", ""), metadata["name"])
    final = new if resource.name == "pods" else old
    return Deletion(store.objects.remove(resource.table, key, final), gone=True)


_BUDGETS = "poddisruptionbudgets.policy"
_STALE_RETRY_S = 10
_BLOCKED = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


def evict(store: ObjectStore, namespace: str, name: str, options: DeleteOptions) -> None:
    """Evict a pod if its budget allows it. Raises 404, 409 (preconditions), 429, 403 and 500 (several budgets)."""
    with store.lock:
        pods = store.registry.named("pods")
        pod = store.get("pods", namespace, name)
        if not _ignores_budgets(pod):
            _take_from_budget(store, pod, options)
        check_preconditions(pods, pod, options)
        if not options.dry_run and not pod["metadata"].get("deletionTimestamp"):
            pod = store.replace(pods, pod, _with_disruption_target(pod, store.stamp()))
        delete(store, pods, namespace, name, replace(options, admitted=False))


def _ignores_budgets(pod: Json) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return True
    return dig(pod, "status", "phase") in {"Succeeded", "Failed", "Pending"}


def _take_from_budget(store: ObjectStore, pod: Json, options: DeleteOptions) -> None:
    budgets = _budgets_of(store, pod)
    if len(budgets) > 1:
        raise StatusError(500, "", _SEVERAL)
    if not budgets or _unready_is_free(pod, budgets[0]):
        return
    budget = budgets[0]
    _check_budget(budget)
    if options.dry_run:
        return
    # The real server checks them before the budget is decremented too: a stale uid must not use up a disruption.
    check_preconditions(store.registry.named("pods"), pod, options)
    _store_decrement(store, budget, pod["metadata"]["name"])


def _budgets_of(store: ObjectStore, pod: Json) -> list[Json]:
    labels = pod["metadata"].get("labels")
    candidates = store.objects.items(_BUDGETS, pod["metadata"]["namespace"])
    return [budget for budget in candidates if selects(dig(budget, "spec", "selector"), labels)]


def _unready_is_free(pod: Json, budget: Json) -> bool:
    conditions = dig(pod, "status", "conditions") or ()
    if any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions):
        return False
    if dig(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    healthy, desired = (dig(budget, "status", k) or 0 for k in ("currentHealthy", "desiredHealthy"))
    return bool(healthy >= desired > 0)


def _check_budget(budget: Json) -> None:
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if (status.get("observedGeneration") or 0) < (budget["metadata"].get("generation") or 0):
        raise _too_many(
            f"The disruption budget {name} is still being processed by the server.", _STALE_RETRY_S
        )
    allowed = status.get("disruptionsAllowed") or 0
    if allowed == 0:
        desired, healthy = status.get("desiredHealthy") or 0, status.get("currentHealthy") or 0
        raise _too_many(
            f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently", 0
        )


def _too_many(cause: str, retry_s: int) -> StatusError:
    details: Json = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    headers = {}
    if retry_s:
        details["retryAfterSeconds"] = retry_s
        headers["Retry-After"] = str(retry_s)
    return StatusError(429, "TooManyRequests", _BLOCKED, details=details, headers=headers)


def _store_decrement(store: ObjectStore, budget: Json, pod_name: str) -> None:
    new = deep_copy(budget)
    new["status"]["disruptionsAllowed"] -= 1
    new["status"].setdefault("disruptedPods", {})[pod_name] = store.stamp()
    store.replace(store.registry.named(_BUDGETS), budget, new)


def _with_disruption_target(pod: Json, now: str) -> Json:
    new = deep_copy(pod)
    conditions = new.setdefault("status", {}).setdefault("conditions", [])
    conditions[:] = [c for c in conditions if c.get("type") != "DisruptionTarget"]
    conditions.append(
        {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": now,
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
    )
    return new


def bind(store: ObjectStore, namespace: str, name: str, binding: Json, *, dry_run: bool = False) -> None:
    """Bind a pod to a node. Raises 409 if it is bound, gated or terminating, or has another uid."""
    with store.lock:
        pods = store.registry.named("pods")
        pod = store.get("pods", namespace, name)
        node = str(dig(binding, "target", "name") or "")
        if dig(binding, "target", "kind") not in (None, "", "Node") or not node:
            raise StatusError(
                422, "Invalid", f'Binding "{name}" is invalid: target: a Node with a name is required'
            )
        wanted, found = dig(binding, "metadata", "uid"), pod["metadata"]["uid"]
        if wanted and wanted != found:
            raise foreign_uid("", "pods", name, wanted=wanted, found=found)
        why = _unbindable(pod)
        if why:
            raise conflict("", "pods/binding", name, why)
        store.replace(pods, pod, _bound(pod, node, binding, store.stamp()), dry_run=dry_run)


def _unbindable(pod: Json) -> str:
    name = pod["metadata"]["name"]
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    assigned = dig(pod, "spec", "nodeName")
    if assigned:
        return f'pod {name} is already assigned to node "{assigned}"'
    if dig(pod, "spec", "schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _bound(pod: Json, node: str, binding: Json, now: str) -> Json:
    new = deep_copy(pod)
    new["spec"]["nodeName"] = node
    extra = dig(binding, "metadata", "annotations") or {}
    if extra:
        new["metadata"].setdefault("annotations", {}).update(extra)
    status = new.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    conditions = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    generation = new["metadata"].get("generation")
    if generation:
        scheduled["observedGeneration"] = generation
    status["conditions"] = [*conditions, scheduled]
    return new
