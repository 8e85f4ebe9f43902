"""Asks for evictions by EvictionRequests (``lifecycle.k8s.io``, KEP-4563), so that the responders of a pod have their turn.

A request has a name that pod and requester give it: it is filed once, however often it is asked for, and whoever has lost count
can take it back. Whose turn it is, Evictions tell, whose names mean nothing: they are found by their target's uid.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from rescheduler.kube.client import KubeApi
from rescheduler.kube.discovery import lifecycle_version
from rescheduler.kube.errors import AlreadyExistsError, NotFoundError
from rescheduler.model.decode import Decoder
from rescheduler.model.eviction_request import RequestedEviction
from rescheduler.model.kinds import Kind, Resource, requested_evictions
from rescheduler.model.names import EVICTOR, LIFECYCLE, RESPONDER
from rescheduler.model.own_objects import named_after
from rescheduler.model.records import ObjectKey, OwnerRef

_IMPERATIVE: Final = (RESPONDER, EVICTOR)
"""In their turn the pod is evicted by the eviction API."""


@dataclass(frozen=True, slots=True)
class EvictionRequests:
    """The EvictionRequests of one requester, in the version that the API server serves. Raises ApiError, TransportError."""

    api: KubeApi
    requester: str
    version: str

    @classmethod
    def served(cls, api: KubeApi, requester: str) -> EvictionRequests | None:
        """None: the API server does not serve them."""
        version = lifecycle_version(api)
        return cls(api, requester, version) if version else None

    def file(self, pod: ObjectKey, uid: str, owner: OwnerRef | None = None) -> None:
        """Ask for the eviction of that very pod. ``owner``: with it the request is deleted by the garbage collector."""
        metadata: dict[str, Any] = {"name": self.name(pod, uid), "namespace": pod.namespace}
        if owner is not None:
            metadata["ownerReferences"] = [
                {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
            ]
        body = {
            "apiVersion": f"{LIFECYCLE}/{self.version}",
            "kind": "EvictionRequest",
            "metadata": metadata,
            "spec": {
                "target": {"pod": {"name": pod.name, "uid": uid}},
                "requester": self.requester,
                "intent": "Eviction",
            },
        }
        with suppress(AlreadyExistsError):
            self.api.create(self._resource.object_path(pod.namespace, ""), body)

    def withdraw(self, pod: ObjectKey, uid: str) -> None:
        """Take the request back, if there is one: that it is deleted withdraws it."""
        with suppress(NotFoundError):
            self.api.delete(self._resource.object_path(pod.namespace, self.name(pod, uid)))

    def awaited(self, pod: ObjectKey, uid: str) -> str:
        """What the request waits for; "": the pod may be evicted by the eviction API, since no other responder is before ours."""
        eviction = next((one for one in self._evictions(pod.namespace) if one.pod_uid == uid), None)
        if eviction is None or not eviction.active:
            return f"EvictionRequest {self.name(pod, uid)} waits for the evictionrequest-controller"
        if eviction.active in _IMPERATIVE:
            return ""
        said = f": {eviction.active_message}" if eviction.active_message else ""
        return f"responder {eviction.active} goes first{said}"

    def name(self, pod: ObjectKey, uid: str) -> str:
        """metadata.name of the request for that pod."""
        return named_after(pod.name, f"{uid}/{self.requester}", digits=10)

    @property
    def _resource(self) -> Resource:
        return Resource(LIFECYCLE, self.version, "evictionrequests", namespaced=True)

    def _evictions(self, namespace: str) -> Iterator[RequestedEviction]:
        """Those that somebody still acts on."""
        decoder, path = Decoder(), requested_evictions(self.version).object_path(namespace, "")
        for body in self.api.list(path):
            for found in decoder.page(Kind.REQUESTED_EVICTION, body).records:
                if isinstance(found, RequestedEviction) and not found.ended:
                    yield found
