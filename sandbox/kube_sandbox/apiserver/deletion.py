"""Deletion: grace period, finalizers and preconditions, as in the generic registry; dependents go in the background."""

from __future__ import annotations

from dataclasses import dataclass

from kube_sandbox.apiserver.admission import Attributes
from kube_sandbox.apiserver.errors import Json, conflict, not_found
from kube_sandbox.apiserver.json_values import deep_copy, dig, parse_time, timestamp
from kube_sandbox.apiserver.registry import ResourceType
from kube_sandbox.apiserver.store import ObjectStore

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
        metadata["deletionTimestamp"] = timestamp(store.clock() + grace_s)
    elif metadata.get("deletionGracePeriodSeconds"):
        asked_at = (parse_time(metadata["deletionTimestamp"]) or 0) - metadata["deletionGracePeriodSeconds"]
        metadata["deletionTimestamp"] = timestamp(asked_at + grace_s)
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
