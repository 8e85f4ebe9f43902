"""Carries a drain out, round by round, until the nodes are empty.

A round reads the cluster, plans again, asks for the moves that can be made now, and follows them. So a pod whose move failed, or
that came meanwhile, is in the next round, and an interrupted drain is taken up by running it again: what it has asked for is
found. The clock, the pause and the reading are handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rescheduler.cli.drain.plan import DrainPlan, Stays
from rescheduler.cli.drain.printing import refusal_text
from rescheduler.cli.errors import EXIT_BLOCKED, CommandError
from rescheduler.cli.following_moves import follow, why_not
from rescheduler.cli.migration_client import AskedMove, MigrationClient, MoveOrder, manifest
from rescheduler.cli.output import tell
from rescheduler.kube.client import KubeApi
from rescheduler.migrations.lifecycle import MigrationReason
from rescheduler.model.eviction import EvictionOutcome
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.records import ObjectKey, Pod

_IN_VAIN: Final = 2
"""After so many rounds in a row without a landing the drain ends."""
_AGAIN_S: Final = 5.0
_POLL_S: Final = 0.5
_PASSES: Final = (
    EvictionOutcome.BLOCKED,
    EvictionOutcome.STALE,
    EvictionOutcome.OVERLOADED,
    EvictionOutcome.UNKNOWN,
)
_WITHOUT_ROOM: Final = (
    MigrationReason.NO_TARGET,
    MigrationReason.TARGET_UNSCHEDULABLE,
    MigrationReason.RESERVING,
)
_DONE: Final = (EvictionOutcome.EVICTED, EvictionOutcome.GONE, EvictionOutcome.REPLACED)


class NotDrainedError(CommandError):
    """The time is over, or round after round nothing landed; the nodes stay cordoned."""

    def __init__(self, message: str) -> None:
        super().__init__(message, EXIT_BLOCKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """One drain. ``plan``: reads the cluster and plans. ``word``: a new random word for the moves of each round."""

    api: KubeApi
    client: MigrationClient
    plan: Callable[[], DrainPlan]
    pods_on_nodes: Callable[[], list[Pod]]
    word: Callable[[], str]
    reason: str
    """Of the moves, for people."""
    annotations: Mapping[str, str]
    """Of the moves."""
    ends_s: float
    """By the clock."""
    grace_s: int | None
    clock: Callable[[], float]
    pause: Callable[[float], None]
    stays: str
    """What becomes of nodes that are not empty at the end."""
    how_to_go_on: str

    def carry_out(self, plan: DrainPlan) -> None:
        """Empty the nodes, beginning with ``plan``; they are cordoned.

        Raises:
            CommandError: a pod has no place any more, or an eviction is refused for good.
            NotDrainedError: not within the time.
        """
        in_vain = 0
        while plan.moves or plan.under_way:
            found, keys = self._round(plan)
            landed = sum(move.status.phase is MigrationPhase.SUCCEEDED for move in found.values())
            in_vain = 0 if landed else in_vain + 1
            if self._left_s() <= 0 or in_vain >= _IN_VAIN:
                waits = "".join(f"\n  {line}" for line in why_not(keys, found))
                raise NotDrainedError(f"the nodes are not empty; {self.stays}.{waits}\n{self.how_to_go_on}")
            plan = self.plan()
            if plan.refused and not plan.moves:
                raise CommandError(f"{refusal_text(plan)}\n{self.how_to_go_on}")
        for pod, why in plan.evictions:
            self._evict(pod, why)
        self._wait_until_gone()

    def _round(self, plan: DrainPlan) -> tuple[Mapping[ObjectKey, PodMigration], Sequence[ObjectKey]]:
        order = MoveOrder(
            group=self.word(),
            ttl_s=max(self._left_s(), 1.0),
            reason=self.reason,
            annotations=self.annotations,
            grace_s=self.grace_s,
        )
        bodies = [
            manifest(AskedMove(pod=move.pod, target=move.target), order)
            for move in plan.moves
            if move.stage == 0
        ]
        self.client.create(bodies)
        keys = [ObjectKey(str(b["metadata"]["namespace"]), str(b["metadata"]["name"])) for b in bodies]
        keys += [key for _, key in plan.under_way]
        found = follow(
            self.client,
            keys,
            ttl_s=self._left_s(),
            how_to_go_on=self.how_to_go_on,
            gives_up=_has_lost_its_target,
        )
        return found, keys

    def _evict(self, pod: Pod, why: str) -> None:
        tell(f"{pod.key}: evicted without room: {why}")
        said = ""
        while True:
            answer = self.api.evict(pod.namespace, pod.name, pod.uid, self.grace_s)
            if answer.outcome in _DONE:
                return
            if answer.outcome not in _PASSES:
                raise CommandError(f"{pod.key} cannot be evicted: {answer.message}\n{self.how_to_go_on}")
            if self._left_s() <= 0:
                raise NotDrainedError(
                    f"{pod.key} was not evicted in time: {answer.message}\n{self.how_to_go_on}"
                )
            if answer.message != said:
                said = answer.message
                tell(f"{pod.key}: waiting: {said}")
            self.pause(_AGAIN_S)

    def _wait_until_gone(self) -> None:
        """Old pods may still be ending when their replacements run."""
        while leaving := [pod for pod in self.pods_on_nodes() if pod.deleting]:
            if self._left_s() <= 0:
                names = ", ".join(str(pod.key) for pod in leaving)
                raise NotDrainedError(f"not gone in time: {names}\n{self.how_to_go_on}")
            self.pause(_POLL_S)

    def _left_s(self) -> float:
        return self.ends_s - self.clock()


def _has_lost_its_target(move: PodMigration) -> bool:
    """True while the node that was planned does not take the pod, or its room there is not found: the next round plans again."""
    return move.status.reason in _WITHOUT_ROOM


def told(plan: DrainPlan) -> list[str]:
    """What a person should know before the drain begins."""
    lines = [f"{pod.key} stays: {why}" for pod, why in plan.stays if why is Stays.DAEMON]
    lines += [f"{pod.key} waits for its budget: {why}" for pod, why in plan.waits]
    return lines + [f"{pod.key} will be evicted without room: {why}" for pod, why in plan.evictions]
