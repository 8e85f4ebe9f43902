"""Admission that changes the pods of a namespace: policies as a service mesh, a platform team or a VPA would install them. Pure.

Each is a MutatingAdmissionPolicy with its binding, for new pods of the namespace ``default``. The API server of the
sandbox carries it out, so that pods of controllers and dry-run creations of the program get the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kube_sandbox.controllers.unstructured import Obj
from rescheduler.model.names import LABEL_PLACEHOLDER, LABEL_START_FIRST, ZONE

NAME: Final = "mesh.example.com"
"""Of the policy and of its binding: there is one at a time."""
OF_PLACEHOLDERS: Final = "placeholders.example.com"
"""The same for that of placeholders."""
OF_SURGE_PODS: Final = "surge-pods.example.com"
"""The same for that of replacements that start first."""
OF_AN_OUTAGE: Final = "outage.example.com"
"""The same for what refuses new pods for a while."""
NAMESPACE: Final = "rescheduler"
"""Where placeholders are."""
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


def _put(path: str, value: str) -> str:
    """A patch that adds or replaces one field."""
    return f"[JSONPatch{{op: 'add', path: '{path}', value: {value}}}]"


SPOILED: Final = {
    "requests": _put("/spec/containers/0/resources/requests/cpu", "'10m'"),
    "finalizer": _put("/metadata/finalizers", "['example.com/audit']"),
    "gate": _put("/spec/schedulingGates", "[{'name': 'example.com/queue'}]"),
    "scheduler": _put("/spec/schedulerName", "'other-scheduler'"),
    "node selector": _put("/spec/nodeSelector", "{'example.com/pool': 'other'}"),
    "toleration": _put("/spec/tolerations", "[{'operator': 'Exists'}]"),
    "priority": _put("/spec/priority", "-5"),
    "preemption": _put("/spec/preemptionPolicy", "'PreemptLowerPriority'"),
    "affinity": "[JSONPatch{op: 'remove', path: '/spec/affinity'}]",
    "owner": "[JSONPatch{op: 'remove', path: '/metadata/ownerReferences'}]",
    "deadline": _put("/spec/activeDeadlineSeconds", "600"),
}
"""What makes a placeholder hold less than was asked, hold it otherwise, or stay when it is deleted."""

HARMLESS: Final = {
    "label": _put("/metadata/labels/example.com~1team", "'a'"),
    "annotation": _put("/metadata/annotations/example.com~1note", "'a'"),
    "limits": _put("/spec/containers/0/resources/limits", "{'cpu': '8', 'memory': '8Gi'}"),
    "pull secret": _put("/spec/imagePullSecrets", "[{'name': 'registry'}]"),
    "host's time": _put("/spec/terminationGracePeriodSeconds", "30"),
}
"""What changes a placeholder, and nothing that it promises."""

SPOILED_SURGE_PODS: Final = {
    what: SPOILED[what] for what in ("requests", "scheduler", "node selector", "affinity", "deadline")
}
"""What makes a replacement that starts first less than the pod that it takes the place of, or puts it elsewhere."""

REFUSED: Final = {
    "sidecar": sidecar(100),
    "priority class": _put("/spec/priorityClassName", "'low'"),
    "init container": _put(
        "/spec/initContainers", "[{'name': 'first', 'image': 'registry.example/first:1'}]"
    ),
    "environment": _put("/spec/containers/0/env", "[{'name': 'A', 'value': 'b'}]"),
}
"""What the controller's own policies let no placeholder have: with a stolen token it would be a program of somebody else."""


def refusing_policy() -> tuple[Obj, Obj]:
    """A policy that fails for each new pod of the workloads, as a webhook with failurePolicy Fail that is down; and its binding."""
    fails = "[JSONPatch{op: 'replace', path: '/spec/nosuch/field', value: 'a'}]"
    return policy(fails, name=OF_AN_OUTAGE)


def placeholder_policy(expression: str) -> tuple[Obj, Obj]:
    """The policy that applies the patch to new placeholders, and its binding."""
    labelled = f"has(object.metadata.labels) && '{LABEL_PLACEHOLDER}' in object.metadata.labels"
    return policy(expression, NAMESPACE, [{"name": "placeholder", "expression": labelled}], OF_PLACEHOLDERS)


def surge_pod_policy(expression: str) -> tuple[Obj, Obj]:
    """The policy that applies the patch to new replacements that start first, and its binding."""
    labelled = f"has(object.metadata.labels) && '{LABEL_START_FIRST}' in object.metadata.labels"
    return policy(expression, conditions=[{"name": "surge-pod", "expression": labelled}], name=OF_SURGE_PODS)


def policy(
    expression: str, namespace: str = "default", conditions: Sequence[Obj] = (), name: str = NAME
) -> tuple[Obj, Obj]:
    """The policy that applies the patch of ``expression``, and its binding. Placeholders are in another namespace."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "resourceRules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        },
        "matchConditions": list(conditions),
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    head = {"apiVersion": _GROUP, "metadata": {"name": name}}
    return (
        {**head, "kind": "MutatingAdmissionPolicy", "spec": spec},
        {**head, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": name}},
    )
