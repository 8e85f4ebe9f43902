"""From one round's index to what the machines look at: gathering, no decisions.

The only judgement that is added is whether pods of higher priority wait that could take a room in
hand-over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rescheduler.controller.index import RoundIndex
from rescheduler.controller.placement import Placement
from rescheduler.controller.promises import Promises
from rescheduler.controller.recent import Recent
from rescheduler.controller.rivalry import Rivalry
from rescheduler.controller.swaps import Swaps
from rescheduler.controller.under_way import Written
from rescheduler.controller.volumes import Volumes, volumes_of
from rescheduler.migrations.observed import NO_CALLS, YES, ObservedMigration, Verdict
from rescheduler.model import names
from rescheduler.model.migration import MigrationPhase, MoveMode, PodMigration
from rescheduler.model.records import Node, ObjectKey, Pod
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.planning.replacement import replacement_of
from rescheduler.planning.target import Choice
from rescheduler.reservations.allocation import Room
from rescheduler.reservations.handover import tainted
from rescheduler.reservations.lifecycle import FINISHED
from rescheduler.reservations.observed import LinkedMigration, ObservedReservation, soft_mode
from rescheduler.reservations.owners import any_owner_matches, namespace_of_pods
from rescheduler.reservations.placeholder import pinned_node, placeholder_name
from rescheduler.reservations.promised import lands
from rescheduler.reservations.sharing import flying, free_part
from rescheduler.reservations.template import name_of_reservation
from rescheduler.scheduling.taint_toleration import tolerates


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """Gathers the objects of one round. ``namespace``: where placeholders are. ``settle_s``: see ``_stands_back``.

    ``written``: rooms of which the snapshot does not know yet; nothing is chosen for those.
    ``beyond_share``: Reservations that must wait for others of their namespace, with the words.
    """

    index: RoundIndex
    placement: Placement
    promises: Promises
    rivalry: Rivalry
    recent: Recent
    swaps: Swaps
    written: Written
    namespace: str
    settle_s: float
    beyond_share: Mapping[str, str]
    now_s: float

    # Reservations

    def reservation(self, reservation: Reservation, migration: LinkedMigration | None) -> ObservedReservation:
        """One Reservation, before rooms are dealt out (``offered`` is added later)."""
        holders = self._holders(reservation)
        placeholder = next((h for h in holders if h.node and not h.deleting), holders[0] if holders else None)
        owners = self.index.owners(reservation)
        where = reservation.status.node_name or (placeholder.node if placeholder else "")
        node = self.index.snapshot.nodes.get(where) if where else None
        flight = [pod for pod in owners if not pod.node]
        promise = next((h for h in holders if not h.node), None) if node is not None else None
        yields = promise is not None and self._yields(reservation, promise, where)
        aim = next((pinned_node(h) for h in holders if not h.node), where)
        shut_since_s = self.recent.since("taint", where, self.now_s, true=tainted(node))
        volumes = self._volumes(reservation)
        choice = self._choice(reservation, placeholder)
        return ObservedReservation(
            reservation=reservation,
            placeholder=placeholder,
            node=node,
            choice=choice,
            outrun=self._outrun(placeholder, choice),
            claimant=self.index.claimant(reservation),
            owners=owners,
            holders=holders,
            arrival=self._arrival(reservation, migration),
            migration=migration,
            contended=node is not None and bool(flight) and self._contended(flight, node),
            tainted_since_s=shut_since_s,
            beyond_share=self.beyond_share.get(reservation.name, ""),
            volumes=volumes.affinities,
            unbound_claims=volumes.unbound,
            room_free=promise is not None and self._room_free(promise, where),
            yields=yields,
            stands_back=self._stands_back(reservation, promise, node, yields=yields),
            shut=bool(shut_since_s) and self.now_s >= shut_since_s + self.settle_s,
            crowded=node is not None and self.promises.crowds(where, reservation),
            beside_hand_over=self.promises.handing_over(aim, reservation),
        )

    def _volumes(self, reservation: Reservation) -> Volumes:
        if reservation.template is None or not reservation.template.volumes:
            return Volumes()
        namespace = namespace_of_pods(reservation)
        return volumes_of(self.index.snapshot, namespace, "", reservation.template)

    def _holders(self, reservation: Reservation) -> tuple[Pod, ...]:
        """Its placeholders; more than one only while a room for several pods is split."""
        if reservation.allocate_once:
            pod = self.index.snapshot.pods.get(ObjectKey(self.namespace, placeholder_name(reservation)))
            mine = pod is not None and pod.controller is not None and pod.controller.uid == reservation.uid
            return (pod,) if pod is not None and mine else ()
        found = [pod for pod in self.index.pods_of(reservation.uid) if pod.namespace == self.namespace]
        return tuple(sorted(found, key=lambda pod: (pod.created_at_s, pod.name)))

    def _room_free(self, promise: Pod, node: str) -> bool:
        """Could it be bound now, younger promises on the node standing back? They must have done so."""
        younger = self.promises.younger(promise, node)
        return not any(p.nominated_node for p in younger) and self.placement.has_room(promise, node, younger)

    def _yields(self, reservation: Reservation, promise: Pod, node: str) -> bool:
        """While others hand over here, or an older promise can be kept now."""
        if self.promises.handing_over(node, reservation):
            return True
        older = self.promises.older(promise, node)
        return any(self.placement.has_room(p, node, self.promises.younger(p, node)) for p in older)

    def _stands_back(
        self, reservation: Reservation, promise: Pod | None, node: Node | None, *, yields: bool
    ) -> bool:
        """While its nomination is away, or about to be: the node stays shut, so that nobody takes what is freed then.

        And until the scheduler has surely seen that the nomination is back: nodes and pods reach it by two informers.
        """
        shut = tainted(node)
        nominated = promise is not None and node is not None and promise.nominated_node == node.name
        back_s = self.recent.since("nominated", reservation.name, self.now_s, true=nominated and shut)
        if promise is None or promise.deleting or lands(promise) or self.index.in_flight(reservation):
            return False
        if yields:
            return nominated or shut
        return shut and (not nominated or self.now_s < back_s + self.settle_s)

    def room(self, observed: ObservedReservation) -> Room | None:
        """The part that a Reservation takes in dealing rooms out; None if it has none to give."""
        reservation, migration = observed.reservation, observed.migration
        status, placeholder = reservation.status, observed.placeholder
        if status.phase in FINISHED or reservation.deleting or observed.soft:
            return None
        given = bool(status.current_owners) and reservation.allocate_once
        if given and (observed.claimant is not None and not observed.claimant.deleting):
            return None
        made_for_move = bool(reservation.annotations.get(names.ANNOTATION_MIGRATION))
        if observed.by_koordinator and not made_for_move:
            return None  # its scheduler deals it out
        if made_for_move and (
            migration is None or migration.finished or not migration.eviction_requested_at_s
        ):
            return None
        pending = status.phase is ReservationPhase.PENDING
        if pending and (made_for_move or placeholder is None or not placeholder.node):
            return None
        if given and not observed.held:
            return None  # lost with its claimant; while it is held, the claim is taken back and others wait for that
        available = status.phase is ReservationPhase.AVAILABLE and not given and not flying(observed)
        return Room(
            reservation=reservation,
            size=free_part(observed),
            open=observed.held and available and not _undecided(migration),
            since_s=migration.eviction_requested_at_s if migration else 0.0,
            replaces=migration.pod_name if migration else "",
        )

    def _choice(self, reservation: Reservation, placeholder: Pod | None) -> Choice:
        failure = self.recent.failures.get(ObjectKey("", reservation.name))
        if failure is not None and self.now_s < failure.until_s:
            return Choice(message=failure.message)
        pending = reservation.status.phase is ReservationPhase.PENDING
        waits = not pending or reservation.deleting or reservation.name in self.beyond_share
        waits = waits or ObjectKey("", reservation.name) in self.written
        if waits or reservation.template is None:
            return Choice()
        if reservation.pre_allocation and placeholder is not None:
            return Choice()
        if placeholder is None or (not placeholder.node and placeholder.unschedulable_message):
            return self._beside_hand_overs(reservation, self.placement.for_reservation(reservation))
        return Choice()

    def _outrun(self, placeholder: Pod | None, choice: Choice) -> bool:
        """True if our own rules, too, see no room any more where its placeholder waits, but on another node."""
        if placeholder is None or placeholder.node or not placeholder.unschedulable_message:
            return False
        pinned = pinned_node(placeholder)
        return choice.node not in ("", pinned) and not self.placement.has_room(placeholder, pinned, ())

    def _beside_hand_overs(self, reservation: Reservation, choice: Choice) -> Choice:
        """A new placeholder outranks a claimant on its way to the same node, bound or but nominated: it waits its turn."""
        node = reservation.template_node or choice.node
        if not choice.message and self.promises.handing_over(node, reservation):
            return Choice(message=f"a room on node {node} is being handed over")
        return choice

    def _arrival(self, reservation: Reservation, migration: LinkedMigration | None) -> Pod | None:
        """Soft mode: the first owner that was created after the eviction and is bound."""
        if not soft_mode(reservation) or migration is None or not migration.evicted_at_s:
            return None
        if reservation.status.phase in FINISHED:
            return None
        pods = [pod for pod in self._new_pods(reservation, migration) if pod.node]
        pods.sort(key=lambda pod: (pod.node != reservation.status.node_name, pod.created_at_s, pod.name))
        return pods[0] if pods else None

    def _new_pods(self, reservation: Reservation, migration: LinkedMigration) -> list[Pod]:
        # Not evicted_at_s: the answer may have been lost, and the replacement be older than the note of it.
        since_s = float(int(migration.eviction_requested_at_s or migration.evicted_at_s))
        uids = {o.controller.uid for o in reservation.owners if o.controller is not None}
        return [
            pod
            for uid in sorted(uids)
            for pod in self.index.pods_of(uid)
            if pod.created_at_s >= since_s and pod.uid != migration.pod_uid and not pod.deleting
        ]

    def _contended(self, flight: Sequence[Pod], node: Node) -> bool:
        """True if a pod that the scheduler would prefer waits and could go to the node.

        A promise that is nominated there already has room of its own.
        """
        least = min(pod.spec.priority for pod in flight)
        return any(
            pod.spec.priority > least and pod.nominated_node != node.name and _may_go(pod, node)
            for pod in self.index.waiting
        )

    # PodMigrations

    def migration(
        self, migration: PodMigration, rooms: Mapping[str, ObservedReservation]
    ) -> ObservedMigration:
        """One move."""
        snapshot = self.index.snapshot
        name = name_of_reservation(migration)
        reservation = snapshot.reservations.get(name)
        pod = snapshot.pods.get(ObjectKey(migration.namespace, migration.pod_name))
        same = pod is not None and migration.pod_uid in ("", pod.uid)
        swap = self.swaps.observe(migration, pod if same else None)
        starts_first = swap is not None and swap.serves(migration.mode)
        choice, movable, fits = self._judged(
            migration, pod if same else None, reservation, starts_first=starts_first
        )
        key = migration.key
        calls = self.recent.calls.get(key, NO_CALLS)
        handing_over = migration.status.phase is MigrationPhase.HANDING_OVER
        gone_s = self.recent.since("pod gone", str(key), self.now_s, true=handing_over and not same)
        room = rooms.get(name)
        claimant = self.index.pod(migration.status.replacement) if migration.status.replacement else None
        return ObservedMigration(
            migration=migration,
            reservation_name=name,
            pod=pod,
            movable=movable,
            target=choice.node,
            target_message=choice.message,
            target_node=snapshot.nodes.get(choice.node) if choice.node else None,
            fits=fits,
            template=replacement_of(pod, snapshot).spec if pod else None,
            volumes=volumes_of(snapshot, pod.namespace, pod.name, pod.spec).affinities if pod else (),
            reservation=reservation,
            room_held=room is not None and room.held and not self.recent.claims.get(name),
            owner_of_reservation=self._owns(pod, reservation),
            budgets=self.index.budgets_of(pod) if pod else (),
            claimant=claimant or (room.claimant if room else None),
            stray=self._stray(migration, reservation) if handing_over and not same else None,
            another=self.rivalry.before(migration, pod) if same else "",
            source=self._left_behind(migration, reservation),
            swap=swap,
            calls=dataclasses.replace(calls, pod_gone_at_s=gone_s),
        )

    def _judged(
        self, migration: PodMigration, pod: Pod | None, reservation: Reservation | None, *, starts_first: bool
    ) -> tuple[Choice, Verdict, Verdict]:
        """Target, movable and fits: asked only in the phases that look at them, for they cost.

        With ``starts_first`` the replacement stands beside the old pod, and in the end it is there already.
        """
        phase = migration.status.phase
        settled = migration.status.node_name
        if pod is None or phase not in (MigrationPhase.PENDING, MigrationPhase.EVICTING) or migration.paused:
            return Choice(node=settled), YES, YES
        if phase is MigrationPhase.EVICTING and migration.status.mode is MoveMode.START_FIRST:
            return Choice(node=settled), YES, YES
        if phase is MigrationPhase.EVICTING:
            return Choice(node=settled), YES, self.placement.fits(pod, settled, reservation)
        movable = self.placement.movable(pod)
        if not movable.ok:
            return Choice(), movable, YES
        choice = self._target(migration, pod, reservation)
        if not choice.node or choice.node == pod.node or choice.node not in self.index.snapshot.nodes:
            return choice, movable, YES
        if starts_first:
            return choice, movable, self.placement.fits_beside(pod, choice.node)
        return choice, movable, self.placement.fits(pod, choice.node, reservation)

    def _target(self, migration: PodMigration, pod: Pod, reservation: Reservation | None) -> Choice:
        if migration.reservation_ref:
            return Choice(node=reservation.status.node_name if reservation else "")
        if migration.target_node:
            return Choice(node=migration.target_node)
        return self.placement.for_migration(pod)

    def _left_behind(self, migration: PodMigration, reservation: Reservation | None) -> Node | None:
        """The node that the pod leaves; None too if its controller is gone: hints for that one are collected."""
        owner = reservation.owners[0].controller if reservation is not None and reservation.owners else None
        if owner is not None and owner.uid and owner.uid not in self.index.snapshot.workloads:
            return None
        return self.index.snapshot.nodes.get(migration.status.source_node)

    def _owns(self, pod: Pod | None, reservation: Reservation | None) -> bool:
        if pod is None or reservation is None:
            return True
        return any_owner_matches(reservation.owners, pod, self.index.controllers(pod))

    def _stray(self, migration: PodMigration, reservation: Reservation | None) -> Pod | None:
        if reservation is None or reservation.status.current_owners:
            return None
        link = LinkedMigration(
            key="",
            phase=migration.status.phase,
            created=True,
            pod_uid=migration.pod_uid,
            eviction_requested_at_s=migration.status.eviction_requested_at_s,
            evicted_at_s=migration.status.evicted_at_s,
        )
        served = {
            owner.uid
            for other in self.index.snapshot.reservations.values()
            for owner in other.status.current_owners
        }
        pods = [pod for pod in self._new_pods(reservation, link) if pod.uid not in served]
        if any(names.GATE in pod.spec.gates for pod in pods):
            return None
        return pods[0] if pods else None


def links_of(index: RoundIndex) -> dict[str, LinkedMigration]:
    """The PodMigration of each Reservation that serves one, by name of the Reservation."""
    result: dict[str, LinkedMigration] = {}
    for migration in index.snapshot.migrations.values():
        name = name_of_reservation(migration)
        link = LinkedMigration(
            key=str(migration.key),
            phase=migration.status.phase,
            created=not migration.reservation_ref,
            mode=migration.status.mode,
            pod_name=migration.pod_name,
            pod_uid=migration.pod_uid,
            eviction_requested_at_s=migration.status.eviction_requested_at_s,
            evicted_at_s=migration.status.evicted_at_s,
        )
        known = result.get(name)
        if known is None or known.finished:
            result[name] = link
    return result


def _undecided(migration: LinkedMigration | None) -> bool:
    """True while its eviction may happen at any moment: the room is for the replacement, or for others if it does not."""
    if migration is None or migration.finished:
        return False
    return bool(migration.eviction_requested_at_s) and not migration.evicted_at_s


def _may_go(pod: Pod, node: Node) -> bool:
    """Could the scheduler bind ``pod`` to ``node``, judged by what is fixed: constraints and size."""
    spec = pod.spec
    if any(node.labels.get(key) != value for key, value in spec.node_selector):
        return False
    if spec.node_affinity is not None and not spec.node_affinity.matches(node.labels, node.name):
        return False
    if spec.requests.cpu_milli > node.allocatable.cpu_milli:
        return False
    if spec.requests.memory_bytes > node.allocatable.memory_bytes:
        return False
    return all(
        tolerates(spec.tolerations, taint)
        for taint in node.taints
        if taint.effect != "PreferNoSchedule" and taint.key != names.ANNOTATION_HANDOVER_TAINT
    )
