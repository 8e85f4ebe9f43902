"""A stand-in for Kubernetes' evictionrequest-controller (KEP-4563), which 1.37.0 does not have, on the real control plane.

An Eviction for each pod that is asked for, and one responder at a time, by priority; the last one in line calls the eviction API. Not here:
limits of length, and the 20 minutes after which a silent responder is passed over. The API server checks every step of that status, so it can hardly be wrong. A control plane whose kube-controller-manager has the real one is
told so by ``RESCHEDULER_REAL_EVICTIONREQUESTS=1``.
"""

from __future__ import annotations

import copy
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from harness.controlplane.api import Api, Json
from kube_sandbox.controllers.unstructured import Obj, key, spec, status, uid
from rescheduler.model.times import format_seconds

LIFECYCLE: Final = "lifecycle.k8s.io/v1alpha1"
LAST: Final = "imperative-eviction.k8s.io/evictor"
FLAGS: Final = ("--feature-gates=EvictionRequestAPI=true", f"--runtime-config={LIFECYCLE}=true")
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
    now = format_seconds(time.time())
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


@dataclass(frozen=True, slots=True)
class Create:
    """Make this Eviction."""

    eviction: Obj


@dataclass(frozen=True, slots=True)
class Write:
    """Write the Eviction's status."""

    eviction: Obj
    status: Obj


@dataclass(frozen=True, slots=True)
class Evict:
    """It is the last responder's turn: call the eviction API for the pod."""

    pod: Obj


@dataclass(frozen=True, slots=True)
class Remove:
    """Nobody asks for it any more, and it has ended."""

    eviction: Obj


def due(
    requests: Iterable[Obj], evictions: Sequence[Obj], pods: Sequence[Obj], now: str
) -> Iterator[Create | Write | Evict | Remove]:
    """The next steps for what is asked for and what is under way in one namespace. Pure. ``pods``: those that exist."""
    asked: dict[str, list[Obj]] = {}
    for request in requests:
        asked.setdefault(_target(request)["uid"], []).append(request)
    known = {_target(eviction)["uid"] for eviction in evictions}
    for pod_uid, by in asked.items():
        if pod_uid not in known:
            yield Create(_eviction(by[0], pod_uid))
    existing = {uid(pod): pod for pod in pods}
    for eviction in evictions:
        pod_uid = _target(eviction)["uid"]
        by, pod = asked.get(pod_uid, []), existing.get(pod_uid)
        if _ended(eviction):
            if not by:
                yield Remove(eviction)
            continue
        new = _next_status(eviction, by, pod, now)
        if new != status(eviction):
            yield Write(eviction, new)
        elif pod is not None and LAST in (one["name"] for one in _active(new)):
            yield Evict(pod)


def _target(obj: Obj) -> Obj:
    found: Obj = spec(obj)["target"]["pod"]
    return found


def _eviction(request: Obj, name: str) -> Obj:
    return {
        "apiVersion": LIFECYCLE,
        "kind": "Eviction",
        "metadata": {"namespace": key(request).namespace, "name": name},
        "spec": {"target": spec(request)["target"]},
    }


def _ended(eviction: Obj) -> bool:
    return any(one["status"] == "True" for one in status(eviction).get("conditions") or ())


def _active(state: Obj) -> list[Obj]:
    return [one for one in state.get("targetResponders") or () if one["state"] == "Active"]


def _next_status(eviction: Obj, asked: Sequence[Obj], pod: Obj | None, now: str) -> Obj:
    state = copy.deepcopy(status(eviction))
    state["requesters"] = [{"name": spec(one)["requester"], "intent": spec(one)["intent"]} for one in asked]
    if state.get("targetResponders"):
        wanted = any(spec(one)["intent"] == "Eviction" for one in asked)
        _go_on(state, gone=pod is None, wanted=wanted, now=now)
    elif pod is None:
        return status(eviction)
    else:
        _line_up(state, pod, now)
    return state


def _line_up(state: dict[str, Any], pod: Obj, now: str) -> None:
    own = [dict(one) for one in spec(pod).get("evictionResponders") or ()]
    line = sorted([*own, {"name": LAST, "priority": 100}], key=lambda one: -one["priority"])
    state["targetResponders"] = [{**one, "state": "Inactive"} for one in line]
    state["responders"] = [{"name": one["name"]} for one in line]
    _activate(state, 0, now)


def _activate(state: dict[str, Any], index: int, now: str) -> None:
    state["targetResponders"][index]["state"] = "Active"
    state["responders"][index]["startTime"] = now


def _go_on(state: dict[str, Any], *, gone: bool, wanted: bool, now: str) -> None:
    line = state["targetResponders"]
    index = next((i for i, one in enumerate(line) if one["state"] == "Active"), None)
    if index is None:
        return
    reports = {one["name"]: one for one in state["responders"]}
    completed = "completionTime" in reports[line[index]["name"]]
    if gone:
        line[index]["state"] = "Completed" if completed else "Interrupted"
        state["conditions"] = [_condition("TargetEvicted", "PodDeleted", now)]
    elif not wanted:
        line[index]["state"] = "Canceled"
        state["conditions"] = [_condition("Failed", "CanceledDueToNoRequesters", now)]
    elif completed:
        line[index]["state"] = "Completed"
        if index + 1 < len(line):
            _activate(state, index + 1, now)


def _condition(kind: str, reason: str, now: str) -> Obj:
    return {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": now}
