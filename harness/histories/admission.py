"""Admission that changes the pods of a namespace: policies as a service mesh, a platform team or a VPA would install them. Pure.

Each is a MutatingAdmissionPolicy with its binding, for new pods of the namespace ``default``. The API server of the
sandbox carries it out, so that pods of controllers and dry-run creations of the program get the same.
"""

from __future__ import annotations

from typing import Final

from rescheduler.model.names import ZONE
from rescheduler.sandbox.controllers.unstructured import Obj

NAME: Final = "mesh.example.com"
"""Of the policy and of its binding: there is one at a time."""
SIDECAR: Final = "proxy"
TAINT: Final = "example.com/retired"
"""Key of the taint that workloads and policies tolerate."""

_GROUP: Final = "admissionregistration.k8s.io/v1"


def sidecar(cpu_milli: int) -> str:
    """Adds a container."""
    requests = f"{{'cpu': '{cpu_milli}m', 'memory': '32Mi'}}"
    container = f"{{'name': '{SIDECAR}', 'image': 'registry.example/proxy:1', 'resources': {{'requests': {requests}}}}}"
    return f"[JSONPatch{{op: 'add', path: '/spec/containers/-', value: {container}}}]"


def larger_requests(cpu_milli: int) -> str:
    """Sets the request of the first container."""
    path = "/spec/containers/0/resources/requests/cpu"
    return f"[JSONPatch{{op: 'replace', path: '{path}', value: '{cpu_milli}m'}}]"


def toleration() -> str:
    """Adds a toleration. The pod has others already: DefaultTolerationSeconds comes first."""
    value = f"{{'key': '{TAINT}', 'operator': 'Exists'}}"
    return f"[JSONPatch{{op: 'add', path: '/spec/tolerations/-', value: {value}}}]"


def node_selector(zone: str) -> str:
    """Confines pods to a zone."""
    return f"[JSONPatch{{op: 'add', path: '/spec/nodeSelector', value: {{'{ZONE}': '{zone}'}}}}]"


def policy(expression: str) -> tuple[Obj, Obj]:
    """The policy that applies the patch of ``expression``, and its binding. Placeholders are in another namespace."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "resourceRules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
        },
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    head = {"apiVersion": _GROUP, "metadata": {"name": NAME}}
    return (
        {**head, "kind": "MutatingAdmissionPolicy", "spec": spec},
        {**head, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": NAME}},
    )
