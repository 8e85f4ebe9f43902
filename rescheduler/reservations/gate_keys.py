"""Keys of the ConfigMap ``live`` that find pods without asking for their controller: by name, by one label (pure).

The gate policy (``manifests/base/gate.yaml``) looks up, for each new pod, the uid of its controller,
``object.NAMESPACE.NAME`` and ``label.KEY.VALUE`` of each of its labels (``/`` in a label's key is written ``__``):
a few look-ups whatever the number of Reservations. A key may find more pods than the owner matches; these are
released at once, for only the owner decides (``owners``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from rescheduler.model.reservation import ControllerRef, ObjectRef, ReservationOwner
from rescheduler.model.selectors import LabelSelector, Operator, Requirement

_LEGAL: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")


def keys_of_owner(owner: ReservationOwner) -> tuple[str, ...]:
    """What finds the owner's pods; () if only their controllers can (a controller is given, or nothing positive)."""
    if owner.controller is not None and owner.controller != ControllerRef():
        return ()
    if owner.object is not None and owner.object != ObjectRef():
        found = [f"object.{owner.object.namespace}.{owner.object.name}"] if owner.object.name else []
    else:
        found = _label_keys(owner.label_selector)
    return tuple(key for key in found if _LEGAL.fullmatch(key))


def keys_of_pod(namespace: str, name: str, labels: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The keys under which the gate looks for a pod, besides its controller's uid."""
    named = [f"object.{namespace}.{name}", f"object..{name}"] if name else []
    return (*named, *(_label_key(key, value) for key, value in labels))


def _label_keys(selector: LabelSelector | None) -> list[str]:
    """By the requirement with the fewest values: every pod that matches has one of them."""
    positive: list[Requirement] = [
        r for r in (selector.requirements if selector else ()) if r.operator is Operator.IN
    ]
    if not positive:
        return []
    best = min(positive, key=lambda r: (len(r.values), r.key))
    return [_label_key(best.key, value) for value in best.values]


def _label_key(key: str, value: str) -> str:
    return f"label.{key.replace('/', '__')}.{value}"
