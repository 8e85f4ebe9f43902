"""A cluster of plain records for tests of moving: scheduler, workload controllers, kubelets, budgets, gate.

Every behaviour does one small thing when asked, so that a test decides the interleaving. It carries the
reconciler's actions out on records and checks what must hold at every instant. What the reconciler sees
(``look``) may be older than the truth.
"""

# ruff: noqa: N802 - the methods that carry actions out are named like the actions

from __future__ import annotations

from moving_actors import Actors
from moving_records import NAMESPACE, PLACEHOLDER_PRIORITY, SOFT_PRIORITY, Crash, conflict, not_found, replace

from rescheduler.controller.effects import Effect, Touched
from rescheduler.controller.patches import is_hand_over
from rescheduler.kube.errors import RejectedError
from rescheduler.model import names
from rescheduler.model.eviction import EvictionOutcome, EvictionResult
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.records import (
    ObjectKey,
    OwnerRef,
    Taint,
)
from rescheduler.model.reservation import (
    ReservationPhase,
)
from rescheduler.model.selectors import (
    LabelSet,
    NodeSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
)
from rescheduler.reservations import actions as rooms
from rescheduler.reservations.handover import HAND_OVER_TOLERATION
from rescheduler.reservations.naming import label_value
from rescheduler.reservations.observed import soft_mode
from rescheduler.reservations.placeholder import placeholder_name


class World(Actors):
    """The cluster, with the calls of the controller."""

    def execute(self, action):
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in < 0:
                raise Crash
        self.actions.append(action)
        effect = getattr(self, "_" + type(action).__name__)(action)
        self.check()
        return effect

    def taint(self, node, reservation):
        self._same_node(node)
        taint = Taint(names.ANNOTATION_HANDOVER_TAINT, label_value(reservation))
        return self._put_node(replace(self.nodes[node.name], taints=(*node.taints, taint)))

    def untaint(self, node):
        self._same_node(node)
        return self._put_node(
            replace(self.nodes[node.name], taints=tuple(t for t in node.taints if not is_hand_over(t)))
        )

    def entries(self):
        return dict(self.live)

    def write(self, add, remove):
        self.live.update(add)
        for uid in remove:
            self.live.pop(uid, None)

    def _same_node(self, node):
        if node.name not in self.nodes:
            raise not_found()
        if self.nodes[node.name].resource_version != node.resource_version:
            raise conflict()

    def _put_node(self, node):
        self.nodes[node.name] = replace(node, resource_version=self.version())
        return self._touched(Kind.NODE, ObjectKey("", node.name), self.nodes[node.name])

    def _touched(self, kind, key, record):
        return Effect(touched=(Touched(kind=kind, key=key, version=record.resource_version),))

    def _CreatePlaceholder(self, action):
        reservation = action.reservation
        if reservation.name not in self.reservations:
            raise not_found()
        name = placeholder_name(reservation, action.part.suffix)
        key = ObjectKey(NAMESPACE, name)
        if key in self.pods:
            return Effect()
        size = action.part.size or reservation.template.requests
        pod = self.pod(
            name,
            cpu=size.cpu_milli,
            gates=(names.GATE_ROOM,) if action.part.waits else (),
            priority=SOFT_PRIORITY if soft_mode(reservation) else PLACEHOLDER_PRIORITY,
            namespace=NAMESPACE,
            controller=OwnerRef(names.API_VERSION, "Reservation", reservation.name, reservation.uid),
        )
        pin = Requirement("metadata.name", Operator.IN, (action.node,))
        spec = replace(
            pod.spec,
            node_affinity=NodeSelector((NodeSelectorTerm(fields=(pin,)),)),
            tolerations=(HAND_OVER_TOLERATION,) if action.part.size is not None or action.part.waits else (),
        )
        self.put(replace(pod, spec=spec))
        return self._touched(Kind.POD, key, self.pods[key])

    def _DeletePlaceholder(self, action):
        pod = self.pods.get(action.pod)
        if pod is None:
            return Effect()
        if pod.uid != action.uid:
            raise conflict()
        if not pod.node:
            del self.pods[action.pod]
        elif not pod.deleting:
            self.put(replace(pod, deleting=True))
        return Effect(touched=(Touched(kind=Kind.POD, key=action.pod, deleted=True),))

    def _WriteReservationStatus(self, action):
        old = self.reservations.get(action.name)
        if old is None:
            raise not_found()
        if old.resource_version != action.resource_version or old.uid != action.uid:
            raise conflict()
        assert old.status.phase not in (ReservationPhase.SUCCEEDED, ReservationPhase.FAILED), (
            "terminal is terminal"
        )
        new = replace(old, status=action.status, resource_version=self.version())
        self.reservations[action.name] = new
        return self._touched(Kind.RESERVATION, ObjectKey("", action.name), new)

    def _pod_of(self, key, uid):
        pod = self.pods.get(key)
        if pod is None:
            raise not_found()
        if pod.uid != uid:
            raise RejectedError(422, "Invalid", "uid differs")
        return pod

    def _Nominate(self, action):
        pod = self._pod_of(action.pod, action.uid)
        self.put(replace(pod, nominated_node=action.node))
        return self._touched(Kind.POD, action.pod, self.pods[action.pod])

    def _TakeBackNomination(self, action):
        holder = self.pods.get(action.holder)
        if holder is None or holder.uid != action.holder_uid or holder.deleting:
            return Effect()
        return self._Nominate(rooms.Nominate(action.pod, action.uid, ""))

    def _Ungate(self, action):
        pod = self._pod_of(action.pod, action.uid)
        tolerations = pod.spec.tolerations if action.tolerations is None else action.tolerations
        gates = tuple(g for g in pod.spec.gates if g != names.GATE)
        self.put(replace(pod, spec=replace(pod.spec, gates=gates, tolerations=tolerations)))
        return self._touched(Kind.POD, action.pod, self.pods[action.pod])

    def _AdmitPlaceholder(self, action):
        pod = self._pod_of(action.pod, action.uid)
        self.put(replace(pod, spec=replace(pod.spec, gates=())))
        return self._touched(Kind.POD, action.pod, self.pods[action.pod])

    def _ReleasePod(self, action):
        if action.pod not in self.pods:
            return Effect()
        return self._Ungate(rooms.Ungate(action.pod, action.uid, ""))

    def _DeleteReservation(self, action):
        old = self.reservations.get(action.name)
        if old is None:
            return Effect()
        if old.uid != action.uid or action.resource_version not in ("", old.resource_version):
            raise conflict()
        for owner in old.status.current_owners:
            pod = self.pods.get(ObjectKey(owner.namespace, owner.name))
            pending = pod is not None and pod.uid == owner.uid and not pod.node and not pod.deleting
            assert not pending, f"Reservation {action.name} is deleted while its claimant is pending"
        del self.reservations[action.name]
        return Effect(touched=(Touched(kind=Kind.RESERVATION, key=ObjectKey("", action.name), deleted=True),))

    def _RecordEvent(self, action):
        return Effect()

    def _AdoptPod(self, action):
        old = self._migration(action.migration, action.resource_version)
        return self._put_migration(replace(old, pod_uid=action.pod_uid))

    def _WriteMigrationStatus(self, action):
        old = self._migration(action.migration, action.resource_version)
        return self._put_migration(replace(old, status=action.status))

    def _migration(self, key, version):
        old = self.migrations.get(key)
        if old is None:
            raise not_found()
        if old.resource_version != version:
            raise conflict()
        return old

    def _put_migration(self, migration):
        new = replace(migration, resource_version=self.version())
        self.migrations[new.key] = new
        return self._touched(Kind.POD_MIGRATION, new.key, new)

    def _CreateReservation(self, action):
        if action.name in self.reservations:
            return Effect()
        controller = action.pod.controller
        annotations = {names.ANNOTATION_MIGRATION: str(action.migration)}
        if action.soft:
            annotations[names.ANNOTATION_MODE] = "Soft"
        self.reserve(
            action.name,
            controller.uid,
            node=action.node,
            cpu=action.template.requests.cpu_milli,
            ttl_s=action.ttl_s,
            annotations=LabelSet(annotations),
        )
        return self._touched(Kind.RESERVATION, ObjectKey("", action.name), self.reservations[action.name])

    def _ProveGate(self, action):
        return Effect(gate_proven=self.gate_in_force and action.controller.uid in self.live)

    def _DryRunEvict(self, action):
        return Effect(eviction=self._answer(action))

    def _answer(self, action):
        pod = self.pods.get(action.pod)
        if pod is None:
            return EvictionResult(EvictionOutcome.GONE)
        if pod.uid != action.pod_uid:
            return EvictionResult(EvictionOutcome.REPLACED)
        if pod.deleting:
            return EvictionResult(EvictionOutcome.EVICTED)
        mine = [self.counted(b) for b in self.budgets.values() if b.selector.matches(pod.labels)]
        if len(mine) > 1:
            return EvictionResult(EvictionOutcome.MULTIPLE_BUDGETS, "more than one")
        if mine and mine[0].disruptions_allowed <= 0 and pod.ready:
            return EvictionResult(EvictionOutcome.BLOCKED, "budget")
        return EvictionResult(EvictionOutcome.EVICTED)

    def _Evict(self, action):
        result = self._answer(action)
        pod = self.pods.get(action.pod)
        if result.outcome is EvictionOutcome.EVICTED and not pod.deleting:
            migration = self.migrations[action.migration]
            reservation = self.reservations.get(migration.status.reservation_name)
            assert migration.status.eviction_requested_at_s, "the intent was not written before the eviction"
            assert reservation is not None, "evicted into the void"
            if reservation.name not in self.excused:
                assert reservation.status.phase is ReservationPhase.AVAILABLE, "evicted before Available"
                assert not reservation.status.current_owners, "evicted for a room that is claimed"
            self.evictions.append(action.pod)
            self.put(replace(pod, deleting=True, ready=False))
        return Effect(eviction=result)

    def _WriteAvoidHints(self, action):
        node = self.nodes.get(action.node)
        if node is None:
            raise not_found()
        if node.resource_version != action.resource_version:
            raise conflict()
        return self._put_node(replace(node, avoid=action.entries))

    def _DeleteMigration(self, action):
        self.migrations.pop(action.migration, None)
        return Effect(touched=(Touched(kind=Kind.POD_MIGRATION, key=action.migration, deleted=True),))

    # What must hold at every instant

    def check(self):
        for reservation in self.reservations.values():
            if (
                reservation.status.phase is ReservationPhase.AVAILABLE
                and reservation.name not in self.excused
            ):
                assert self.accounted(reservation), f"nothing holds the room of {reservation.name}"

    def accounted(self, reservation):
        """Placeholder, nomination or bound owner."""
        if reservation.annotations.get(names.ANNOTATION_MODE) == "Soft":
            return True
        node = reservation.status.node_name
        mine = [
            p
            for p in self.pods.values()
            if p.namespace == NAMESPACE and p.controller.uid == reservation.uid and not p.terminal
        ]
        owners = [self.pods.get(ObjectKey(o.namespace, o.name)) for o in reservation.status.current_owners]
        owners = [
            pod
            for pod, ref in zip(owners, reservation.status.current_owners, strict=True)
            if pod is not None and pod.uid == ref.uid
        ]
        if reservation.allocate_once:
            return any(p.node == node for p in mine) or any(
                node in (pod.node, pod.nominated_node) or pod.node for pod in owners
            )
        rest = reservation.status.allocatable.cpu_milli - reservation.status.allocated.cpu_milli
        flight = [pod for pod in owners if not pod.node]
        if any(
            p.node == node
            and p.spec.requests.cpu_milli >= rest + sum(f.spec.requests.cpu_milli for f in flight)
            for p in mine
        ):
            return True
        rest_held = rest == 0 or any(
            node in (p.node, p.nominated_node) and p.spec.requests.cpu_milli >= rest for p in mine
        )
        return rest_held and all(pod.nominated_node == node for pod in flight)

    def leftovers(self):
        """What a finished run must not leave behind, in words."""
        found = [f"gated {p.key}" for p in self.pods.values() if names.GATE in p.spec.gates]
        found += [f"placeholder {p.key}" for p in self.pods.values() if p.namespace == NAMESPACE]
        found += [f"gate key {uid}" for uid in self.live]
        found += [f"taint on {n.name}" for n in self.nodes.values() if any(is_hand_over(t) for t in n.taints)]
        found += [
            f"{m.key} is {m.status.phase}"
            for m in self.migrations.values()
            if m.status.phase not in (MigrationPhase.SUCCEEDED, MigrationPhase.FAILED)
        ]
        return found
