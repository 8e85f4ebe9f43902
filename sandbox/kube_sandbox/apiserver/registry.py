"""The resources that the API server serves: one record for each, the registry of them, and what discovery says of them.

Events are stored once, in the form of core/v1; ``events.k8s.io/v1`` is converted from and to it. Clients that ask for all groups in one answer get them in
several. Of OpenAPI v3 there is as much as kubectl asks for before it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from kube_sandbox.apiserver.errors import Json, qualified, unknown_path

Verbs = tuple[str, ...]

ALL_VERBS: Verbs = ("create", "delete", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceType:
    """One resource in one version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: Verbs = ALL_VERBS
    status: bool = False
    """It has the status subresource."""
    scale: bool = False
    """It has the scale subresource."""
    subresources: tuple[tuple[str, str], ...] = ()
    """(name, kind) of further subresources."""
    generation: bool = False
    """Changes of the spec increment metadata.generation."""
    fields: tuple[str, ...] = ()
    """Supported field selectors."""
    storage: str = ""
    """Table of its objects, if it shares that with another version or group."""
    decode: Callable[[Json], Json] | None = None
    """Converts an object of this version to the stored form."""
    encode: Callable[[Json], Json] | None = None
    """Converts a stored object to this version."""
    returns_deleted: bool = False
    """DELETE returns the object, not a Status."""
    schema: Json | None = None
    """Schema of a custom resource; None for built-in kinds."""

    @property
    def name(self) -> str:
        """``pods`` or ``deployments.apps``."""
        return qualified(self.group, self.plural)

    @property
    def table(self) -> str:
        """The key of its objects in storage."""
        return self.storage or self.name

    @property
    def api_version(self) -> str:
        """``v1`` or ``apps/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(slots=True)
class Registry:
    """The resources that are served now. Other threads read while one writes, so a change makes another table."""

    _by_path: dict[tuple[str, str, str], ResourceType] = field(default_factory=dict)
    generation: int = 0
    """Increases at every change."""

    def add(self, resource: ResourceType) -> None:
        """Serve ``resource``; it replaces one of the same group, version and name."""
        key = resource.group, resource.version, resource.plural
        self._by_path = {**self._by_path, key: resource}
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Stop serving all versions of a resource."""
        left = {k: kept for k, kept in self._by_path.items() if (k[0], k[2]) != (group, plural)}
        self._by_path = left
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        """The resource at a path, or None."""
        return self._by_path.get((group, version, plural))

    def named(self, name: str) -> ResourceType:
        """The resource called ``pods`` or ``deployments.apps``. Raises KeyError."""
        for resource in self._by_path.values():
            if resource.name == name:
                return resource
        raise KeyError(name)

    def by_kind(self, api_version: str, kind: str) -> ResourceType | None:
        """The resource of a kind, or None."""
        for resource in self._by_path.values():
            if resource.kind == kind and resource.api_version == api_version:
                return resource
        return None

    def __iter__(self) -> Iterator[ResourceType]:
        return iter(self._by_path.values())

    def serves(self, group: str, version: str | None) -> bool:
        """True if it has a resource of this group, and of this version if there is one."""
        return any(g == group and version in (v, None) for g, v, _ in self._by_path)

    def versions(self) -> dict[str, list[str]]:
        """Versions of each group, in the order of registration."""
        found: dict[str, list[str]] = {}
        for group, version, _ in self._by_path:
            if version not in found.setdefault(group, []):
                found[group].append(version)
        return found


_TABLE: Final = """
v1 Pod pods po status generation all returned
v1 Node nodes no cluster status
v1 Namespace namespaces ns cluster status returned
v1 ConfigMap configmaps cm
v1 Secret secrets -
v1 ServiceAccount serviceaccounts sa returned
v1 Service services svc status all returned
v1 Endpoints endpoints ep
v1 Event events ev
v1 PersistentVolume persistentvolumes pv cluster status returned
v1 PersistentVolumeClaim persistentvolumeclaims pvc status returned
v1 ReplicationController replicationcontrollers rc status scale generation all
v1 LimitRange limitranges limits
v1 ResourceQuota resourcequotas quota status returned
v1 PodTemplate podtemplates - generation returned
apps/v1 Deployment deployments deploy status scale generation all
apps/v1 ReplicaSet replicasets rs status scale generation all
apps/v1 StatefulSet statefulsets sts status scale generation all
apps/v1 DaemonSet daemonsets ds status generation all
apps/v1 ControllerRevision controllerrevisions -
batch/v1 Job jobs - status generation all
batch/v1 CronJob cronjobs cj status generation all
autoscaling/v2 HorizontalPodAutoscaler horizontalpodautoscalers hpa status all
policy/v1 PodDisruptionBudget poddisruptionbudgets pdb status generation
scheduling.k8s.io/v1 PriorityClass priorityclasses pc cluster generation
lifecycle.k8s.io/v1alpha1 EvictionRequest evictionrequests - status generation
lifecycle.k8s.io/v1alpha1 Eviction evictions - status generation
coordination.k8s.io/v1 Lease leases -
discovery.k8s.io/v1 EndpointSlice endpointslices - generation
events.k8s.io/v1 Event events ev
storage.k8s.io/v1 StorageClass storageclasses sc cluster
storage.k8s.io/v1 CSINode csinodes - cluster
storage.k8s.io/v1 CSIDriver csidrivers - cluster generation
storage.k8s.io/v1 CSIStorageCapacity csistoragecapacities -
storage.k8s.io/v1 VolumeAttachment volumeattachments - cluster status
rbac.authorization.k8s.io/v1 Role roles -
rbac.authorization.k8s.io/v1 RoleBinding rolebindings -
rbac.authorization.k8s.io/v1 ClusterRole clusterroles - cluster
rbac.authorization.k8s.io/v1 ClusterRoleBinding clusterrolebindings - cluster
apiextensions.k8s.io/v1 CustomResourceDefinition customresourcedefinitions crd cluster status generation
apiregistration.k8s.io/v1 APIService apiservices - cluster status
admissionregistration.k8s.io/v1 MutatingAdmissionPolicy mutatingadmissionpolicies - cluster generation
admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding mutatingadmissionpolicybindings - cluster generation
admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy validatingadmissionpolicies - cluster generation
admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings - cluster generation
admissionregistration.k8s.io/v1 MutatingWebhookConfiguration mutatingwebhookconfigurations - cluster generation
admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration validatingwebhookconfigurations - cluster generation
networking.k8s.io/v1 NetworkPolicy networkpolicies netpol generation
flowcontrol.apiserver.k8s.io/v1 FlowSchema flowschemas - cluster status generation
flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration prioritylevelconfigurations - cluster status generation
authorization.k8s.io/v1 SelfSubjectAccessReview selfsubjectaccessreviews - cluster create
authorization.k8s.io/v1 SubjectAccessReview subjectaccessreviews - cluster create
"""
"""API version, kind, plural, short name, and traits: the meaning of each is in ``_resource``."""

_INVOLVED: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "v1 Pod": (
        *(f"spec.{name}" for name in ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName", "hostNetwork")),
        *("status.phase", "status.podIP", "status.nominatedNodeName"),
    ),
    "v1 Node": ("spec.unschedulable",),
    "v1 Namespace": ("status.phase",),
    "v1 Secret": ("type",),
    "v1 Service": ("spec.clusterIP", "spec.type"),
    "v1 Event": (*(f"involvedObject.{name}" for name in _INVOLVED), "reason", "reportingComponent", "source", "type"),
    "events.k8s.io/v1 Event": (*(f"regarding.{name}" for name in _INVOLVED[:4]), "reason", "type"),
    "v1 ReplicationController": ("status.replicas",),
    "apps/v1 ReplicaSet": ("status.replicas",),
    "batch/v1 Job": ("status.successful",),
}  # fmt: skip
_SUBRESOURCES: Final = {"v1 Pod": (("binding", "Binding"), ("eviction", "Eviction"))}


def builtin_registry() -> Registry:
    """A registry with every built-in resource."""
    registry = Registry()
    for line in _TABLE.strip().splitlines():
        registry.add(_resource(*line.split()))
    return registry


def _resource(api_version: str, kind: str, plural: str, short_name: str, *traits: str) -> ResourceType:
    group, _, version = api_version.rpartition("/")
    name = f"{api_version} {kind}"
    new_event = name == "events.k8s.io/v1 Event"
    return ResourceType(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        namespaced="cluster" not in traits,
        short_names=() if short_name == "-" else (short_name,),
        categories=("all",) if "all" in traits else (),
        verbs=("create",) if "create" in traits else ALL_VERBS,
        status="status" in traits,
        scale="scale" in traits,
        subresources=_SUBRESOURCES.get(name, ()),
        generation="generation" in traits,
        fields=_FIELDS.get(name, ()),
        storage="events" if new_event else "",
        decode=event_from_v1 if new_event else None,
        encode=event_to_v1 if new_event else None,
        returns_deleted="returned" in traits,
    )


_RENAMED: Final = (
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
)


def event_from_v1(event: Json) -> Json:
    """The stored form of an ``events.k8s.io/v1`` Event."""
    return _renamed(event, dict(_RENAMED), "v1")


def event_to_v1(event: Json) -> Json:
    """The ``events.k8s.io/v1`` form of a stored Event."""
    return _renamed(event, {core: new for new, core in _RENAMED}, "events.k8s.io/v1")


def _renamed(event: Json, names: dict[str, str], api_version: str) -> Json:
    return {**{names.get(key, key): value for key, value in event.items()}, "apiVersion": api_version}


VERSION: Json = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.0+kube_sandbox",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-08-26T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "any/python",
    "emulationMajor": "1",
    "emulationMinor": "37",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "36",
}


def about(registry: Registry, parts: list[str]) -> Json:
    """The answer to a discovery path. Raises 404."""
    groups = {name: _group(name, versions) for name, versions in registry.versions().items() if name}
    match parts:
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": list(groups.values())}
        case ["apis", name] if name in groups:
            return {**groups[name], "kind": "APIGroup", "apiVersion": "v1"}
        case ["api", version]:
            return _resource_list(registry, version)
        case ["apis", name, version]:
            return _resource_list(registry, f"{name}/{version}")
    raise unknown_path()


def _group(name: str, versions: list[str]) -> Json:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _resource_list(registry: Registry, api_version: str) -> Json:
    found = sorted((r for r in registry if r.api_version == api_version), key=lambda r: r.plural)
    if not found:
        raise unknown_path()
    resources = [entry for resource in found for entry in (_entry(resource), *_subresources(resource))]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version,
        "resources": resources,
    }


def _entry(resource: ResourceType) -> Json:
    entry = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
        "shortNames": list(resource.short_names),
        "categories": list(resource.categories),
    }
    return {key: value for key, value in entry.items() if value != []}


def _subresources(resource: ResourceType) -> list[Json]:
    changed = ["get", "patch", "update"]
    found: list[tuple[str, str, list[str]]] = [
        (name, kind, ["create"]) for name, kind in resource.subresources
    ]
    found += [("scale", "Scale", changed)] * resource.scale + [
        ("status", resource.kind, changed)
    ] * resource.status
    return [
        {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": kind,
            "verbs": verbs,
            **_SUB_GROUPS.get(kind, {}),
        }
        for name, kind, verbs in sorted(found)
    ]


_SUB_GROUPS: Final = {
    "Scale": {"group": "autoscaling", "version": "v1"},
    "Eviction": {"group": "policy", "version": "v1"},
}


_MEDIA = "application/merge-patch+json"


def openapi(registry: Registry, rest: list[str]) -> Json:
    """GET below /openapi. Raises 404: there is no v2, and kubectl works without it."""
    match rest:
        case ["v3"]:
            paths = {
                f"apis/{g}/{v}" if g else f"api/{v}" for g, vs in registry.versions().items() for v in vs
            }
            mark = registry.generation
            return {
                "paths": {p: {"serverRelativeURL": f"/openapi/v3/{p}?hash={mark}"} for p in sorted(paths)}
            }
        case ["v3", "api", version]:
            group = ""
        case ["v3", "apis", group, version]:
            pass
        case _:
            raise unknown_path()
    found = [r for r in registry if (r.group, r.version) == (group, version) and "patch" in r.verbs]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.37.0"},
        "paths": {f"/{resource.plural}/{{name}}": {"patch": _patch(resource)} for resource in found},
    }


def _patch(resource: ResourceType) -> Json:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": kind,
        "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
        "requestBody": {"content": {_MEDIA: {"schema": {"type": "object"}}}},
        "responses": {},
    }
