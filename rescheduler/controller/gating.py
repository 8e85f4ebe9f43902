"""The gate as the reconciler and the executor see it, on top of ``kube.gate``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rescheduler.kube.gate import Gate, GateEntry
from rescheduler.model.records import OwnerRef

UNGATED_NAMESPACES: Final = frozenset({"kube-system"})
"""Left out by the gate policy (``manifests/base/gate.yaml``)."""


@dataclass(frozen=True, slots=True)
class LiveGate:
    """Switches keys of the ConfigMap ``live`` and proves that they are in force."""

    gate: Gate

    def entries(self) -> dict[str, str]:
        """Controller uid -> Reservation name, as stored. Raises ApiError, TransportError."""
        return self.gate.entries()

    def write(self, add: dict[str, str], remove: tuple[str, ...]) -> None:
        """Set and remove keys. Raises ApiError, TransportError."""
        for uid, reservation in add.items():
            self.gate.switch_on(GateEntry(uid, reservation))
        self.gate.switch_off(*remove)

    def proves(self, owner: OwnerRef, namespace: str) -> bool:
        """True if a pod of ``owner``, created in a dry run, is held for the Reservation that is stored.

        It is created in the controller's own namespace, so that no right to create pods elsewhere is needed;
        the policy covers all namespaces alike but those in UNGATED_NAMESPACES.
        """
        if namespace in UNGATED_NAMESPACES:
            return False
        reservation = self.gate.entries().get(owner.uid)
        if reservation is None:
            return False
        return self.gate.proven(GateEntry(owner.uid, reservation), owner, self.gate.namespace)


@dataclass(frozen=True, slots=True)
class RehearsedGate:
    """Dry run: shows what is stored, changes and proves nothing."""

    gate: Gate

    def entries(self) -> dict[str, str]:
        """What is stored."""
        return self.gate.entries()

    def write(self, add: dict[str, str], remove: tuple[str, ...]) -> None:
        """Nothing."""
