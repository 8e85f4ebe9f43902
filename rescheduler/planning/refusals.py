"""Why a candidate is skipped before any target is looked for, and what a move of it costs. Pure.

Most of it is the same for all pods of a class, so it is worked out once for each; what belongs to the single
pod (a move under way, a failure, its age, its budget) is asked for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from rescheduler.model.names import ANNOTATION_COOLDOWN, DESCHEDULER_PREFER_NO_EVICTION
from rescheduler.model.records import Pod, PodPhase
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import format_seconds
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.change_windows import ChangeWindow, opening
from rescheduler.planning.history import History, rest_s
from rescheduler.planning.limits import PlanningInputs, disruption_weight
from rescheduler.planning.plan import Blocked, SkipReason
from rescheduler.planning.protections import Protector, Protectors, keeps_local_data
from rescheduler.planning.start_first_mode import StartFirst
from rescheduler.policies.objective import Tier
from rescheduler.policies.proposals import Batch, Candidate
from rescheduler.scheduling.classes import PodClass

_HIGH_PRIORITY: Final = 1_000_000
_SLOW_MINUTES: Final = 10
_LONGEST_START_S: Final = 3600.0
"""A pod that was Ready later than that after it was created has restarted since, or was not Ready for a while."""
_YOUNG_S: Final = 600.0
"""A pod that was Ready for less has hardly begun, or has just restarted: it loses least."""
_RELIEVES: Final = Tier.BALANCE
"""From this part of the objective on a pod is moved for what it leaves, not for where it stands."""


@dataclass(slots=True)
class _Lasting:
    """What no planned move changes for some pods."""

    first: Blocked | None
    """A move under way, or a protection."""
    least_gain: float
    too_small: dict[float, Blocked] = field(default_factory=dict)
    """By gain, that it is less than that."""
    last: Blocked | None = None
    """Cool-down or back-off, once it was asked for."""
    asked_last: bool = False


class _Judged(NamedTuple):
    """What is known of pods by the protections of some policies."""

    protector: Protector
    shared: dict[tuple[object, ...], _Lasting]
    answers: dict[int, _Lasting]
    """By identity of the pod: it is asked again in every round."""
    free: dict[PodClass, dict[_State, _Lasting] | None]
    """Of the pods of a class that nothing protects, by what is known of the single pod; None: that is to be asked for each."""


class Refusals:
    """Judges candidates by everything but limits, the gain now, and targets.

    In this order: moves under way, protections, shared Reservations, the least gain, change windows, cool-down and back-off, disruption budgets.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        inputs: PlanningInputs,
        history: History,
        protectors: Protectors,
        budgets: BudgetLedger,
    ) -> None:
        self._starts_first = StartFirst(snapshot, inputs.mode, inputs.modes).takes
        self._snapshot = snapshot
        self._inputs = inputs
        self._history = history
        self._protectors = protectors
        self._budgets = budgets
        self._owners = owners_of_shared_rooms(snapshot.reservations)
        self._single = history.moving | history.failed | self._owners.keys()
        self._judged: dict[Protector, _Judged] = {}
        self._by_policy: dict[str, _Judged] = {}
        self._asked: list[Pod] = []
        """Those pods, kept alive: an identity must not become that of another one."""
        self._disruptions: dict[tuple[object, ...], float] = {}
        self._weight = disruption_weight(inputs.aggressiveness)
        self._windows: dict[str, Blocked | None] = {}

    def of(self, candidate: Candidate, *, in_turn: bool = False) -> Blocked | None:
        """The first reason why the pod is skipped, or None. ``in_turn``: as ``BudgetLedger.refusal``."""
        return self.of_pod(candidate.pod, candidate.policy, candidate.gain, candidate.tier, in_turn=in_turn)

    def of_pod(
        self, pod: Pod, policy: str, gain: float, tier: Tier, *, in_turn: bool = False
    ) -> Blocked | None:
        """The same for a pod that this policy proposes with that gain, because of that part of the objective."""
        judged = self._by_policy.get(policy) or self._judged_for(policy)
        lasting = judged.answers.get(id(pod))
        if lasting is None:
            lasting = judged.answers[id(pod)] = self._lasting(pod, judged)
            self._asked.append(pod)
        return self._first(pod, lasting, policy, gain, tier, in_turn=in_turn)

    def _first(
        self, pod: Pod, lasting: _Lasting, policy: str, gain: float, tier: Tier, *, in_turn: bool = False
    ) -> Blocked | None:
        """The first reason of a pod of which it is known what no planned move changes."""
        if lasting.first is not None:
            return lasting.first
        room = self._owners.get(pod.uid) if tier >= _RELIEVES else None
        if room is not None:
            message = f"Reservation {room}, which it uses, would hold again what it leaves, and its node would be as full"
            return Blocked(SkipReason.NO_BETTER_TARGET, message, f"Reservation {room}")
        if gain < lasting.least_gain:
            return _too_small(gain, lasting)
        if not lasting.asked_last:
            lasting.last, lasting.asked_last = self._cooling_down(pod), True
        return self._outside(policy) or lasting.last or self._budgets.refusal(pod, policy, in_turn=in_turn)

    def _outside(self, policy: str) -> Blocked | None:
        """That no window is open in which moves of the policy begin. A plan without limits shows them all the same."""
        if not self._inputs.limits.windows or self._inputs.unlimited:
            return None
        if policy not in self._windows:
            self._windows[policy] = outside(self._inputs.limits.windows, policy, self._snapshot.taken_at_s)
        return self._windows[policy]

    def _judged_for(self, policy: str) -> _Judged:
        protector = self._protectors.of(policy)
        found = self._judged.setdefault(protector, _Judged(protector, {}, {}, {}))
        return self._by_policy.setdefault(policy, found)

    def _lasting(self, pod: Pod, judged: _Judged) -> _Lasting:
        """All but the budgets: what no planned move changes."""
        protector = judged.protector
        if pod.uid in self._single or not protector.ordinary(pod):
            return self._judge(pod, protector)
        key = (
            pod.namespace,
            id(pod.spec),
            id(pod.labels),
            id(pod.annotations),
            id(pod.controller),
            self._state(pod),
            protector.youth(pod),
        )
        known = judged.shared.get(key)
        if known is None:
            known = judged.shared[key] = self._judge(pod, protector)
        return known

    def of_many(self, batch: Batch, pods: Sequence[Pod]) -> list[tuple[Blocked | None, Sequence[Pod]]]:
        """The answers of ``of`` for some pods of a batch: these stay for that reason."""
        judged = self._by_policy.get(batch.policy) or self._judged_for(batch.policy)
        if not judged.protector.same_for_class(batch.kind, pods[0]) or (
            self._single and not self._single.isdisjoint([pod.uid for pod in pods])
        ):
            return [(self.of_pod(pod, batch.policy, batch.gain, batch.tier), (pod,)) for pod in pods]
        alike = self._alike(batch.kind, pods)
        free = self._free(batch.kind, judged)
        if free is None:
            return [(self.of_pod(some[0], batch.policy, batch.gain, batch.tier), some) for _, some in alike]
        answers: list[tuple[Blocked | None, Sequence[Pod]]] = []
        for state, some in alike:
            lasting = free.get(state)
            if lasting is None:
                lasting = free[state] = _Lasting(None, self.least_gain(some[0]))
            answers.append((self._first(some[0], lasting, batch.policy, batch.gain, batch.tier), some))
        return answers

    def _alike(self, kind: PodClass, pods: Sequence[Pod]) -> Sequence[tuple[_State, Sequence[Pod]]]:
        """These pods of a class by what their disruption costs, and what the eviction subresource looks at."""
        now_s = self._snapshot.taken_at_s
        since_s = kind.memo.of(_State, kind.version, lambda: _alike_since(kind.pods))
        if now_s >= since_s:
            return [(_state(pods[0], now_s), pods)]
        alike: dict[tuple[bool, _State], list[Pod]] = {}
        for pod in pods:
            alike.setdefault((pod.phase is PodPhase.PENDING, _state(pod, now_s)), []).append(pod)
        return [(state, some) for (_, state), some in alike.items()]

    def _free(self, kind: PodClass, judged: _Judged) -> dict[_State, _Lasting] | None:
        """What is known of the pods of a class of which all are judged alike, if nothing protects them."""
        if kind.hypothetical or not kind.pods:
            return None
        if kind not in judged.free:
            judged.free[kind] = {} if judged.protector.movable_class(kind) else None
        return judged.free[kind]

    def least_gain(self, pod: Pod) -> float:
        """What a move of the pod must gain at least."""
        return self._inputs.limits.minimum_gain + self.cost(pod)

    def cost(self, pod: Pod) -> float:
        """The part of it that grows with what the move costs."""
        return self._weight * self.disruption(pod)

    def disruption(self, pod: Pod) -> float:
        """What a move of the pod costs."""
        key = (id(pod.spec), id(pod.annotations), id(pod.controller), self._state(pod))
        known = self._disruptions.get(key)
        if known is None:
            found = disruption_of(pod, self._snapshot, starts_first=self._starts_first(pod))
            known = self._disruptions[key] = found
        return known

    def _state(self, pod: Pod) -> _State:
        return _state(pod, self._snapshot.taken_at_s)

    def _judge(self, pod: Pod, protector: Protector) -> _Lasting:
        """All but the budgets, which change with every move."""
        if pod.uid in self._history.moving:
            first: Blocked | None = Blocked(
                SkipReason.IN_PROGRESS, "a move of it is under way", "PodMigration"
            )
        else:
            first = protector.refusal(pod)
        return _Lasting(first, self.least_gain(pod))

    def _cooling_down(self, pod: Pod) -> Blocked | None:
        now_s, workload = self._snapshot.taken_at_s, self._snapshot.top_workload(pod)
        if rest_s(workload) is None:
            message = f"the annotation {ANNOTATION_COOLDOWN} of its workload is no duration such as 6h: it rests until that is mended"
            return Blocked(SkipReason.COOLDOWN, message, ANNOTATION_COOLDOWN)
        rests = self._history.cooldown_until(pod, self._inputs.limits.workload_cooldown_s)
        if rests is not None:
            message = f"its workload was moved lately and rests for {rests - now_s:.0f} s more"
            return Blocked(SkipReason.COOLDOWN, message, "limits.workloadCooldown")
        waits = self._history.backoff_until(pod)
        if waits is not None:
            why = self._history.last_failure(pod)
            told = f" ({why})" if why else ""
            message = f"its last move failed{told}; the next try is in {waits - now_s:.0f} s"
            return Blocked(SkipReason.BACKOFF, message, "back-off")
        waits = self._history.lost_until(pod.namespace)
        if waits is not None:
            message = f"the last moves of its namespace evicted pods that did not land; the next try is in {waits - now_s:.0f} s"
            return Blocked(SkipReason.BACKOFF, message, "back-off")
        return None


def outside(windows: Sequence[ChangeWindow], policy: str, now_s: float) -> Blocked | None:
    """Why no move of the policy begins now, if that is so."""
    found = opening(windows, policy, now_s)
    if found.closes_s:
        return None
    if found.opens_s is not None:
        then = f"the next opens at {format_seconds(found.opens_s)}"
    else:
        then = (
            "none opens any more" if any(one.serves(policy) for one in windows) else f"none is for {policy}"
        )
    message = f"no window is open in which moves of {policy} begin; {then}"
    return Blocked(SkipReason.CHANGE_WINDOW, message, "limits.windows")


def closed_windows(windows: Sequence[ChangeWindow], policies: Sequence[str], now_s: float) -> tuple[str, ...]:
    """Which moves a plan without limits shows although the controller would not begin them now: a sentence for each reason."""
    found = (outside(windows, policy, now_s) for policy in policies)
    return tuple(dict.fromkeys(f"limits.windows: {why.message}" for why in found if why is not None))


class _State(NamedTuple):
    """What of a single pod says how much its move disturbs."""

    ready: bool
    minutes: int = 0
    """That it took to be Ready, at most 10."""
    young: bool = False


_NOT_READY: Final = _State(ready=False)
_READY: Final = tuple(
    tuple(_State(ready=True, minutes=minutes, young=young) for minutes in range(_SLOW_MINUTES + 1))
    for young in (False, True)
)
"""By whether it is young, and by minutes: the same few objects for tens of thousands of pods."""


def _state(pod: Pod, now_s: float) -> _State:
    if not pod.ready:
        return _NOT_READY
    took_s = pod.ready_since_s - pod.created_at_s
    minutes = min(_SLOW_MINUTES, int(took_s) // 60) if 0.0 < took_s <= _LONGEST_START_S else 0
    return _READY[0.0 <= now_s - pod.ready_since_s < _YOUNG_S][minutes]


def _alike_since(pods: Sequence[Pod]) -> float:
    """From when on all these pods have one phase and state, which time does not change any more; infinite: never."""
    since_s = max([pod.ready_since_s + _YOUNG_S for pod in pods if pod.ready], default=-inf)
    each = {(pod.phase is PodPhase.PENDING, _state(pod, inf)) for pod in pods}
    return since_s if len(each) == 1 else inf


def _too_small(gain: float, lasting: _Lasting) -> Blocked:
    known = lasting.too_small.get(gain)
    if known is None:
        message = f"a move could gain {gain:.3f} at most, less than {lasting.least_gain:.3f}"
        known = lasting.too_small[gain] = Blocked(SkipReason.GAIN_TOO_SMALL, message, "minimumGain")
    return known


def disruption_of(pod: Pod, snapshot: Snapshot, *, starts_first: bool = False) -> float:
    """What a move of the pod costs, 0 to 1; an unknown number of replicas counts as one.

    0.05 (0.03 if it is not Ready for ten minutes yet)
    + 0.25 / replicas, if it is Ready + 0.1 x minutes that it took to be Ready / 10 (at most 0.1)
    + 0.1 x priority / 1,000,000 (at most 0.1), all three only if the replacement does not start first
    + 0.1 if the pod has local data to keep + 0.1 if it asks not to be evicted if possible.
    """
    ready, minutes, young = _state(pod, snapshot.taken_at_s)
    cost = 0.03 if young else 0.05
    if not starts_first:
        workload = snapshot.workloads.get(pod.controller.uid) if pod.controller is not None else None
        replicas = max(1, workload.replicas if workload is not None else 1)
        cost += (0.25 / replicas if ready else 0.0) + 0.1 * minutes / _SLOW_MINUTES
        cost += 0.1 * min(1.0, max(0, pod.spec.priority) / _HIGH_PRIORITY)
    if keeps_local_data(pod):
        cost += 0.1
    if pod.annotations.get(DESCHEDULER_PREFER_NO_EVICTION) is not None:
        cost += 0.1
    return min(1.0, cost)


_OPEN = (ReservationPhase.PENDING, ReservationPhase.WAITING, ReservationPhase.AVAILABLE)


def owners_of_shared_rooms(reservations: Mapping[str, Reservation]) -> dict[str, str]:
    """By uid of each owner that has its part of a Reservation for several pods now, the name of that.

    What it leaves is held again for the next one, so its move lowers no load, frees no room and empties no node.
    """
    return {
        owner.uid: reservation.name
        for _, reservation in sorted(reservations.items())
        if not reservation.allocate_once and not reservation.deleting and reservation.status.phase in _OPEN
        for owner in reservation.status.current_owners
    }
