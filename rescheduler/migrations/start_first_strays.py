"""Replacements of mode StartFirst whose move has ended or vanished: adopt them or remove them. Pure.

Level-triggered, so a crash at any point and a PodMigration that somebody deletes leave nothing behind. Where
the old pod is gone and its ReplicaSet lacks a pod, the replacement is worth more than a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rescheduler.migrations import actions as act
from rescheduler.migrations.lifecycle import FINISHED
from rescheduler.migrations.start_first_orphan import (
    is_orphan,
    labelled_fully,
    missing_labels,
    replaced_by,
)
from rescheduler.model import names
from rescheduler.model.migration import PodMigration
from rescheduler.model.records import ObjectKey, Pod, Workload

PodsOf = Callable[[str], Iterable[Pod]]
"""Pods of a controller by its uid."""


def stray_actions(
    orphans: Iterable[Pod],
    migrations: Mapping[ObjectKey, PodMigration],
    workloads: Mapping[str, Workload],
    pods_of: PodsOf,
) -> tuple[tuple[Pod, act.MigrationAction], ...]:
    """What to do with each replacement that no live move cares for; nothing for the others."""
    live = {m.uid for m in migrations.values() if m.status.phase not in FINISHED and not m.deleting}
    result: list[tuple[Pod, act.MigrationAction]] = []
    for orphan in orphans:
        if not is_orphan(orphan) or orphan.deleting or orphan.labels.get(names.LABEL_START_FIRST) in live:
            continue
        action = _fate(orphan, workloads, pods_of)
        if action is not None:
            result.append((orphan, action))
    return tuple(result)


def _fate(orphan: Pod, workloads: Mapping[str, Workload], pods_of: PodsOf) -> act.MigrationAction | None:
    controller_uid, old_uid = replaced_by(orphan)
    owner = workloads.get(controller_uid)
    if owner is None or owner.deleting or orphan.terminal:
        return act.RemoveReplacement(orphan.key, orphan.uid)
    if labelled_fully(orphan, owner):
        return None  # its ReplicaSet adopts it
    alive = [p for p in pods_of(owner.uid) if not p.deleting and not p.terminal]
    running = [p for p in alive if names.GATE not in p.spec.gates]
    replaced = all(p.uid != old_uid for p in alive)
    if orphan.ready and replaced and len(running) < owner.replicas:
        return act.LabelReplacement(orphan.key, orphan.uid, missing_labels(orphan, owner))
    return act.RemoveReplacement(orphan.key, orphan.uid)
