"""Replacements of mode StartFirst whose move has ended or vanished: adopt them or remove them. Pure.

Level-triggered, so that neither a crash nor a deleted PodMigration leaves anything behind. If the old pod is gone and its
ReplicaSet lacks a pod, the replacement, which is Ready already, is better than a new pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rescheduler.calls.call import AnyCall
from rescheduler.calls.pods import label_replacement, remove_replacement
from rescheduler.migrations.lifecycle import FINISHED
from rescheduler.migrations.start_first_replacement import (
    is_unadopted,
    labelled_fully,
    missing_labels,
    replaced_by,
    replica_set_of,
)
from rescheduler.model import names
from rescheduler.model.migration import PodMigration
from rescheduler.model.records import ObjectKey, Pod, Workload

PodsOf = Callable[[str], Iterable[Pod]]
"""Pods of a controller by its uid."""


def orphan_calls(
    orphans: Iterable[Pod],
    migrations: Mapping[ObjectKey, PodMigration],
    workloads: Mapping[str, Workload],
    pods_of: PodsOf,
) -> tuple[tuple[Pod, AnyCall], ...]:
    """The call for each replacement that no live move refers to; no call for the others."""
    alone = [pod for pod in orphans if is_unadopted(pod) and not pod.deleting]
    if not alone:
        return ()
    live = {
        (m.namespace, m.uid) for m in migrations.values() if m.status.phase not in FINISHED and not m.deleting
    }
    result: list[tuple[Pod, AnyCall]] = []
    for replacement in alone:
        if (replacement.namespace, replacement.labels.get(names.LABEL_START_FIRST)) in live:
            continue
        call = _fate(replacement, workloads, pods_of)
        if call is not None:
            result.append((replacement, call))
    return tuple(result)


def _fate(replacement: Pod, workloads: Mapping[str, Workload], pods_of: PodsOf) -> AnyCall | None:
    old_uid = replaced_by(replacement)[1]
    owner = replica_set_of(replacement, workloads)
    if owner is None or owner.deleting or replacement.terminal:
        return remove_replacement(replacement)
    if labelled_fully(replacement, owner):
        return None  # its ReplicaSet adopts it
    # Adopted only if the ReplicaSet lacks a pod that runs; it then deletes its own gated one. Otherwise it would delete a
    # pod that runs.
    alive = [p for p in pods_of(owner.uid) if not p.deleting and not p.terminal]
    running = [p for p in alive if names.GATE not in p.spec.gates]
    replaced = all(p.uid != old_uid for p in alive)
    if replacement.ready and replaced and len(running) < owner.replicas:
        return label_replacement(replacement, missing_labels(replacement, owner))
    return remove_replacement(replacement)
