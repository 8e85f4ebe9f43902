"""The loop by which commands follow what they have asked for, until it has ended, and how a person sees it.

``follow`` is the only loop; Reservations, moves and drains are followed by it. A controller is expected to act only while the
API server answers. Ctrl-C ends the loop, never what is followed: a note says how to go on.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

import msgspec

from rescheduler.cli.errors import EXIT_BLOCKED, EXIT_DONE, EXIT_FAILED, CommandError
from rescheduler.cli.migration_client import MigrationClient, disturbs, is_unobserved
from rescheduler.cli.output import StatusLine, emit_objects, tell
from rescheduler.kube.election import LeaseTiming
from rescheduler.kube.errors import ApiError, TryLaterError
from rescheduler.kube.transport import TransportError
from rescheduler.migrations.migration_lifecycle import FINISHED, MigrationReason
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.records import ObjectKey
from rescheduler.model.times import format_seconds
from rescheduler.reports.table import flat_table
from rescheduler.visible import visible_line

Found = TypeVar("Found")
Moves = Mapping[ObjectKey, PodMigration]

POLL_S: Final = 0.5
_BREAK_S: Final = 2.0
AWAY_S: Final = 120.0
"""How long an API server that was there is waited for: an upgrade of a control plane with one of them takes less."""
_LANDING_S: Final = 900.0
"""A move that has evicted its pod ends within less, whatever its ttl is; otherwise the controller is away."""
NO_CONTROLLER_AFTER_S: Final = LeaseTiming().duration_s + 15.0
"""If no controller has looked at anything of a command after so long, while the API server answered, none is at work.

One that takes over from a leader that died waits for its Lease to expire, and then reads the cluster.
"""
LOST_AFTER_S: Final = 15.0
"""For so long a move may wait for a target that it cannot have before its command withdraws it, if the command plans again."""
_NARROW: Final = ("POD", "FROM", "TO", "STATE", "REASON")


def follow(
    look: Callable[[], Found],
    done: Callable[[Found, float], bool],
    *,
    ends_s: float,
    show: Callable[[Found], object] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[], None] = lambda: time.sleep(POLL_S),
) -> Found:
    """Read by ``look`` until ``done``, or until ``ends_s`` of ``clock``; returns the last result.

    The second argument of ``done`` is for how many seconds the API server has answered without interruption: only in
    such time the controller can be expected to act. A read that takes long was retried: it counts as an interruption.
    A server that has answered, and does not any more, is being started again: it is waited for (the client says so). Raises TransportError,
    TryLaterError: it has not come back for AWAY_S, or was not there at first; and what else ``look`` raises.
    """
    answers_since_s = clock()
    last_s = -math.inf
    while True:
        asked_s = clock()
        try:
            found = look()
        except (TransportError, TryLaterError):
            if asked_s >= min(ends_s, last_s + AWAY_S):
                raise
            answers_since_s = clock()
            pause()
            continue
        now_s = last_s = clock()
        if now_s - asked_s > _BREAK_S:
            answers_since_s = now_s
        show(found)
        if done(found, now_s - answers_since_s) or now_s >= ends_s:
            return found
        pause()


def follow_moves(
    client: MigrationClient,
    keys: Iterable[ObjectKey],
    *,
    ttl_s: float,
    how_to_go_on: str,
    gives_up: Callable[[PodMigration], bool] = lambda _: False,
    seen: dict[ObjectKey, PodMigration] | None = None,
) -> Moves:
    """The last that was seen of each move, once all have ended. Interrupted, it says ``how_to_go_on``; the moves go on.

    ``gives_up``: which of them are withdrawn if they stay like that for a while, and nothing moves onto their node meanwhile. A move
    whose object somebody else deletes has failed, as with its namespace. ``seen`` gets each as it is seen, but for those that are
    withdrawn. Raises CommandError: no controller looks at them.
    """
    followed = _FollowedMoves(client, frozenset(keys), gives_up, {} if seen is None else seen)
    with StatusLine() as line:
        try:
            follow(
                followed.look,
                followed.ended,
                ends_s=time.monotonic() + ttl_s + _LANDING_S,
                show=partial(followed.show, line),
            )
        except (KeyboardInterrupt, TransportError, ApiError) as interruption:
            interruption.add_note(how_to_go_on)
            raise
    return followed.at_the_end()


class _FollowedMoves:
    """The moves of one command while they are followed."""

    def __init__(
        self,
        client: MigrationClient,
        keys: frozenset[ObjectKey],
        gives_up: Callable[[PodMigration], bool],
        seen: dict[ObjectKey, PodMigration],
    ) -> None:
        self._client = client
        self._keys = keys
        self._gives_up = gives_up
        self._seen = seen
        self._last: dict[ObjectKey, PodMigration] = {}
        self._there: dict[ObjectKey, PodMigration] = {}
        self._lost_since_s: dict[ObjectKey, float] = {}
        self._said: dict[ObjectKey, str] = {}

    def look(self) -> Moves:
        """Also those that were deleted, as they were seen last."""
        ended = {key: move for key, move in self._there.items() if move.status.phase in FINISHED}
        if self._last:
            found = self._client.again(move for key, move in self._there.items() if key not in ended)
        else:
            namespaces = sorted({key.namespace for key in self._keys})
            found = (move for namespace in namespaces for move in self._client.select(namespace))
        self._there = ended | {move.key: move for move in found if move.key in self._keys}
        self._last |= self._there
        self._seen.update(self._there)
        return self._last

    def ended(self, _: Moves, answered_s: float) -> bool:
        """Withdraws what is lost. Raises CommandError where nobody looks at them."""
        there = self._there
        unfinished = [move for move in there.values() if move.status.phase not in FINISHED]
        if not unfinished:
            return True
        now_s = time.monotonic()
        # The rooms of a node take turns, so who waits for a node that takes others is not lost.
        taking = {_node(move) for move in unfinished if disturbs(move)}
        waiting = (move for move in unfinished if not disturbs(move) and self._gives_up(move))
        lost = {move.key: move for move in waiting if _node(move) not in taking}
        self._lost_since_s = {key: self._lost_since_s.get(key, now_s) for key in lost}
        given_up = [key for key, since_s in self._lost_since_s.items() if now_s - since_s >= LOST_AFTER_S]
        left = self._client.withdraw(lost[key] for key in given_up)
        for key in given_up:
            if key not in left:
                del self._seen[key]
        if answered_s >= NO_CONTROLLER_AFTER_S and all(map(is_unobserved, there.values())):
            left = self._client.withdraw(there.values())
            kept = f"; not withdrawn: {', '.join(map(str, left))}" if left else ""
            raise CommandError(
                "no controller has looked at the moves: is it running (rescheduler status)? "
                f"They were withdrawn, and no pod was disturbed{kept}"
            )
        return False

    def at_the_end(self) -> Moves:
        """All of them. One that is not there any more, and was not withdrawn for another plan, was deleted."""
        return {
            key: move
            if key in self._there or move.status.phase in FINISHED or key in self._lost_since_s
            else _deleted(move)
            for key, move in self._last.items()
        }

    def show(self, line: StatusLine, found: Moves) -> None:
        """On a terminal one line that sums up; elsewhere each step of each move once."""
        if sys.stderr.isatty():
            line.show(_summary(found, len(self._keys)))
            return
        for key, move in found.items():
            step = step_line(move)
            if self._said.get(key) != step:
                self._said[key] = step
                done = sum(other.status.phase in FINISHED for other in found.values())
                tell(f"{format_seconds(time.time())[11:]} {done}/{len(self._keys)} {step}")


def exit_code(keys: Iterable[ObjectKey], found: Moves) -> int:
    """0: all landed. 3: nothing failed, but some were not begun in time, or are still under way. 1: the rest."""
    code = EXIT_DONE
    for key in keys:
        move = found.get(key)
        if move is None or (move.status.phase is MigrationPhase.FAILED and not _waited_in_vain(move)):
            return EXIT_FAILED
        if move.status.phase is not MigrationPhase.SUCCEEDED:
            code = EXIT_BLOCKED
    return code


def why_not(keys: Iterable[ObjectKey], found: Moves) -> list[str]:
    """A line for each move that has not landed."""
    lines: list[str] = []
    for key in keys:
        move = found.get(key)
        if move is None:
            lines.append(f"PodMigration {key} was deleted before it had ended")
        elif move.status.phase is not MigrationPhase.SUCCEEDED:
            lines.append(step_line(move))
    return lines


def print_moves(client: MigrationClient, keys: Iterable[ObjectKey], found: Moves, output: str) -> None:
    """The moves in one of the formats of ``-o``."""
    wanted, wide = list(keys), output == "wide"

    def text() -> str:
        header = (*_NARROW, "REPLACEMENT", "MIGRATION", "MESSAGE") if wide else _NARROW
        return flat_table(header, [_row(found[key], wide=wide) for key in wanted if key in found])

    names = (key.name for key in wanted)
    emit_objects(output, "podmigration.rescheduler.dev", names, map(client.raw, wanted), text)


def step_line(move: PodMigration) -> str:
    """One step: the pod, what happens, and what it waits for."""
    status = move.status
    steps = dict.fromkeys((str(status.phase), status.reason or "asked for", status.message or ""))
    return visible_line(f"{move.namespace}/{move.pod_name}: {': '.join(filter(None, steps))}")


def _deleted(move: PodMigration) -> PodMigration:
    words = "its PodMigration was deleted before it had ended"
    status = msgspec.structs.replace(
        move.status, phase=MigrationPhase.FAILED, reason="Deleted", message=words
    )
    return msgspec.structs.replace(move, status=status)


def _node(move: PodMigration) -> str:
    return move.status.node_name or move.target_node


def _row(move: PodMigration, *, wide: bool) -> tuple[str, ...]:
    status = move.status
    narrow = (
        f"{move.namespace}/{move.pod_name}",
        status.source_node or "-",
        _node(move) or "-",
        str(status.phase),
        status.reason or "-",
    )
    if not wide:
        return narrow
    replacement = status.replacement.name if status.replacement is not None else "-"
    return (*narrow, replacement, move.name, status.message)


def _waited_in_vain(move: PodMigration) -> bool:
    return move.status.reason == MigrationReason.TIMEOUT and not disturbs(move)


def _summary(found: Moves, total: int) -> str:
    ended = [move for move in found.values() if move.status.phase in FINISHED]
    moving = next((step_line(move) for move in found.values() if move.status.phase not in FINISHED), "")
    done = sum(move.status.phase is MigrationPhase.SUCCEEDED for move in ended)
    failed = f", {len(ended) - done} failed" if len(ended) > done else ""
    return f"{done} of {total} landed{failed}; {moving}"
