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

from rescheduler.calls.call import AnyCall
from rescheduler.calls.pods import say_unschedulable, withdraw_request
from rescheduler.controller.gathering import Gathered
from rescheduler.controller.periodic_steps import BETWEEN_LOOKS_S, Looks, PeriodicStep
from rescheduler.coordination.node_requests import (
    SETTLED_S,
    Asking,
    asking,
    finds_no_node,
    own_deployment,
    placed,
    request_machine,
    spoiled,
    withdrawn,
)
from rescheduler.coordination.observe_reservations import default_class
from rescheduler.coordination.placement import Placement
from rescheduler.model.event import Event, about
from rescheduler.model.migration import PodMigration
from rescheduler.model.node_autoscaler import may_be_asked
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.room_pod import hypothetical_pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations.node_request import key_of, request_key, request_node
from rescheduler.reservations.quota import AskedNodes
from rescheduler.reservations.settings import ReservationSettings

ASKS_FOR_NODE: Final = "AsksForNode"
"""Reason of the Event on the pod that is to move."""


@dataclass(slots=True)
class NodeRequestKeeper(Looks):
    """Used by the core thread only."""

    _since_s: dict[ObjectKey, float] = field(default_factory=dict)
    """When a move, that asks or may, was first found without a target."""
    _without_node: dict[str, bool] = field(default_factory=dict)
    """Of each Reservation whether no node took it when it was looked at last; most are not looked at in a round."""
    _spoiled: frozenset[ObjectKey] = frozenset()
    """Moves and Reservations whose pod somebody has changed so that it was bound, or could be."""

    def steps(
        self, found: Gathered, placement: Placement, settings: ReservationSettings, now_s: float
    ) -> Iterator[PeriodicStep]:
        """What is to be done now."""
        index = found.index
        standing, snapshot, namespace = index.kept.pods.node_requests, index.snapshot, settings.namespace
        self._without_node.update((name, finds_no_node(one)) for name, one in found.rooms.items())
        if self.rests(now_s):
            for pod in placed(self._since_s, snapshot, self._without_node, standing, namespace):
                yield PeriodicStep(request_machine(pod.key), partial(_withdraw, pod))
            return
        for name in self._without_node.keys() - snapshot.reservations.keys():
            del self._without_node[name]
        asks = asking(snapshot, self._without_node, standing, namespace)
        if asks and not may_be_asked(settings.node_autoscaler, snapshot):
            asks = []
        gone = tuple(withdrawn(standing, asks, namespace))
        keys = [key_of(one.source) for one in asks]
        self._since_s = {key: self._since_s.get(key, now_s) for key in keys}
        self.machines = tuple(request_machine(request_key(one.source, namespace)) for one in asks)
        self.machines += tuple(request_machine(pod.key) for pod in gone)
        self.wake(now_s + BETWEEN_LOOKS_S if asks else None)
        for pod in gone:
            yield PeriodicStep(request_machine(pod.key), partial(_withdraw, pod))
        changed = (key_of(one.source) for one in asks if one.pod is not None and spoiled(one.pod))
        self._spoiled = (self._spoiled & self._since_s.keys()) | set(changed)
        look = _Look(found, placement, settings, _asked_nodes(asks, snapshot, settings), now_s)
        for key, one in zip(keys, asks, strict=True):
            if key not in self._spoiled:
                machine = request_machine(request_key(one.source, namespace))
                yield PeriodicStep(machine, partial(look.due, one, self._since_s[key]))


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
        source, pod = one.source, self._leaving(one.source)
        if isinstance(source, PodMigration) and pod is None:
            return ()
        whom = f"the replacement of pod {pod.key}" if pod is not None else f"Reservation {source.name}"
        if one.pod is not None:
            if one.pod.unschedulable_message or one.pod.deleting:
                return ()
            return (say_unschedulable(one.pod, f"no node has room for {whom}", self.now_s),)
        if self.now_s < since_s + SETTLED_S:
            return ()
        coming = hypothetical_pod(source) if isinstance(source, Reservation) else self._replacement(pod)
        if coming is None:
            return ()
        name = pod.name if pod is not None else ""
        volumes = self.found.index.volumes_of(coming.namespace, name, coming.spec)
        domains = self.placement.open_domains(coming, pod)
        where = (*volumes.affinities, *((domains,) if domains is not None else ()))
        deployment = own_deployment(self.found.index.snapshot, self.settings.namespace)
        call = request_node(source, coming, where, self.settings, deployment)
        words = f"no node has room for {whom}; pending pod {call.key} asks the node autoscaler for one"
        return (call, self._event(source, pod, words))

    def _leaving(self, source: PodMigration | Reservation) -> Pod | None:
        """The pod that a move is for."""
        if isinstance(source, Reservation):
            return None
        pod = self.found.index.snapshot.pods.get(ObjectKey(source.namespace, source.pod_name))
        return pod if pod is not None and source.pod_uid in ("", pod.uid) else None

    def _replacement(self, pod: Pod | None) -> Pod | None:
        """What comes for it, within share and quotas, which Reservations have passed."""
        coming = self.found.replacements.of(pod).pod if pod is not None else None
        if pod is None or coming is None or self.asked.refusal(pod, coming.spec.requests):
            return None
        return coming

    def _event(self, source: PodMigration | Reservation, pod: Pod | None, words: str) -> Event:
        return Event(about(source if pod is None else pod), ASKS_FOR_NODE, words)


def _asked_nodes(asks: Sequence[Asking], snapshot: Snapshot, settings: ReservationSettings) -> AskedNodes:
    """With those that ask already."""
    asked = AskedNodes(settings.quotas, tuple(snapshot.resource_quotas.values()), default_class(snapshot))
    for source, asking_pod in asks:
        if isinstance(source, PodMigration) and asking_pod is not None:
            pod = snapshot.pods.get(ObjectKey(source.namespace, source.pod_name))
            if pod is not None:
                asked.count(pod, asking_pod.spec.requests)
    return asked


def _withdraw(pod: Pod) -> Sequence[AnyCall]:
    return (withdraw_request(pod),)
