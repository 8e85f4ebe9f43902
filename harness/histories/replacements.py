"""The invariant of the pod that comes back: at each eviction, a controller would create a pod that fits the room and the node.

Computed at the write of the eviction from the objects of the API server alone: the owner, its revision and template, what
the admission policies make of the pod, the placeholder's requests, and the filters of the sandbox's scheduler. Nothing of
the program's own answer to that question is used. Excused is only what changed so late that the caches of the program
could not show it, and an admission policy that is younger than real API servers take to apply one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from harness.histories.observed_cluster import Seen, gated, node_of, over
from harness.histories.ownrules import as_released
from harness.histories.program import Program
from kube_sandbox.apiserver.admission import Attributes
from kube_sandbox.apiserver.admission_policies import PolicyEngine, add_default_tolerations, resolve_priority
from kube_sandbox.apiserver.errors import StatusError
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.pod_control import pod_from_template
from kube_sandbox.controllers.statefulset import below_partition, ordinal_of, ordinals_of, pod_of_ordinal
from kube_sandbox.controllers.unstructured import (
    CONTROLLER_REVISION,
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
    Obj,
    active,
    controller_of,
    deleting,
    key,
    replicas_of,
    spec,
    status,
    uid,
)
from kube_sandbox.sandbox import Sandbox
from kube_sandbox.scheduler.cache import SchedulerCache
from rescheduler.migrations.replacement_checks import LAST_LOOK_S
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey
from rescheduler.model.resources import milli
from rescheduler.scheduling.state import SchedulingState

ADMISSION_APPLIES_S: Final = 1.0
"""A real API server applies a policy up to a second after it was stored."""
_POLICIES: Final = frozenset({"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"})
_ROOM: Final = "NodeResourcesFit"
_BETWEEN_PODS: Final = frozenset({"InterPodAffinity", "PodTopologySpread"})
_SCHEDULER: Final = "default-scheduler"


class _Problem(NamedTuple):
    """What is wrong, and the objects that the program had to know for it."""

    message: str
    known_by: tuple[tuple[Kind, str], ...]
    """Kind and uid."""


class _NoPodError(Exception):
    """No controller creates a pod for the evicted one; the only argument is the problem."""

    def __init__(self, message: str, *known_by: tuple[Kind, str]) -> None:
        super().__init__(message)
        self.problem = _Problem(message, known_by)


class Replacements:
    """Checks what would be created for a pod that is being evicted."""

    def __init__(self, cluster: Sandbox, seen: Seen, program: Program) -> None:
        self._cluster, self._api, self._seen, self._program = cluster, cluster.api, seen, program
        self._admission_since_s = 0.0

    def hear(self, obj: Obj, now_s: float) -> None:
        """A write: remember when admission policies changed."""
        if obj["kind"] in _POLICIES:
            self._admission_since_s = now_s

    def check(self, pod: Obj, room: Obj | None) -> list[str]:
        """Messages about the pod that would be created for ``pod`` now. ``room``: its Reservation; None: no room is held."""
        try:
            made = self._created(pod)
        except _NoPodError as none:
            return self._unexcused([none.problem])
        try:
            admitted = self._admitted(made)
        except StatusError as error:
            problem = _Problem(f"its replacement would be refused: {error.message}", ())
            return [] if self._admission_is_young() else self._unexcused([problem])
        owner = self._owner_of(pod)
        found = [_Problem(message, (owner,)) for message in _not_scheduled(admitted)]
        if room is not None:
            found += [*self._too_large(admitted, room, owner), *self._refused(pod, admitted, room, owner)]
        as_before = found and self._admission_is_young()
        return [] if as_before else self._unexcused(found)

    # What is created

    def _created(self, pod: Obj) -> Obj:
        """The pod as its controller sends it to the API server. Raises _NoPodError."""
        ref = controller_of(pod) or {}
        match ref.get("kind"):
            case "ReplicaSet":
                return self._of_replica_set(pod, ref)
            case "StatefulSet":
                return self._of_stateful_set(pod, ref)
        raise _NoPodError(f"no controller replaces it (controller: {ref.get('kind', 'none')})")

    def _of_replica_set(self, pod: Obj, ref: Obj) -> Obj:
        owner = self._api.get(REPLICA_SET, key(pod).namespace, ref["name"])
        known = (Kind.REPLICA_SET, ref["uid"])
        if owner is None or uid(owner) != ref["uid"] or deleting(owner):
            raise _NoPodError(f"its ReplicaSet {ref['name']} is gone", known)
        above = controller_of(owner)
        if above is not None:
            deployment = self._api.get(DEPLOYMENT, key(pod).namespace, above["name"])
            if deployment is None or uid(deployment) != above["uid"] or deleting(deployment):
                gone = (Kind.DEPLOYMENT, above["uid"])
                raise _NoPodError(f"its Deployment {above['name']} is gone", gone)
        others = [p for p in self._pods_of(ref["uid"]) if active(p) and uid(p) != uid(pod)]
        if len(others) >= replicas_of(owner):
            wanted = f"its ReplicaSet wants {replicas_of(owner)} pods and has {len(others)} others"
            raise _NoPodError(wanted, known, *self._known_pods(others))
        return pod_from_template(owner, spec(owner)["template"], name=f"{key(pod).name}-next")

    def _of_stateful_set(self, pod: Obj, ref: Obj) -> Obj:
        owner = self._api.get(STATEFUL_SET, key(pod).namespace, ref["name"])
        known = (Kind.STATEFUL_SET, ref["uid"])
        if owner is None or uid(owner) != ref["uid"] or deleting(owner):
            raise _NoPodError(f"its StatefulSet {ref['name']} is gone", known)
        ordinal = ordinal_of(owner, pod)
        if ordinal is None or ordinal not in ordinals_of(owner):
            raise _NoPodError(f"its StatefulSet wants {len(ordinals_of(owner))} pods", known)
        current = status(owner).get("currentRevision") or ""
        if current and below_partition(owner, ordinal):
            found = self._api.get(CONTROLLER_REVISION, key(pod).namespace, current)
            if found is not None:
                return pod_of_ordinal(owner, ordinal, current, found["data"]["spec"]["template"])
        return pod_of_ordinal(owner, ordinal, "", spec(owner)["template"])

    def _pods_of(self, owner: str) -> Iterator[Obj]:
        return (p for p in self._seen.pods.values() if (controller_of(p) or {}).get("uid") == owner)

    def _admitted(self, made: Obj) -> Obj:
        """What the admission of the API server makes of it, without our gate."""
        store = self._cluster.server.store
        pods = store.registry.named("pods")
        name = key(made)
        attributes = Attributes(
            resource=pods, operation="CREATE", namespace=name.namespace, name=name.name, dry_run=True
        )
        add_default_tolerations(made)
        resolve_priority(store, made)
        found = PolicyEngine(store).mutate(attributes, made)
        return as_released(found)

    # What is wrong with it

    def _too_large(self, admitted: Obj, room: Obj, owner: tuple[Kind, str]) -> Iterator[_Problem]:
        node, wanted = status(room).get("nodeName", ""), _requests(admitted)
        standing = [p for p in self._seen.holders(room) if node_of(p) == node and not deleting(p)]
        held = [_requests(p) for p in standing]
        if held and not any(all(amount <= each[name] for name, amount in wanted.items()) for each in held):
            short = ", ".join(f"{n}: {a} of {held[0][n]}" for n, a in wanted.items() if a > held[0][n])
            yield _Problem(f"its replacement is larger than its room ({short} milli)", (owner,))

    def _refused(self, pod: Obj, admitted: Obj, room: Obj, owner: tuple[Kind, str]) -> Iterator[_Problem]:
        """A filter other than that of room keeps the replacement from the node once the old pod is gone."""
        node = status(room).get("nodeName", "")
        aside = {_ROOM, *(_BETWEEN_PODS if self._others_in_flight(room) else ())}
        records = SchedulerCache()
        for obj in self._api.everything():
            if uid(obj) != uid(pod):
                records.apply(ObjectChange("ADDED", obj))
        fresh = {**admitted["metadata"], "uid": f"{uid(pod)}-next", "resourceVersion": "1"}
        records.apply(ObjectChange("ADDED", {**admitted, "metadata": fresh, "status": {"phase": "Pending"}}))
        snapshot = records.snapshot(self._cluster.clock())
        verdicts = SchedulingState(snapshot).explain(snapshot.pods[ObjectKey(*key(admitted))])
        for refusal in (r for v in verdicts if v.node == node for r in v.refusals):
            if refusal.plugin in aside:
                continue
            known = [owner, *((Kind.NODE, uid(n)) for n in [self._seen.nodes.get(node)] if n is not None)]
            if refusal.plugin in _BETWEEN_PODS:
                known += self._known_pods(self._seen.pods.values())
            yield _Problem(f"its replacement is refused on {node}: {refusal.reason}", tuple(known))

    def _others_in_flight(self, room: Obj) -> bool:
        """True if pods of other moves are on their way: what rules between pods say changes once these are bound."""
        evict = (m for m in self._seen.moves.values() if status(m).get("evictionRequestedAt") and not over(m))
        return any(status(m).get("reservationName") != key(room).name for m in evict) or any(
            gated(p) for p in self._seen.pods.values()
        )

    # Excuses

    def _unexcused(self, problems: Iterable[_Problem]) -> list[str]:
        return [p.message for p in problems if not any(map(self._unknowable, p.known_by))]

    def _unknowable(self, known: tuple[Kind, str]) -> bool:
        """True if the caches do not show the last change of the object, or the program had decided before it."""
        changed_at_s = self._seen.changed_at_s.get(known[1], 0.0)
        return self._program.caches.behind(*known) or self._program.decided_before(changed_at_s)

    def _admission_is_young(self) -> bool:
        """True if the last look at the replacement, whose answer may have been late, could be from before the change."""
        known_s = ADMISSION_APPLIES_S + (LAST_LOOK_S if self._program.answers_late else 0.0)
        return self._cluster.clock() < self._admission_since_s + known_s

    def _known_pods(self, pods: Iterable[Obj]) -> tuple[tuple[Kind, str], ...]:
        return tuple((Kind.POD, uid(p)) for p in pods)

    def _owner_of(self, pod: Obj) -> tuple[Kind, str]:
        ref = controller_of(pod) or {}
        kind = Kind.STATEFUL_SET if ref.get("kind") == "StatefulSet" else Kind.REPLICA_SET
        return kind, ref.get("uid", "")


def _not_scheduled(pod: Obj) -> Iterator[str]:
    """Why the scheduler would not be asked for a node."""
    if spec(pod).get("nodeName"):
        yield f"its replacement would be created on node/{spec(pod)['nodeName']}"
    if gates := [g["name"] for g in spec(pod).get("schedulingGates") or ()]:
        yield f"its replacement would wait for another program ({', '.join(gates)})"
    if spec(pod).get("schedulerName", _SCHEDULER) != _SCHEDULER:
        yield f"its replacement would wait for scheduler {spec(pod)['schedulerName']}"


def _requests(pod: Obj) -> Counter[str]:
    """Milli-units by resource: containers and sidecars, or the largest init container if that is more."""
    total: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for container in spec(pod).get("initContainers") or ():
        wanted = _of(container)
        if container.get("restartPolicy") == "Always":
            total += wanted
        else:
            most |= wanted + total
    for container in spec(pod)["containers"]:
        total += _of(container)
    return total | most


def _of(container: Obj) -> Counter[str]:
    asked = (container.get("resources") or {}).get("requests") or {}
    return Counter({name: milli(amount) for name, amount in asked.items()})
