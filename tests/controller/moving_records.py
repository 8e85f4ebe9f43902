"""What the cluster of records is made of: its objects, how a test sets them up, what the reconciler may see, how much is free."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from rescheduler.kube.errors import ConflictError, NotFoundError
from rescheduler.migrations.observed import YES
from rescheduler.model import names
from rescheduler.model.migration import PodMigration
from rescheduler.model.records import (
    DisruptionBudget,
    Node,
    ObjectKey,
    OwnerRef,
    Pod,
    PodPhase,
    PodSpec,
    Workload,
)
from rescheduler.model.reservation import (
    ControllerRef,
    Reservation,
    ReservationOwner,
    ReservationStatus,
)
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import (
    LabelSelector,
    LabelSet,
    Operator,
    Requirement,
)
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.target import Choice

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
class Records:
    """The truth."""

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

    def crowded_out(self, claimant, node):
        return False

    def landable(self, rooms, claimed):
        return frozenset(room.name for room in rooms)

    def for_migration(self, pod):
        return Choice(message="no better node")

    def movable(self, pod):
        return YES

    def fits(self, pod, node, reservation):
        return YES
