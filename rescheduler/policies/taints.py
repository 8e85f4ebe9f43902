"""Whether tolerations tolerate a taint, as component-helpers' ``v1.Toleration.ToleratesTaint`` says. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rescheduler.model.records import Taint, Toleration


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """True if any toleration tolerates the taint; one with a limited time counts."""
    return any(_one(toleration, taint) for toleration in tolerations)


def _one(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key != taint.key and (toleration.key or toleration.operator != "Exists"):
        return False
    # Gt and Lt are behind an alpha gate that is off by default: they tolerate nothing.
    match toleration.operator:
        case "Exists":
            return True
        case "Equal" | "":
            return toleration.value == taint.value
        case _:
            return False
