"""Empties nodes, round by round: what ``drain`` does with nodes that are named, and ``consolidate`` with those that it chooses.

A round reads the cluster, plans again, asks for the moves that can be made now, as ``move`` does, and follows them. So a pod whose
move failed, or that came meanwhile, is in the next round, and an interrupted drain is taken up by running it again: what it has
asked for is found. A plan is shown here, too.

With ``--evict-with request`` responders of the pods' owners have their turn before anything is moved: EvictionRequests are filed, waited for,
and taken back in any case.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from rescheduler.cli.by_name import pods_on
from rescheduler.cli.drain_plan import DrainPlan
from rescheduler.cli.errors import EXIT_BLOCKED, EXIT_FAILED, CommandError
from rescheduler.cli.following import Moves, follow, follow_moves, why_not
from rescheduler.cli.migration_client import MigrationClient, MoveOrder
from rescheduler.cli.output import emit_as, is_text, tell
from rescheduler.kube.client import KubeApi
from rescheduler.kube.eviction_requests import EvictionRequests
from rescheduler.migrations.migration_lifecycle import MigrationReason
from rescheduler.model.counted import plural
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.names import API_VERSION, LIFECYCLE
from rescheduler.model.outcomes import EvictionOutcome, EvictionResult
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.reports.moves import MOVED, entry_of, moved_row
from rescheduler.reports.table import flat_table, table

REQUESTER: Final = "rescheduler.dev/drain"
_IN_VAIN: Final = 2
"""After so many rounds in a row without a landing the drain ends."""
_AGAIN_S: Final = 5.0
_TO_BE_ADDED: Final = "a node to be added"
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


@dataclass(slots=True, kw_only=True)
class Drain:
    """Empties nodes that are cordoned, once. ``plan``: reads the cluster and plans."""

    api: KubeApi
    plan: Callable[[], DrainPlan]
    order: MoveOrder
    """Of all moves; their random words begin with its ``group``, and its ttl is the limit of the whole drain."""
    stays: str
    """What becomes of nodes that are not empty at the end."""
    how_to_go_on: str
    seen: dict[ObjectKey, PodMigration] = field(default_factory=dict)
    """Its moves, as they were seen last."""
    evicted: list[tuple[Pod, str]] = field(default_factory=list)
    """Without room, each with the reason."""

    @contextmanager
    def told(self, names: Sequence[str], output: str) -> Iterator[None]:
        """Around the work: what became of it is told, however it ends."""
        began_s, drained = time.monotonic(), False
        try:
            yield
            drained = True
        finally:
            seconds = time.monotonic() - began_s
            if not is_text(output):
                emit_as(
                    output,
                    document=lambda: self._document(names, drained=drained, seconds=seconds),
                    names=lambda: (f"node/{name}" for name in names),
                    text=str,
                )
            elif self.seen or self.evicted:
                tell(self._summary(seconds))

    def _summary(self, seconds: float) -> str:
        landed = sum(move.status.phase is MigrationPhase.SUCCEEDED for move in self.seen.values())
        evicted = f", {len(self.evicted)} evicted without room" if self.evicted else ""
        failed = f", {len(self.seen) - landed} not" if len(self.seen) > landed else ""
        rows = [moved_row(entry_of(move)) for move in self.seen.values()]
        shown = flat_table(MOVED, rows) if rows else ""
        return f"{shown}{plural(landed, 'pod')} moved{failed}{evicted}, in {seconds:.0f} s"

    def _document(self, names: Sequence[str], *, drained: bool, seconds: float) -> dict[str, Any]:
        return {
            "apiVersion": API_VERSION,
            "kind": "Drain",
            "nodes": list(names),
            "drained": drained,
            "moves": [entry_of(move) for move in self.seen.values()],
            "evictions": with_reasons(self.evicted),
            "seconds": round(seconds, 1),
        }

    def carry_out(self, plan: DrainPlan) -> None:
        """Empty the nodes, beginning with ``plan``.

        Raises:
            CommandError: a pod has no place any more, or an eviction is refused for good.
            NotDrainedError: not within the time.
        """
        nodes, ends_s, in_vain = plan.nodes, time.monotonic() + self.order.ttl_s, 0
        while plan.moves or plan.under_way:
            found, keys = self._round(plan, ends_s - time.monotonic())
            landed = sum(move.status.phase is MigrationPhase.SUCCEEDED for move in found.values())
            in_vain = 0 if landed else in_vain + 1
            if time.monotonic() >= ends_s or in_vain >= _IN_VAIN:
                waits = "".join(f"\n  {line}" for line in why_not(keys, found))
                raise NotDrainedError(f"the nodes are not empty; {self.stays}.{waits}\n{self.how_to_go_on}")
            plan = self.plan()
            if plan.refused and not plan.moves:
                raise CommandError(f"{refusal_text(plan)}\n{self.how_to_go_on}")
        for pod, why in plan.evictions:
            self._evict(pod, why, ends_s)
        # Old pods may still be ending when their replacements run.
        if names := still_there(self.api, nodes, lambda pod: pod.deleting, ends_s):
            raise NotDrainedError(f"not gone in time: {names}\n{self.how_to_go_on}")

    def _round(self, plan: DrainPlan, left_s: float) -> tuple[Moves, list[ObjectKey]]:
        group = f"{self.order.group}{secrets.token_hex(4)}"
        order = replace(self.order, group=group, ttl_s=max(left_s, 1.0))
        client = MigrationClient(self.api)
        first = [move for move in plan.moves if move.stage == 0]
        asked, _ = client.ask([(move.pod, move.target) for move in first], order)
        keys = [*asked, *(key for _, key in plan.under_way)]
        for_nodes = {key for key, move in zip(asked, first, strict=True) if not move.target}
        # While the node that was planned does not take the pod, or its room there is not found, the next round plans again; one that is to
        # be added is waited for.
        found = follow_moves(
            client,
            keys,
            ttl_s=left_s,
            how_to_go_on=self.how_to_go_on,
            gives_up=lambda move: move.status.reason in _WITHOUT_ROOM and move.key not in for_nodes,
            seen=self.seen,
        )
        return found, keys

    def _evict(self, pod: Pod, why: str, ends_s: float) -> None:
        tell(f"{pod.key}: evicted without room: {why}")
        said: list[str] = []

        def say(answer: EvictionResult) -> None:
            if answer.outcome in _PASSES and answer.message not in said[-1:]:
                said.append(answer.message)
                tell(f"{pod.key}: waiting: {answer.message}")

        answer = follow(
            lambda: self.api.evict(pod.namespace, pod.name, pod.uid, self.order.grace_s),
            lambda answer, _: answer.outcome not in _PASSES,
            ends_s=ends_s,
            show=say,
            pause=partial(time.sleep, _AGAIN_S),
        )
        if answer.outcome in _PASSES:
            raise NotDrainedError(f"{pod.key} was not evicted in time: {answer.message}\n{self.how_to_go_on}")
        if answer.outcome not in _DONE:
            raise CommandError(f"{pod.key} cannot be evicted: {answer.message}\n{self.how_to_go_on}")
        self.evicted.append((pod, why))


def still_there(api: KubeApi, nodes: Iterable[str], which: Callable[[Pod], bool], ends_s: float) -> str:
    """Waits until no such pod is on the nodes any more; the names of those that are there at the end."""
    left = follow(
        lambda: [pod for pod in pods_on(api, nodes) if which(pod)], lambda left, _: not left, ends_s=ends_s
    )
    return ", ".join(str(pod.key) for pod in left)


def _plan_text(plan: DrainPlan) -> str:
    """What keeps the nodes from being drained first."""
    lines = [_headline(plan)]
    lines += _reasons("REFUSED", plan.refused)
    if plan.moves:
        staged = any(move.stage for move in plan.moves)
        header = ("POD", "FROM", "TO", "STAGE") if staged else ("POD", "FROM", "TO")
        rows = [
            (str(m.pod.key), m.pod.node, m.target or _TO_BE_ADDED, str(m.stage + 1))[: len(header)]
            for m in plan.moves
        ]
        lines += ["", *table(header, rows)]
    if plan.under_way:
        rows = [(str(pod.key), pod.node, f"PodMigration {key.name}") for pod, key in plan.under_way]
        lines += ["", *table(("MOVING ALREADY", "FROM", "BY"), rows)]
    lines += _reasons("EVICTED WITHOUT ROOM", plan.evictions)
    lines += _reasons("WAITS FOR ITS BUDGET", plan.waits)
    lines += _reasons("STAYS", plan.stays)
    return "\n".join(lines) + "\n"


def emit_plan(plan: DrainPlan, output: str) -> None:
    """Write the plan as ``output`` asks for it."""
    emit_as(
        output,
        document=lambda: _plan_document(plan),
        names=lambda: (f"node/{name}" for name in plan.nodes),
        text=lambda: _plan_text(plan),
    )


def _plan_document(plan: DrainPlan) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "DrainPlan",
        "nodes": list(plan.nodes),
        "moves": moves_document(plan),
        "moving": [
            {"pod": _ref(pod), "podMigration": {"namespace": key.namespace, "name": key.name}}
            for pod, key in plan.under_way
        ],
        "evictions": with_reasons(plan.evictions),
        "waits": with_reasons(plan.waits),
        "stays": [{"pod": _ref(pod), "reason": why.name, "message": why.value} for pod, why in plan.stays],
        "refused": with_reasons(plan.refused),
    }


def moves_document(plan: DrainPlan) -> list[dict[str, Any]]:
    """The moves for a document."""
    return [{"pod": _ref(m.pod), "from": m.pod.node, "to": m.target, "stage": m.stage} for m in plan.moves]


def with_reasons(pods: Iterable[tuple[Pod, str]]) -> list[dict[str, Any]]:
    """Pods for a document, each with a message."""
    return [{"pod": _ref(pod), "message": why} for pod, why in pods]


def refusal_text(plan: DrainPlan) -> str:
    """Why the nodes are not drained: an error message."""
    listed = "".join(f"\n  {pod.key}: {why}" for pod, why in plan.refused)
    return f"{_named(plan)} cannot be drained because of {plural(len(plan.refused), 'pod')}:{listed}"


def _headline(plan: DrainPlan) -> str:
    parts = [f"{plural(len(plan.moves), 'pod')} would be moved"]
    if plan.evictions:
        parts.append(f"{len(plan.evictions)} evicted without room")
    if plan.refused:
        parts.append(f"{len(plan.refused)} refused: the drain would not begin")
    return f"{_named(plan)}: {', '.join(parts)}"


def _named(plan: DrainPlan) -> str:
    return ", ".join(f"node/{name}" for name in plan.nodes)


def _reasons(title: str, pods: Iterable[tuple[Pod, str]]) -> list[str]:
    rows = [(str(pod.key), pod.node, str(why)) for pod, why in pods]
    return ["", *table((title, "NODE", "WHY"), rows)] if rows else []


def _ref(pod: Pod) -> dict[str, str]:
    return {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}


def eviction_requests(api: KubeApi) -> EvictionRequests:
    """CommandError: they are not served here. Raises ApiError, TransportError."""
    served = EvictionRequests.served(api, REQUESTER)
    if served is None:
        raise CommandError(
            f"the API server does not serve EvictionRequests ({LIFECYCLE}); drain without --evict-with request",
            EXIT_FAILED,
        )
    return served


def evict_by_requests(
    api: KubeApi, requests: EvictionRequests, pods: Sequence[Pod], limit_s: float, how_to_go_on: str
) -> None:
    """Ask for the eviction of these pods, and wait until they are gone. NotDrainedError: not in time."""
    ends_s, nodes = time.monotonic() + limit_s, sorted({pod.node for pod in pods})
    uids = {pod.uid for pod in pods}
    with _filed(requests, pods):
        names = still_there(api, nodes, lambda pod: pod.uid in uids, ends_s)
    if names:
        raise NotDrainedError(
            f"not evicted in time, and their requests are withdrawn: {names}\n{how_to_go_on}"
        )


@contextmanager
def _filed(requests: EvictionRequests, pods: Sequence[Pod]) -> Iterator[None]:
    """While it lasts, the requests stand."""
    try:
        for pod in pods:
            requests.file(pod.key, pod.uid)
        yield
    finally:
        for pod in pods:
            requests.withdraw(pod.key, pod.uid)
