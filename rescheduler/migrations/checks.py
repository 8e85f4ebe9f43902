"""The checks before the eviction: the pod, its target, its budgets, the room.

A check that fails writes into the status why the move waits or has ended. Nothing here evicts.
"""

from __future__ import annotations

import math
import re
from typing import Final

from rescheduler.calls.objects import adopt_pod, create_reservation
from rescheduler.migrations.draft import Draft
from rescheduler.migrations.gate_in_force import prepare
from rescheduler.migrations.migration_lifecycle import CONDITION_START_FIRST
from rescheduler.migrations.migration_lifecycle import MigrationReason as Why
from rescheduler.migrations.observed_migration import ObservedStartFirst
from rescheduler.migrations.replacement_checks import FRESH_S, LAST_LOOK_S, asked, note_source, reference_fits
from rescheduler.model import names
from rescheduler.model.migration import MigrationPhase, MoveMode
from rescheduler.model.outcomes import NO_RIGHT, QUOTA_USED_UP
from rescheduler.model.own_objects import Condition, condition, told
from rescheduler.model.records import DisruptionBudget, Node, Pod
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.model.times import format_duration
from rescheduler.reservations.node_request import asks_words
from rescheduler.reservations.reservation_lifecycle import CONDITION_SCHEDULED, ReservationReason
from rescheduler.reservations.template import reservation_manifest, reservation_name

_SURELY_REFUSED_S: Final = 60.0
"""A Reservation that is refused for longer ends its move, which takes the turn of others meanwhile."""
_FAILED_CALL: Final = re.compile(r"[1-5]\d\d \w+:")
"""How the words of an answer begin with which the API server did not create the placeholder."""
_OF_NO_NODE: Final = (QUOTA_USED_UP, NO_RIGHT, "no PriorityClass with name")
"""Words of refusals that are the same on each node."""
_REJECTED: Final = re.compile(r"(403|422) \w+:")


def may_begin(draft: Draft) -> bool:
    """True if pod, mode, limits and target allow the move to begin. False: the status has the reason.

    Limits come before everything that costs a call or a look at the cluster: thousands may wait for one.
    """
    if not (still_wanted(draft) and _mode_known(draft)):
        return False
    observed = draft.observed
    if observed.waits.begins_after:
        _wait_for_earlier_moves(draft)
        return False
    # What refuses may have been mended since, and who asks for a move is told what holds now.
    ends = not (observed.movable.ok or observed.movable.passes)
    if observed.held_back is None and not asked(draft, LAST_LOOK_S if ends else FRESH_S):
        return False
    if not observed.movable.ok:
        # A Deployment counts as rolling out for a moment after each of its pods comes or goes, and for as long as its status lags.
        if observed.movable.passes:
            draft.say(Why.OWNER_BUSY, observed.movable.message)
            _wake_at_last(draft)
        else:
            draft.fail(Why.NOT_MOVABLE, observed.movable.message)
        return False
    migration = observed.migration
    if not migration.pod_uid and observed.pod is not None:
        # Another pod may get the same name (StatefulSet): from the first look on the move is of this very pod.
        draft.do(adopt_pod(migration, observed.pod.uid))
        return False
    if observed.held_back is not None:
        return within_limits(draft)
    return _target_known(draft)


def pending(draft: Draft) -> None:
    """Check budgets and target, then reserve the room."""
    observed = draft.observed
    if observed.reservation_refused:
        draft.fail(Why.RESERVATION_UNFIT, observed.reservation_refused)
        return
    if not budgets_may_allow(draft):
        return
    if not observed.fits.ok:
        draft.say(Why.TARGET_UNSCHEDULABLE, f"node/{observed.target}: {observed.fits.message}")
        return
    if not nobody_waits(draft) or not within_limits(draft):
        return
    pod = observed.pod
    named = observed.reservation if observed.migration.reservation_ref else None
    draft.change(
        reservation_name=observed.reservation_name,
        reservation_uid=named.uid if named is not None else "",
        source_node="" if pod is None else pod.node,
        node_name=observed.target,
        started_at_s=draft.now_s,
    )
    draft.go(MigrationPhase.RESERVING, Why.RESERVING, f"room is being reserved on node/{observed.target}")
    prepare(draft)
    if observed.reservation is None:
        _create(draft)


def nobody_waits(draft: Draft) -> bool:
    """False while a pending pod of higher priority would take the target's capacity from the replacement."""
    higher = draft.observed.higher_waits
    if higher is not None:
        draft.say(Why.HIGHER_PRIORITY_WAITS, higher.message)
    return higher is None


def within_limits(draft: Draft) -> bool:
    """True if the limits let the move begin and its beginning is recorded: the last check before the first write."""
    if draft.observed.recorded.begun:
        return True
    held_back = draft.observed.held_back
    if held_back is not None:
        draft.say(Why(held_back.reason.value), held_back.message)
        draft.wake(held_back.until_s)
        return False
    draft.begins = True
    if draft.observed.recorded.problem:
        not_recorded(draft)
    else:
        prepare(draft)
    return False


def not_recorded(draft: Draft) -> None:
    """Say that the move waits until ConfigMap ``move-history`` has its next step."""
    problem = draft.observed.recorded.problem
    because = f", which cannot be written: {problem}" if problem else ""
    draft.say(Why.RECORDING, f"the next step is recorded in ConfigMap move-history first{because}")


def reserving(draft: Draft) -> None:
    """Room is being reserved: wait until the Reservation is Available."""
    if not still_wanted(draft):
        return
    reservation = draft.observed.reservation
    if not draft.room_ready:
        prepare(draft)
    if draft.observed.reservation_refused:
        draft.fail(Why.RESERVATION_UNFIT, draft.observed.reservation_refused)
    elif reservation is None:
        name = draft.status.reservation_name
        if draft.observed.migration.reservation_ref:
            draft.fail(Why.RESERVATION_FAILED, f"Reservation {name} does not exist")
            return
        if refused := draft.observed.refused:
            words = f"the API server refuses Reservation {name}: {refused}"
            if draft.now_s >= draft.status.started_at_s + _SURELY_REFUSED_S:
                draft.fail(Why.RESERVATION_FAILED, words)
                return
            draft.say(Why.RESERVING, words)
        _create(draft)
    elif reservation.deleting:
        draft.fail(Why.RESERVATION_FAILED, f"Reservation {reservation.name} is being deleted")
    elif draft.room_ready:
        _reserved(draft, reservation)
    else:
        _not_available(draft, reservation)


def still_wanted(draft: Draft) -> bool:
    """False if the move has ended, is paused or waits for another move. Used in every phase before the eviction."""
    observed = draft.observed
    migration, pod = observed.migration, observed.pod
    # What ends the move comes before what makes it wait: a paused move must not outlive its pod or its ttl.
    if pod is None:
        draft.missing(Why.POD_GONE, f"pod {migration.namespace}/{migration.pod_name} does not exist")
    elif not observed.same_pod:
        draft.fail(
            Why.POD_REPLACED, f"pod {pod.key} was replaced by another pod of that name (uid {pod.uid})"
        )
    elif pod.deleting or pod.terminal:
        draft.fail(Why.POD_GONE, f"pod {pod.key} is terminating or has ended already")
    elif stuck := _cannot_leave(pod, observed.stands_on):
        draft.fail(Why.NOT_MOVABLE, stuck)
    elif observed.waits.in_vain:
        end = draft.missing if observed.waits.unseen else draft.fail
        end(*observed.waits.in_vain)
    elif draft.now_s >= draft.end_s:
        waited_for = _with_refusal(draft.status.message or "nothing was started", observed.refused)
        draft.fail(
            Why.TARGET_REFUSED if _target_refused(draft) else Why.TIMEOUT,
            f"the pod was not evicted within the ttl of the move; last message: {waited_for}",
        )
    # Two moves of the pod, or into the room, have begun: the later one ends, so that its room is released. One that has not begun waits.
    elif observed.another and migration.status.phase is not MigrationPhase.PENDING:
        draft.fail(Why.ANOTHER_MOVE, f"{observed.another} goes first")
    elif migration.paused:
        _pause(draft)
    elif observed.another:
        draft.say(Why.ANOTHER_MOVE, f"waiting for {observed.another}")
        draft.wake(draft.end_s)
    else:
        draft.wake(draft.end_s)
        return True
    return False


def _cannot_leave(pod: Pod, source: Node | None) -> str:
    """Why the pod cannot be taken off its node, whatever else is right."""
    if not pod.node:
        return f"pod {pod.key} is not on any node yet"
    if source is None or source.ends_pods:
        return ""
    return f"node/{pod.node} is not Ready or unreachable, so its kubelet may never end pod {pod.key}"


def _pause(draft: Draft) -> None:
    """Wait; but room is not held for a move that nobody lets go on."""
    until_s = draft.paused_until_s
    if until_s is not None and draft.now_s >= until_s:
        held = format_duration(draft.settings.reservations.ttl_s)
        draft.fail(Why.TIMEOUT, f"the move was paused for {held} (reservations.ttl): its room is given back")
        return
    draft.say(Why.PAUSED, "spec.paused is true; the ttl of the move still counts")
    draft.wake(draft.end_s)
    draft.wake(until_s)


def budgets_may_allow(draft: Draft) -> bool:
    """False if a budget can never allow the eviction: then no room is reserved.

    For a budget that is used up only for the moment, the room is reserved and held until the budget allows the eviction,
    up to the limit of the move.
    """
    budgets, pod = draft.observed.budgets, draft.observed.pod
    if len(budgets) == 1 and pod is not None and pod.ready:
        budget = budgets[0]
        # More pods are expected than must be healthy, so the budget will allow disruptions again.
        if budget.disruptions_allowed > 0 or budget.desired_healthy < budget.expected_pods:
            return True
    return _budget_allows(draft)


def budgets_allow(draft: Draft) -> bool:
    """False if the eviction must wait now: for a PodDisruptionBudget, or without one for the pods of the workload."""
    return _budget_allows(draft) and availability_allows(draft)


def availability_allows(draft: Draft) -> bool:
    """False if its workload cannot do without the pod now, by its own order or because no budget says how many may be unavailable.

    Whoever asked for it will evict it without room soon, however few are available: rather with it, a little earlier.
    """
    availability, pod = draft.observed.availability, draft.observed.pod
    if availability is None or pod is None:
        return True
    refusal = availability.refusal(pod, budgeted=bool(draft.observed.budgets))
    if not refusal or draft.now_s >= draft.settings.at_last_s(draft.observed.migration):
        return True
    draft.say(Why.TOO_FEW_AVAILABLE, refusal)
    draft.wake(availability.settles_at_s)
    _wake_at_last(draft)
    return False


def _wake_at_last(draft: Draft) -> None:
    at_last_s = draft.settings.at_last_s(draft.observed.migration)
    draft.wake(at_last_s if at_last_s < math.inf else None)


def _budget_allows(draft: Draft) -> bool:
    """False if a PodDisruptionBudget forbids the eviction now, according to its status."""
    budgets, pod = draft.observed.budgets, draft.observed.pod
    if not budgets_single(draft):
        return False
    if budgets and budgets[0].disruptions_allowed <= 0 and pod is not None and pod.ready:
        draft.say(Why.DISRUPTION_BUDGET, budget_words(budgets[0]))
        return False
    return True


def budgets_single(draft: Draft) -> bool:
    """False, and the move ends, if more than one budget selects the pod: the API server never evicts such a pod."""
    budgets = draft.observed.budgets
    if len(budgets) > 1:
        listed = ", ".join(sorted(b.name for b in budgets))
        draft.fail(Why.MULTIPLE_BUDGETS, f"the pod has more than one PodDisruptionBudget: {listed}")
    return len(budgets) <= 1


def budget_words(budget: DisruptionBudget) -> str:
    """What a budget allows, for messages."""
    return (
        f"PDB {budget.key} allows {budget.disruptions_allowed} of {budget.expected_pods} disruptions "
        f"({budget.current_healthy} healthy, {budget.desired_healthy} needed)"
    )


def _wait_for_earlier_moves(draft: Draft) -> None:
    """Where it makes room for a pending pod, what they leave is kept for it: nobody else takes it before it begins."""
    observed = draft.observed
    node = observed.migration.target_node
    known = observed.reservation is not None or observed.reservation_refused
    reserves = observed.waits.keeps_place and draft.status.mode is MoveMode.RESERVE_FIRST
    if reserves and node and not known:
        draft.change(reservation_name=observed.reservation_name, node_name=node)
        _create(draft, pre_allocation=True)
    listed = ", ".join(map(str, observed.waits.begins_after))
    draft.say(Why.EARLIER_MOVES, f"begins after the moves {listed}, whose room it needs")


def _mode_known(draft: Draft) -> bool:
    asked, seen = draft.observed.migration.mode, draft.observed.start_first
    mode = mode_without_start_first(draft) if asked is MoveMode.AUTO else asked
    if seen is not None and seen.serves(asked):
        mode = MoveMode.START_FIRST
    elif mode is MoveMode.START_FIRST:
        draft.fail(Why.MODE_NOT_SUPPORTED, _start_first_refused(seen))
        return False
    if mode is MoveMode.SOFT and draft.settings.mode is not MoveMode.SOFT:
        draft.fail(Why.MODE_NOT_SUPPORTED, "mode Soft must be chosen in the configuration first")
        return False
    draft.change(mode=mode)
    if mode is not MoveMode.START_FIRST and seen is not None and seen.declared and not seen.eligible.ok:
        why = Condition(CONDITION_START_FIRST, "False", Why.MODE_NOT_SUPPORTED, seen.eligible.message)
        draft.change(conditions=told(draft.status.conditions, why, draft.now_s))
    return True


def mode_without_start_first(draft: Draft) -> MoveMode:
    """The mode of a move that leaves its mode open, if the replacement cannot start first."""
    return MoveMode.SOFT if draft.settings.mode is MoveMode.SOFT else MoveMode.RESERVE_FIRST


def _start_first_refused(seen: ObservedStartFirst | None) -> str:
    if seen is not None and not seen.eligible.ok:
        return f"mode StartFirst: {seen.eligible.message}"
    return (
        f"mode StartFirst must be declared: annotate the Deployment with {names.ANNOTATION_MODE}: StartFirst, "
        "or set mode: StartFirst in the configuration"
    )


def _target_known(draft: Draft) -> bool:
    observed = draft.observed
    migration, pod = observed.migration, observed.pod
    if migration.reservation_ref and not reference_fits(draft):
        return False
    if not observed.target:
        why = observed.target_message or "no node takes the pod now"
        draft.say(Why.NO_TARGET, asks_words(observed.node_request, observed.node_request_refused, why))
        return False
    if observed.target_node is None:
        draft.missing(Why.TARGET_NOT_FOUND, f"node/{observed.target} does not exist")
        return False
    if pod is not None and observed.target == pod.node:
        draft.fail(Why.ALREADY_ON_TARGET, f"pod {pod.key} is on node/{observed.target} already")
        return False
    return True


def _create(draft: Draft, *, pre_allocation: bool = False) -> None:
    observed, pod = draft.observed, draft.observed.pod
    if pod is None or not asked(draft, FRESH_S):
        return
    note_source(draft)
    # It must not expire while the move waits for budgets; the move deletes it when it ends.
    left_s = max(60.0, draft.end_s - draft.now_s + 60.0)
    migration, name = observed.migration, observed.reservation_name
    if not name.endswith(names.MOVE_SUFFIX):  # of a version whose names nobody may give any more
        name = reservation_name(migration.key, migration.uid)
        draft.change(reservation_name=name)
    draft.do(
        create_reservation(
            name,
            reservation_manifest(
                name=name,
                migration=migration.key,
                migration_uid=migration.uid,
                pod=pod,
                template=observed.coming.spec if observed.coming is not None else None,
                volumes=observed.volumes,
                node=draft.status.node_name,
                ttl_s=left_s,
                soft=draft.status.mode is MoveMode.SOFT,
                pre_allocation=pre_allocation,
            ),
        )
    )


def _reserved(draft: Draft, reservation: Reservation) -> None:
    pod, node = draft.observed.pod, reservation.status.node_name
    if pod is not None and pod.node == node:
        draft.fail(Why.ALREADY_ON_TARGET, f"pod {pod.key} is on node/{node} already")
        return
    since_s = draft.observed.room_ready_since_s or draft.now_s
    # The intent is of a later step: it must be on the API server before the eviction.
    draft.change(
        node_name=node, reserved_at_s=since_s, reservation_uid=reservation.uid, eviction_requested_at_s=0.0
    )
    message = f"Reservation {reservation.name} holds room on node/{node}"
    draft.go(MigrationPhase.EVICTING, Why.CHECKING, message)


def _not_available(draft: Draft, reservation: Reservation) -> None:
    words = reservation_words(reservation)
    match reservation.status.phase:
        case ReservationPhase.FAILED if reason_of(reservation) == "Expired":
            draft.fail(Why.RESERVATION_EXPIRED, words)
        case ReservationPhase.FAILED if reason_of(reservation) == ReservationReason.PLACEHOLDER_LOST:
            draft.fail(Why.TARGET_REFUSED if draft.made_reservation else Why.RESERVATION_FAILED, words)
        case ReservationPhase.FAILED:
            draft.fail(Why.RESERVATION_FAILED, words)
        case ReservationPhase.SUCCEEDED:
            draft.fail(Why.RESERVATION_UNFIT, f"Reservation {reservation.name} has been used already")
        case ReservationPhase.AVAILABLE if reservation.status.current_owners:
            draft.fail(Why.RESERVATION_UNFIT, f"Reservation {reservation.name} is claimed by another pod")
        case _:
            draft.say(Why.RESERVING, _with_refusal(words, draft.observed.refused))


def _with_refusal(words: str, refused: str) -> str:
    """Words to which belongs what the API server refuses: where it refuses the status, the status tells of earlier times."""
    return words if not refused or refused in words else f"{words}; the API server refuses: {refused}"


def reason_of(reservation: Reservation) -> str:
    """The reason of its Ready condition."""
    ready = condition(reservation.status.conditions, "Ready")
    return ready.reason if ready else ""


def reservation_words(reservation: Reservation) -> str:
    """The state of a Reservation as a message: the scheduler's own message if it has one."""
    for kind in ("Scheduled", "Ready"):
        said = condition(reservation.status.conditions, kind)
        if said is not None and said.status != "True" and said.message:
            return f"Reservation {reservation.name}: {said.message}"
    return f"Reservation {reservation.name} is {reservation.status.phase}"


def _target_refused(draft: Draft) -> bool:
    """True if the move waited in vain because its target does not take its placeholder, or the replacement of mode StartFirst.

    kube-scheduler, the kubelet or admission refuse it for reasons that our rules do not see, so the next plan would choose the
    same node. What says nothing of the node does not count: a quota that is used up, a missing right, an API server or webhook
    that does not answer, a scheduler that does not run, a move that is paused.
    """
    observed = draft.observed
    if draft.status.phase is not MigrationPhase.RESERVING or observed.migration.paused:
        return False
    if draft.starts_first:
        seen = observed.start_first
        return (
            seen is not None and seen.replacement is not None and bool(seen.replacement.unschedulable_message)
        )
    return (
        draft.made_reservation and observed.reservation is not None and _unschedulable(observed.reservation)
    )


def _unschedulable(reservation: Reservation) -> bool:
    said = condition(reservation.status.conditions, CONDITION_SCHEDULED)
    if said is None or said.status == "True" or said.reason != ReservationReason.UNSCHEDULABLE:
        return False
    if any(words in said.message for words in _OF_NO_NODE):
        return False
    return _FAILED_CALL.match(said.message) is None or _REJECTED.match(said.message) is not None
