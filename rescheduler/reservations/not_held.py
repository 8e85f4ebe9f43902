"""What a placeholder does not hold of what a template asks for, told to people in condition HeldCompletely (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from rescheduler.model.pod_volumes import VolumeKind
from rescheduler.model.records import PodSpec
from rescheduler.model.reservation import Reservation
from rescheduler.model.resources import milli, units

Json = dict[str, Any]

_WHOLE_CPU: Final = 1000


def not_held(reservation: Reservation, unbound_claims: Iterable[str]) -> str:
    """For people; "" if all of it is held. ``unbound_claims``: claims of the template that have no volume yet."""
    template = reservation.template
    if template is None:
        return ""
    parts = list(_of_volumes(template, sorted(unbound_claims)))
    if template.spread or template.pod_affinity or template.pod_anti_affinity:
        parts.append("spread and pod affinity were judged when the node was chosen and are not kept true")
    what = [
        *(
            ["huge pages"]
            if any(name.startswith("hugepages-") for name, _ in template.requests.scalars)
            else ()
        ),
        *(["exclusive CPUs"] if asks_for_own_cpus(reservation.template_raw) else ()),
    ]
    if what:
        parts.append(
            f"which NUMA node serves {' and '.join(what)} is decided by the kubelet when the owner comes"
        )
    if not reservation.allocate_once:
        parts.append("one of the node's pod slots is held, not one for each owner")
    return "; ".join(parts)


def asks_for_own_cpus(template: bytes) -> bool:
    """True if a kubelet with the static CPU manager gives a container CPUs of its own.

    That is a container of a Guaranteed pod (limits for CPU and memory, requests equal to them) with whole CPUs.
    """
    spec = msgspec.json.decode(template).get("spec") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    whole = [c for c in containers if _guaranteed(c) and milli(_limits(c)["cpu"]) % _WHOLE_CPU == 0]
    return bool(whole) and (_guaranteed(spec) or all(map(_guaranteed, containers)))


def _guaranteed(holder: Json) -> bool:
    """``holder``: a container, or a spec with resources of the whole pod."""
    limits = _limits(holder)
    requests = {**limits, **((holder.get("resources") or {}).get("requests") or {})}
    return (
        "cpu" in limits
        and "memory" in limits
        and milli(limits["cpu"]) == milli(requests["cpu"]) > 0
        and units(limits["memory"]) == units(requests["memory"]) > 0
    )


def _limits(holder: Json) -> Json:
    return (holder.get("resources") or {}).get("limits") or {}


def _of_volumes(template: PodSpec, unbound: list[str]) -> Iterable[str]:
    kinds = {volume.kind for volume in template.volumes}
    if kinds & {VolumeKind.CLAIM, VolumeKind.EPHEMERAL}:
        yield "volumes are attached only when the owner comes: attach limits are not held"
    if unbound:
        yield (
            f"claim {', '.join(unbound)} has no volume yet: one was to be had on this node, and is bound or made "
            "only when the owner comes"
        )
    if VolumeKind.EPHEMERAL in kinds:
        yield "ephemeral volumes are made only when the owner comes: where that is possible was not judged"
