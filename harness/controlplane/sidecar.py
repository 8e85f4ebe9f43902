"""An admission policy that adds a sidecar to new pods with label ``app``, as a service mesh does: they are larger from then on."""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]

_API: Final = "admissionregistration.k8s.io/v1"


def sidecar_policy(name: str = "sidecar", *, cpu: str = "500m", namespace: str = "default") -> list[Json]:
    """The MutatingAdmissionPolicy and its binding, for pods of ``namespace`` with label ``app``."""
    container = (
        f'Object.spec.containers{{name: "mesh", image: "registry.example/mesh:1", '
        f'resources: Object.spec.containers.resources{{requests: {{"cpu": "{cpu}"}}}}}}'
    )
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    policy = {
        "apiVersion": _API,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "resourceRules": [rule],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            },
            "matchConditions": [
                {
                    "name": "app",
                    "expression": "has(object.metadata.labels) && 'app' in object.metadata.labels",
                }
            ],
            "mutations": [
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {
                        "expression": f"Object{{spec: Object.spec{{containers: [{container}]}}}}"
                    },
                }
            ],
        },
    }
    binding = {
        "apiVersion": _API,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name},
    }
    return [policy, binding]
