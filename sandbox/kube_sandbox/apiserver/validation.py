"""Validation: labels and names of every kind, containers of new pods, and what may change of a pod.

Follows core validation ``ValidatePodCreate`` and ``ValidatePodUpdate``, KEP-3521 and KEP-3838 (scheduling gates, and
the fields that may be tightened while a pod is gated). A real server checks more, and all kinds.
"""

from __future__ import annotations

import re
from typing import Any, Final

from kube_sandbox.apiserver.errors import FieldError, Json, forbidden_field, invalid_value, required
from kube_sandbox.apiserver.json_values import deep_copy, dig
from rescheduler.model.resources import nano
from rescheduler.model.selectors import key_error, value_error

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUANTITY = re.compile(r"\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?")
_ALLOWED: Final = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
_MAX_NAME: Final = 253
_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Resources that are not counted in whole pieces, so their limits may be above the requests."""


def validate_metadata(obj: Json) -> list[FieldError]:
    """Errors in name, labels and annotations."""
    metadata, faults = obj["metadata"], []
    name = metadata.get("name", "")
    if not obj["apiVersion"].startswith("rbac.") and not (
        _SUBDOMAIN.fullmatch(name) and len(name) <= _MAX_NAME
    ):
        faults.append(invalid_value("metadata.name", name, _ALLOWED))
    for key, value in (metadata.get("labels") or {}).items():
        if key_error(key):
            faults.append(invalid_value("metadata.labels", key, _ALLOWED))
        if not isinstance(value, str) or value_error(value):
            faults.append(invalid_value("metadata.labels", value, _ALLOWED))
    keys = [key for key in metadata.get("annotations") or () if key_error(key.lower())]
    return faults + [invalid_value("metadata.annotations", key, _ALLOWED) for key in keys]


def validate_pod(pod: Json) -> list[FieldError]:
    """Errors of a new pod."""
    spec = pod.get("spec") or {}
    faults = validate_pod_spec(spec, "spec")
    if spec.get("schedulingGates") and spec.get("nodeName"):
        text = "cannot be set until all schedulingGates have been cleared"
        faults.append(forbidden_field("spec.nodeName", text))
    return faults


def validate_pod_spec(spec: Json, path: str) -> list[FieldError]:
    """Errors of a PodSpec in a pod or a template."""
    faults = [] if spec.get("containers") else [required(f"{path}.containers")]
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            faults += _container_faults(container, f"{path}.{group}[{index}]")
    return faults


def _container_faults(container: Json, path: str) -> list[FieldError]:
    faults = [required(f"{path}.{field}") for field in ("name", "image") if not container.get(field)]
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    for kind in ("limits", "requests"):
        for name, amount in (resources.get(kind) or {}).items():
            faults += _amount_faults(f"{path}.resources.{kind}[{name}]", name, amount)
    if faults:
        return faults
    for name, amount in (resources.get("requests") or {}).items():
        whole = name not in _STANDARD
        if name not in limits:
            if whole:
                text = "Limit must be set for non overcommitable resources"
                faults.append(required(f"{path}.resources.limits", text))
        elif nano(amount) > nano(limits[name]) or (whole and nano(amount) != nano(limits[name])):
            text = (
                f"must be {'equal to' if whole else 'less than or equal to'} {name} limit of {limits[name]}"
            )
            faults.append(invalid_value(f"{path}.resources.requests", str(amount), text))
    return faults


def _amount_faults(path: str, name: str, amount: Any) -> list[FieldError]:
    if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
        return [invalid_value(path, name, "must be a standard resource type or fully qualified")]
    if isinstance(amount, bool) or not _QUANTITY.fullmatch(str(amount)):
        return [invalid_value(path, str(amount), "must be a quantity greater than or equal to 0")]
    return []


def validate_pod_change(new: Json, old: Json) -> list[FieldError]:
    """Errors of an update of a pod (not of a subresource)."""
    after, before = new.get("spec") or {}, old.get("spec") or {}
    had = {g["name"] for g in before.get("schedulingGates") or ()}
    faults = [
        forbidden_field(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for index, gate in enumerate(after.get("schedulingGates") or ())
        if gate["name"] not in had
    ]
    kept = [_toleration(t) for t in after.get("tolerations") or ()]
    if any(_toleration(t) not in kept for t in before.get("tolerations") or ()):
        text = "existing toleration can not be modified except its tolerationSeconds"
        faults.append(forbidden_field("spec.tolerations", text))
    if had:
        faults += _tightening_faults(after, before)
    if _fixed_part(after, gated=bool(had)) != _fixed_part(before, gated=bool(had)):
        faults.append(forbidden_field("spec", "pod updates may not change such fields"))
    return faults


def _toleration(raw: Json) -> tuple[str, ...]:
    return (
        raw.get("key", ""),
        raw.get("operator") or "Equal",
        raw.get("value", ""),
        raw.get("effect", ""),
    )


def _tightening_faults(new: Json, old: Json) -> list[FieldError]:
    faults: list[FieldError] = []
    selector = new.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in (old.get("nodeSelector") or {}).items()):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        faults.append(invalid_value("spec.nodeSelector", selector, text))
    before, after = _required_terms(old), _required_terms(new)
    if before is None:
        return faults
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    if after is None or len(after) != len(before):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [*faults, invalid_value(path, str(after), text)]
    for index, (was, now) in enumerate(zip(before, after, strict=True)):
        for part in ("matchExpressions", "matchFields"):
            terms = was.get(part) or []
            if (now.get(part) or [])[: len(terms)] != terms:
                text = "only additions are allowed (no mutations or deletions)"
                faults.append(invalid_value(f"{path}[{index}]", str(now), text))
    return faults


def _required_terms(spec: Json) -> list[Json] | None:
    found = dig(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return None if found is None else list(found.get("nodeSelectorTerms") or ())


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
    return {key: value for key, value in fixed.items() if value not in (None, [], {})}
