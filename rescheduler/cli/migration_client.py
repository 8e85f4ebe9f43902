"""PodMigrations as commands create, follow and withdraw them: the same objects that the controller makes for its own moves.

The moves of one command share a label with a random word. Who interrupts the command can follow or withdraw them by it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rescheduler.cli.clients import allowed, installed, select, why_left
from rescheduler.cli.errors import CommandError
from rescheduler.cli.output import tell
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from rescheduler.migrations.migration_lifecycle import FINISHED
from rescheduler.model.decode.wire_form import manifest as manifest_of
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import ANNOTATION_EVICT, LABEL_GROUP
from rescheduler.model.own_objects import named_after
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.selectors import LabelSet

RIGHT: Final = "the ClusterRole rescheduler-user has the right; edit and admin contain it: docs/security.md"
CONSOLIDATING: Final = "consolidate-"
"""The words of moves by which nodes are consolidated begin with it."""
_AT_ONCE: Final = 8

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOrder:
    """What the moves of one command share. ``group``: a random word."""

    group: str = ""
    ttl_s: float
    reason: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    grace_s: int | None = None
    """None: the pods' own grace period."""


def manifest(pod: Pod, target: str, order: MoveOrder) -> Json:
    """The PodMigration of a move; ``target`` "": the controller chooses the node.

    Its name is the same whenever the command sends it again, and that of no other pod.
    """
    return manifest_of(
        PodMigration(
            namespace=pod.namespace,
            name=named_after(pod.name, f"{pod.uid}/{order.group}"),
            pod_name=pod.name,
            pod_uid=pod.uid,
            target_node=target,
            ttl_s=order.ttl_s,
            grace_s=order.grace_s,
            reason=order.reason,
            labels=LabelSet({LABEL_GROUP: order.group}),
            annotations=LabelSet(order.annotations),
        )
    )


@dataclass(slots=True)
class MigrationClient:
    """The PodMigrations of an API server. Methods raise ApiError, TransportError and CommandError unless documented."""

    api: KubeApi

    def ask(
        self, places: Iterable[tuple[Pod, str]], order: MoveOrder, *, dry_run: bool = False
    ) -> tuple[list[ObjectKey], list[bytes]]:
        """Create a PodMigration for each pod and its node, in their order: keys, and the objects as stored. On an error a note says which exist."""
        bodies = [manifest(pod, target, order) for pod, target in places]
        made: list[bytes] = []
        for body in bodies:
            namespace = body["metadata"]["namespace"]
            path = RESOURCES[Kind.POD_MIGRATION].object_path(namespace, "")
            try:
                with (
                    installed("podmigrations"),
                    allowed(f"create podmigrations in namespace {namespace}", RIGHT),
                    contextlib.suppress(AlreadyExistsError),  # by an earlier try, whose answer was lost
                ):
                    made.append(self.api.create(path, body, dry_run=dry_run))
            except BaseException as error:
                if made and not dry_run:
                    error.add_note(f"{len(made)} of {len(bodies)} moves were asked for before that.")
                raise
        return [ObjectKey(b["metadata"]["namespace"], b["metadata"]["name"]) for b in bodies], made

    def select(self, namespace: str, label: str = "") -> list[PodMigration]:
        """PodMigrations of a namespace ("": of all) by a label query, sorted by name; without damaged ones."""
        kind = Kind.POD_MIGRATION
        return select(self.api, kind, PodMigration, right=RIGHT, namespace=namespace, label=label)

    def again(self, moves: Iterable[PodMigration]) -> Iterator[PodMigration]:
        """The moves as they are now, and others; those that are gone are left out.

        They are asked for by the groups of their commands: a namespace may have thousands that ended within the last hour.
        """
        for namespace, group in sorted(
            {(move.namespace, move.labels.get(LABEL_GROUP) or "") for move in moves}
        ):
            yield from self.group([namespace], group).values() if group else self.select(namespace)

    def group(self, namespaces: Iterable[str], group: str) -> dict[ObjectKey, PodMigration]:
        """The moves of one command."""
        label = f"{LABEL_GROUP}={group}"
        return {
            move.key: move for namespace in sorted(set(namespaces)) for move in self.select(namespace, label)
        }

    def raw(self, key: ObjectKey) -> bytes | None:
        """One PodMigration as JSON; None if it does not exist any more."""
        try:
            return self.api.get(RESOURCES[Kind.POD_MIGRATION].object_path(key.namespace, key.name))
        except NotFoundError:
            return None

    def withdraw(self, moves: Iterable[PodMigration]) -> dict[ObjectKey, str]:
        """Delete those that have not disturbed their pod; by key why another one stays. Never raises ApiError, TransportError.

        Each is deleted as it was seen: one that takes a step meanwhile is left to go on.
        """
        given = {move.key: move for move in moves if move.status.phase not in FINISHED}

        def remove(key: ObjectKey) -> str:
            move, path = given[key], RESOURCES[Kind.POD_MIGRATION].object_path(key.namespace, key.name)
            if disturbs(move):
                return "its pod is being evicted, so it goes on"
            try:
                self.api.delete(path, uid=move.uid, resource_version=move.resource_version)
            except ConflictError:
                return "it has just taken a step; try again"
            return ""

        return why_left(given, remove, _AT_ONCE)


def withdraw_moves(
    client: MigrationClient, pods: Collection[ObjectKey], say: Callable[[str], None], *, dry_run: bool = False
) -> None:
    """Withdraw the moves by which nodes with these pods are emptied, and say it; moves that have evicted go on.

    Who may see none withdraws none.
    """
    try:
        moves = [move for move in client.select("") if _empties(move, pods)] if pods else []
    except CommandError as error:
        tell(f"no moves are withdrawn: {error}")
        return
    left = {} if dry_run else client.withdraw(moves)
    rehearsed = " (dry run)" if dry_run else ""
    gone = [move for move in moves if move.key not in left]
    for move in gone:
        say(f"podmigration/{move.name} -n {move.namespace} withdrawn{rehearsed}")
    for key, why in left.items():
        tell(f"{key}: {why}")


def _empties(move: PodMigration, pods: Collection[ObjectKey]) -> bool:
    asked = move.annotations.get(ANNOTATION_EVICT) == "true" or (
        move.labels.get(LABEL_GROUP) or ""
    ).startswith(CONSOLIDATING)
    live = move.requested and move.status.phase not in FINISHED
    return live and asked and ObjectKey(move.namespace, move.pod_name) in pods


def disturbs(move: PodMigration) -> bool:
    """True from the intent to evict on: such a move must not be deleted, because its replacement needs the room."""
    return bool(move.status.eviction_requested_at_s or move.status.evicted_at_s)


def is_unobserved(move: PodMigration) -> bool:
    """True if no controller has written its status."""
    return not move.status.conditions and not move.status.reason
