"""What the scheduler writes to the API about its decisions: conditions, nominations, victims, claims and Events."""

from __future__ import annotations

import hashlib

from kube_sandbox.apiserver.json_values import timestamp
from kube_sandbox.controllers.api import Api, ApiRefusal
from kube_sandbox.controllers.unstructured import (
    CLAIM,
    POD,
    Obj,
    condition,
    micro_timestamp,
    status,
    with_condition,
)
from kube_sandbox.controllers.volumes import SELECTED_NODE
from kube_sandbox.scheduler.preemption import BY_SCHEDULER
from rescheduler.model.records import Pod
from rescheduler.model.storage_records import PersistentVolumeClaim

_GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"
_NOTE_LIMIT = 1024


class StatusWriter:
    """Writes for one scheduler. It keeps the last message of each pod, so that Events are not repeated."""

    def __init__(self, api: Api, scheduler: str) -> None:
        self._api = api
        self._scheduler = scheduler
        self._last_message: dict[str, str] = {}

    def reference(self, pod: Pod) -> Obj:
        """The pod's identity as an object of the API."""
        m = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": m}

    def forget(self, uid: str) -> None:
        """Drop the last message of a pod that is bound or deleted."""
        self._last_message.pop(uid, None)

    def scheduled(self, pod: Pod, node: str, now_s: float) -> None:
        """Write the Event of a pod that was bound."""
        text = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._event(pod, now_s, kind="Normal", reason="Scheduled", action="Binding", note=text)

    def failed(self, pod: Pod, message: str, nominated: str, now_s: float) -> None:
        """Write that no node fits: condition, nomination and, if the message is new, an Event."""
        current = self._api.get(POD, pod.namespace, pod.name)
        if current is None or current["metadata"]["uid"] != pod.uid:
            return
        change: Obj = {"nominatedNodeName": nominated or None}
        new = _not_scheduled("Unschedulable", message, now_s)
        if not _has_condition(current, new):
            change["conditions"] = with_condition(status(current).get("conditions") or [], new)
        if "conditions" in change or (status(current).get("nominatedNodeName") or "") != nominated:
            self._api.patch(current, {"status": change}, subresource="status")
        if self._last_message.get(pod.uid) != message:
            self._last_message[pod.uid] = message
            self._event(
                pod, now_s, kind="Warning", reason="FailedScheduling", action="Scheduling", note=message
            )

    def gated(self, pod: Pod, wire: Obj, now_s: float) -> None:
        """Write the condition of a pod with scheduling gates, once."""
        new = _not_scheduled("SchedulingGated", _GATED_MESSAGE, now_s)
        if (condition(wire, "PodScheduled") or {}).get("reason") == "SchedulingGated":
            return
        current = self._api.get(POD, pod.namespace, pod.name)
        if current is not None and current["metadata"]["uid"] == pod.uid:
            conditions = with_condition(status(current).get("conditions") or [], new)
            self._api.patch(current, {"status": {"conditions": conditions}}, subresource="status")

    def preempted(self, victim: Pod, by: Pod, node: str, now_s: float) -> None:
        """Set the condition DisruptionTarget of the victim, and delete it."""
        current = self._api.get(POD, victim.namespace, victim.name)
        if current is None or current["metadata"]["uid"] != victim.uid:
            return
        new = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": BY_SCHEDULER,
            "message": f"{self._scheduler}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": timestamp(now_s),
        }
        conditions = with_condition(status(current).get("conditions") or [], new)
        self._api.patch(current, {"status": {"conditions": conditions}}, subresource="status")
        try:
            self._api.delete(current)
        except ApiRefusal as refusal:
            if refusal.reason != "NotFound":
                raise
        note = f"Preempted by pod {by.uid} on node {node}"
        self._event(victim, now_s, kind="Normal", reason="Preempted", action="Preempting", note=note)

    def clear_nomination(self, pod: Pod) -> None:
        """Clear the nomination of a pod whose node a pod of higher priority takes."""
        self._api.patch(self.reference(pod), {"status": {"nominatedNodeName": None}}, subresource="status")

    def select_node(self, claim: PersistentVolumeClaim, node: str) -> None:
        """Write the selected node of a claim, for which the provisioner creates the volume."""
        current = self._api.get(CLAIM, claim.namespace, claim.name)
        if current is not None:
            self._api.patch(current, {"metadata": {"annotations": {SELECTED_NODE: node}}})

    def _event(self, pod: Pod, now_s: float, *, kind: str, reason: str, action: str, note: str) -> None:
        digest = hashlib.sha256(f"{pod.uid}{reason}{note}{now_s:.6f}".encode()).hexdigest()[:16]
        regarding = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
        }
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": pod.namespace, "name": f"{pod.name[:230]}.{digest}"},
            "eventTime": micro_timestamp(now_s),
            "type": kind,
            "reason": reason,
            "action": action,
            "note": note[:_NOTE_LIMIT],
            "regarding": regarding,
            "reportingController": self._scheduler,
            "reportingInstance": self._scheduler,
        }
        try:
            self._api.create(body)
        except ApiRefusal as refusal:
            if refusal.reason not in ("AlreadyExists", "NotFound", "Forbidden"):
                raise


def _not_scheduled(reason: str, message: str, now_s: float) -> Obj:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(now_s),
    }


def _has_condition(pod: Obj, new: Obj) -> bool:
    found = condition(pod, new["type"]) or {}
    return all(found.get(k) == new[k] for k in ("status", "reason", "message"))
