"""The kubelets of the embedded cluster as one stepper: events in, the requests that are due out.

The same ``Kubelet`` that runs on a real control plane; here it is driven without threads, so that it works
in virtual time as well.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable

import msgspec

from rescheduler.kube.transport import Transport
from rescheduler.model.quantity import QuantityError
from rescheduler.sim.controllers.api import Api, Change
from rescheduler.sim.controllers.wire import NODE, POD, Obj, group_kind, key, uid
from rescheduler.sim.kubelet import Action, Kubelet, KubeletSettings, machine, pod_on_node

_TOO_MANY = 429
_SERVER_ERRORS = 500


class KubeletStepper:
    """All kubelets of one cluster."""

    def __init__(self, api: Api, transport: Transport, settings: KubeletSettings | None = None) -> None:
        self.kubelet = Kubelet(settings)
        self._transport = transport
        self._inbox: deque[Change] = deque()
        self._unsubscribe = api.subscribe(self._inbox.append)

    def prime(self, existing: Iterable[Obj]) -> None:
        """Take in objects that were there before the subscription."""
        for obj in existing:
            self._inbox.append(Change("ADDED", obj))

    def close(self) -> None:
        """Stop listening."""
        self._unsubscribe()

    def step(self, now_s: float) -> int:
        """Take in events and do what is due; gives how many actions that were."""
        self._drain(now_s)
        actions = self.kubelet.due(now_s)
        for action in actions:
            if not self._send(action):
                self.kubelet.failed(action, now_s)
        return len(actions)

    def next_due_s(self) -> float | None:
        """When there is something to do without any event (epoch seconds); None: never."""
        return 0.0 if self._inbox else self.kubelet.next_due_s()

    def _drain(self, now_s: float) -> None:
        while self._inbox:
            change = self._inbox.popleft()
            kind = group_kind(change.object)
            # What the kubelet cannot read it does not run; the pod then stays Pending, as on a real node.
            with contextlib.suppress(msgspec.ValidationError, QuantityError):
                if kind == NODE:
                    self._node(change, now_s)
                elif kind == POD:
                    self._pod(change, now_s)

    def _node(self, change: Change, now_s: float) -> None:
        if change.type == "DELETED":
            self.kubelet.node_deleted(key(change.object).name)
        else:
            self.kubelet.node_changed(machine(change.object), now_s)

    def _pod(self, change: Change, now_s: float) -> None:
        if change.type == "DELETED":
            self.kubelet.pod_deleted(uid(change.object), now_s)
        else:
            self.kubelet.pod_changed(pod_on_node(change.object), now_s)

    def _send(self, action: Action) -> bool:
        answers = [self._transport.send(request) for request in action.requests]
        return all(a.status < _SERVER_ERRORS and a.status != _TOO_MANY for a in answers)
