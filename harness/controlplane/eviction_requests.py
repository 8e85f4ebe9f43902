"""A stand-in for Kubernetes' evictionrequest-controller, which 1.37.0 does not have: the sandbox's, on the real control plane.

The API server checks every step of that status, so it can hardly be wrong. A control plane whose kube-controller-manager has the real one is
told so by ``RESCHEDULER_REAL_EVICTIONREQUESTS=1``.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from harness.controlplane.api import Api, Json
from kube_sandbox.apiserver.json_values import timestamp
from kube_sandbox.controllers.eviction_requests import LIFECYCLE, Create, Evict, Remove, Write, due

FLAGS: Final = (
    "--feature-gates=EvictionRequestAPI=true",
    f"--runtime-config={LIFECYCLE}=true",
)
"""Flags of an API server that serves EvictionRequests."""
REAL: Final = "RESCHEDULER_REAL_EVICTIONREQUESTS"
_PASS_S: Final = 0.3


@contextmanager
def eviction_requests(api: Api) -> Iterator[None]:
    """Serves EvictionRequests of all namespaces, unless the control plane does so itself."""
    if os.environ.get(REAL):
        yield
        return
    stopping, faults = threading.Event(), list[BaseException]()

    def work() -> None:
        while not stopping.wait(_PASS_S):
            try:
                _pass(api)
            except AssertionError as error:
                faults.append(error)

    thread = threading.Thread(target=work, name="evictionrequest-controller", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(10.0)
    if faults:
        raise faults[0]


def _pass(api: Api) -> None:
    """One look at all namespaces. 403 and 404: a namespace is being deleted; 409: it has changed since; 429: a budget."""
    paths = (f"/apis/{LIFECYCLE}/evictionrequests", f"/apis/{LIFECYCLE}/evictions", "/api/v1/pods")
    requests, evictions, pods = ([*api.get(path).expect().items] for path in paths)
    now = timestamp(time.time())
    for namespace in sorted({_namespace(obj) for obj in (*requests, *evictions)}):
        of = [[obj for obj in all_ if _namespace(obj) == namespace] for all_ in (requests, evictions, pods)]
        for step in due(of[0], of[1], of[2], now):
            _take(api, f"/apis/{LIFECYCLE}/namespaces/{namespace}/evictions", step)


def _namespace(obj: Json) -> str:
    return str(obj["metadata"]["namespace"])


def _take(api: Api, path: str, step: Create | Write | Evict | Remove) -> None:
    match step:
        case Create(eviction):
            api.create(path, eviction).expect(201, 403, 404, 409)
        case Write(eviction, status):
            body = {"apiVersion": LIFECYCLE, "kind": "Eviction", **eviction, "status": status}
            api.update(f"{path}/{body['metadata']['name']}/status", body).expect(200, 404, 409)
        case Remove(eviction):
            api.delete(f"{path}/{eviction['metadata']['name']}").expect(200, 404)
        case Evict(pod):
            meta = pod["metadata"]
            body = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
                "deleteOptions": {"preconditions": {"uid": meta["uid"]}},
            }
            api.create(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction", body).expect(
                201, 404, 409, 429
            )
