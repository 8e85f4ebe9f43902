"""The gate: which controllers' new pods are held at creation, and the proof that it is in force.

The gate is a MutatingAdmissionPolicy whose parameter is the ConfigMap ``live``: controller uid ->
Reservation name. Switching one on or off is a merge patch of one key, so moves do not disturb each other.
It is in force some milliseconds later; only a dry-run creation proves it (measured: the first probe
missed in 2 of 40), and only for the API server that answered.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import AlreadyExistsError, NotFoundError
from rescheduler.kube.retry import full_jitter_s
from rescheduler.model.names import ANNOTATION_RESERVATION, DEFAULT_NAMESPACE, GATE, GATE_CONFIG_MAP
from rescheduler.model.records import OwnerRef

POLICY_NAME: Final = "gate.rescheduler.dev"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_PROOF_LIMIT_S: Final = 2.0
_PROOF_PAUSE_S: Final = 0.02


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] | None = None


class _SchedulingGate(msgspec.Struct):
    name: str


class _PodSpec(msgspec.Struct, rename="camel"):
    scheduling_gates: list[_SchedulingGate] | None = None


class _PodMeta(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Pod(msgspec.Struct):
    spec: _PodSpec
    metadata: _PodMeta


@dataclass(frozen=True, slots=True)
class GateEntry:
    """What switches the gate on for one controller."""

    controller_uid: str
    reservation: str


@dataclass(frozen=True, slots=True)
class Gate:
    """The gate of one installation. ``namespace``: the controller's own, where ``live`` is.

    All methods raise ApiError and TransportError.
    """

    api: KubeApi
    namespace: str = DEFAULT_NAMESPACE
    config_map: str = GATE_CONFIG_MAP
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random

    def entries(self) -> dict[str, str]:
        """Controller uid -> Reservation name, as stored; empty if the ConfigMap is missing."""
        try:
            body = self.api.get(self._path())
        except NotFoundError:
            return {}
        return msgspec.json.decode(body, type=_ConfigMap).data or {}

    def switch_on(self, entry: GateEntry) -> None:
        """Hold new pods of that controller; makes the ConfigMap if it is missing. Idempotent."""
        try:
            self._patch({entry.controller_uid: entry.reservation})
        except NotFoundError:
            self._make({entry.controller_uid: entry.reservation})

    def switch_off(self, *controller_uids: str) -> None:
        """Hold new pods of those controllers no longer. Idempotent."""
        if not controller_uids:
            return
        try:
            self._patch(dict.fromkeys(controller_uids))
        except NotFoundError:
            return

    def proven(self, entry: GateEntry, owner: OwnerRef, pod_namespace: str) -> bool:
        """True as soon as a dry-run pod of ``owner`` in ``pod_namespace`` is held for that Reservation.

        Tried for two seconds; False afterwards: nothing may be evicted. It is False in namespaces that
        the policy leaves out, and where policy or binding are missing.
        """
        ends_s = self.clock() + _PROOF_LIMIT_S
        attempt = 1
        while True:
            if self._held(entry, owner, pod_namespace):
                return True
            pause_s = _PROOF_PAUSE_S + full_jitter_s(attempt, _PROOF_PAUSE_S, 0.5, self.chance())
            if self.clock() + pause_s > ends_s:
                return False
            self.sleep(pause_s)
            attempt += 1

    def installed(self) -> bool:
        """True if the policy and its binding exist. Says nothing of their being in force: see ``proven``."""
        try:
            self.api.get(f"{_ADMISSION}/mutatingadmissionpolicies/{POLICY_NAME}")
            self.api.get(f"{_ADMISSION}/mutatingadmissionpolicybindings/{POLICY_NAME}")
        except NotFoundError:
            return False
        return True

    def holds_for(self, owner: OwnerRef, pod_namespace: str) -> str:
        """The Reservation that a pod of ``owner``, created in a dry run now, is held for; "" if it is not held."""
        body = self.api.create(
            f"/api/v1/namespaces/{pod_namespace}/pods", probe_pod(owner, pod_namespace), dry_run=True
        )
        pod = msgspec.json.decode(body, type=_Pod)
        gates = {gate.name for gate in pod.spec.scheduling_gates or ()}
        named = (pod.metadata.annotations or {}).get(ANNOTATION_RESERVATION, "")
        return named if GATE in gates else ""

    def _held(self, entry: GateEntry, owner: OwnerRef, pod_namespace: str) -> bool:
        return self.holds_for(owner, pod_namespace) == entry.reservation

    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps/{self.config_map}"

    def _patch(self, data: Mapping[str, str | None]) -> None:
        self.api.merge_patch(self._path(), {"data": data})

    def _make(self, data: Mapping[str, str]) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.config_map, "namespace": self.namespace},
            "data": data,
        }
        try:
            self.api.create(f"/api/v1/namespaces/{self.namespace}/configmaps", body)
        except AlreadyExistsError:
            self._patch(data)


def probe_pod(owner: OwnerRef, namespace: str) -> dict[str, Any]:
    """A pod like a replacement of ``owner``, valid under the restricted Pod Security profile; never stored."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "rescheduler-gate-probe-",
            "namespace": namespace,
            "ownerReferences": [
                {
                    "apiVersion": owner.api_version,
                    "kind": owner.kind,
                    "name": owner.name,
                    "uid": owner.uid,
                    "controller": True,
                }
            ],
        },
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65_535,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "probe",
                    "image": "rescheduler-gate-probe",
                    "resources": {
                        "requests": {"cpu": "1m", "memory": "1Mi"},
                        "limits": {"cpu": "1m", "memory": "1Mi"},
                    },
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }
