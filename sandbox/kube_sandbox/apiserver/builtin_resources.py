"""The built-in resources: names, versions, subresources, supported field selectors; and the two versions of Events.

Events are stored once, in the form of core/v1; ``events.k8s.io/v1`` is converted from and to it.
"""

from __future__ import annotations

from kube_sandbox.apiserver.errors import Json
from kube_sandbox.apiserver.printer_columns import BUILTIN_COLUMNS
from kube_sandbox.apiserver.registry import Registry, ResourceType, Verbs

_EVENT_FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_NEW_EVENT_FIELDS = (
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "reason",
    "type",
)
_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_CREATE_ONLY: Verbs = ("create",)


def _core(plural: str, kind: str, *, namespaced: bool = True, **more: object) -> ResourceType:
    return _type("", "v1", plural, kind, namespaced=namespaced, **more)


def _type(
    group: str, version: str, plural: str, kind: str, *, namespaced: bool = True, **more: object
) -> ResourceType:
    columns = BUILTIN_COLUMNS.get(kind, ())
    return ResourceType(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        namespaced=namespaced,
        columns=columns,
        **more,  # type: ignore[arg-type]  # forwarded as written below
    )


def _core_types() -> list[ResourceType]:
    return [
        _core(
            "pods",
            "Pod",
            short_names=("po",),
            categories=("all",),
            status=True,
            generation=True,
            fields=_POD_FIELDS,
            returns_deleted=True,
            subresources=(
                ("binding", "Binding"),
                ("ephemeralcontainers", "Pod"),
                ("eviction", "Eviction"),
                ("log", "Pod"),
                ("resize", "Pod"),
            ),
        ),
        _core(
            "nodes",
            "Node",
            namespaced=False,
            short_names=("no",),
            status=True,
            fields=("spec.unschedulable",),
        ),
        _core(
            "namespaces",
            "Namespace",
            namespaced=False,
            short_names=("ns",),
            status=True,
            fields=("status.phase",),
            subresources=(("finalize", "Namespace"),),
            returns_deleted=True,
            verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        ),
        _core("configmaps", "ConfigMap", short_names=("cm",)),
        _core("secrets", "Secret", fields=("type",)),
        _core("serviceaccounts", "ServiceAccount", short_names=("sa",), returns_deleted=True),
        _core(
            "services",
            "Service",
            short_names=("svc",),
            categories=("all",),
            status=True,
            returns_deleted=True,
            fields=("spec.clusterIP", "spec.type"),
        ),
        _core("endpoints", "Endpoints", short_names=("ep",)),
        _core("events", "Event", short_names=("ev",), fields=_EVENT_FIELDS),
        _core(
            "persistentvolumes",
            "PersistentVolume",
            namespaced=False,
            short_names=("pv",),
            status=True,
            returns_deleted=True,
        ),
        _core(
            "persistentvolumeclaims",
            "PersistentVolumeClaim",
            short_names=("pvc",),
            status=True,
            returns_deleted=True,
        ),
        _core(
            "replicationcontrollers",
            "ReplicationController",
            short_names=("rc",),
            categories=("all",),
            status=True,
            scale=True,
            generation=True,
            fields=("status.replicas",),
            orphans_by_default=True,
        ),
        _core("limitranges", "LimitRange", short_names=("limits",)),
        _core("resourcequotas", "ResourceQuota", short_names=("quota",), status=True, returns_deleted=True),
        _core("podtemplates", "PodTemplate", generation=True, returns_deleted=True),
        _core("bindings", "Binding", verbs=_CREATE_ONLY),
    ]


def _workload_types() -> list[ResourceType]:
    return [
        _type(
            "apps",
            "v1",
            "deployments",
            "Deployment",
            short_names=("deploy",),
            categories=("all",),
            status=True,
            scale=True,
            generation=True,
        ),
        _type(
            "apps",
            "v1",
            "replicasets",
            "ReplicaSet",
            short_names=("rs",),
            categories=("all",),
            status=True,
            scale=True,
            generation=True,
            fields=("status.replicas",),
        ),
        _type(
            "apps",
            "v1",
            "statefulsets",
            "StatefulSet",
            short_names=("sts",),
            categories=("all",),
            status=True,
            scale=True,
            generation=True,
        ),
        _type(
            "apps",
            "v1",
            "daemonsets",
            "DaemonSet",
            short_names=("ds",),
            categories=("all",),
            status=True,
            generation=True,
        ),
        _type("apps", "v1", "controllerrevisions", "ControllerRevision"),
        _type(
            "batch",
            "v1",
            "jobs",
            "Job",
            categories=("all",),
            status=True,
            generation=True,
            fields=("status.successful",),
            orphans_by_default=True,
        ),
        _type(
            "batch",
            "v1",
            "cronjobs",
            "CronJob",
            short_names=("cj",),
            categories=("all",),
            status=True,
            generation=True,
        ),
        _type(
            "autoscaling",
            "v2",
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            short_names=("hpa",),
            categories=("all",),
            status=True,
        ),
        _type(
            "policy",
            "v1",
            "poddisruptionbudgets",
            "PodDisruptionBudget",
            short_names=("pdb",),
            status=True,
            generation=True,
        ),
    ]


def _cluster_types() -> list[ResourceType]:
    rbac, storage, admission = "rbac.authorization.k8s.io", "storage.k8s.io", "admissionregistration.k8s.io"
    return [
        _type(
            "scheduling.k8s.io",
            "v1",
            "priorityclasses",
            "PriorityClass",
            namespaced=False,
            short_names=("pc",),
            generation=True,
        ),
        _type("coordination.k8s.io", "v1", "leases", "Lease"),
        _type("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", generation=True),
        _type(
            "events.k8s.io",
            "v1",
            "events",
            "Event",
            short_names=("ev",),
            fields=_NEW_EVENT_FIELDS,
            storage="events",
            decode=event_from_v1,
            encode=event_to_v1,
        ),
        _type(storage, "v1", "storageclasses", "StorageClass", namespaced=False, short_names=("sc",)),
        _type(storage, "v1", "csinodes", "CSINode", namespaced=False),
        _type(storage, "v1", "csidrivers", "CSIDriver", namespaced=False, generation=True),
        _type(storage, "v1", "csistoragecapacities", "CSIStorageCapacity"),
        _type(storage, "v1", "volumeattachments", "VolumeAttachment", namespaced=False, status=True),
        _type(rbac, "v1", "roles", "Role"),
        _type(rbac, "v1", "rolebindings", "RoleBinding"),
        _type(rbac, "v1", "clusterroles", "ClusterRole", namespaced=False),
        _type(rbac, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
        _type(
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            namespaced=False,
            short_names=("crd", "crds"),
            categories=("api-extensions",),
            status=True,
            generation=True,
        ),
        _type(
            "apiregistration.k8s.io",
            "v1",
            "apiservices",
            "APIService",
            namespaced=False,
            categories=("api-extensions",),
            status=True,
        ),
        *(
            _type(
                admission,
                "v1",
                plural,
                kind,
                namespaced=False,
                categories=("api-extensions",),
                generation=True,
            )
            for plural, kind in (
                ("mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
                ("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
                ("validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
                ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
                ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
                ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
            )
        ),
        _type(
            "networking.k8s.io",
            "v1",
            "networkpolicies",
            "NetworkPolicy",
            short_names=("netpol",),
            generation=True,
        ),
        _type(
            "flowcontrol.apiserver.k8s.io",
            "v1",
            "flowschemas",
            "FlowSchema",
            namespaced=False,
            status=True,
            generation=True,
        ),
        _type(
            "flowcontrol.apiserver.k8s.io",
            "v1",
            "prioritylevelconfigurations",
            "PriorityLevelConfiguration",
            namespaced=False,
            status=True,
            generation=True,
        ),
        *(
            _type("authorization.k8s.io", "v1", plural, kind, namespaced=namespaced, verbs=_CREATE_ONLY)
            for plural, kind, namespaced in (
                ("selfsubjectaccessreviews", "SelfSubjectAccessReview", False),
                ("selfsubjectrulesreviews", "SelfSubjectRulesReview", False),
                ("subjectaccessreviews", "SubjectAccessReview", False),
                ("localsubjectaccessreviews", "LocalSubjectAccessReview", True),
            )
        ),
        _type(
            "authentication.k8s.io",
            "v1",
            "selfsubjectreviews",
            "SelfSubjectReview",
            namespaced=False,
            verbs=_CREATE_ONLY,
        ),
    ]


def builtin_registry() -> Registry:
    """A registry with every built-in resource."""
    registry = Registry()
    for resource in (*_core_types(), *_workload_types(), *_cluster_types()):
        registry.add(resource)
    return registry


_RENAMED = (
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
