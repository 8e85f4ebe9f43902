"""Field defaults and initial status of the built-in kinds, as a real API server writes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kube_sandbox.apiserver.errors import Json
from kube_sandbox.apiserver.json_values import deep_copy, dig, set_default

_CPU_MEMORY = ("cpu", "memory")
_POD_SPEC: Final[Json] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
}


def default_pod_spec(spec: Json) -> None:
    """Defaults of a PodSpec, in a pod or a template."""
    _fill(spec, _POD_SPEC)
    for group in ("containers", "initContainers"):
        for container in spec.get(group) or ():
            _default_container(container)
    for constraint in spec.get("topologySpreadConstraints") or ():
        _fill(constraint, {"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"})
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _default_container(container: Json) -> None:
    messages = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
    _fill(container, {"resources": {}, **messages})
    image = str(container.get("image") or "")
    latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
    set_default(container, "imagePullPolicy", "Always" if latest and "@" not in image else "IfNotPresent")
    resources = container["resources"]
    for name, amount in (resources.get("limits") or {}).items():
        resources.setdefault("requests", {}).setdefault(name, amount)
    for port in container.get("ports") or ():
        set_default(port, "protocol", "TCP")


def _default_pod(pod: Json) -> None:
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    set_default(spec, "enableServiceLinks", True)
    _merge_match_label_keys(pod)
    for part, key in (("spec", "nodeName"), ("status", "nominatedNodeName")):
        if dig(pod, part, key) == "":
            del pod[part][key]


def _merge_match_label_keys(pod: Json) -> None:
    labels = dig(pod, "metadata", "labels") or {}
    affinity = dig(pod, "spec", "affinity") or {}
    for name in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(name) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        weighted = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [w["podAffinityTerm"] for w in weighted if "podAffinityTerm" in w]
        for term in terms:
            for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
                _merge_keys(term, field, operator, labels)
    for constraint in dig(pod, "spec", "topologySpreadConstraints") or ():
        _merge_keys(constraint, "matchLabelKeys", "In", labels)


def _merge_keys(term: Json, field: str, operator: str, labels: Json) -> None:
    selector = term.get("labelSelector")
    if not isinstance(selector, dict):
        return
    expressions = selector.get("matchExpressions") or []
    for key in term.get(field) or ():
        if key in labels:
            wanted = {"key": key, "operator": operator, "values": [labels[key]]}
            if wanted not in expressions:
                expressions.append(wanted)
    if expressions:
        selector["matchExpressions"] = expressions


def _default_template(obj: Json) -> None:
    template = dig(obj, "spec", "template")
    if isinstance(template, dict):
        set_default(template, "metadata", {})
        default_pod_spec(template.setdefault("spec", {}))


def _default_deployment(obj: Json) -> None:
    _fill(obj, _DEPLOYMENT)
    _fill_rolling(obj["spec"]["strategy"], {"maxUnavailable": "25%", "maxSurge": "25%"})
    _default_template(obj)


def _default_replica_set(obj: Json) -> None:
    _fill(obj, {"spec": {"replicas": 1}})
    labels = dig(obj, "spec", "template", "metadata", "labels")
    if obj["kind"] == "ReplicationController" and labels:
        set_default(obj["metadata"], "labels", dict(labels))
        set_default(obj["spec"], "selector", dict(labels))
    _default_template(obj)


def _default_stateful_set(obj: Json) -> None:
    _fill(obj, _STATEFUL_SET)
    _fill_rolling(obj["spec"]["updateStrategy"], {"partition": 0, "maxUnavailable": 1})
    _default_template(obj)


def _default_daemon_set(obj: Json) -> None:
    annotations = {"deprecated.daemonset.template.generation": "1"}
    _fill(obj, {"metadata": {"annotations": annotations}, "spec": {"revisionHistoryLimit": 10, **_ROLLING}})
    _fill_rolling(obj["spec"]["updateStrategy"], {"maxUnavailable": 1, "maxSurge": 0})
    _default_template(obj)


def _default_job(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    _fill(obj, _JOB)
    uid = obj["metadata"].get("uid")
    if uid and not spec["manualSelector"] and not spec.get("selector"):
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        template_meta = spec.setdefault("template", {}).get("metadata") or {}
        spec["template"]["metadata"] = template_meta
        labels = template_meta.setdefault("labels", {})
        for prefix in ("", "batch.kubernetes.io/"):
            labels[f"{prefix}controller-uid"] = uid
            labels[f"{prefix}job-name"] = obj["metadata"]["name"]
    set_default(obj["metadata"], "labels", dict(dig(obj, "spec", "template", "metadata", "labels") or {}))
    never_defaulted = dig(obj, "spec", "template", "spec", "restartPolicy") is None
    _default_template(obj)
    if never_defaulted and dig(obj, "spec", "template", "spec"):
        del spec["template"]["spec"]["restartPolicy"]


def _default_namespace(obj: Json) -> None:
    labels = obj["metadata"].get("labels") or {}
    labels["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
    obj["metadata"]["labels"] = labels
    _fill(obj, {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})


def _fill(obj: Json, missing: Json) -> None:
    """Write what is missing or null, level by level; an empty map stands for itself."""
    for key, value in missing.items():
        if isinstance(value, dict) and value and isinstance(obj.get(key), dict):
            _fill(obj[key], value)
        else:
            set_default(obj, key, deep_copy(value))


def _fill_rolling(strategy: Json, bounds: Json) -> None:
    if strategy["type"] == "RollingUpdate":
        _fill(strategy, {"rollingUpdate": bounds})


_ROLLING: Final[Json] = {"updateStrategy": {"type": "RollingUpdate"}}
_DEPLOYMENT: Final[Json] = {
    "spec": {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "strategy": {"type": "RollingUpdate"},
    }
}
_STATEFUL_SET: Final[Json] = {
    "spec": {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "podManagementPolicy": "OrderedReady",
        **_ROLLING,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    }
}
_JOB: Final[Json] = {
    "spec": {
        "parallelism": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "manualSelector": False,
    }
}
DEFAULTS: dict[str, Callable[[Json], None]] = {
    "pods": _default_pod,
    "namespaces": _default_namespace,
    "persistentvolumes": partial(
        _fill, missing={"spec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}}
    ),
    "persistentvolumeclaims": partial(_fill, missing={"spec": {"volumeMode": "Filesystem"}}),
    "replicationcontrollers": _default_replica_set,
    "deployments.apps": _default_deployment,
    "replicasets.apps": _default_replica_set,
    "statefulsets.apps": _default_stateful_set,
    "daemonsets.apps": _default_daemon_set,
    "jobs.batch": _default_job,
    "priorityclasses.scheduling.k8s.io": partial(_fill, missing={"preemptionPolicy": "PreemptLowerPriority"}),
    "storageclasses.storage.k8s.io": partial(
        _fill, missing={"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
    ),
    **dict.fromkeys(
        (f"{kind}admissionpolicies.admissionregistration.k8s.io" for kind in ("mutating", "validating")),
        partial(_fill, missing={"spec": {"failurePolicy": "Fail"}}),
    ),
}


def qos_class(spec: Json) -> str:
    """Guaranteed, Burstable or BestEffort, by requests and limits of cpu and memory."""
    requested = limited = False
    guaranteed = True
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        requested = requested or any(_amount(requests.get(name)) for name in _CPU_MEMORY)
        limited = limited or any(_amount(limits.get(name)) for name in _CPU_MEMORY)
        for name in _CPU_MEMORY:
            if not _amount(limits.get(name)) or requests.get(name) != limits.get(name):
                guaranteed = False
    if not requested and not limited:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _amount(quantity: Any) -> bool:
    return quantity is not None and str(quantity).strip("0.") not in {"", "m"}


def _new_pod_status(pod: Json) -> Json:
    status: Json = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        message = "Scheduling is blocked due to non-empty scheduling gates"
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": None,
                "reason": "SchedulingGated",
                "message": message,
            }
        ]
    return status


def _new_workload_status(obj: Json) -> Json:
    return {"replicas": 0} if obj["kind"] in {"ReplicaSet", "ReplicationController"} else {}


def _new_definition_status(obj: Json) -> Json:
    """The status of a new CustomResourceDefinition: NamesAccepted and Established."""
    names = obj["spec"]["names"]
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    obj["spec"].setdefault("conversion", {"strategy": "None"})
    since = obj["metadata"]["creationTimestamp"]
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": since, "reason": reason, "message": message}
        for kind, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    stored = [v["name"] for v in obj["spec"]["versions"] if v.get("storage")]
    return {"conditions": conditions, "acceptedNames": dict(names), "storedVersions": stored}


_DAEMON_COUNTS: Final = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
)
_BUDGET_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
NEW_STATUS: dict[str, Callable[[Json], Json]] = {
    "pods": _new_pod_status,
    "replicasets.apps": _new_workload_status,
    "replicationcontrollers": _new_workload_status,
    "statefulsets.apps": lambda _: {"replicas": 0, "availableReplicas": 0},
    "deployments.apps": _new_workload_status,
    "jobs.batch": _new_workload_status,
    "daemonsets.apps": lambda _: dict.fromkeys(_DAEMON_COUNTS, 0),
    "poddisruptionbudgets.policy": lambda _: dict.fromkeys(_BUDGET_COUNTS, 0),
    "persistentvolumes": lambda _: {"phase": "Pending"},
    "persistentvolumeclaims": lambda _: {"phase": "Pending"},
    "customresourcedefinitions.apiextensions.k8s.io": _new_definition_status,
}
"""The status of a new object; a status that the client sent is ignored."""
