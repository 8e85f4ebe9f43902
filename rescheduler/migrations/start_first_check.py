"""Whether the replacement of mode StartFirst is what was asked for: as the API server has stored it, and as it is bound (pure).

Admission of others changes pods when they are created, a resize later. What all pods of the workload get is as asked: the
replacement is compared with the template, with the pod that it takes the place of, and with a dry-run creation where one is
known. What is worse than in all of them ends the move before anybody is evicted: less resources, another node, scheduler
or priority, a rule that keeps it off its node, an end. A finalizer passes: nobody waits for the end of this pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rescheduler.model.records import Node, Pod, PodSpec
from rescheduler.reservations.differences import (
    SPEC,
    Difference,
    held_by,
    of_amount,
    taint_of,
    words_of,
)
from rescheduler.reservations.placeholder import pinned_nodes
from rescheduler.scheduling.node_affinity import selects


class AskedSurgePod(NamedTuple):
    """What a replacement is compared with."""

    specs: tuple[PodSpec, ...]
    """Each of them is good enough."""
    priority: int
    """That of the pod that it takes the place of."""
    node: str
    """Where it is to run."""
    node_record: Node | None


def unlike_asked(replacement: Pod, asked: AskedSurgePod) -> str:
    """What makes the replacement less than the pod that it takes the place of; "": nothing does."""
    found = list(_differences(replacement, asked))
    if not found:
        return ""
    return (
        f"the replacement {replacement.key} is not as asked: {words_of(found, replacement.writers)}; "
        "let what changes new pods treat it as the other pods of its workload"
    )


def _differences(replacement: Pod, asked: AskedSurgePod) -> Iterator[Difference]:
    yield from _amounts(replacement, asked.specs)
    yield from _place(replacement, asked)
    stored = replacement.spec
    schedulers = [spec.scheduler_name for spec in asked.specs]
    if stored.scheduler_name not in schedulers:
        yield Difference(
            "spec.schedulerName", schedulers[0], stored.scheduler_name, (SPEC, "f:schedulerName")
        )
    classes = [spec.priority_class for spec in asked.specs]
    if stored.priority < asked.priority and stored.priority_class not in classes:
        path = (SPEC, "f:priorityClassName")
        yield Difference("spec.priority", str(asked.priority), str(stored.priority), path)
    deadlines = [spec.deadline_s for spec in asked.specs]
    if stored.deadline_s is not None and stored.deadline_s not in deadlines:
        path = (SPEC, "f:activeDeadlineSeconds")
        yield Difference("spec.activeDeadlineSeconds", "none", f"{stored.deadline_s} s", path)


def _amounts(replacement: Pod, specs: Iterable[PodSpec]) -> Iterator[Difference]:
    wanted = [spec.requests for spec in specs]
    stored, path = replacement.spec.requests, (SPEC, "f:containers")
    held = held_by(replacement)
    for name in sorted({name for amounts in wanted for name, _ in amounts.items()}):
        want = min(amounts.amount(name) for amounts in wanted)
        yield from of_amount(name, want, stored.amount(name), held.amount(name), path)


def _place(replacement: Pod, asked: AskedSurgePod) -> Iterator[Difference]:
    pins, path = pinned_nodes(replacement), (SPEC, "f:affinity")
    if replacement.node:  # its scheduler has judged the rest
        if replacement.node != asked.node:
            yield Difference("spec.nodeName", asked.node, replacement.node, (SPEC, "f:nodeName"))
        return
    if pins != {asked.node}:
        stored = ", ".join(sorted(pins)) or "no node"
        yield Difference("spec.affinity.nodeAffinity", f"node/{asked.node}", stored, path)
        return
    node = asked.node_record
    if (
        node is not None
        and not _selected(replacement.spec, node)
        and all(_selected(s, node) for s in asked.specs)
    ):
        stored = ", ".join(f"{key}={value}" for key, value in replacement.spec.node_selector)
        words = f"what node/{node.name} matches"
        yield Difference("spec.nodeSelector", words, stored, (SPEC, "f:nodeSelector"))
    shared = set.intersection(*({*spec.tolerations} for spec in asked.specs))
    missing = shared - {*replacement.spec.tolerations}
    if missing:
        words = ", ".join(sorted(map(taint_of, missing)))
        yield Difference("spec.tolerations", words, "none of these", (SPEC, "f:tolerations"))


def _selected(spec: PodSpec, node: Node) -> bool:
    """By its nodeSelector alone: the affinity of an earlier replacement names the node of an earlier move."""
    return selects(PodSpec(node_selector=spec.node_selector), node)
