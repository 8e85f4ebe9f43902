"""The built-in resources: names, versions, subresources, supported field selectors; and the two versions of Events.

Events are stored once, in the form of core/v1; ``events.k8s.io/v1`` is converted from and to it.
"""

from __future__ import annotations

from typing import Final

from kube_sandbox.apiserver.errors import Json
from kube_sandbox.apiserver.registry import ALL_VERBS, Registry, ResourceType

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
