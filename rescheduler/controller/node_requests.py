"""Looks after the pods that ask the node autoscaler for a node: when it is looked, and which calls that makes.

``coordination.node_requests`` decides. It is looked in rounds, once a second at most, because a look visits all PodMigrations. In each round
pods go whose move has a target meanwhile: once its placeholder takes the room, a pod that still asked would get a second node. Where no
node autoscaler is at work, or the configuration says so, nothing asks. What is remembered here may be lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from rescheduler.calls.call import AnyCall, Event
from rescheduler.calls.pods import say_unschedulable, withdraw_request
from rescheduler.controller.crashes import Step
from rescheduler.controller.gathering import Gathered
from rescheduler.controller.periodic_steps import PeriodicStep
from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.node_requests import (
    SETTLED_S,
    Asking,
    asking,
    own_deployment,
    placed,
    request_machine,
    spoiled,
    withdrawn,
)
from rescheduler.coordination.observe_reservations import default_class
from rescheduler.coordination.placement import Placement
from rescheduler.model.node_autoscaler import NodeAutoscaler, may_be_asked
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations.node_request import request_key, request_node
from rescheduler.reservations.quota import AskedNodes
from rescheduler.reservations.settings import ReservationSettings

_BETWEEN_LOOKS_S: Final = 1.0
_KNOWN_FOR_S: Final = 10.0
"""Whether a node autoscaler is at work is found out so often, because that visits all nodes and workloads."""
ASKS_FOR_NODE: Final = "AsksForNode"
"""Reason of the Event on the pod that is to move."""


@dataclass(slots=True)
class NodeRequestKeeper:
    """Used by the core thread only."""

    again_s: float | None = None
    """When to look again at the latest; None: only when something changes."""
    machines: tuple[ObjectKey, ...] = ()
    """Of the moves and pods that were found at the last look."""
    _looked_s: float | None = None
    _since_s: dict[ObjectKey, float] = field(default_factory=dict)
    """When a move, that asks or may, was first found without a target."""
    _spoiled: frozenset[ObjectKey] = frozenset()
    """Moves whose pod somebody has changed so that it was bound, or could be."""
    _asked: bool = False
    _said: NodeAutoscaler | None = None
    """For what configuration that was found out, and until when it counts."""
    _known_until_s: float = 0.0

    def steps(
        self, found: Gathered, placement: Placement, settings: ReservationSettings, now_s: float
    ) -> Iterator[PeriodicStep]:
        """What is to be done now."""
        index = found.index
        standing, snapshot, namespace = index.kept.pods.node_requests, index.snapshot, settings.namespace
        if self._looked_s is not None and 0 <= now_s - self._looked_s < _BETWEEN_LOOKS_S:
            self.again_s = self._looked_s + _BETWEEN_LOOKS_S
            for pod in placed(standing, self._since_s, snapshot, namespace):
                yield PeriodicStep(Step.POD, request_machine(pod.key), "", partial(_withdraw, pod))
            return
        self._looked_s, self.again_s = now_s, None
        asks = asking(snapshot, standing, namespace)
        if asks and not self._may_ask(index, settings, now_s):
            asks = []
        gone = tuple(withdrawn(standing, asks, namespace))
        self._since_s = {one.move.key: self._since_s.get(one.move.key, now_s) for one in asks}
        self.machines = tuple(request_machine(request_key(one.move, namespace)) for one in asks)
        self.machines += tuple(request_machine(pod.key) for pod in gone)
        if asks:
            self.again_s = now_s + _BETWEEN_LOOKS_S
        for pod in gone:
            yield PeriodicStep(Step.POD, request_machine(pod.key), "", partial(_withdraw, pod))
        keys = frozenset(one.move.key for one in asks if one.pod is not None and spoiled(one.pod))
        self._spoiled = (self._spoiled & self._since_s.keys()) | keys
        look = _Look(found, placement, settings, _asked_nodes(asks, snapshot, settings), now_s)
        for one in (one for one in asks if one.move.key not in self._spoiled):
            machine, since_s = request_machine(request_key(one.move, namespace)), self._since_s[one.move.key]
            yield PeriodicStep(Step.POD, machine, "", partial(look.due, one, since_s))

    def _may_ask(self, index: RoundIndex, settings: ReservationSettings, now_s: float) -> bool:
        said = settings.node_autoscaler
        if self._said is not said or not now_s < self._known_until_s <= now_s + _KNOWN_FOR_S:
            self._said, self._known_until_s = said, now_s + _KNOWN_FOR_S
            self._asked = may_be_asked(said, index.snapshot)
        return self._asked


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at all moves that ask."""

    found: Gathered
    placement: Placement
    settings: ReservationSettings
    asked: AskedNodes
    now_s: float

    def due(self, one: Asking, since_s: float) -> Sequence[AnyCall]:
        """What is to be sent for one that has been without a target since then."""
        move, index = one.move, self.found.index
        pod = index.snapshot.pods.get(ObjectKey(move.namespace, move.pod_name))
        if pod is None or move.pod_uid not in ("", pod.uid):
            return ()
        if one.pod is not None:
            if one.pod.unschedulable_message or one.pod.deleting:
                return ()
            words = f"no node has room for the replacement of pod {pod.key}"
            return (say_unschedulable(one.pod, words, self.now_s),)
        if self.now_s < since_s + SETTLED_S:
            return ()
        return self._asks(one, pod)

    def _asks(self, one: Asking, pod: Pod) -> Sequence[AnyCall]:
        coming = self.found.replacements.of(pod).pod
        if coming is None or self.asked.refusal(pod, coming.spec.requests):
            return ()
        index = self.found.index
        volumes, domains = (
            index.volumes_of(pod.namespace, pod.name, pod.spec),
            self.placement.open_domains(pod),
        )
        where = (*volumes.affinities, *((domains,) if domains is not None else ()))
        deployment = own_deployment(index.snapshot, self.settings.namespace)
        call = request_node(one.move, coming, where, self.settings, deployment)
        words = (
            f"no node has room for its replacement; pending pod {call.key} asks the node autoscaler for one"
        )
        return (call, Event("v1", "Pod", pod.namespace, pod.name, pod.uid, ASKS_FOR_NODE, words))


def _asked_nodes(asks: Sequence[Asking], snapshot: Snapshot, settings: ReservationSettings) -> AskedNodes:
    """With those that ask already."""
    asked = AskedNodes(settings.quotas, tuple(snapshot.resource_quotas.values()), default_class(snapshot))
    for one in asks:
        pod = snapshot.pods.get(ObjectKey(one.move.namespace, one.move.pod_name))
        if one.pod is not None and pod is not None:
            asked.count(pod, one.pod.spec.requests)
    return asked


def _withdraw(pod: Pod) -> Sequence[AnyCall]:
    return (withdraw_request(pod),)
