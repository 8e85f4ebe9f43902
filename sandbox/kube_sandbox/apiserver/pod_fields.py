"""The fields of a PodSpec, for requests with ``fieldValidation=Strict`` (core/v1 of Kubernetes 1.37)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kube_sandbox.apiserver.errors import Json

_POD_SPEC: Final = frozenset(
    """
    activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy
    enableServiceLinks ephemeralContainers evictionResponders hostAliases hostIPC hostNetwork hostPID hostUsers hostname
    hostnameOverride imagePullSecrets initContainers nodeName nodeSelector os overhead preemptionPolicy priority
    priorityClassName readinessGates resourceClaims resources restartPolicy runtimeClassName schedulerName
    schedulingGates schedulingGroup securityContext serviceAccount serviceAccountName setHostnameAsFQDN
    shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes
    """.split()  # noqa: SIM905
)
_CONTAINER: Final = frozenset(
    """
    args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe
    resizePolicy resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce
    terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts workingDir
    """.split()  # noqa: SIM905
)
_RESOURCES: Final = frozenset({"claims", "limits", "requests"})


def unknown_fields(pod: Json) -> Iterator[str]:
    """Paths of fields that a PodSpec, its containers and their resources do not have."""
    spec = pod.get("spec") or {}
    yield from _others(spec, _POD_SPEC, "spec")
    yield from _others(spec.get("resources") or {}, _RESOURCES, "spec.resources")
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            path = f"spec.{group}[{index}]"
            yield from _others(container, _CONTAINER, path)
            yield from _others(container.get("resources") or {}, _RESOURCES, f"{path}.resources")


def _others(found: Json, known: frozenset[str], path: str) -> Iterator[str]:
    return (f"{path}.{name}" for name in sorted(found) if name not in known)
