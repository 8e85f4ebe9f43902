"""Mode StartFirst, step by step: the replacement runs and is Ready before the old pod is evicted.

Pure. Order: orphan of the owner's template, pinned to the target -> Ready for minReadySeconds -> gate on the
ReplicaSet, proven -> old pod evicted -> full labels on the orphan, which the ReplicaSet adopts in place of its
own gated, never bound pod -> gate off. Before the eviction every failure leaves the old pod as it was; the
orphan of a move that has ended is removed by ``start_first_strays``. A move that leaves its mode open reserves
first where the server does not let the replacement be created.
"""

from __future__ import annotations

from rescheduler.migrations import actions as act
from rescheduler.migrations.checks import (
    budgets_may_allow,
    budgets_single,
    mode_without_start_first,
    still_wanted,
)
from rescheduler.migrations.draft import Draft
from rescheduler.migrations.evicting import evicting
from rescheduler.migrations.landing import leave_hint
from rescheduler.migrations.lifecycle import CONDITION_START_FIRST, told
from rescheduler.migrations.lifecycle import MigrationReason as Why
from rescheduler.migrations.observed import ObservedSwap
from rescheduler.migrations.start_first_orphan import (
    labelled_fully,
    missing_labels,
    replaces,
)
from rescheduler.migrations.start_first_rules import min_ready_s, owner_lost, owner_moves
from rescheduler.model import names
from rescheduler.model.conditions import Condition
from rescheduler.model.migration import MigrationPhase, MoveMode
from rescheduler.model.records import OwnerRef, Pod, Workload
from rescheduler.model.reservation import ObjectRef
from rescheduler.planning.side_by_side import orphan_labels


def begin(draft: Draft) -> None:
    """Asked for, nothing done yet; mode, pod and target are known to be good."""
    observed, swap = draft.observed, draft.observed.swap
    if observed.migration.reservation_ref:
        draft.fail(
            Why.MODE_NOT_SUPPORTED,
            "mode StartFirst holds its room by the replacement itself: no reservationRef",
        )
    elif swap is None or _ended_by_owner(draft, swap) or not _budgets_agree(draft, swap):
        return
    elif waits_for := owner_moves(swap):
        draft.say(Why.OWNER_BUSY, waits_for)
    elif not observed.fits.ok:
        draft.say(Why.TARGET_UNSCHEDULABLE, f"node {observed.target}: {observed.fits.message}")
    else:
        draft.change(
            source_node=observed.pod.node if observed.pod else "",
            node_name=observed.target,
            started_at_s=draft.now_s,
        )
        draft.go(
            MigrationPhase.RESERVING,
            Why.STARTING,
            f"the replacement is being started on node {observed.target}",
        )
        _create(draft, swap)


def starting(draft: Draft) -> None:
    """The replacement is being started: wait until it is Ready for long enough."""
    swap = draft.observed.swap
    if swap is None or not still_wanted(draft) or _ended_by_owner(draft, swap):
        return
    orphan = swap.orphan
    if orphan is None and draft.status.replacement is None:
        _create_or_refused(draft, swap)
        return
    if not _orphan_alive(draft, swap) or orphan is None:
        return
    draft.change(replacement=ObjectRef(orphan.namespace, orphan.name, orphan.uid))
    if _target_stands(draft) and _ready_long_enough(draft, swap, orphan):
        draft.change(reserved_at_s=draft.now_s)
        draft.go(MigrationPhase.EVICTING, Why.CHECKING, f"{orphan.key} is Ready on node {orphan.node}")


def swapping(draft: Draft) -> None:
    """The replacement is Ready. Evict the old pod as soon as everything allows it."""
    evicting(draft, held=_may_swap)


def adopting(draft: Draft) -> None:
    """The old pod is going or gone: the ReplicaSet adopts the replacement and removes its own gated pod."""
    swap = draft.observed.swap
    if swap is None:
        return
    owner, orphan = swap.replica_set, swap.orphan
    leave_hint(draft, _reference(owner) if owner is not None else None)
    if orphan is not None and orphan.controller is not None and not orphan.deleting:
        _adopted(draft, swap, orphan)
    elif not _orphan_alive(draft, swap) or orphan is None:
        return
    elif owner is None or owner.deleting:
        draft.fail(Why.OWNER_CHANGED, "the ReplicaSet is gone; so goes the replacement")
    elif not labelled_fully(orphan, owner):
        draft.say(Why.ADOPTING, f"{orphan.key} is handed to ReplicaSet {owner.name}")
        draft.do(act.LabelReplacement(orphan.key, orphan.uid, missing_labels(orphan, owner)))
    elif draft.now_s >= _limit_s(draft):
        draft.fail(Why.REPLACEMENT_PENDING, f"ReplicaSet {owner.name} has not adopted {orphan.key}")
    else:
        draft.say(Why.ADOPTING, f"waiting for ReplicaSet {owner.name} to adopt {orphan.key}")
        draft.wake(_limit_s(draft))


def _adopted(draft: Draft, swap: ObservedSwap, orphan: Pod) -> None:
    owner = swap.replica_set
    if owner is not None and swap.owned > owner.replicas and draft.now_s < _limit_s(draft):
        draft.say(Why.ADOPTING, f"ReplicaSet {owner.name} removes its own replacement, which was never bound")
        draft.wake(_limit_s(draft))
        return
    draft.change(landed_at_s=draft.now_s)
    draft.go(
        MigrationPhase.SUCCEEDED,
        Why.LANDED,
        f"{orphan.key} was Ready on node {orphan.node} before the old pod ended",
    )


def _create(draft: Draft, swap: ObservedSwap) -> None:
    owner, pod = swap.replica_set, draft.observed.pod
    if owner is None or pod is None:
        return
    migration = draft.observed.migration
    draft.do(
        act.StartReplacement(
            migration=migration.key,
            owner=_reference(owner),
            namespace=owner.namespace,
            name=swap.orphan_name,
            node=draft.status.node_name,
            labels=_labels(owner, migration.uid),
            replaces=replaces(owner.uid, pod.uid),
        )
    )


def _create_or_refused(draft: Draft, swap: ObservedSwap) -> None:
    refused = draft.observed.calls.start_refused
    if not refused:
        _create(draft, swap)
        return
    words = f"the replacement cannot be created (see manifests/components/start-first): {refused}"
    if draft.observed.migration.mode is MoveMode.START_FIRST:
        draft.fail(Why.FORBIDDEN, words)
    elif not budgets_may_allow(draft):
        # A room would be of no use: only a replacement that runs already lets this budget allow the eviction.
        draft.fail(Why.FORBIDDEN, f"{words}; {draft.status.message}")
    else:
        _reserve_instead(draft, words)


def _reserve_instead(draft: Draft, words: str) -> None:
    said = Condition(CONDITION_START_FIRST, "False", Why.FORBIDDEN, words)
    draft.change(
        mode=mode_without_start_first(draft),
        reservation_name=draft.observed.reservation_name,
        conditions=told(draft.status.conditions, said, draft.now_s),
    )
    node = draft.status.node_name
    draft.go(
        MigrationPhase.RESERVING, Why.RESERVING, f"room is being reserved on node {node} instead: {words}"
    )


def _budgets_agree(draft: Draft, swap: ObservedSwap) -> bool:
    """A budget counts the replacement as healthy, so that even a closed one lets the old pod go.

    Not so with a ReplicaSet of its own: its replacement has no label that a budget selects until it is
    adopted, so the budget must allow the eviction by itself.
    """
    bare = swap.replica_set is not None and swap.replica_set.controller is None
    return budgets_may_allow(draft) if bare else budgets_single(draft)


def _ended_by_owner(draft: Draft, swap: ObservedSwap) -> bool:
    lost = owner_lost(swap)
    if lost:
        draft.fail(Why.OWNER_CHANGED, lost)
    return bool(lost)


def _orphan_alive(draft: Draft, swap: ObservedSwap) -> bool:
    """False, and the move ends, if the replacement is not there any more or not ours."""
    orphan, known, migration = swap.orphan, draft.status.replacement, draft.observed.migration
    if orphan is None or (known is not None and known.uid != orphan.uid):
        draft.fail(Why.REPLACEMENT_GONE, "the replacement is gone")
    elif orphan.labels.get(names.LABEL_START_FIRST) != migration.uid:
        draft.fail(Why.REPLACEMENT_GONE, f"another pod has the name {orphan.key}")
    elif orphan.deleting or orphan.terminal:
        draft.fail(Why.REPLACEMENT_GONE, f"the replacement {orphan.key} has ended by itself")
    elif orphan.controller is not None:
        draft.fail(
            Why.OWNER_CHANGED,
            f"{orphan.controller.kind} {orphan.controller.name} adopted {orphan.key} too early",
        )
    else:
        return True
    return False


def _target_stands(draft: Draft) -> bool:
    """False, and the move ends, if the node that it goes to is gone."""
    node = draft.observed.target_node
    if node is None or node.deleting:
        draft.fail(Why.TARGET_NOT_FOUND, f"node {draft.status.node_name} is gone")
        return False
    return True


def _up(draft: Draft, orphan: Pod) -> bool:
    """A dead node's pods say Ready for a while yet, so the node is asked as well."""
    node = draft.observed.target_node
    return bool(orphan.node) and orphan.ready and node is not None and node.ready


def _ready_long_enough(draft: Draft, swap: ObservedSwap, orphan: Pod) -> bool:
    """False with words while it is not. Ready's time has no fraction of a second, so one more is waited."""
    if not orphan.node:
        words = orphan.unschedulable_message or "waiting for the scheduler"
        draft.say(Why.STARTING, f"{orphan.key}: {words}")
    elif not _up(draft, orphan):
        draft.say(Why.REPLACEMENT_NOT_READY, f"{orphan.key} or its node {orphan.node} is not Ready yet")
    else:
        least_s = min_ready_s(swap)
        due_s = orphan.ready_since_s + least_s + 1.0 if least_s else 0.0
        if draft.now_s >= due_s:
            return True
        draft.say(Why.REPLACEMENT_NOT_READY, f"{orphan.key} must be Ready for {least_s} s")
        draft.wake(due_s)
    return False


def _may_swap(draft: Draft) -> bool:
    """Asked right before the eviction. False takes the intent, and with it the gate, back."""
    swap = draft.observed.swap
    if swap is None or _ended_by_owner(draft, swap) or not _orphan_alive(draft, swap):
        return False
    orphan, waits_for = swap.orphan, owner_moves(swap)
    if orphan is None or not _target_stands(draft):
        return False
    if not _up(draft, orphan):
        draft.change(eviction_requested_at_s=0.0)
        message = f"{orphan.key} or its node {orphan.node} is not Ready any more"
        draft.go(MigrationPhase.RESERVING, Why.REPLACEMENT_NOT_READY, message)
        return False
    if waits_for:
        draft.change(eviction_requested_at_s=0.0)
        draft.say(Why.OWNER_BUSY, waits_for)
        return False
    return True


def _labels(owner: Workload, migration_uid: str) -> tuple[tuple[str, str], ...]:
    labels = orphan_labels(owner.template_labels, migration_uid, alone=owner.controller is None)
    return tuple(sorted(labels.items()))


def _reference(owner: Workload) -> OwnerRef:
    return OwnerRef(owner.api_version, owner.kind, owner.name, owner.uid)


def _limit_s(draft: Draft) -> float:
    return draft.status.evicted_at_s + draft.settings.replacement_limit_s
