"""EvictionRequests of ``drain --evict-with request``: files them, waits until their pods are gone, and takes them back in any case.

So responders of the pods' owners have their turn before anything is moved; ours is one of them where it is installed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from rescheduler.cli.by_name import pods_on
from rescheduler.cli.draining import NotDrainedError
from rescheduler.cli.errors import EXIT_FAILED, CommandError
from rescheduler.cli.following import follow
from rescheduler.kube.client import KubeApi
from rescheduler.kube.discovery import lifecycle_version
from rescheduler.kube.errors import AlreadyExistsError, NotFoundError
from rescheduler.model.kinds import Resource
from rescheduler.model.names import LIFECYCLE
from rescheduler.model.own_objects import named_after
from rescheduler.model.records import ObjectKey, Pod

REQUESTER: Final = "rescheduler.dev/drain"


def eviction_requests(api: KubeApi) -> Resource:
    """Where EvictionRequests are filed. CommandError: they are not served here. Raises ApiError, TransportError."""
    version = lifecycle_version(api)
    if not version:
        raise CommandError(
            f"the API server does not serve EvictionRequests ({LIFECYCLE}); drain without --evict-with request",
            EXIT_FAILED,
        )
    return Resource(LIFECYCLE, version, "evictionrequests", namespaced=True)


def evict_by_requests(
    api: KubeApi, where: Resource, pods: Sequence[Pod], limit_s: float, how_to_go_on: str
) -> None:
    """Ask for the eviction of these pods, and wait until they are gone. NotDrainedError: not in time."""
    ends_s, nodes = time.monotonic() + limit_s, sorted({pod.node for pod in pods})
    uids = {pod.uid for pod in pods}
    with _filed(api, where, pods):
        left = follow(
            lambda: [pod for pod in pods_on(api, nodes) if pod.uid in uids],
            lambda left, _: not left,
            ends_s=ends_s,
        )
    if left:
        names = ", ".join(str(pod.key) for pod in left)
        raise NotDrainedError(
            f"not evicted in time, and their requests are withdrawn: {names}\n{how_to_go_on}"
        )


@contextmanager
def _filed(api: KubeApi, where: Resource, pods: Sequence[Pod]) -> Iterator[None]:
    """While it lasts, the requests stand; that they are deleted withdraws them."""
    keys = [_key(pod) for pod in pods]
    try:
        for pod, key in zip(pods, keys, strict=True):
            body = {
                "apiVersion": f"{where.group}/{where.version}",
                "kind": "EvictionRequest",
                "metadata": {"name": key.name, "namespace": key.namespace},
                "spec": {
                    "target": {"pod": {"name": pod.name, "uid": pod.uid}},
                    "requester": REQUESTER,
                    "intent": "Eviction",
                },
            }
            with suppress(AlreadyExistsError):  # of a drain that was killed
                api.create(where.object_path(key.namespace, ""), body)
        yield
    finally:
        for key in keys:
            with suppress(NotFoundError):
                api.delete(where.object_path(key.namespace, key.name))


def _key(pod: Pod) -> ObjectKey:
    return ObjectKey(pod.namespace, named_after(pod.name, f"{pod.uid}/{REQUESTER}", digits=10))
