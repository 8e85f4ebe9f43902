"""What a CustomResourceDefinition must look like, and the status of a new one."""

from __future__ import annotations

from rescheduler.sim.apiserver.errors import FieldError, Json


def validate_definition(obj: Json) -> list[FieldError]:
    """Faults of a definition that would make it useless."""
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


def definition_status(obj: Json) -> Json:
    """The status of a fresh definition: names accepted, established."""
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
