"""How the gate names the controller whose new pods are held: ``controller.NAMESPACE.UID``. Pure text.

The uid alone would be found by pods of every namespace, for anybody may write any uid into the ownerReferences of a pod.
Promises: a key finds pods of its own namespace only; one with an empty namespace, which stands for an owner that is confined
to none, finds those of all. The one exception is a probe in the controller's own namespace, where nobody else creates pods:
its label ``rescheduler.dev/gate-probe`` names the namespace that it stands for, so that the gate of any namespace can
be proven without a right to create pods there. ``manifests/base/gate.yaml`` and the webhook do the same.
"""

from __future__ import annotations

from typing import Final

CONTROLLER: Final = "controller."
"""How such keys begin."""


def controller_key(namespace: str, uid: str) -> str:
    """The key of one controller; ``namespace`` "": of whatever namespace."""
    return f"{CONTROLLER}{namespace}.{uid}"


def controller_keys(namespace: str, uid: str) -> tuple[str, ...]:
    """The keys under which the gate looks for a pod of that controller, its own namespace first."""
    return controller_key(namespace, uid), controller_key("", uid)
