"""Mode StartFirst, step by step: the replacement runs and is Ready before the old pod is evicted.

Pure. Order: the replacement is created from the owner's template, pinned to the target -> it is Ready for
minReadySeconds -> the gate for the ReplicaSet is proven -> the old pod is evicted -> the replacement gets all labels, and
the ReplicaSet adopts it and deletes its own pod, which was gated and never bound -> the gate key is removed. If anything
fails before the eviction, or admission of others made less of the replacement than was asked, the old pod is left as it was; ``start_first_orphans`` deletes the replacement of a move that
has ended. If the API server refuses to create the replacement, a move that leaves its mode open reserves first instead.
"""

from __future__ import annotations

from rescheduler.calls.pods import label_replacement
from rescheduler.migrations.checks import (
    budgets_may_allow,
    budgets_single,
    mode_without_start_first,
    nobody_waits,
    still_wanted,
    within_limits,
)
from rescheduler.migrations.creations import start_replacement
from rescheduler.migrations.draft import Draft
from rescheduler.migrations.evicting import evicting
from rescheduler.migrations.landing import leave_hint
from rescheduler.migrations.migration_lifecycle import CONDITION_START_FIRST
from rescheduler.migrations.migration_lifecycle import MigrationReason as Why
from rescheduler.migrations.observed_migration import ObservedStartFirst
from rescheduler.migrations.start_first_replacement import (
    AskedSurgePod,
    labelled_fully,
    missing_labels,
    replaces,
    unlike_asked,
)
from rescheduler.model import names
from rescheduler.model.counted import plural
from rescheduler.model.migration import MigrationPhase, MoveMode
from rescheduler.model.own_objects import Condition, told
from rescheduler.model.records import ObjectKey, OwnerRef, Pod, Workload
from rescheduler.model.reservation import ObjectRef
from rescheduler.planning.start_first_mode import replacement_labels
from rescheduler.replacements.templates import ReplacementSource


def begin(draft: Draft) -> None:
    """The first step: mode, pod and target were checked, and nothing was written yet."""
    observed, seen = draft.observed, draft.observed.start_first
    if observed.migration.reservation_ref:
        draft.fail(
            Why.MODE_NOT_SUPPORTED,
            "mode StartFirst cannot use a Reservation: remove reservationRef, or choose another mode",
        )
    elif seen is None or _ended_by_owner(draft, seen) or not _budgets_agree(draft, seen):
        return
    elif waits_for := owner_moves(seen):
        draft.say(Why.OWNER_BUSY, waits_for)
    elif not observed.fits.ok:
        draft.say(Why.TARGET_UNSCHEDULABLE, f"node/{observed.target}: {observed.fits.message}")
    elif not nobody_waits(draft):
        return
    elif within_limits(draft):
        draft.change(
            source_node=observed.pod.node if observed.pod else "",
            node_name=observed.target,
            started_at_s=draft.now_s,
        )
        draft.go(
            MigrationPhase.RESERVING,
            Why.STARTING,
            f"the replacement is being started on node/{observed.target}",
        )
        _create(draft, seen)


def starting(draft: Draft) -> None:
    """The replacement is being started: wait until it has been Ready for long enough."""
    seen = draft.observed.start_first
    if seen is None or not still_wanted(draft) or _ended_by_owner(draft, seen):
        return
    replacement = seen.replacement
    # Without a recorded uid it was never seen, so creating it (again) is safe: its name is deterministic.
    if replacement is None and draft.status.replacement is None:
        _create_or_refused(draft, seen)
        return
    if not _replacement_alive(draft, seen) or replacement is None:
        return
    draft.change(replacement=ObjectRef(replacement.namespace, replacement.name, replacement.uid))
    if not _as_asked(draft, seen, replacement):
        return
    if _target_stands(draft) and _ready_long_enough(draft, seen, replacement):
        draft.change(reserved_at_s=draft.now_s)
        draft.go(
            MigrationPhase.EVICTING, Why.CHECKING, f"{replacement.key} is Ready on node/{replacement.node}"
        )


def evicting_the_old_pod(draft: Draft) -> None:
    """The replacement is Ready. Evict the old pod as soon as everything allows it."""
    evicting(draft, held=_may_evict)


def adopting(draft: Draft) -> None:
    """The old pod is terminating or gone: the ReplicaSet adopts the replacement and deletes its own gated pod."""
    seen = draft.observed.start_first
    if seen is None:
        return
    owner, replacement = seen.replica_set, seen.replacement
    leave_hint(draft, _reference(owner) if owner is not None else None)
    if replacement is not None and replacement.controller is not None and not replacement.deleting:
        _adopted(draft, seen, replacement)
    elif not _replacement_alive(draft, seen) or replacement is None:
        return
    elif owner is None or owner.deleting:
        draft.fail(Why.OWNER_CHANGED, "the ReplicaSet is gone, so the replacement is deleted")
    elif not labelled_fully(replacement, owner):
        draft.say(
            Why.ADOPTING, f"{replacement.key} gets the labels by which ReplicaSet {owner.name} adopts it"
        )
        draft.do(label_replacement(replacement, missing_labels(replacement, owner)))
    elif draft.now_s >= _limit_s(draft):
        draft.fail(Why.REPLACEMENT_PENDING, f"ReplicaSet {owner.name} has not adopted {replacement.key}")
    else:
        draft.say(Why.ADOPTING, f"waiting for ReplicaSet {owner.name} to adopt {replacement.key}")
        draft.wake(_limit_s(draft))


def _adopted(draft: Draft, seen: ObservedStartFirst, replacement: Pod) -> None:
    owner = seen.replica_set
    # The ReplicaSet has one pod too many until it deletes its gated one; the gate must stay until then.
    if owner is not None and seen.owned > owner.replicas and draft.now_s < _limit_s(draft):
        draft.say(
            Why.ADOPTING,
            f"waiting for ReplicaSet {owner.name} to delete its own gated pod, which was never bound",
        )
        draft.wake(_limit_s(draft))
        return
    draft.change(landed_at_s=draft.now_s)
    draft.go(
        MigrationPhase.SUCCEEDED,
        Why.LANDED,
        f"{replacement.key} was Ready on node/{replacement.node} before the old pod ended",
    )


def _create(draft: Draft, seen: ObservedStartFirst) -> None:
    owner, pod = seen.replica_set, draft.observed.pod
    if owner is None or pod is None:
        return
    migration = draft.observed.migration
    draft.do(
        start_replacement(
            ObjectKey(owner.namespace, seen.replacement_name),
            _reference(owner),
            migration.key,
            node=draft.status.node_name,
            labels=_labels(owner, migration.uid),
            replaces=replaces(owner.uid, pod.uid),
        )
    )


def _create_or_refused(draft: Draft, seen: ObservedStartFirst) -> None:
    refused = draft.observed.calls.start_refused
    if not refused:
        _create(draft, seen)
        return
    words = f"the replacement cannot be created (see manifests/components/start-first): {refused}"
    if draft.observed.migration.mode is MoveMode.START_FIRST:
        draft.fail(Why.FORBIDDEN, words)
    elif not budgets_may_allow(draft):
        # Reserving first would not help: this budget allows the eviction only while the replacement is Ready already.
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
        MigrationPhase.RESERVING, Why.RESERVING, f"room is being reserved on node/{node} instead: {words}"
    )


def _budgets_agree(draft: Draft, seen: ObservedStartFirst) -> bool:
    """A budget counts the replacement as healthy, so that even a budget without disruptions left allows the eviction.

    A ReplicaSet without a Deployment is different: until it is adopted, its replacement has no label that the budget
    selects, so the budget must allow the eviction without it.
    """
    bare = seen.replica_set is not None and seen.replica_set.controller is None
    return budgets_may_allow(draft) if bare else budgets_single(draft)


def _ended_by_owner(draft: Draft, seen: ObservedStartFirst) -> bool:
    lost = owner_lost(seen)
    if lost:
        draft.fail(Why.OWNER_CHANGED, lost)
    return bool(lost)


def _replacement_alive(draft: Draft, seen: ObservedStartFirst) -> bool:
    """False, and the move ends, if the replacement is gone or belongs to another controller."""
    replacement, known, migration = seen.replacement, draft.status.replacement, draft.observed.migration
    if replacement is None or (known is not None and known.uid != replacement.uid):
        draft.fail(Why.REPLACEMENT_GONE, "the replacement is gone")
    elif replacement.labels.get(names.LABEL_START_FIRST) != migration.uid:
        draft.fail(Why.REPLACEMENT_GONE, f"another pod has the name {replacement.key}")
    elif replacement.deleting or replacement.terminal:
        draft.fail(Why.REPLACEMENT_GONE, f"the replacement {replacement.key} was deleted or has ended")
    # Adopted before the eviction, the ReplicaSet has one pod too many and may delete any of its pods.
    elif replacement.controller is not None:
        draft.fail(
            Why.OWNER_CHANGED,
            f"{replacement.controller.kind} {replacement.controller.name} adopted {replacement.key} before the old pod was evicted",
        )
    else:
        return True
    return False


def _as_asked(draft: Draft, seen: ObservedStartFirst, replacement: Pod) -> bool:
    """False, and the move ends, if others have made less of the replacement than its workload's pods are."""
    pod, expected, owner = draft.observed.pod, draft.observed.replacement, seen.replica_set
    if pod is None:
        return True
    shown = expected.pod if expected is not None and expected.source is ReplacementSource.DRY_RUN else None
    specs = (
        owner.template if owner is not None else None,
        pod.spec,
        shown.spec if shown is not None else None,
    )
    known = tuple(spec for spec in specs if spec is not None)
    asked = AskedSurgePod(known, pod.spec.priority, draft.status.node_name, draft.observed.target_node)
    if words := unlike_asked(replacement, asked):
        draft.fail(Why.REPLACEMENT_CHANGED, words)
    return not words


def _target_stands(draft: Draft) -> bool:
    """False, and the move ends, if the target node is gone."""
    node = draft.observed.target_node
    if node is None or node.deleting:
        draft.fail(Why.TARGET_NOT_FOUND, f"node/{draft.status.node_name} is gone")
        return False
    return True


def _up(draft: Draft, replacement: Pod) -> bool:
    """Pod and node are Ready. Pods of a node that fails stay Ready for a while, so the node is checked as well."""
    node = draft.observed.target_node
    return bool(replacement.node) and replacement.ready and node is not None and node.ready


def _ready_long_enough(draft: Draft, seen: ObservedStartFirst, replacement: Pod) -> bool:
    """False, with a message, until minReadySeconds have passed, plus one: times of conditions are whole seconds."""
    if not replacement.node:
        words = replacement.unschedulable_message or "waiting for the scheduler"
        draft.say(Why.STARTING, f"{replacement.key}: {words}")
    elif not _up(draft, replacement):
        draft.say(
            Why.REPLACEMENT_NOT_READY, f"{replacement.key} or its node/{replacement.node} is not Ready yet"
        )
    else:
        least_s = min_ready_s(seen)
        due_s = replacement.ready_since_s + least_s + 1.0 if least_s else 0.0
        if draft.now_s >= due_s:
            return True
        draft.say(Why.REPLACEMENT_NOT_READY, f"{replacement.key} must be Ready for {least_s} s")
        draft.wake(due_s)
    return False


def _may_evict(draft: Draft) -> bool:
    """The last check before the eviction. If it fails, the intent, and with it the gate key, is withdrawn."""
    seen = draft.observed.start_first
    if seen is None or _ended_by_owner(draft, seen) or not _replacement_alive(draft, seen):
        return False
    replacement, waits_for = seen.replacement, owner_moves(seen)
    if replacement is None or not _as_asked(draft, seen, replacement) or not _target_stands(draft):
        return False
    # Back to the phase before, not Failed: the replacement may become Ready again, and the old pod still runs.
    if not _up(draft, replacement):
        draft.change(eviction_requested_at_s=0.0)
        message = f"{replacement.key} or its node/{replacement.node} is not Ready any more"
        draft.go(MigrationPhase.RESERVING, Why.REPLACEMENT_NOT_READY, message)
        return False
    if waits_for:
        draft.change(eviction_requested_at_s=0.0)
        draft.say(Why.OWNER_BUSY, waits_for)
        return False
    return True


def _labels(owner: Workload, migration_uid: str) -> dict[str, str]:
    labels = replacement_labels(owner.template_labels, migration_uid, alone=owner.controller is None)
    return dict(sorted(labels.items()))


def _reference(owner: Workload) -> OwnerRef:
    return OwnerRef(owner.api_version, owner.kind, owner.name, owner.uid)


def _limit_s(draft: Draft) -> float:
    return draft.status.evicted_at_s + draft.settings.replacement_limit_s


# Whether the owner of the pod lets the mode go on ------------------------------------------------


def owner_lost(seen: ObservedStartFirst) -> str:
    """Why the ReplicaSet is not the current one of its Deployment (any more); "" if it is."""
    replica_set, deployment = seen.replica_set, seen.deployment
    if replica_set is None or replica_set.deleting:
        return "the ReplicaSet is gone"
    if replica_set.controller is None:
        return ""
    if deployment is None or deployment.deleting:
        return "the Deployment is gone"
    if replica_set.revision and deployment.revision and replica_set.revision != deployment.revision:
        return f"a rollout has replaced revision {replica_set.revision} by {deployment.revision}"
    return ""


def owner_moves(seen: ObservedStartFirst) -> str:
    """Why the move must wait for the owner, which is changing its pods; "" if it is not."""
    replica_set, deployment = seen.replica_set, seen.deployment
    if seen.busy:
        return seen.busy
    if replica_set is None:
        return ""
    if deployment is not None and deployment.rolling_out:
        return f"Deployment {deployment.name} is rolling out or scaling"
    if deployment is not None and deployment.replicas != replica_set.replicas:
        return f"Deployment {deployment.name} wants {plural(deployment.replicas, 'pod')}, its ReplicaSet wants {replica_set.replicas}"
    if seen.owned != replica_set.replicas:
        return (
            f"ReplicaSet {replica_set.name} has {plural(seen.owned, 'pod')} and wants {replica_set.replicas}"
        )
    return ""


def min_ready_s(seen: ObservedStartFirst) -> int:
    """How long a pod of this owner must be Ready to count as available."""
    owner = seen.deployment or seen.replica_set
    return owner.min_ready_s if owner is not None else 0
