"""Collects from the index of a round what the Reservation machine needs of each Reservation.

No decisions: ``handover_order`` adds afterwards how the Reservations of a node depend on each other.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from rescheduler.coordination.assumed import Written
from rescheduler.coordination.index import RoundIndex, Volumes
from rescheduler.coordination.memory import Memory
from rescheduler.coordination.move_order import precedence
from rescheduler.coordination.node_order import taint_machine
from rescheduler.coordination.node_requests import request_machine
from rescheduler.coordination.placement import Placement
from rescheduler.model import names
from rescheduler.model.migration import PodMigration
from rescheduler.model.never_moves import holds_gate
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.model.room_of_move import key_of_move, serves, took_given_room
from rescheduler.model.room_pod import namespace_of_pods
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.single_pod import Choice
from rescheduler.replacements.identity import lacks_pods, may_replace
from rescheduler.reservations.koordinator import backs
from rescheduler.reservations.koordinator import unlike_asked as unlike_asked_of_koordinator
from rescheduler.reservations.node_request import request_key
from rescheduler.reservations.observed_reservation import ObservedReservation, soft_mode
from rescheduler.reservations.placeholder import pinned_node, placeholder_name
from rescheduler.reservations.placeholder_check import Surroundings, how_lost, unlike_asked, unremovable
from rescheduler.reservations.quota import Quota, RoomOfMove, beyond_quota
from rescheduler.reservations.reservation_lifecycle import FINISHED
from rescheduler.reservations.template import name_of_reservation

_ESTIMATE_ERRS_S: Final = 1.0
"""So far may the time of an intent be from the API server's (``kube.server_clock``: half a second, and half a round trip)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationObserver:
    """Collects the input of each Reservation's step."""

    index: RoundIndex
    placement: Placement
    memory: Memory
    links: Mapping[str, PodMigration]
    """By name of the Reservation."""
    written: Written
    """Rooms whose creation was sent and that are not in the snapshot yet; no node is chosen for them again."""
    beyond_quota: Mapping[str, str]
    """Reservations that must wait for others of their namespace, by name, with the message."""
    koordinator_scheduler: str
    """schedulerName of pods whose rooms Koordinator holds; "" if Koordinator is not used."""
    crashed: Callable[[ObjectKey, Exception, float], None]
    """Told of a Reservation that cannot be observed because of a defect; it takes part with its claimants alone."""
    now_s: float

    def all(self) -> dict[str, ObservedReservation]:
        """Every Reservation of the round. If two have claimed one pod, the pod belongs to the first by name."""
        reservations = self.index.view.reservations
        self.memory.elsewhere.begin(reservations.values(), self.now_s)
        rooms: dict[str, ObservedReservation] = {}
        claimed: set[str] = set()
        for name in sorted(reservations):
            observed = self._guarded(reservations[name])
            if reservations[name].status.phase not in FINISHED:
                own = tuple(pod for pod in observed.owners if pod.uid not in claimed)
                claimed.update(pod.uid for pod in own)
                if len(own) < len(observed.owners):
                    observed = dataclasses.replace(observed, owners=own)
            rooms[name] = observed
        return rooms

    def _guarded(self, reservation: Reservation) -> ObservedReservation:
        try:
            return self._one(reservation)
        except Exception as error:  # noqa: BLE001 - a defect in the observation of one must not blind the others
            self.crashed(ObjectKey("", reservation.name), error, self.now_s)
            return ObservedReservation(reservation=reservation, owners=self.index.owners(reservation))

    def _one(self, reservation: Reservation) -> ObservedReservation:
        """One Reservation, before the order on its node and the assignment are known."""
        migration = self._migration(reservation)
        placeholders = self._placeholders(reservation)
        volumes = self._volumes(reservation)
        observed = ObservedReservation(
            reservation=reservation,
            placeholders=placeholders,
            owners=self.index.owners(reservation),
            arrival=self._arrival(reservation, migration),
            namespace_ends=self._namespace_ends(reservation),
            migration=migration,
            prepares_gate=migration is not None
            and self.memory.preparing.get(migration.key, 0.0) > self.now_s,
            evicted=migration is not None and self._evicted(migration),
            template_refused=self._template_refused(reservation, placeholders),
            beyond_quota=self.beyond_quota.get(reservation.name, ""),
            node_request=self.index.snapshot.pods.get(
                asks := request_key(reservation, self.placement.namespace)
            ),
            node_request_refused=self.memory.backoff.message(request_machine(asks)),
            refused=self.memory.backoff.message(ObjectKey("", reservation.name))
            or self.memory.backoff.message(taint_machine(reservation.status.node_name)),
            making=self.index.waiting_room.of_reservation(reservation, self.now_s),
            volumes=volumes.affinities,
            changed=next(filter(None, (self._changed(reservation, pod) for pod in placeholders)), ""),
            unremovable=unremovable(placeholders),
            lost=how_lost(placeholders, self.index.snapshot.pods),
            unbound_claims=volumes.unbound,
        )
        holder = observed.placeholder
        where = reservation.status.node_name or (holder.node if holder else "")
        observed = dataclasses.replace(
            observed,
            node=self.index.snapshot.nodes.get(where) if where else None,
            landed_since_s=self._landed_since_s(observed),
            choice=self._choice(reservation, holder),
        )
        return with_koordinator(observed, self.index.snapshot, self.koordinator_scheduler)

    def _migration(self, reservation: Reservation) -> PodMigration | None:
        """With the intent that was written: each kind has a watch of its own, and that of pods may show the replacement first."""
        migration = self.links.get(reservation.name)
        if migration is None or migration.finished or migration.status.eviction_requested_at_s:
            return migration
        intended_s = self.memory.expectations.intent_s(migration)
        status = msgspec.structs.replace(migration.status, eviction_requested_at_s=intended_s)
        return msgspec.structs.replace(migration, status=status) if intended_s else migration

    def _namespace_ends(self, reservation: Reservation) -> bool:
        move = key_of_move(reservation)
        namespace = self.index.snapshot.namespaces.get(move.namespace) if move is not None else None
        return namespace is not None and namespace.deleting

    def _landed_since_s(self, observed: ObservedReservation) -> float:
        claimant, machine = observed.claimant, ObjectKey("", observed.reservation.name)
        bound = claimant is not None and claimant.node and observed.reservation.status.phase not in FINISHED
        uid = claimant.uid if claimant is not None and bound else ""
        return self.memory.sightings.since("landed", machine, self.now_s, state=uid)

    def _template_refused(self, reservation: Reservation, placeholders: tuple[Pod, ...]) -> str | None:
        """That of a move is what the API server itself made of a pod, so only those of people are tried, and once."""
        pending = reservation.status.phase is ReservationPhase.PENDING
        if placeholders or not pending or key_of_move(reservation) is not None:
            return ""
        return self.memory.templates.of(reservation.template_raw, self.now_s)

    def _volumes(self, reservation: Reservation) -> Volumes:
        if reservation.template is None or not reservation.template.volumes:
            return Volumes()
        namespace = namespace_of_pods(reservation)
        return self.index.volumes_of(namespace, "", reservation.template)

    def _placeholders(self, reservation: Reservation) -> tuple[Pod, ...]:
        """Its placeholders; more than one only while it is split."""
        if reservation.allocate_once:
            pod = self.index.snapshot.pods.get(
                ObjectKey(self.placement.namespace, placeholder_name(reservation))
            )
            # Without any owner it is ours all the same, and is not what was asked for: its name has the digest of our uid.
            mine = pod is not None and (pod.controller is None or pod.controller.uid == reservation.uid)
            return (pod,) if pod is not None and mine else ()
        found = [
            pod for pod in self.index.pods_of(reservation.uid) if pod.namespace == self.placement.namespace
        ]
        return tuple(sorted(found, key=lambda pod: (pod.created_at_s, pod.name)))

    def _changed(self, reservation: Reservation, holder: Pod) -> str:
        snapshot, pin = self.index.snapshot, pinned_node(holder)
        asked = names.PRIORITY_CLASS_SOFT if soft_mode(reservation) else names.PRIORITY_CLASS
        around = Surroundings(snapshot.nodes.get(pin), snapshot.priority_classes.get(asked))
        return unlike_asked(reservation, holder, around)

    def _choice(self, reservation: Reservation, placeholder: Pod | None) -> Choice:
        machine = ObjectKey("", reservation.name)
        # In backoff the message of the failed call becomes the reason for which nothing is placed.
        failure = self.memory.backoff.pausing(machine, self.now_s)
        if failure is not None:
            return Choice(message=failure.message, failed=True)
        if self.memory.elsewhere.due(machine) and placeholder is not None and not placeholder.node:
            return self._elsewhere(reservation, placeholder)
        pending = reservation.status.phase is ReservationPhase.PENDING
        waits = not pending or reservation.deleting or reservation.name in self.beyond_quota
        waits = waits or bool(self.written.get(machine))
        if waits or reservation.template is None:
            return Choice()
        if reservation.status.making_room is not None:
            return Choice()
        if reservation.pre_allocation and placeholder is not None:
            return Choice()
        if placeholder is None or (not placeholder.node and placeholder.unschedulable_message):
            return self.placement.for_reservation(reservation)
        return Choice()

    def _elsewhere(self, reservation: Reservation, placeholder: Pod) -> Choice:
        """Another node that has had all of its room for a while."""
        waits_on = pinned_node(placeholder)
        asked = msgspec.structs.replace(reservation, pre_allocation=False)  # only room that is there now
        node = self.placement.for_reservation(asked, waits_on=waits_on).node
        machine = ObjectKey("", reservation.name)
        return Choice(node=self.memory.elsewhere.seen(machine, "" if node == waits_on else node, self.now_s))

    def _evicted(self, migration: PodMigration) -> bool:
        return self.memory.answers.of(migration.key).evicted(migration.status)

    def _arrival(self, reservation: Reservation, migration: PodMigration | None) -> Pod | None:
        """Mode Soft: the new pod that is bound in the room; one that is bound elsewhere only if no other may come.

        A sibling that was created right before the intent must not end the move while the replacement is on its way.
        """
        if not soft_mode(reservation) or migration is None or not self._evicted(migration):
            return None
        if reservation.status.phase in FINISHED:
            return None
        pods = sorted(new_pods(self.index, reservation, migration), key=lambda p: (p.created_at_s, p.name))
        landed = [pod for pod in pods if pod.node == reservation.status.node_name]
        if (
            landed
            or any(not pod.node for pod in pods)
            or replacement_to_come(self.index, reservation, migration)
        ):
            return landed[0] if landed else None
        return pods[0] if pods else None


def with_koordinator(
    observed: ObservedReservation, snapshot: Snapshot, scheduler: str
) -> ObservedReservation:
    """``observed`` with what Koordinator holds for it.

    An object that exists decides the engine, and only then the configuration: so a Reservation keeps its engine even if the
    configuration changes. ``scheduler``: "" if Koordinator is not used.
    """
    reservation = observed.reservation
    held = snapshot.koordinator.get(placeholder_name(reservation))
    # Without any owner it is ours all the same, and is not what was asked for: its name has the digest of our uid.
    if held is None or (held.reservation is not None and held.reservation.uid != reservation.uid):
        if observed.placeholder is not None or not backs(reservation, scheduler):
            return observed
        return dataclasses.replace(observed, by_koordinator=True)
    node = reservation.status.node_name or held.node
    return dataclasses.replace(
        observed,
        koordinator=held,
        by_koordinator=True,
        changed=unlike_asked_of_koordinator(reservation, held),
        node=snapshot.nodes.get(node) if node else None,
    )


def links_of(index: RoundIndex) -> dict[str, PodMigration]:
    """The PodMigration of each Reservation that serves one, by name of the Reservation.

    Of several the one that has not ended, and of these the one that goes first.
    """
    found: dict[str, PodMigration] = {}
    for name, migration in _linked(index):
        reservation = index.snapshot.reservations.get(name)
        if (
            reservation is None
            or name != name_of_reservation(migration)
            or not serves(reservation, migration)
        ):
            continue
        known = found.get(name)
        if known is None or precedence(migration) < precedence(known):
            found[name] = migration
    return found


def _linked(index: RoundIndex) -> Iterable[tuple[str, PodMigration]]:
    """The names of Reservations, each with a move that may be linked to it: by its annotation, or by the move's status."""
    for name, reservation in index.view.reservations.items():
        key = key_of_move(reservation)
        if key is not None and (migration := index.snapshot.migrations.get(key)) is not None:
            yield name, migration
    for migration in index.view.migrations.values():
        if took_given_room(migration):
            yield migration.reservation_ref, migration


def new_pods(index: RoundIndex, reservation: Reservation, migration: PodMigration) -> list[Pod]:
    """Pods of the owners that were created after the intent to evict, and may replace the evicted pod.

    Times have whole seconds, and that of the intent is an estimate: a sibling that was created right before it may be among them. A
    pod with our gate is younger than the gate, whatever the clocks of several API servers say.
    """
    # Not evicted_at_s: if the answer was lost, the eviction is recorded late, and the replacement may be older than that.
    intent_s = migration.status.eviction_requested_at_s or migration.status.evicted_at_s
    since_s = math.floor(intent_s - _ESTIMATE_ERRS_S)
    uids = {o.controller.uid for o in reservation.owners if o.controller is not None}
    return [
        pod
        for uid in sorted(uids)
        for pod in index.pods_of(uid)
        if (pod.created_at_s >= since_s or holds_gate(pod))
        and pod.uid != migration.pod_uid
        and not pod.deleting
        if may_replace(pod, migration.pod_name)
    ]


def awaited_pods(
    rooms: Mapping[str, ObservedReservation], index: RoundIndex
) -> Mapping[str, Collection[Pod]]:
    """By name of a Reservation that nobody has claimed: gated pods that have come in the place of the pod that was evicted for it."""
    found: dict[str, Collection[Pod]] = {}
    for name, observed in rooms.items():
        link, reservation = observed.migration, observed.reservation
        if link is None or not observed.evicted or link.finished or reservation.status.current_owners:
            continue
        pods = [pod for pod in new_pods(index, reservation, link) if holds_gate(pod)]
        if pods:
            found[name] = pods
    return found


def replacement_to_come(index: RoundIndex, reservation: Reservation, migration: PodMigration) -> bool:
    """True if a controller of the owners has fewer pods than it wants without the evicted one: it creates another now."""
    uids = {o.controller.uid for o in reservation.owners if o.controller is not None}
    return any(
        lacks_pods(
            index.snapshot.workloads.get(uid), (p for p in index.pods_of(uid) if p.uid != migration.pod_uid)
        )
        for uid in uids
    )


def rooms_beyond_quota(
    index: RoundIndex, links: Mapping[str, PodMigration], quotas: Mapping[str, Quota]
) -> dict[str, str]:
    """Pending Reservations that must wait until others have ended, by name, with the message.

    Quotas count the move that a room is for, and the pod that it gives room back for.
    """
    snapshot = index.snapshot
    moves = {name: _counted(index, link) for name, link in links.items() if not link.reservation_ref}
    return beyond_quota(
        snapshot.reservations.values(),
        quotas,
        tuple(snapshot.resource_quotas.values()),
        moves,
        default_class(snapshot),
    )


def default_class(snapshot: Snapshot) -> str:
    """The PriorityClass that pods without any get; "": none."""
    defaults = [found for found in snapshot.priority_classes.values() if found.default]
    return min(defaults, key=lambda found: (found.value, found.name)).name if defaults else ""


def _counted(index: RoundIndex, link: PodMigration) -> RoomOfMove:
    pod = index.snapshot.pods.get(ObjectKey(link.namespace, link.pod_name))
    if pod is not None and link.pod_uid not in ("", pod.uid):
        pod = None
    stands = pod is not None and not pod.terminal
    spec = pod.spec if pod is not None and stands else None
    return RoomOfMove(link.requested, spec.requests if spec is not None else None, spec)
