"""Whether a placeholder is what was asked for: as the API server has stored it, and as it is bound (pure).

Admission of others (webhooks, policies, a LimitRange) may change each pod that is created, and a resize or a patch each pod that runs.
``unlike_asked`` compares the parts that carry the promise of a Reservation. It answers with words for the condition Ready
if the placeholder holds less than was asked, stands or may stand elsewhere, keeps to other rules, can be preempted earlier,
or cannot be removed. What does none of this passes: more labels, annotations, a token, a larger request that still fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from rescheduler.model import names
from rescheduler.model.never_moves import foreign_gates
from rescheduler.model.pod_volumes import VolumeKind
from rescheduler.model.records import Node, ObjectKey, Pod, PodSpec, PriorityClass, Toleration
from rescheduler.model.reservation import Reservation
from rescheduler.replacements.templates import ADDED_TOLERATIONS
from rescheduler.reservations.differences import (
    METADATA,
    SPEC,
    Difference,
    held_by,
    not_as_asked,
    of_amount,
    taint_of,
)
from rescheduler.reservations.observed_reservation import soft_mode
from rescheduler.reservations.placeholder import (
    hand_over_tolerated,
    label_value,
    pinned_nodes,
    requests_of_part,
)
from rescheduler.scheduling.node_affinity import selects

PREEMPTED: Final = "PreemptionByScheduler"
"""Reason of the condition DisruptionTarget of a pod that kube-scheduler deletes for another one."""
_HARMLESS_VOLUMES: Final = frozenset({VolumeKind.EMPTY_DIR, VolumeKind.HOST_PATH})


class Surroundings(NamedTuple):
    """What a placeholder is compared with besides its Reservation."""

    node: Node | None
    """The one that it is pinned to."""
    priority_class: PriorityClass | None
    """The one that was asked for; None: it cannot be seen."""


def unlike_asked(reservation: Reservation, holder: Pod, around: Surroundings) -> str:
    """What makes the placeholder hold less than was asked, or otherwise; "": nothing does."""
    return _words(holder, differences(reservation, holder, around))


def unremovable(holders: Iterable[Pod]) -> str:
    """Why one of these placeholders is not gone when it is deleted: another program must take its finalizer off first; "": it is."""
    return next(filter(None, (_words(pod, _finalizers(pod)) for pod in holders)), "")


def how_lost(holders: Iterable[Pod], pods: Mapping[ObjectKey, Pod]) -> str:
    """What became of the first of these placeholders that holds nothing any more: the end of a sentence. ``pods``: all of the cluster.

    kube-scheduler nominates a pod before it deletes those that it preempts; one that is bound by now is younger than the room.
    """
    lost = next((pod for pod in holders if pod.deleting or pod.terminal), None)
    if lost is None:
        return "is gone"
    if lost.disruption_reason != PREEMPTED:
        why = f" ({lost.disruption_reason})" if lost.disruption_reason else ""
        return f"has failed{why}" if lost.terminal else f"was deleted{why}"
    above = [pod for pod in pods.values() if pod.spec.priority > lost.spec.priority and not pod.terminal]
    nominated = [pod for pod in above if not pod.node and pod.nominated_node == lost.node]
    younger = [pod for pod in above if pod.node == lost.node and pod.created_at_s >= lost.created_at_s]
    found = max(nominated or younger, key=lambda pod: (pod.spec.priority, pod.key), default=None)
    who = f"pod {found.key}, whose priority is {found.spec.priority}" if found else "a pod of higher priority"
    return f"was preempted by {who}"


def differences(reservation: Reservation, holder: Pod, around: Surroundings) -> Iterator[Difference]:
    """All parts that are not as asked and matter."""
    yield from _finalizers(holder)
    yield from _identity(reservation, holder)
    yield from _amounts(reservation, holder)
    yield from _place(reservation, holder, around.node)
    yield from _scheduling(reservation, holder)
    yield from _priority(reservation, holder, around.priority_class)


def _words(holder: Pod, found: Iterable[Difference]) -> str:
    label = names.LABEL_PLACEHOLDER
    remedy = f"leave pods of namespace {holder.namespace} with label {label} out of what changes them"
    return not_as_asked(f"placeholder {holder.key}", found, holder.writers, remedy)


def _finalizers(holder: Pod) -> Iterator[Difference]:
    foreign = [one for one in holder.finalizers if one not in names.OF_GARBAGE_COLLECTION]
    if foreign:
        yield Difference("metadata.finalizers", "none", ", ".join(foreign), (METADATA, "f:finalizers"))


def _identity(reservation: Reservation, holder: Pod) -> Iterator[Difference]:
    controller, path = holder.controller, (METADATA, "f:ownerReferences")
    if controller is None or controller.uid != reservation.uid:
        stored = "none" if controller is None else f"{controller.kind} {controller.name}"
        yield Difference("metadata.ownerReferences", f"Reservation {reservation.name}", stored, path)
    label, asked = holder.labels.get(names.LABEL_PLACEHOLDER), label_value(reservation.name)
    if label != asked:
        path = (METADATA, "f:labels")
        yield Difference(f"label {names.LABEL_PLACEHOLDER}", asked, label or "absent", path)


def _amounts(reservation: Reservation, holder: Pod) -> Iterator[Difference]:
    asked = requests_of_part(reservation, holder)
    if asked is None:
        return
    exact = not reservation.allocate_once  # what is left of a room that is split is read off its placeholders
    path = (SPEC, "f:containers")
    stored = holder.spec.requests
    wanted = {name for name, _ in asked.items()} | ({name for name, _ in stored.items()} if exact else set())
    for name in sorted(wanted):
        want, have = asked.amount(name), stored.amount(name)
        yield from of_amount(name, want, have, held_by(holder).amount(name), path, exact=exact)
    ports = (reservation.template or PodSpec()).host_ports
    missing = [port for port in ports if port not in holder.spec.host_ports]
    if missing:
        listed = ", ".join(f"{port.protocol} {port.port}" for port in missing)
        yield Difference("host ports", listed, "none of these", path)


def _place(reservation: Reservation, holder: Pod, node: Node | None) -> Iterator[Difference]:
    path = (SPEC, "f:affinity")
    pins = pinned_nodes(holder)
    asked = reservation.template_node
    if len(pins) != 1 or (asked and pins != {asked}):
        stored = ", ".join(sorted(pins)) or "no node"
        yield Difference("spec.affinity.nodeAffinity", f"node/{asked}" if asked else "one node", stored, path)
        return
    pin = next(iter(pins))
    if holder.node and holder.node != pin:
        yield Difference("spec.nodeName", pin, holder.node, (SPEC, "f:nodeName"))
    if holder.node or node is None:
        return  # its scheduler has judged it
    wanted = reservation.template or PodSpec()
    if selects(wanted, node) and not selects(holder.spec, node):
        selector = holder.spec.node_selector
        differs = selector != wanted.node_selector
        field = "spec.nodeSelector" if differs else "spec.affinity.nodeAffinity"
        stored = (
            ", ".join(f"{key}={value}" for key, value in selector)
            if differs
            else "terms that do not match it"
        )
        words = (
            ", ".join(f"{key}={value}" for key, value in wanted.node_selector) or f"what node/{pin} matches"
        )
        yield Difference(field, words, stored, (SPEC, "f:nodeSelector") if differs else path)


def _scheduling(reservation: Reservation, holder: Pod) -> Iterator[Difference]:
    asked, stored = reservation.template or PodSpec(), holder.spec
    if stored.scheduler_name != asked.scheduler_name:
        path = (SPEC, "f:schedulerName")
        yield Difference("spec.schedulerName", asked.scheduler_name, stored.scheduler_name, path)
    yield from _tolerations(asked, holder)
    rules = (
        ("spec.affinity.podAffinity", stored.pod_affinity, "f:affinity"),
        ("spec.affinity.podAntiAffinity", stored.pod_anti_affinity, "f:affinity"),
        (
            "spec.topologySpreadConstraints",
            [c for c in stored.spread if c.hard],
            "f:topologySpreadConstraints",
        ),
        ("spec.resourceClaims", stored.resource_claims, "f:resourceClaims"),
        ("spec.schedulingGroup", stored.scheduling_group, "f:schedulingGroup"),
        ("spec.volumes", [v for v in stored.volumes if v.kind not in _HARMLESS_VOLUMES], "f:volumes"),
    )
    for field, added, key in rules:
        if added:
            yield Difference(field, "none", "a rule that may keep it off its node", (SPEC, key))
    if stored.deadline_s is not None:
        path = (SPEC, "f:activeDeadlineSeconds")
        yield Difference("spec.activeDeadlineSeconds", "none", f"{stored.deadline_s} s", path)


def _tolerations(asked: PodSpec, holder: Pod) -> Iterator[Difference]:
    wanted, stored = set(asked.tolerations), set(holder.spec.tolerations)
    path = (SPEC, "f:tolerations")
    extended = {name for name, amount in asked.requests.scalars if amount}
    added = [t for t in stored - wanted if not _harmless(t, extended) and not hand_over_tolerated(t)]
    missing = wanted - stored
    if added:
        yield Difference("spec.tolerations", "no further one", ", ".join(sorted(map(taint_of, added))), path)
    if missing:
        yield Difference("spec.tolerations", ", ".join(sorted(map(taint_of, missing))), "none of these", path)


def _harmless(toleration: Toleration, extended: set[str]) -> bool:
    return (toleration.key, toleration.effect) in ADDED_TOLERATIONS or toleration.key in extended


def _priority(reservation: Reservation, holder: Pod, known: PriorityClass | None) -> Iterator[Difference]:
    soft, stored = soft_mode(reservation), holder.spec
    asked = names.PRIORITY_CLASS_SOFT if soft else names.PRIORITY_CLASS
    if stored.priority_class != asked:
        path = (SPEC, "f:priorityClassName")
        yield Difference("spec.priorityClassName", asked, stored.priority_class or "none", path)
    elif known is not None and (stored.priority > known.value if soft else stored.priority < known.value):
        yield Difference("spec.priority", str(known.value), str(stored.priority), (SPEC, "f:priority"))
    if stored.preempts:
        path = (SPEC, "f:preemptionPolicy")
        yield Difference("spec.preemptionPolicy", "Never", "PreemptLowerPriority", path)


def held_by_others(holder: Pod) -> str:
    """For people, if another program has put a scheduling gate on the placeholder; "" if none has."""
    gates = [gate for gate in foreign_gates(holder.spec.gates) if gate != names.GATE_ROOM]
    if not gates:
        return ""
    return (
        f"another program keeps its placeholder {holder.key} from being scheduled by the scheduling gate {', '.join(gates)}: "
        f"it must leave out namespace {holder.namespace}"
    )
