"""Runs the kubelets of a sandbox, without threads and watches, so it works in virtual time."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Final

import msgspec

from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.api import Api
from kube_sandbox.controllers.unstructured import NODE, POD, group_kind, key, uid
from kube_sandbox.kubelet.kubelet import Kubelet, KubeletSettings
from kube_sandbox.kubelet.objects import kubelet_node, pod_on_node
from rescheduler.kube.transport import Response, Transport
from rescheduler.model.resources import QuantityError

SERVER_ERRORS: Final = 500
TOO_MANY: Final = 429


def taken(answer: Response) -> bool:
    """True unless the request is to be sent again."""
    return answer.status < SERVER_ERRORS and answer.status != TOO_MANY


class KubeletStepper:
    """All kubelets of one sandbox."""

    def __init__(self, api: Api, transport: Transport, settings: KubeletSettings | None = None) -> None:
        self.kubelet = Kubelet(settings)
        self._transport = transport
        self._inbox: deque[ObjectChange] = deque()
        api.subscribe(self._inbox.append, existing=True)

    def step(self, now_s: float) -> int:
        """Take events and send the actions that are due; returns the number of actions."""
        self._drain(now_s)
        actions = self.kubelet.due(now_s)
        for action in actions:
            if not taken(self._transport.send(action.request)):
                self.kubelet.failed(action, now_s)
        return len(actions)

    def next_due_s(self) -> float | None:
        """When there is work without a further event (epoch seconds); None: never."""
        return 0.0 if self._inbox else self.kubelet.next_due_s()

    def _drain(self, now_s: float) -> None:
        while self._inbox:
            change = self._inbox.popleft()
            kind = group_kind(change.object)
            # The kubelet does not run a pod that it cannot decode: the pod stays Pending, as on a real node.
            with contextlib.suppress(msgspec.ValidationError, QuantityError):
                if kind == NODE:
                    self._node(change, now_s)
                elif kind == POD:
                    self._pod(change, now_s)

    def _node(self, change: ObjectChange, now_s: float) -> None:
        if change.type == "DELETED":
            self.kubelet.node_deleted(key(change.object).name)
        else:
            self.kubelet.node_changed(kubelet_node(change.object), now_s)

    def _pod(self, change: ObjectChange, now_s: float) -> None:
        if change.type == "DELETED":
            self.kubelet.pod_deleted(uid(change.object), now_s)
        else:
            self.kubelet.pod_changed(pod_on_node(change.object), now_s)
