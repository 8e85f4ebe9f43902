"""Validation of the built-in kinds that clients of this project use.

It has those rules of a real server that matter for the controller, its users' manifests and the tests. Messages are
those of a real server, because tools match them.
"""

from __future__ import annotations

from collections.abc import Callable

from kube_sandbox.apiserver.errors import FieldError, Json, forbidden_field, invalid_value, required
from kube_sandbox.apiserver.json_values import dig
from kube_sandbox.apiserver.pod_validation import validate_pod, validate_pod_change, validate_pod_spec
from kube_sandbox.apiserver.request_selectors import selects

NewCheck = Callable[[Json], list[FieldError]]
ChangeCheck = Callable[[Json, Json], list[FieldError]]


def _workload(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    faults: list[FieldError] = []
    replicas = spec.get("replicas")
    if isinstance(replicas, int) and replicas < 0:
        faults.append(invalid_value("spec.replicas", replicas, "must be greater than or equal to 0"))
    template = spec.get("template")
    if not isinstance(template, dict):
        return [*faults, required("spec.template")]
    labels = dig(template, "metadata", "labels") or {}
    selector = spec.get("selector")
    if obj["kind"] == "ReplicationController":
        selector = {"matchLabels": selector} if selector else None
    if selector is None:
        faults.append(required("spec.selector"))
    elif not (selector.get("matchLabels") or selector.get("matchExpressions")):
        faults.append(
            invalid_value("spec.selector", {}, "empty selector is invalid for " + obj["kind"].lower())
        )
    elif not selects(selector, labels):
        text = "`selector` does not match template `labels`"
        faults.append(invalid_value("spec.template.metadata.labels", labels, text))
    faults += validate_pod_spec(template.get("spec") or {}, "spec.template.spec")
    policy = dig(template, "spec", "restartPolicy")
    if policy not in (None, "Always"):
        faults.append(_unsupported_policy(policy, ["Always"]))
    return faults


def _unsupported_policy(policy: object, allowed: list[str]) -> FieldError:
    listed = ", ".join(f'"{a}"' for a in allowed)
    text = f'Unsupported value: "{policy}": supported values: {listed}'
    return FieldError("FieldValueNotSupported", "spec.template.spec.restartPolicy", text)


def _job(obj: Json) -> list[FieldError]:
    template = dig(obj, "spec", "template")
    if not isinstance(template, dict):
        return [required("spec.template")]
    faults = validate_pod_spec(template.get("spec") or {}, "spec.template.spec")
    policy = dig(template, "spec", "restartPolicy")
    if policy is None:
        text = 'valid values: "OnFailure", "Never"'
        faults.append(required("spec.template.spec.restartPolicy", text))
    elif policy not in {"Never", "OnFailure"}:
        faults.append(_unsupported_policy(policy, ["OnFailure", "Never"]))
    return faults


def _same_selector(new: Json, old: Json) -> list[FieldError]:
    if dig(new, "spec", "selector") != dig(old, "spec", "selector"):
        return [invalid_value("spec.selector", dig(new, "spec", "selector"), "field is immutable")]
    return []


def _workload_change(new: Json, old: Json) -> list[FieldError]:
    fixed = [] if new["kind"] == "ReplicationController" else _same_selector(new, old)
    return _workload(new) + fixed


_STATEFUL_MUTABLE = frozenset(
    {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
)


def _stateful_set_change(new: Json, old: Json) -> list[FieldError]:
    if new["spec"].get("serviceName") != old["spec"].get("serviceName"):
        return [invalid_value("spec.serviceName", new["spec"].get("serviceName"), "field is immutable")]
    fixed_new = {k: v for k, v in new["spec"].items() if k not in _STATEFUL_MUTABLE}
    fixed_old = {k: v for k, v in old["spec"].items() if k not in _STATEFUL_MUTABLE}
    if fixed_new != fixed_old:
        text = (
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
            "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
            "'minReadySeconds' are forbidden"
        )
        return [forbidden_field("spec", text)]
    return _workload(new)


def _job_change(new: Json, old: Json) -> list[FieldError]:
    faults = _same_selector(new, old)
    if dig(new, "spec", "completions") != dig(old, "spec", "completions"):
        faults.append(
            invalid_value("spec.completions", dig(new, "spec", "completions"), "field is immutable")
        )
    return faults


def _budget(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    faults = []
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        text = "minAvailable and maxUnavailable cannot be both set"
        faults.append(invalid_value("spec", spec, text))
    for key in ("minAvailable", "maxUnavailable"):
        faults += _int_or_percent(f"spec.{key}", spec.get(key))
    return faults


def _int_or_percent(path: str, value: object) -> list[FieldError]:
    if isinstance(value, int) and value < 0:
        return [invalid_value(path, value, "must be greater than or equal to 0")]
    if isinstance(value, str):
        digits = value.removesuffix("%")
        if not value.endswith("%") or not digits.isdigit():
            text = "a valid percent string must be a numeric string followed by an ending '%'"
            return [invalid_value(path, value, text)]
        if int(digits) > 100:  # noqa: PLR2004 - per cent
            return [invalid_value(path, value, "must not be greater than 100%")]
    return []


_HIGHEST_USER_PRIORITY = 1_000_000_000


def _priority_class(obj: Json) -> list[FieldError]:
    value = obj.get("value", 0)
    if obj["metadata"]["name"].startswith("system-"):
        if obj["metadata"]["name"] in {"system-node-critical", "system-cluster-critical"}:
            return []
        text = "priority class names with 'system-' prefix are reserved for system use only"
        return [forbidden_field("metadata.name", text)]
    if isinstance(value, int) and value > _HIGHEST_USER_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
        return [forbidden_field("value", text)]
    return []


def _priority_class_change(new: Json, old: Json) -> list[FieldError]:
    faults = []
    if new.get("value", 0) != old.get("value", 0):
        faults.append(forbidden_field("value", "may not be changed in an update."))
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        faults.append(invalid_value("preemptionPolicy", new.get("preemptionPolicy"), "field is immutable"))
    return faults


def _frozen_data(new: Json, old: Json) -> list[FieldError]:
    if old.get("immutable") is not True:
        return []
    if new.get("immutable") is not True:
        return [forbidden_field("immutable", "field is immutable when `immutable` is set")]
    return [
        forbidden_field(key, "field is immutable when `immutable` is set")
        for key in ("data", "binaryData")
        if new.get(key) != old.get(key)
    ]


def _config_map(obj: Json) -> list[FieldError]:
    return [
        invalid_value(f"data[{key}]", str(value), "must be a string")
        for key, value in (obj.get("data") or {}).items()
        if not isinstance(value, str)
    ]


def _definition(obj: Json) -> list[FieldError]:
    """Errors of a CustomResourceDefinition."""
    spec = obj.get("spec") or {}
    names = spec.get("names") or {}
    faults = []
    wanted = f"{names.get('plural')}.{spec.get('group')}"
    if obj["metadata"]["name"] != wanted:
        text = f'Invalid value: "{obj["metadata"]["name"]}": must be spec.names.plural+"."+spec.group'
        faults.append(FieldError("FieldValueInvalid", "metadata.name", text))
    versions = spec.get("versions") or []
    faults += [
        FieldError(
            "FieldValueRequired",
            f"spec.versions[{i}].schema.openAPIV3Schema",
            "Required value: schemas are required",
        )
        for i, version in enumerate(versions)
        if not (version.get("schema") or {}).get("openAPIV3Schema")
    ]
    if sum(bool(v.get("storage")) for v in versions) != 1:
        text = "must have exactly one version marked as storage version"
        faults.append(FieldError("FieldValueInvalid", "spec.versions", f"Invalid value: {text}"))
    if spec.get("scope") not in {"Namespaced", "Cluster"}:
        text = 'Unsupported value: supported values: "Cluster", "Namespaced"'
        faults.append(FieldError("FieldValueNotSupported", "spec.scope", text))
    return faults


VALIDATE_NEW: dict[str, NewCheck] = {
    "pods": validate_pod,
    "deployments.apps": _workload,
    "replicasets.apps": _workload,
    "replicationcontrollers": _workload,
    "statefulsets.apps": _workload,
    "daemonsets.apps": _workload,
    "jobs.batch": _job,
    "poddisruptionbudgets.policy": _budget,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "configmaps": _config_map,
    "customresourcedefinitions.apiextensions.k8s.io": _definition,
}

VALIDATE_CHANGE: dict[str, ChangeCheck] = {
    "pods": validate_pod_change,
    "deployments.apps": _workload_change,
    "replicasets.apps": _workload_change,
    "replicationcontrollers": _workload_change,
    "statefulsets.apps": _stateful_set_change,
    "daemonsets.apps": _workload_change,
    "jobs.batch": _job_change,
    "poddisruptionbudgets.policy": lambda new, _old: _budget(new),
    "priorityclasses.scheduling.k8s.io": _priority_class_change,
    "configmaps": lambda new, old: _config_map(new) + _frozen_data(new, old),
    "secrets": _frozen_data,
    "customresourcedefinitions.apiextensions.k8s.io": lambda new, _old: _definition(new),
}
