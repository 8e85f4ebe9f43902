"""The gate: which controllers' new pods are held at creation, and the proof that it is in force.

The gate is a MutatingAdmissionPolicy whose parameter is the ConfigMap ``gate-keys``: which
pods -> Reservation name. Keys are written by merge patches (``controller.mirror``), so moves do not disturb each other. They are
valid for a minute, so that no pod is held while nobody leads: the policy compares this with the time that the API server
notes in ``managedFields`` of the new pod before admission, the only clock that its expressions have.
It is in force some milliseconds later; only a dry-run creation proves it (measured: the first probe
missed in 2 of 40), and only for the API server that answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from tenacity import stop_before_delay, wait_fixed, wait_random_exponential

from rescheduler.kube.answers import read_field
from rescheduler.kube.client import KubeApi
from rescheduler.kube.config_maps import read_config_map
from rescheduler.kube.errors import NotFoundError, NotServedError
from rescheduler.kube.retry import Retry
from rescheduler.model.controller_key import controller_keys
from rescheduler.model.names import (
    ANNOTATION_RESERVATION,
    DEFAULT_NAMESPACE,
    GATE,
    GATE_CONFIG_MAP,
    LABEL_GATE_PROBE,
)
from rescheduler.model.records import OwnerRef
from rescheduler.model.resources import OF_PROBES

UNGATED_NAMESPACES: Final = frozenset({"kube-system"})
"""Left out by the gate policy (``manifests/base/gate.yaml``)."""
POLICY_NAME: Final = "gate.rescheduler.dev"
KEYS_LAST_S: Final = 60.0
"""Gate keys end so long after the leader renewed them last: longer than a new leader takes to begin."""
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
PROOF: Final = Retry(
    wait=wait_fixed(0.02) + wait_random_exponential(multiplier=0.02, max=0.5), stop=stop_before_delay(2.0)
)
"""How often a proof is tried: a policy is in force some milliseconds after its parameter was written."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The gate of one installation; reads and proves, and changes nothing. All methods raise ApiError, TransportError."""

    api: KubeApi
    namespace: str = DEFAULT_NAMESPACE
    """The controller's own, where the ConfigMap is."""
    proof: Retry = PROOF
    known: Callable[[], Mapping[str, str] | None] = lambda: None
    """The stored keys as of the last reading or writing; None: they are read for each proof. Called on any thread."""

    def proves(self, owner: OwnerRef, namespace: str) -> bool:
        """True as soon as a dry-run pod of ``owner`` in ``namespace`` is held for the Reservation that its key names.

        That the keys are still stored is what the dry run shows: another content holds it for another Reservation, or not.

        Tried for two seconds; False afterwards: nothing may be evicted. The pod is created in the controller's own
        namespace, where it stands for one of ``namespace``, so that no right to create pods elsewhere is needed; the policy
        treats all namespaces alike but those in UNGATED_NAMESPACES.
        """
        if namespace in UNGATED_NAMESPACES:
            return False
        known = self.known()
        data = read_config_map(self.api, self.namespace, GATE_CONFIG_MAP).data if known is None else known
        reservation = next((data[k] for k in controller_keys(namespace, owner.uid) if k in data), None)
        if reservation is None:
            return False
        stands_for = {LABEL_GATE_PROBE: namespace}
        return self.proof.until_true(lambda: self.holds_for(owner, self.namespace, stands_for) == reservation)

    def installed(self) -> bool:
        """True if the policy and its binding exist, and follow these keys. Says nothing of their being in force: see ``proven``."""
        return self._followed() == self.namespace

    def of_another(self) -> str:
        """The namespace of the controller whose keys the policy follows, if that is another one; "": it is not."""
        followed = self._followed()
        return followed if followed != self.namespace else ""

    def _followed(self) -> str:
        """The namespace of the keys that the policy follows; "": there is no policy."""
        try:
            self.api.get(f"{_ADMISSION}/mutatingadmissionpolicies/{POLICY_NAME}")
            found = self.api.get(f"{_ADMISSION}/mutatingadmissionpolicybindings/{POLICY_NAME}")
        except (NotFoundError, NotServedError):
            return ""
        return read_field(found, "spec.paramRef.namespace", str, "") or self.namespace

    def holds_for(
        self, owner: OwnerRef, pod_namespace: str, labels: Mapping[str, str] = MappingProxyType({})
    ) -> str:
        """The Reservation that a pod of ``owner``, created in a dry run now, is held for; empty if it is not held."""
        probe = probe_pod(owner, pod_namespace, labels)
        body = self.api.create(f"/api/v1/namespaces/{pod_namespace}/pods", probe, dry_run=True)
        gates = read_field(body, "spec.schedulingGates", list[dict[str, str]], [])
        noted = read_field(body, "metadata.annotations", dict[str, str], {})
        return noted.get(ANNOTATION_RESERVATION, "") if {"name": GATE} in gates else ""


def probe_pod(owner: OwnerRef, namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """A pod like a replacement of ``owner``, valid under the restricted Pod Security profile; never stored."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "rescheduler-gate-probe-",
            "namespace": namespace,
            "labels": dict(labels),
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
                    "resources": OF_PROBES,
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }
