"""Validation of new pods and of updates of pods.

Follows core validation ``ValidatePodCreate`` and ``ValidatePodUpdate``, KEP-3521 and KEP-3838 (scheduling gates, and
the fields that may be tightened while a pod is gated).
"""

from __future__ import annotations

import re
from typing import Any

from kube_sandbox.apiserver.errors import (
    FieldError,
    Json,
    forbidden_field,
    invalid_value,
    required,
)
from kube_sandbox.apiserver.json_values import deep_copy, dig
from rescheduler.model.resources import nano

_QUANTITY = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?")
_QUANTITY_TEXT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Resources that are not counted in whole pieces, so their limits may be above the requests."""
_IMMUTABLE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_GATED_TEXT = "may only be set for pods with scheduling gates"


def validate_pod(pod: Json) -> list[FieldError]:
    """Errors of a new pod."""
    spec = pod.get("spec") or {}
    faults = validate_pod_spec(spec, "spec")
    gates = spec.get("schedulingGates") or ()
    if gates and spec.get("nodeName"):
        faults.append(
            forbidden_field("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
        )
    return faults


def validate_pod_spec(spec: Json, path: str) -> list[FieldError]:
    """Errors of a PodSpec in a pod or a template."""
    faults: list[FieldError] = []
    containers = spec.get("containers") or ()
    if not containers:
        faults.append(required(f"{path}.containers"))
    names: set[str] = set()
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            faults += _container_faults(container, f"{path}.{group}[{index}]", names)
    return faults


def _container_faults(container: Json, path: str, names: set[str]) -> list[FieldError]:
    faults: list[FieldError] = []
    name = container.get("name")
    if not name:
        faults.append(required(f"{path}.name"))
    elif name in names:
        faults.append(FieldError("FieldValueDuplicate", f"{path}.name", f'Duplicate value: "{name}"'))
    names.add(name or "")
    if not container.get("image"):
        faults.append(required(f"{path}.image"))
    resources = container.get("resources") or {}
    for kind in ("limits", "requests"):
        for resource, amount in (resources.get(kind) or {}).items():
            faults += _resource_name_faults(f"{path}.resources.{kind}[{resource}]", resource)
            faults += _quantity_faults(f"{path}.resources.{kind}[{resource}]", amount)
    if not faults:
        faults = _limit_faults(resources, path)
    return faults


def _resource_name_faults(path: str, name: str) -> list[FieldError]:
    if "/" in name or name in _STANDARD or name.startswith("hugepages-"):
        return []
    return [
        invalid_value(path, name, "must be a standard resource type or fully qualified"),
        invalid_value(path, name, "must be a standard resource for containers"),
    ]


def _limit_faults(resources: Json, path: str) -> list[FieldError]:
    limits = resources.get("limits") or {}
    faults = []
    for name, amount in (resources.get("requests") or {}).items():
        whole = name not in _STANDARD
        if name not in limits:
            if whole:
                text = "Limit must be set for non overcommitable resources"
                faults.append(required(f"{path}.resources.limits", text))
        elif whole and nano(amount) != nano(limits[name]):
            text = f"must be equal to {name} limit of {limits[name]}"
            faults.append(invalid_value(f"{path}.resources.requests", str(amount), text))
        elif nano(amount) > nano(limits[name]):
            text = f"must be less than or equal to {name} limit of {limits[name]}"
            faults.append(invalid_value(f"{path}.resources.requests", str(amount), text))
    return faults


def _quantity_faults(path: str, amount: Any) -> list[FieldError]:
    text = str(amount)
    if isinstance(amount, bool) or not _QUANTITY.fullmatch(text):
        return [invalid_value(path, text, _QUANTITY_TEXT)]
    if text.startswith("-"):
        return [invalid_value(path, text, "must be greater than or equal to 0")]
    return []


def validate_pod_change(new: Json, old: Json) -> list[FieldError]:
    """Errors of an update of a pod (not of a subresource)."""
    new_spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    faults = _gate_faults(new_spec, old_spec)
    faults += _toleration_additions(new_spec, old_spec)
    gated = bool(old_spec.get("schedulingGates"))
    if gated:
        faults += _tightening_faults(new_spec, old_spec)
    if _fixed_part(new_spec, gated=gated) != _fixed_part(old_spec, gated=gated):
        faults.append(forbidden_field("spec", _IMMUTABLE_TEXT))
    return faults


def _gate_faults(new: Json, old: Json) -> list[FieldError]:
    had = {g["name"] for g in old.get("schedulingGates") or ()}
    faults = []
    for index, gate in enumerate(new.get("schedulingGates") or ()):
        if gate["name"] not in had:
            text = f"only deletion is allowed, but found new scheduling gate '{gate['name']}'"
            faults.append(forbidden_field(f"spec.schedulingGates[{index}].name", text))
    return faults


def _toleration_additions(new: Json, old: Json) -> list[FieldError]:
    kept = [_toleration_identity(t) for t in new.get("tolerations") or ()]
    if all(_toleration_identity(t) in kept for t in old.get("tolerations") or ()):
        return []
    text = "existing toleration can not be modified except its tolerationSeconds"
    return [forbidden_field("spec.tolerations", text)]


def _toleration_identity(toleration: Json) -> tuple[str, ...]:
    return (
        toleration.get("key", ""),
        toleration.get("operator") or "Equal",
        toleration.get("value", ""),
        toleration.get("effect", ""),
    )


def _tightening_faults(new: Json, old: Json) -> list[FieldError]:
    faults: list[FieldError] = []
    selector = new.get("nodeSelector") or {}
    for key, value in (old.get("nodeSelector") or {}).items():
        if selector.get(key) != value:
            text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            faults.append(invalid_value("spec.nodeSelector", selector, text))
            break
    return faults + _required_affinity_faults(new, old)


def _required_terms(spec: Json) -> list[Json] | None:
    required_part = dig(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return None if required_part is None else list(required_part.get("nodeSelectorTerms") or ())


def _required_affinity_faults(new: Json, old: Json) -> list[FieldError]:
    before, after = _required_terms(old), _required_terms(new)
    if before is None:
        return []
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    if after is None or len(after) != len(before):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid_value(path, str(after), text)]
    faults = []
    for index, (was, now) in enumerate(zip(before, after, strict=True)):
        for part in ("matchExpressions", "matchFields"):
            had, has = was.get(part) or [], now.get(part) or []
            if has[: len(had)] != had:
                text = "only additions are allowed (no mutations or deletions)"
                faults.append(invalid_value(f"{path}[{index}]", str(now), text))
                break
    return faults


def _fixed_part(spec: Json, *, gated: bool) -> Json:
    """The part of a spec that no update may change."""
    fixed = deep_copy(spec)
    for key in ("schedulingGates", "tolerations", "activeDeadlineSeconds"):
        fixed.pop(key, None)
    if gated:
        fixed.pop("nodeSelector", None)
        affinity = fixed.pop("affinity", None) or {}
        affinity.pop("nodeAffinity", None)
        if any(affinity.values()):
            fixed["affinity"] = affinity
    for group in ("containers", "initContainers"):
        for container in fixed.get(group) or ():
            container.pop("image", None)
    if (fixed.get("terminationGracePeriodSeconds") or 0) < 0:
        fixed["terminationGracePeriodSeconds"] = 1
    return {key: value for key, value in fixed.items() if value not in (None, [], {})}
