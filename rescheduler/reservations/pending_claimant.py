"""The hand-over to a pod that was pending before its room was there, and so has no gate of ours (pure).

Such a pod cannot be nominated: whenever kube-scheduler tries and refuses it, the nomination is lost (0 of 10 landed). The
hand-over taint on the node, which only this pod tolerates, holds the room instead (10 of 10, also against pods of higher
priority). Which step comes next is derived from the objects:

| what is seen | what is done next |
|---|---|
| the pod does not tolerate our taint | it gets the toleration; nothing is claimed yet (``coordination.pending_owners``) |
| it tolerates it | the room is claimed (``machine``) |
| claimed, the node not tainted, or only just | the node is tainted (``coordination.handover_order``); wait until the scheduler has surely seen it |
| the taint is in force | the placeholder is deleted |
| the placeholder is gone | wait until the pod is bound (``handover``), then the taint is removed |

Promises: until the placeholder is deleted, whatever happens to the pod or the node only drops the claim, and the room stays held
for the next owner; no claim keeps a node tainted for longer than its limits.
"""

from __future__ import annotations

from rescheduler.calls.pods import delete_placeholder
from rescheduler.model.never_moves import holds_gate
from rescheduler.model.records import Pod
from rescheduler.reservations.expiry import expired
from rescheduler.reservations.handover import tolerates_taint
from rescheduler.reservations.reservation_draft import ReservationDraft
from rescheduler.reservations.reservation_lifecycle import ReservationEvent
from rescheduler.reservations.waits import claim_message, look_again_s


def takes_by_taint(pod: Pod, node: str) -> bool:
    """True for a claimant of room on ``node`` that is held by the taint instead of a nomination."""
    return not holds_gate(pod) and tolerates_taint(pod, node)


def hand_over_by_taint(draft: ReservationDraft) -> bool:
    """The next step while the placeholder stands; False if the claimant is another one, or the placeholder is gone."""
    observed, now_s, limit = draft.observed, draft.now_s, draft.settings.gate_limit_s
    claimant, placeholder = observed.claimant, observed.placeholder
    target = observed.reservation.status.node_name
    if claimant is None or claimant.deleting or not takes_by_taint(claimant, target):
        return False
    if placeholder is None or not observed.held or claimant.node == target or observed.node is None:
        return False
    limit_s = observed.claimed_since_s + limit if observed.claimed_since_s else None
    if why := _dropped(draft, claimant, limit_s):
        draft.enter(ReservationEvent.CLAIM_DROPPED, f"room is held on node/{target}; {why}")
        return True
    if observed.wait is None:
        draft.do(delete_placeholder(placeholder))
    draft.enter(ReservationEvent.CLAIMED, claim_message((claimant,), target, observed.wait, now_s))
    draft.wake(look_again_s(observed.wait, now_s, now_s + limit if limit_s is None else limit_s))
    return True


def _dropped(draft: ReservationDraft, claimant: Pod, limit_s: float | None) -> str:
    """Why the claim is given back; "" if it is not."""
    observed, target = draft.observed, draft.observed.reservation.status.node_name
    if claimant.node:
        return f"{claimant.key} landed on node/{claimant.node}"
    if not observed.node_usable:
        return f"it was not given to {claimant.key}, because node/{target} is not Ready or not schedulable"
    if observed.unfit:
        return f"{claimant.key} does not fit there any more: {observed.unfit}"
    if expired(observed, draft.now_s, draft.settings):
        return "its time is over"
    if limit_s is not None and draft.now_s >= limit_s:
        return f"it could not be given to {claimant.key} within {draft.settings.gate_limit_s:g} s"
    return ""
