"""How the gate names the controller whose new pods are held: ``controller.NAMESPACE.UID``, or by its name. Pure text.

``named.NAMESPACE.KIND.NAME`` finds the pods of a controller that may not exist yet.

The uid alone would be found by pods of every namespace, for anybody may write any uid into the ownerReferences of a pod.
Promises: a key finds pods of its own namespace only; one with an empty namespace, which stands for an owner that is confined
to none, finds those of all. The one exception is a probe in the controller's own namespace, where nobody else creates pods:
its label ``rescheduler.dev/gate-probe`` names the namespace that it stands for, so that the gate of any namespace can
be proven without a right to create pods there. ``manifests/base/gate.yaml`` and the webhook do the same.
"""

from __future__ import annotations

from typing import Final, NamedTuple

CONTROLLER: Final = "controller."
NAMED: Final = "named."
"""How such keys begin."""
TEMPLATE_HASH: Final = "pod-template-hash"
"""The label by which a Deployment tells its ReplicaSets and their pods apart."""


class NamedController(NamedTuple):
    """A controller of which only this is known."""

    kind: str
    name: str


def controller_key(namespace: str, uid: str) -> str:
    """The key of one controller; ``namespace`` "": of whatever namespace."""
    return f"{CONTROLLER}{namespace}.{uid}"


def controller_keys(namespace: str, uid: str) -> tuple[str, ...]:
    """The keys under which the gate looks for a pod of that controller, its own namespace first."""
    return controller_key(namespace, uid), controller_key("", uid)


def named_key(namespace: str, kind: str, name: str) -> str:
    """The key of a controller that may not exist yet; ``namespace`` "": of whatever namespace."""
    return f"{NAMED}{namespace}.{kind}.{name}"


def named_controllers(kind: str, name: str, template_hash: str) -> tuple[NamedController, ...]:
    """A pod's controller, and the one above it as far as its name tells: that is known before the controller is seen.

    A Deployment calls its ReplicaSets NAME-HASH (``template_hash``: the pod's label), a CronJob its Jobs NAME-TIME.
    """
    own = NamedController(kind, name)
    if kind == "ReplicaSet" and template_hash and name.endswith(f"-{template_hash}"):
        return own, NamedController("Deployment", name.removesuffix(f"-{template_hash}"))
    if kind == "Job" and name.rfind("-") > 0:
        return own, NamedController("CronJob", name[: name.rfind("-")])
    return (own,)
