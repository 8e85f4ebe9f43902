"""EvictionRequests (``lifecycle.k8s.io``, KEP-4563): an Eviction for each pod that is asked for, and one responder at a time.

Kubernetes 1.37.0 has no evictionrequest-controller, so this follows the KEP and what the API server checks of the status. By priority
each responder has its turn, and the last one in line calls the eviction API. Not here: limits of length, and the 20 minutes after which
a silent responder is passed over.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kube_sandbox.apiserver.json_values import timestamp
from kube_sandbox.controllers.api import ApiRefusal, ObjectChange
from kube_sandbox.controllers.indexer import Indexer
from kube_sandbox.controllers.runtime import ReconcileContext
from kube_sandbox.controllers.unstructured import (
    POD,
    GroupKind,
    Obj,
    group_kind,
    key,
    meta,
    spec,
    status,
    uid,
)
from rescheduler.model.records import ObjectKey

LIFECYCLE: Final = "lifecycle.k8s.io/v1alpha1"
LAST: Final = "imperative-eviction.k8s.io/evictor"
_REQUEST: Final = GroupKind("lifecycle.k8s.io", "EvictionRequest")
_EVICTION: Final = GroupKind("lifecycle.k8s.io", "Eviction")
_RETRY_S: Final = 1.0
"""How often a budget is asked again."""


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


class EvictionRequestController:
    """Serves EvictionRequests, a namespace at a time."""

    name = "evictionrequest"
    watches = frozenset({_REQUEST, _EVICTION, POD})

    def keys_for(self, indexer: Indexer, change: ObjectChange, old: Obj | None) -> Iterable[ObjectKey]:
        """The namespace, if anything is asked for in it."""
        _ = old
        namespace = key(change.object).namespace
        if group_kind(change.object) == POD and not indexer.within(_EVICTION, namespace):
            return []
        return [ObjectKey("", namespace)]

    def reconcile(self, ctx: ReconcileContext, request: ObjectKey) -> float | None:
        """Take the steps that are due."""
        requests, evictions, pods = (
            list(ctx.indexer.within(k, request.name)) for k in (_REQUEST, _EVICTION, POD)
        )
        again_s = None
        for step in due(requests, evictions, pods, timestamp(ctx.now_s)):
            match step:
                case Create(eviction):
                    ctx.api.create(eviction)
                case Write(eviction, new):
                    seen = {
                        "resourceVersion": meta(eviction)["resourceVersion"]
                    }  # a responder may have written since
                    ctx.api.patch(eviction, {"metadata": seen, "status": new}, subresource="status")
                case Remove(eviction):
                    ctx.api.delete(eviction)
                case Evict(pod):
                    again_s = ctx.now_s + _RETRY_S
                    try:
                        ctx.api.evict(pod)
                    except ApiRefusal as refusal:
                        if refusal.reason not in ("NotFound", "Conflict", "TooManyRequests"):
                            raise
        return again_s
