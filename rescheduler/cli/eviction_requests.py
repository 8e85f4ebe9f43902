"""EvictionRequests of ``drain --evict-with request``: files them, waits until their pods are gone, and takes them back in any case.

So responders of the pods' owners have their turn before anything is moved; ours is one of them where it is installed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rescheduler.cli.draining import NotDrainedError, still_there
from rescheduler.cli.errors import EXIT_FAILED, CommandError
from rescheduler.kube.client import KubeApi
from rescheduler.kube.eviction_requests import EvictionRequests
from rescheduler.model.names import LIFECYCLE
from rescheduler.model.records import Pod

REQUESTER: Final = "rescheduler.dev/drain"


def eviction_requests(api: KubeApi) -> EvictionRequests:
    """CommandError: they are not served here. Raises ApiError, TransportError."""
    served = EvictionRequests.served(api, REQUESTER)
    if served is None:
        raise CommandError(
            f"the API server does not serve EvictionRequests ({LIFECYCLE}); drain without --evict-with request",
            EXIT_FAILED,
        )
    return served


def evict_by_requests(
    api: KubeApi, requests: EvictionRequests, pods: Sequence[Pod], limit_s: float, how_to_go_on: str
) -> None:
    """Ask for the eviction of these pods, and wait until they are gone. NotDrainedError: not in time."""
    ends_s, nodes = time.monotonic() + limit_s, sorted({pod.node for pod in pods})
    uids = {pod.uid for pod in pods}
    with _filed(requests, pods):
        names = still_there(api, nodes, lambda pod: pod.uid in uids, ends_s)
    if names:
        raise NotDrainedError(
            f"not evicted in time, and their requests are withdrawn: {names}\n{how_to_go_on}"
        )


@contextmanager
def _filed(requests: EvictionRequests, pods: Sequence[Pod]) -> Iterator[None]:
    """While it lasts, the requests stand."""
    try:
        for pod in pods:
            requests.file(pod.key, pod.uid)
        yield
    finally:
        for pod in pods:
            requests.withdraw(pod.key, pod.uid)
