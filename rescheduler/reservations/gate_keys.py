"""Keys of the ConfigMap ``gate-keys`` that find pods without a uid: by their controller's name, by their own, by one label (pure).

The gate policy (``manifests/base/gate.yaml``) looks up, for each new pod, the uid and ``named.NAMESPACE.KIND.NAME`` of its controller,
``object.NAMESPACE.NAME``, and ``label.NAMESPACE.KEY.VALUE`` and ``labelled.NAMESPACE.KEY`` of each of its labels (``/`` in
a label's key is written ``__``), each also with an empty namespace for owners that are confined to none: a few look-ups
whatever the number of Reservations, and no pod of a namespace that an owner does not mean. A key may find more pods than the owner matches; these are
released at once, for only the owner decides (``owners``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from rescheduler.model.bounds import LONGEST_NAME
from rescheduler.model.controller_key import named_key
from rescheduler.model.reservation import ControllerRef, ObjectRef, ReservationOwner
from rescheduler.model.selectors import LabelSelector, Operator

MOST_KEYS: Final = 64
"""Of one Reservation. All keys of a cluster share a store, and each new pod is looked up in it."""
_LEGAL: Final = re.compile(rf"[-._a-zA-Z0-9]{{1,{LONGEST_NAME}}}")


def keys_of_owner(owner: ReservationOwner) -> tuple[str, ...]:
    """What finds the owner's pods; () if only the uids of their controllers can.

    A controller of a kind and a name is found by these, for it may not exist yet, or make its pods by another one that does
    not exist yet (a ReplicaSet of the next rollout).
    """
    controller = owner.controller
    if controller is not None and controller != ControllerRef():
        home = home_of_owner(owner)
        if controller.uid or home is None or not (controller.kind and controller.name):
            return ()
        return legal_keys((named_key(home, controller.kind, controller.name),))
    thing = owner.object or ObjectRef()
    found = [f"object.{thing.namespace}.{thing.name}"] if thing.name else []
    return legal_keys(found or _label_keys(thing.namespace, owner.label_selector))


def home_of_owner(owner: ReservationOwner) -> str | None:
    """The namespace that confines an owner by controller, "" if none does; None if it names two, and so no pod.

    Admission is content if one of them is the author's: no key may be stored for the other one.
    """
    named = {ref.namespace for ref in (owner.object, owner.controller) if ref is not None and ref.namespace}
    return None if len(named) > 1 else next(iter(named), "")


def legal_keys(keys: Iterable[str]) -> tuple[str, ...]:
    """Those that a ConfigMap takes: one that it refuses would keep all others out of the same write."""
    return tuple(key for key in keys if _LEGAL.fullmatch(key))


def keys_needed(owners: Iterable[ReservationOwner]) -> int:
    """How many keys find the pods of these owners; an owner by controller counts as one."""
    return sum(max(1, len(keys_of_owner(owner))) for owner in owners)


def keys_of_pod(namespace: str, name: str, labels: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The keys under which the gate looks for a pod, besides its controller's uid."""
    scopes = (namespace, "")
    named = [f"object.{scope}.{name}" for scope in scopes] if name else []
    pairs = list(labels)
    by_label = [_label_key(scope, key, value) for scope in scopes for key, value in pairs]
    by_label += [_labelled_key(scope, key) for scope in scopes for key, _ in pairs]
    return (*named, *by_label)


def can_be_found(owner: ReservationOwner) -> bool:
    """False if nothing tells at its creation that a pod may be the owner's: no pod could be held for it."""
    by_controller = owner.controller is not None and owner.controller != ControllerRef()
    by_name = owner.object is not None and bool(owner.object.name)
    positive = owner.label_selector.requirements if owner.label_selector is not None else ()
    return by_controller or by_name or any(r.operator in (Operator.IN, Operator.EXISTS) for r in positive)


def _label_keys(namespace: str, selector: LabelSelector | None) -> list[str]:
    """By the requirement with the fewest values, else by a label of any value: every pod that matches has one of them."""
    requirements = selector.requirements if selector is not None else ()
    listed = [r for r in requirements if r.operator is Operator.IN]
    if listed:
        best = min(listed, key=lambda r: (len(r.values), r.key))
        return [_label_key(namespace, best.key, value) for value in best.values]
    return [_labelled_key(namespace, r.key) for r in requirements if r.operator is Operator.EXISTS][:1]


def _label_key(namespace: str, key: str, value: str) -> str:
    return f"label.{namespace}.{key.replace('/', '__')}.{value}"


def _labelled_key(namespace: str, key: str) -> str:
    return f"labelled.{namespace}.{key.replace('/', '__')}"
