"""Creates a PodMigration object for each move of a plan: the only way in which a plan takes effect.

``ApiIssuer`` creates the objects; ``DryRunIssuer`` only logs them. Names are derived from the pod's uid and the time of
the decision, so that a creation that is sent again after a lost answer does not make a second object.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import structlog

from rescheduler.controller.effects import NotLeaderError
from rescheduler.controller.move_log import by_policy
from rescheduler.kube.answers import read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import AlreadyExistsError, ConflictError, NotFoundError, RejectedError
from rescheduler.model.bounds import MOST_MOVE_TTL
from rescheduler.model.encode import migration_manifest
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.migration import MigrationPhase, MoveMode
from rescheduler.model.names import CREATED_BY, LABEL_CREATED_BY, LABEL_WORKLOAD_UID
from rescheduler.model.records import ObjectKey
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import parse_duration
from rescheduler.planning.plan import Move, PodRef
from rescheduler.planning.stages import stages_of

_NAME_LIMIT: Final = 52
_MESSAGE_LIMIT: Final = 256
_MOST_TTL_S: Final = parse_duration(MOST_MOVE_TTL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How the moves of one decision are carried out. ``ttl_s``: the time limit of each move.

    ``modes``: modes that policies declare for their own moves, by name of the policy. They override ``mode``.
    """

    snapshot: Snapshot
    mode: MoveMode
    ttl_s: float
    modes: Mapping[str, MoveMode] = field(default_factory=dict)


class MoveIssuer(Protocol):
    """Begins moves."""

    def issue(self, moves: Sequence[Move], order: Order) -> tuple[ObjectKey, ...]:
        """Begin ``moves``. Returns the keys of the PodMigrations that now exist. Raises ApiError, TransportError."""
        ...


@dataclass(frozen=True)
class ApiIssuer:
    """Creates PodMigrations. If the API server refuses one, that is logged, and the others are still created."""

    api: KubeApi
    still_leader: Callable[[], bool] = lambda: True
    """Asked right before each creation."""
    log: Any = field(default_factory=lambda: structlog.get_logger("rescheduler.moves"))

    def issue(self, moves: Sequence[Move], order: Order) -> tuple[ObjectKey, ...]:
        """Create one PodMigration for each move. Raises NotLeaderError besides."""
        issued: list[ObjectKey] = []
        for move, stage in zip(moves, stages_of(moves), strict=True):
            if not self.still_leader():
                raise NotLeaderError("leadership was lost while a decision was made")
            earlier = _earlier(move, order)
            if not _all_issued(earlier, issued):
                self.log.warning("A move is left out: one that it begins after was refused", **_facts(move))
                continue
            body = _manifest(move, order, earlier, stage)
            key = ObjectKey(move.pod.namespace, body["metadata"]["name"])
            try:
                created = self.api.create(RESOURCES[Kind.POD_MIGRATION].object_path(key.namespace, ""), body)
                if declared_by_policy(move, order):
                    self._declare(key, created)
            except AlreadyExistsError:
                pass  # by an earlier try of this creation, whose answer was lost
            except (RejectedError, NotFoundError) as error:
                self.log.warning("A move was refused by the API server", **_facts(move), error=str(error))
                continue
            issued.append(key)
            self.log.info("A move begins", migration=str(key), **_facts(move))
        return tuple(issued)

    def _declare(self, key: ObjectKey, created: bytes) -> None:
        """Write into the status, which authors of PodMigrations cannot write, that the policy declares the mode.

        If that fails, the move reserves first, as every move does whose mode is not declared.
        """
        body = read_answer(created, dict[str, Any])
        body["status"] = {"phase": MigrationPhase.PENDING.value, "mode": MoveMode.START_FIRST.value}
        path = RESOURCES[Kind.POD_MIGRATION].object_path(key.namespace, key.name) + "/status"
        try:
            self.api.replace(path, body)
        except (RejectedError, NotFoundError, ConflictError) as error:
            self.log.warning(
                "Mode StartFirst could not be recorded: the move reserves first",
                migration=str(key),
                error=str(error),
            )


@dataclass(frozen=True)
class DryRunIssuer:
    """Logs the moves that would begin. ``show`` is called with each."""

    show: Callable[[Move], None] = field(default=lambda _: None)
    log: Any = field(default_factory=lambda: structlog.get_logger("rescheduler.moves"))

    def issue(self, moves: Sequence[Move], order: Order) -> tuple[ObjectKey, ...]:
        """Nothing is created."""
        del order
        for move in moves:
            self.log.info("A move would begin", **_facts(move))
            self.show(move)
        return ()


def _earlier(move: Move, order: Order) -> tuple[ObjectKey, ...]:
    """The PodMigrations that this one begins after."""
    decided_at_s = order.snapshot.taken_at_s
    return tuple(ObjectKey(pod.namespace, migration_name(pod, decided_at_s)) for pod in move.after)


def _all_issued(earlier: Sequence[ObjectKey], issued: Collection[ObjectKey]) -> bool:
    return all(key in issued for key in earlier)


def _manifest(move: Move, order: Order, earlier: Sequence[ObjectKey], stage: int) -> dict[str, Any]:
    """The PodMigration of a move. A later stage may wait for as long as each of the earlier ones may take."""
    pod = order.snapshot.pods.get(ObjectKey(move.pod.namespace, move.pod.name))
    labels = {LABEL_CREATED_BY: CREATED_BY}
    if pod is not None and (uid := order.snapshot.workload_uid(pod)):
        labels[LABEL_WORKLOAD_UID] = uid
    return migration_manifest(
        move.pod.namespace,
        migration_name(move.pod, order.snapshot.taken_at_s),
        pod_name=move.pod.name,
        pod_uid=move.pod.uid,
        target_node=move.target,
        mode=_mode_of(order.modes.get(move.policy, order.mode)),
        ttl_s=min(stage * order.ttl_s, max(order.ttl_s, _MOST_TTL_S)),
        reason=(move.message or move.reason)[:_MESSAGE_LIMIT],
        policy=move.policy,
        after=earlier,
        labels=labels,
    )


def _mode_of(configured: MoveMode) -> MoveMode:
    """Auto for StartFirst: each move finds out whether its pod can start first, and reserves first if not."""
    return MoveMode.AUTO if configured is MoveMode.START_FIRST else configured


def declared_by_policy(move: Move, order: Order) -> bool:
    """True if the move starts first because its policy says so."""
    return move.mode is MoveMode.START_FIRST and order.modes.get(move.policy) is MoveMode.START_FIRST


def migration_name(pod: PodRef, decided_at_s: float) -> str:
    """Deterministic for one decision; a later try of the same pod has another name."""
    digest = hashlib.sha256(f"{pod.uid}/{decided_at_s:.3f}".encode()).hexdigest()[:8]
    return f"{pod.name[:_NAME_LIMIT].rstrip('-.')}-{digest}"


def _facts(move: Move) -> dict[str, object]:
    return {
        "pod": f"{move.pod.namespace}/{move.pod.name}",
        "from": move.source,
        "to": move.target,
        "why": move.message or move.reason,
        "by": by_policy(move.policy),
        "gain": move.gain,
        **({"after": [f"{pod.namespace}/{pod.name}" for pod in move.after]} if move.after else {}),
    }
