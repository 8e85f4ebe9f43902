"""A cluster of plain records for tests of moving: scheduler, workload controllers, kubelets, budgets, gate.

Every behaviour does one small thing when asked, so that a test decides the interleaving. It carries the
reconciler's actions out on records and checks what must hold at every instant. What the reconciler sees
(``look``) may be older than the truth.
"""

# ruff: noqa: N802 - the methods that carry actions out are named like the actions

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from rescheduler.controller.effects import Effect, Touched
from rescheduler.controller.patches import is_hand_over
from rescheduler.kube.errors import ConflictError, NotFoundError, RejectedError
from rescheduler.migrations.observed import YES
from rescheduler.model import names
from rescheduler.model.eviction import EvictionOutcome, EvictionResult
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.records import (
    DisruptionBudget,
    Node,
    ObjectKey,
    OwnerRef,
    Pod,
    PodPhase,
    PodSpec,
    Taint,
    Workload,
)
from rescheduler.model.reservation import (
    ControllerRef,
    Reservation,
    ReservationOwner,
    ReservationPhase,
    ReservationStatus,
)
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import (
    LabelSelector,
    LabelSet,
    NodeSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
)
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.target import Choice
from rescheduler.reservations import actions as rooms
from rescheduler.reservations.handover import HAND_OVER_TOLERATION
from rescheduler.reservations.naming import label_value
from rescheduler.reservations.observed import soft_mode
from rescheduler.reservations.placeholder import placeholder_name

NAMESPACE = "rescheduler"
PLACEHOLDER_PRIORITY = 1_000_000_000
SOFT_PRIORITY = -10
replace = msgspec.structs.replace


class Crash(Exception):  # noqa: N818  the word of the field
    """The controller dies here."""


def conflict(message="changed in between"):
    return ConflictError(409, "Conflict", message)


def not_found(message="no such object"):
    return NotFoundError(404, "NotFound", message)


@dataclass
class Keys:
    """A ConfigMap."""

    data: dict = field(default_factory=dict)

    def entries(self):
        return dict(self.data)

    def write(self, add, remove):
        self.data.update(add)
        for key in remove:
            self.data.pop(key, None)


@dataclass
class World:
    """The truth, and the actors that change it."""

    now_s: float = 1_000.0
    nodes: dict = field(default_factory=dict)
    pods: dict = field(default_factory=dict)
    workloads: dict = field(default_factory=dict)
    budgets: dict = field(default_factory=dict)
    reservations: dict = field(default_factory=dict)
    migrations: dict = field(default_factory=dict)
    live: dict = field(default_factory=dict)
    hints: Keys = field(default_factory=Keys)
    gate_in_force: bool = True
    counter: int = 0
    crash_in: int | None = None
    actions: list = field(default_factory=list)
    evictions: list = field(default_factory=list)
    excused: set = field(default_factory=set)
    """Reservations whose room was taken by force (chaos); the room invariant does not hold for them."""

    def version(self):
        self.counter += 1
        return str(self.counter)

    # Setting up

    def node(self, name, rooms):
        self.nodes[name] = Node(
            name=name,
            uid=name,
            resource_version=self.version(),
            labels=LabelSet({"kubernetes.io/hostname": name}),
            allocatable=Resources(cpu_milli=rooms * 1000, memory_bytes=10**12, pods=110),
        )

    def pod(
        self,
        name,
        node="",
        *,
        cpu=1000,
        priority=0,
        controller=None,
        labels=None,
        gates=(),
        namespace="default",
    ):
        uid = f"pod-{name}-{self.version()}"
        spec = PodSpec(requests=Resources(cpu_milli=cpu), priority=priority, gates=tuple(gates))
        pod = Pod(
            namespace=namespace,
            name=name,
            uid=uid,
            resource_version=self.version(),
            node=node,
            spec=spec,
            labels=LabelSet(labels or {}),
            controller=controller,
            held=spec.requests,
            phase=PodPhase.RUNNING if node else PodPhase.PENDING,
            ready=bool(node),
            created_at_s=float(int(self.now_s)),
        )
        self.pods[pod.key] = pod
        return pod

    def workload(self, kind, name, nodes, *, priority=0, desired=None, cpu=1000):
        workload = Workload(
            kind=kind,
            namespace="default",
            name=name,
            uid=f"uid-{name}",
            replicas=len(nodes),
            selector=LabelSelector((Requirement("app", Operator.IN, (name,)),)),
            template=PodSpec(requests=Resources(cpu_milli=cpu), priority=priority),
            template_labels=LabelSet({"app": name}),
        )
        self.workloads[workload.uid] = workload
        if desired is not None:
            self.budgets[ObjectKey("default", name)] = DisruptionBudget(
                namespace="default", name=name, selector=workload.selector, desired_healthy=desired
            )
        return [self.replica(workload, index, node) for index, node in enumerate(nodes)]

    def replica(self, workload, index, node=""):
        stateful = workload.kind == "StatefulSet"
        name = f"{workload.name}-{index}" if stateful else f"{workload.name}-{self.version()}"
        gated = not node and workload.uid in self.live and self.gate_in_force
        return self.pod(
            name,
            node,
            cpu=workload.template.requests.cpu_milli,
            priority=workload.template.priority,
            controller=OwnerRef("apps/v1", workload.kind, workload.name, workload.uid),
            labels={"app": workload.name},
            gates=(names.GATE,) if gated else (),
        )

    def migrate(self, pod, target, **fields):
        migration = PodMigration(
            namespace=pod.namespace,
            name=f"move-{pod.name}",
            uid=f"move-{self.version()}",
            resource_version=self.version(),
            generation=1,
            created_at_s=self.now_s,
            pod_name=pod.name,
            pod_uid=pod.uid,
            target_node=target,
            **fields,
        )
        self.migrations[migration.key] = migration
        return migration.key

    def reserve(self, name, owner_uid, *, node="", cpu=1000, **fields):
        self.reservations[name] = Reservation(
            name=name,
            uid=f"rsv-{self.version()}",
            resource_version=self.version(),
            generation=1,
            created_at_s=self.now_s,
            template=PodSpec(requests=Resources(cpu_milli=cpu)),
            template_node=node,
            owners=(ReservationOwner(controller=ControllerRef(uid=owner_uid)),),
            status=ReservationStatus(),
            **fields,
        )

    # What the controller sees

    def look(self):
        budgets = {key: self.counted(budget) for key, budget in self.budgets.items()}
        return Snapshot(
            taken_at_s=self.now_s,
            nodes=dict(self.nodes),
            pods=dict(self.pods),
            workloads=dict(self.workloads),
            budgets=budgets,
            reservations=dict(self.reservations),
            migrations=dict(self.migrations),
        )

    def counted(self, budget):
        chosen = [p for p in self.pods.values() if budget.selector.matches(p.labels)]
        healthy = sum(p.ready and not p.deleting for p in chosen)
        return replace(
            budget,
            current_healthy=healthy,
            disruptions_allowed=max(0, healthy - budget.desired_healthy),
            expected_pods=len(chosen),
        )

    # Placement: the target is given; a room is free or not

    def begin(self, snapshot, written):
        pass

    def for_reservation(self, reservation):
        named = reservation.template_node
        if reservation.pre_allocation and named:
            return Choice(node=named)
        for name in [named] if named else sorted(self.nodes):
            if name in self.nodes and self.free(name) >= reservation.template.requests.cpu_milli:
                return Choice(node=name)
        return Choice(message="no room on any node")

    def has_room(self, promise, node, behind):
        promised = sum(
            p.spec.requests.cpu_milli
            for p in self.pods.values()
            if p.nominated_node == node and not p.node and p.uid not in {q.uid for q in (promise, *behind)}
        )
        return self.free(node) - promised >= promise.spec.requests.cpu_milli

    def landable(self, rooms, claimed):
        return frozenset(room.name for room in rooms)

    def for_migration(self, pod):
        return Choice(message="no better node")

    def movable(self, pod):
        return YES

    def fits(self, pod, node, reservation):
        return YES

    # Actors: each does one thing and says whether there was one

    def free(self, node):
        used = sum(p.spec.requests.cpu_milli for p in self.pods.values() if p.node == node and not p.terminal)
        return self.nodes[node].allocatable.cpu_milli - used

    def scheduler(self):
        waiting = [p for p in self.pods.values() if not p.node and not p.spec.gates and not p.deleting]
        waiting.sort(key=lambda p: (-p.spec.priority, p.created_at_s, p.name))
        for pod in waiting:
            node = self.room_for(pod)
            if node:
                self.put(replace(pod, node=node, nominated_node="", unschedulable_message=""))
                assert self.free(node) >= 0, f"{node} is overcommitted by {pod.key}"
                return True
            if self.preempt(pod):
                return True
            if pod.nominated_node or not pod.unschedulable_message:
                self.put(replace(pod, nominated_node="", unschedulable_message="0/3 nodes are available"))
                return True
        return False

    def preempt(self, pod):
        """A soft placeholder makes room for any pod of higher priority that finds none."""
        if pod.nominated_node:
            return False
        for victim in sorted(self.pods.values(), key=lambda p: p.name):
            if (
                victim.spec.priority == SOFT_PRIORITY < pod.spec.priority
                and victim.node
                and not victim.deleting
            ):
                self.put(replace(victim, deleting=True))
                self.put(replace(pod, nominated_node=victim.node))
                return True
        return False

    def room_for(self, pod):
        preferred = sorted(self.nodes, key=lambda n: (n != pod.nominated_node, n))
        for name in preferred:
            node = self.nodes[name]
            if node.unschedulable or not node.ready:
                continue
            affinity = pod.spec.node_affinity
            if affinity is not None and not affinity.matches(node.labels, name):
                continue
            keys = {t.key for t in pod.spec.tolerations}
            if any(t.key not in keys for t in node.taints):
                continue
            promised = sum(
                p.spec.requests.cpu_milli
                for p in self.pods.values()
                if p.nominated_node == name
                and not p.node
                and p.uid != pod.uid
                and p.spec.priority >= pod.spec.priority
            )
            if self.free(name) - promised >= pod.spec.requests.cpu_milli:
                return name
        return ""

    def kubelet(self):
        for pod in list(self.pods.values()):
            if pod.deleting:
                del self.pods[pod.key]
                return True
            if pod.node and not pod.ready and pod.phase is PodPhase.PENDING:
                self.put(replace(pod, ready=True, phase=PodPhase.RUNNING))
                return True
        return False

    def controllers(self):
        for workload in self.workloads.values():
            mine = [p for p in self.pods.values() if p.controller and p.controller.uid == workload.uid]
            if workload.kind == "StatefulSet":
                for index in range(workload.replicas):
                    if ObjectKey("default", f"{workload.name}-{index}") not in self.pods:
                        self.replica(workload, index)
                        return True
                continue
            alive = [p for p in mine if not p.deleting and not p.terminal]
            if len(alive) < workload.replicas:
                self.replica(workload, 0)
                return True
            if len(alive) > workload.replicas:
                alive.sort(key=lambda p: (bool(p.node), p.ready, -p.created_at_s))
                self.put(replace(alive[0], deleting=True))
                return True
        return False

    def collector(self):
        uids = {r.uid for r in self.reservations.values()}
        for pod in self.pods.values():
            if pod.namespace == NAMESPACE and pod.controller.uid not in uids and not pod.deleting:
                self.put(replace(pod, deleting=True))
                return True
        return False

    def put(self, pod):
        self.pods[pod.key] = replace(pod, resource_version=self.version())

    # Executor

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
