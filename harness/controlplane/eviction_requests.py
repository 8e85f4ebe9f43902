"""A stand-in for Kubernetes' evictionrequest-controller, which 1.37.0 does not have; it ends where the real one begins.

It makes an Eviction for each pod that an EvictionRequest targets and keeps its status: one responder at a time, by priority, the last in line
calls the eviction API. The API server checks every step of that status, so it can hardly be wrong. Not here: limits of length, the 20 minutes
after which a silent responder is passed over. An Eviction that nobody asks for any more and that has ended is deleted. A control plane whose kube-controller-manager has the real one is told so
by ``RESCHEDULER_REAL_EVICTIONREQUESTS=1``.
"""

from __future__ import annotations

import copy
import datetime as dt
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from harness.controlplane.api import Api, Json

LIFECYCLE: Final = "lifecycle.k8s.io/v1alpha1"
FLAGS: Final = (
    "--feature-gates=EvictionRequestAPI=true",
    f"--runtime-config={LIFECYCLE}=true",
)
"""Flags of an API server that serves EvictionRequests."""
REAL: Final = "RESCHEDULER_REAL_EVICTIONREQUESTS"
_LAST: Final = "imperative-eviction.k8s.io/evictor"
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
    requests = api.get(f"/apis/{LIFECYCLE}/evictionrequests").expect().items
    known = {
        e["spec"]["target"]["pod"]["uid"]: e for e in api.get(f"/apis/{LIFECYCLE}/evictions").expect().items
    }
    by_pod: dict[str, list[Json]] = {}
    for request in requests:
        by_pod.setdefault(request["spec"]["target"]["pod"]["uid"], []).append(request)
    for uid, asked in by_pod.items():
        if uid not in known:
            _begin(api, uid, asked[0])
    for uid, eviction in known.items():
        asked = by_pod.get(uid, [])
        if not asked and _ended(eviction):
            path = f"/apis/{LIFECYCLE}/namespaces/{eviction['metadata']['namespace']}/evictions/{eviction['metadata']['name']}"
            api.delete(path).expect(200, 404)
        else:
            _advance(api, eviction, asked)


def _begin(api: Api, uid: str, request: Json) -> None:
    namespace, target = request["metadata"]["namespace"], request["spec"]["target"]
    body = {
        "apiVersion": LIFECYCLE,
        "kind": "Eviction",
        "metadata": {"name": uid},
        "spec": {"target": target},
    }
    # 403, 404: the namespace is being deleted.
    api.create(f"/apis/{LIFECYCLE}/namespaces/{namespace}/evictions", body).expect(201, 403, 404, 409)


def _advance(api: Api, eviction: Json, asked: list[Json]) -> None:
    """One step of the status, if one is due."""
    meta, target = eviction["metadata"], eviction["spec"]["target"]["pod"]
    answer = api.get(f"/api/v1/namespaces/{meta['namespace']}/pods/{target['name']}")
    pod = answer.body if answer.ok and answer.uid == target["uid"] else None
    status = copy.deepcopy(eviction.get("status") or {})
    if _ended(eviction):
        return
    wanted = any(one["spec"]["intent"] == "Eviction" for one in asked)
    status["requesters"] = [
        {"name": one["spec"]["requester"], "intent": one["spec"]["intent"]} for one in asked
    ]
    if not status.get("targetResponders"):
        if pod is None:
            return
        _line_up(status, pod)
    else:
        _go_on(status, gone=pod is None, wanted=wanted)
    if status == eviction.get("status"):
        active = [one for one in status["targetResponders"] if one["state"] == "Active"]
        if pod is not None and active and active[0]["name"] == _LAST:
            _evict(api, meta["namespace"], target)
        return
    path = f"/apis/{LIFECYCLE}/namespaces/{meta['namespace']}/evictions/{meta['name']}/status"
    api.update(path, {**eviction, "status": status}).expect(200, 404, 409)


def _ended(eviction: Json) -> bool:
    conditions = (eviction.get("status") or {}).get("conditions") or ()
    return any(one["status"] == "True" for one in conditions)


def _line_up(status: dict[str, Any], pod: Json) -> None:
    own = [dict(one) for one in pod["spec"].get("evictionResponders") or ()]
    line = sorted([*own, {"name": _LAST, "priority": 100}], key=lambda one: -one["priority"])
    status["targetResponders"] = [{**one, "state": "Inactive"} for one in line]
    status["responders"] = [{"name": one["name"]} for one in line]
    _activate(status, 0)


def _activate(status: dict[str, Any], index: int) -> None:
    status["targetResponders"][index]["state"] = "Active"
    status["responders"][index]["startTime"] = _now()


def _go_on(status: dict[str, Any], *, gone: bool, wanted: bool) -> None:
    line = status["targetResponders"]
    index = next((i for i, one in enumerate(line) if one["state"] == "Active"), None)
    if index is None:
        return
    reports = {one["name"]: one for one in status["responders"]}
    completed = "completionTime" in reports[line[index]["name"]]
    if gone:
        line[index]["state"] = "Completed" if completed else "Interrupted"
        status["conditions"] = [_condition("TargetEvicted", "PodDeleted")]
    elif not wanted:
        line[index]["state"] = "Canceled"
        status["conditions"] = [_condition("Failed", "CanceledDueToNoRequesters")]
    elif completed:
        line[index]["state"] = "Completed"
        if index + 1 < len(line):
            _activate(status, index + 1)


def _condition(kind: str, reason: str) -> Json:
    return {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": _now()}


def _evict(api: Api, namespace: str, target: Json) -> None:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": target["name"]},
        "deleteOptions": {"preconditions": {"uid": target["uid"]}},
    }
    api.create(f"/api/v1/namespaces/{namespace}/pods/{target['name']}/eviction", body).expect(
        201, 404, 409, 429
    )


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
