"""Creates a PodMigration object for each move of a plan: the only way in which a plan takes effect.

``ApiIssuer`` creates the objects; ``DryRunIssuer`` only logs them. Names are derived from the pod's uid and the time of
the decision, so that a creation that is sent again after a lost answer does not make a second object. Calls wait for their
answers in the pool, those of one namespace one after the other: ``Issue`` tells what has become of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import structlog

from rescheduler.configuration.document import Configuration
from rescheduler.controller.call_pool import OWN_LANE, CallPool
from rescheduler.controller.effects import NotLeaderError
from rescheduler.kube.answers import read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    NotFoundError,
    RejectedError,
)
from rescheduler.kube.transport import TransportError
from rescheduler.model.bounds import MOST_MOVE_TTL
from rescheduler.model.decode.wire_form import manifest, with_status
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.migration import MigrationPhase, MoveMode, PodMigration, by_policy
from rescheduler.model.names import ANNOTATION_MAKES_ROOM, CREATED_BY, LABEL_CREATED_BY, LABEL_WORKLOAD_UID
from rescheduler.model.own_objects import named_after
from rescheduler.model.records import ObjectKey
from rescheduler.model.room_pod import attempt_mark
from rescheduler.model.selectors import LabelSet
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import parse_duration
from rescheduler.planning.badness import by_policy as changes_by_policy
from rescheduler.planning.change_windows import opening
from rescheduler.planning.plan import Move, PendingRoom, PodRef, stages_of
from rescheduler.reservations.room_decisions import making_room, pending_room_manifest, pending_room_name

FRESH_S: Final = 10.0
"""How old a decision may be when one of its moves begins: after slow answers the rest is decided anew."""
_MOST_STAGES: Final = 4
"""The room of a pending pod is kept for as long as its moves may take, one after the other, and it may take to land."""
_CHAINS: Final = OWN_LANE
"""The row of all moves of chains, which may lead through several namespaces."""
_MESSAGE_LIMIT: Final = 256
_MOST_TTL_S: Final = parse_duration(MOST_MOVE_TTL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the moves of one decision were decided on, and by."""

    snapshot: Snapshot
    configuration: Configuration
    rooms: Sequence[PendingRoom] = ()
    """Of pending pods: each is reserved before the moves that make it are created."""


@dataclass(slots=True)
class Issue:
    """The moves of one decision as they begin. Used by the core thread only."""

    pool: CallPool = field(default_factory=CallPool)
    waiting: list[Creations] = field(default_factory=list)
    """Those whose namespace has no free worker."""
    under_way: int = 0
    """Namespaces whose creations are being answered."""
    keys: tuple[ObjectKey, ...] = ()
    """PodMigrations that exist now."""
    error: Exception | None = None
    """Why some could not be created; they are planned again by a later decision."""

    @property
    def done(self) -> bool:
        """True once all is answered."""
        return not self.waiting and not self.under_way

    def go_on(self, now_s: float) -> None:
        """Begin what has a free worker."""
        for work in list(self.waiting):
            if self.pool.accepts(work.lane):
                self.waiting.remove(work)
                self.under_way += 1
                self.pool.begin(work, now_s)

    def landed(self, keys: Iterable[ObjectKey], error: Exception | None) -> None:
        """The creations of one namespace have been answered."""
        self.under_way -= 1
        self.keys = (*self.keys, *keys)
        self.error = self.error or error


class ToCreate(NamedTuple):
    """A move that begins."""

    move: Move
    earlier: tuple[ObjectKey, ...]
    """The PodMigrations that it begins after."""
    stage: int
    room: PendingRoom | None = None
    """Of the pending pod that its pod steps aside for."""


@dataclass(slots=True, kw_only=True)
class Creations:
    """The PodMigrations of one namespace, or of all chains, in order, as a ``call_pool.Work``."""

    lane: str
    create: Callable[[ToCreate, Collection[ObjectKey | None]], ObjectKey | None]
    """Creates one, if those exist that it begins after; None: it does not begin."""
    wanted: Sequence[ToCreate]
    issue: Issue
    age_s: Callable[[], float]
    """Seconds since the decision."""
    _answers: list[ObjectKey | None] = field(default_factory=list)
    _error: Exception | None = None

    def call(self) -> bool:
        """Create the next one; none once the decision has grown old."""
        if self._answers and self.age_s() > FRESH_S:
            self._error = TransportError(
                "the answers took so long that the rest of the decision has grown old"
            )
            return False
        try:
            self._answers.append(self.create(self.wanted[len(self._answers)], self._answers))
        except Exception as error:  # noqa: BLE001 - the core thread raises what it does not expect
            self._error = error
            return False
        return len(self._answers) < len(self.wanted)

    def land(self, now_s: float) -> None:
        """Take what was created. Raises NotLeaderError, and defects."""
        del now_s
        self.issue.landed((key for key in self._answers if key is not None), self._error)
        if self._error is not None and not isinstance(self._error, ApiError | TransportError):
            raise self._error


@dataclass(frozen=True)
class ApiIssuer:
    """Creates PodMigrations. If the API server refuses one, that is logged, and the others are still created."""

    api: KubeApi
    still_leader: Callable[[], bool] = lambda: True
    """Asked right before each creation."""
    pool: CallPool = field(default_factory=CallPool)
    clock: Callable[[], float] = time.monotonic
    log: Any = field(default_factory=lambda: structlog.get_logger("rescheduler.moves"))

    def issue(self, moves: Sequence[Move], order: Order, now_s: float) -> Issue:
        """Create one PodMigration for each move, those of one namespace or one chain in their order."""
        issue, decided_s = Issue(self.pool), self.clock()
        made = {pod: room for room in order.rooms for pod in room.moves}
        chained = {pod for move in moves if move.after for pod in (*move.after, move.pod)} | made.keys()
        rows: dict[str, list[ToCreate]] = {}
        reserved: dict[PodRef, str] = {}
        for move, stage in zip(moves, stages_of(moves), strict=True):
            row = _CHAINS if move.pod in chained else move.pod.namespace
            wanted = ToCreate(move, _earlier(move, order), stage, made.get(move.pod))
            rows.setdefault(row, []).append(wanted)
        issue.waiting = [
            Creations(
                lane=row,
                create=partial(self._create, order, reserved),
                wanted=wanted,
                issue=issue,
                age_s=lambda: self.clock() - decided_s,
            )
            for row, wanted in rows.items()
        ]
        issue.go_on(now_s)
        return issue

    def _create(
        self,
        order: Order,
        reserved: dict[PodRef, str],
        wanted: ToCreate,
        issued: Collection[ObjectKey | None],
    ) -> ObjectKey | None:
        """Runs on any thread. ``reserved``: rooms of pending pods that were reserved or refused ("") for these moves."""
        if not self.still_leader():
            raise NotLeaderError("leadership was lost while a decision was made")
        move = wanted.move
        if not all(key in issued for key in wanted.earlier):
            self.log.warning("A move is left out: one that it begins after was refused", **_facts(move))
            return None
        room = ""
        if (pending := wanted.room) is not None:
            if pending.pod not in reserved:  # before anybody is moved for it
                reserved[pending.pod] = self._reserved(order, pending)
            if not (room := reserved[pending.pod]):  # it was refused
                return None
        body = _manifest(move, order, wanted.earlier, wanted.stage, room)
        key = ObjectKey(move.pod.namespace, body["metadata"]["name"])
        try:
            created = self.api.create(RESOURCES[Kind.POD_MIGRATION].object_path(key.namespace, ""), body)
            if declared_by_policy(move, order):
                self._declare(key, created)
        except AlreadyExistsError:
            pass  # by an earlier try of this creation, whose answer was lost
        except (RejectedError, NotFoundError) as error:
            self.log.warning("A move was refused by the API server", **_facts(move), error=str(error))
            return None
        self.log.info("A move begins", migration=str(key), **_facts(move))
        return key

    def _reserved(self, order: Order, room: PendingRoom) -> str:
        """How the moves name the Reservation; "": it was refused."""
        return self._asked_aside(order, room) if room.reservation else self._of_pod(order, room)

    def _asked_aside(self, order: Order, room: PendingRoom) -> str:
        """A Reservation that waits keeps the node from now on: by compare and swap, so nothing happens if it has changed since."""
        reservation = order.snapshot.reservations.get(room.reservation)
        if reservation is None:
            return ""
        making = making_room(reservation, room.node, len(room.moves), order.snapshot.taken_at_s)
        status = msgspec.structs.replace(reservation.status, making_room=making)
        path = RESOURCES[Kind.RESERVATION].object_path("", reservation.name) + "/status"
        try:
            self.api.replace(path, with_status(reservation, status))
        except (RejectedError, NotFoundError, ConflictError) as error:
            words = "The room of a Reservation was refused"
            self.log.warning(words, reservation=reservation.name, error=str(error))
            return ""
        self.log.info("Room is made for a Reservation", reservation=reservation.name, node=room.node)
        return attempt_mark(reservation.name, making.attempt)

    def _of_pod(self, order: Order, room: PendingRoom) -> str:
        pod = order.snapshot.pods.get(ObjectKey(room.pod.namespace, room.pod.name))
        if pod is None:
            return ""
        name = pending_room_name(pod.name, pod.uid, order.snapshot.taken_at_s)
        ttl_s = _MOST_STAGES * order.configuration.reservations.ttl_s
        body = pending_room_manifest(name, pod, room.node, moves=len(room.moves), ttl_s=ttl_s)
        try:
            self.api.create(RESOURCES[Kind.RESERVATION].object_path("", ""), body)
        except AlreadyExistsError:
            pass  # by an earlier try of this creation, whose answer was lost
        except (RejectedError, NotFoundError) as error:
            self.log.warning("The room of a pending pod was refused", pod=str(pod.key), error=str(error))
            return ""
        self.log.info("Room is made for a pending pod", pod=str(pod.key), node=room.node, reservation=name)
        return name

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
    """Logs the moves that would begin."""

    log: Any = field(default_factory=lambda: structlog.get_logger("rescheduler.moves"))

    def issue(self, moves: Sequence[Move], order: Order, now_s: float) -> Issue:
        """Nothing is created."""
        del order, now_s
        for move in moves:
            self.log.info("A move would begin", **_facts(move))
        return Issue()


def _earlier(move: Move, order: Order) -> tuple[ObjectKey, ...]:
    """The PodMigrations that this one begins after."""
    decided_at_s = order.snapshot.taken_at_s
    return tuple(ObjectKey(pod.namespace, migration_name(pod, decided_at_s)) for pod in move.after)


def _manifest(
    move: Move, order: Order, earlier: Sequence[ObjectKey], stage: int, room: str
) -> dict[str, Any]:
    """The PodMigration of a move. A later stage may wait for as long as each of the earlier ones may take.

    ``room``: the Reservation that its pod steps aside for; "": none.
    """
    configuration = order.configuration
    pod = order.snapshot.pods.get(ObjectKey(move.pod.namespace, move.pod.name))
    labels = {LABEL_CREATED_BY: CREATED_BY}
    if pod is not None and (uid := order.snapshot.workload_uid(pod)):
        labels[LABEL_WORKLOAD_UID] = uid
    return manifest(
        PodMigration(
            namespace=move.pod.namespace,
            name=migration_name(move.pod, order.snapshot.taken_at_s),
            pod_name=move.pod.name,
            pod_uid=move.pod.uid,
            target_node=move.target,
            mode=_mode_of(configuration.modes.get(move.policy, configuration.mode)),
            ttl_s=_ttl_s(move, order, stage),
            hint_s=configuration.hints.get(move.policy),
            reason=(move.message or move.reason)[:_MESSAGE_LIMIT],
            policy=move.policy,
            after=tuple(earlier),
            labels=LabelSet(labels),
            annotations=LabelSet({ANNOTATION_MAKES_ROOM: room} if room else {}),
        )
    )


def _ttl_s(move: Move, order: Order, stage: int) -> float:
    """No pod is evicted after the window in which its move began."""
    one_s = order.configuration.reservations.ttl_s
    ttl_s = min(stage * one_s, max(one_s, _MOST_TTL_S))
    now_s = order.snapshot.taken_at_s
    left_s = opening(order.configuration.limits.windows, move.policy, now_s).closes_s - now_s
    return max(1.0, min(ttl_s, math.floor(left_s))) if math.isfinite(left_s) else ttl_s


def _mode_of(configured: MoveMode) -> MoveMode:
    """Auto for StartFirst: each move finds out whether its pod can start first, and reserves first if not."""
    return MoveMode.AUTO if configured is MoveMode.START_FIRST else configured


def declared_by_policy(move: Move, order: Order) -> bool:
    """True if the move starts first because its policy says so."""
    declared = order.configuration.modes.get(move.policy)
    return move.mode is MoveMode.START_FIRST and declared is MoveMode.START_FIRST


def migration_name(pod: PodRef, decided_at_s: float) -> str:
    """Deterministic for one decision; a later try of the same pod has another name."""
    return named_after(pod.name, f"{pod.uid}/{decided_at_s:.3f}")


def _facts(move: Move) -> dict[str, object]:
    return {
        "pod": f"{move.pod.namespace}/{move.pod.name}",
        "from": move.source,
        "to": move.target,
        "why": move.message or move.reason,
        "by": by_policy(move.policy),
        "gain": move.gain,
        "change": {name: change.by_tier() for name, change in changes_by_policy(move.effects).items()},
        **({"after": [f"{pod.namespace}/{pod.name}" for pod in move.after]} if move.after else {}),
    }
