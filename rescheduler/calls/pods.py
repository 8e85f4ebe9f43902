"""The calls about pods: placeholders, the pods that rooms are for, evictions. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

import msgspec

from rescheduler.calls.call import Call, Json, OnError, ReadThenCall, Verb, delete, encode, merge_patch
from rescheduler.model import names
from rescheduler.model.decode.wire_form import encode_toleration
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import PodMigration
from rescheduler.model.object_meta import ObjectMeta
from rescheduler.model.records import ObjectKey, Pod, Toleration
from rescheduler.model.times import format_seconds

_GATE_OFF: Final[Json] = {"schedulingGates": [{"name": names.GATE, "$patch": "delete"}]}
"""Strategic patch: list entries are merged by name, so gates of others stay."""

# Placeholders


def delete_placeholder(pod: Pod, claimants: Iterable[Pod] = (), node: str = "") -> Call | ReadThenCall:
    """Delete with one second of grace: with none the API server would remove the object while the kubelet still runs the pod.

    The API server is asked for each of ``claimants`` right before. If one is not nominated to ``node`` any more, it is nominated
    again and nothing is deleted: without its placeholder and without the nomination the room would be free for any pod.
    The cache may still show a nomination that was withdrawn, if the answer to the withdrawal was lost.
    """
    call: Call | ReadThenCall = delete("delete_placeholder", Kind.POD, pod.key, pod.uid, grace_s=1)
    for claimant in reversed(tuple(claimants)):
        call = ReadThenCall(
            does="delete_placeholder",
            read=_read(claimant.key),
            then=partial(_if_nominated, claimant, node, call),
            purpose=f"{call.line} if uid {claimant.uid} is nominated to node/{node}, else nominate it again",
        )
    return call


def _if_nominated(pod: Pod, node: str, then: Call | ReadThenCall, found: bytes) -> Call | ReadThenCall | None:
    read = _READ.decode(found)
    if read.metadata.uid != pod.uid:
        return None
    # Only the nomination: the placeholder is deleted in a later round, once the cache shows it.
    return then if read.status.nominated_node_name == node else nominate(pod, node)


def remove_placeholder(pod: Pod) -> Call:
    """Delete a terminating placeholder without waiting for its kubelet, which does not answer."""
    return delete("remove_placeholder", Kind.POD, pod.key, pod.uid, grace_s=0)


def admit_placeholder(pod: Pod) -> Call:
    """Take the gate off a placeholder whose room is free now."""
    gates = [{"name": names.GATE_ROOM, "$patch": "delete"}]
    patch = {"metadata": {"uid": pod.uid}, "spec": {"schedulingGates": gates}}
    does, body = "admit_placeholder", encode(patch)
    return Call(does=does, verb=Verb.STRATEGIC_PATCH, kind=Kind.POD, key=pod.key, body=body)


def measure_watch(placeholder: Pod, at_s: float) -> Call:
    """Write an annotation of a placeholder, to see how long the watch of pods takes to show it."""
    noted = {names.ANNOTATION_SEEN: f"{at_s:.3f}"}
    key, patch = placeholder.key, {"metadata": {"uid": placeholder.uid, "annotations": noted}}
    refused = OnError.RETURN_REFUSAL
    return merge_patch("measure_watch", Kind.POD, key, patch, on_error=refused, lane=key.namespace)


# Pods that ask the node autoscaler


def say_unschedulable(request: Pod, message: str, at_s: float) -> Call:
    """Write what node autoscalers look for in a pending pod, and what no scheduler writes of this one."""
    said = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": format_seconds(at_s),
    }
    patch = {"metadata": {"uid": request.uid}, "status": {"conditions": [said]}}
    return merge_patch("say_unschedulable", Kind.POD, request.key, patch, subresource="status")


def withdraw_request(request: Pod) -> Call:
    """Delete it at once: no kubelet has it, and if one did, it holds nothing."""
    return delete("withdraw_request", Kind.POD, request.key, request.uid, grace_s=0)


# Pods that rooms are for


def nominate(pod: Pod, node: str) -> Call:
    """Write ``status.nominatedNodeName``: the scheduler then counts the pod on ``node``. An empty ``node`` takes it back."""
    patch = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node or None}}
    return merge_patch("nominate", Kind.POD, pod.key, patch, subresource="status", lane=pod.namespace)


def take_back_nomination(pod: Pod, placeholder: Pod) -> ReadThenCall:
    """Empty ``status.nominatedNodeName``, but only while the placeholder surely stands.

    The server is asked, for the cache may not show yet that the room was given up: then nothing else holds it.
    """
    call = nominate(pod, "")
    return ReadThenCall(
        does="take_back_nomination",
        read=_read(placeholder.key),
        then=partial(_if_it_stands, placeholder.uid, call),
        purpose=f"{call.line} if uid {placeholder.uid} is not terminating",
        lane=pod.namespace,
    )


def _if_it_stands(uid: str, call: Call, found: bytes) -> Call | None:
    read = _READ.decode(found).metadata
    return call if read.uid == uid and not read.deletion_timestamp else None


def remove_gate(
    pod: Pod, reservation: str, tolerations: Iterable[Toleration] | None = None, steered_to: str = ""
) -> Call:
    """Take our gate off the claimant in one patch, with the name of its Reservation.

    ``tolerations``: None leaves them; otherwise the whole list (the API replaces it), ours included. ``steered_to``: Koordinator's
    Reservation, which it must use; in the same patch, so that its scheduler never sees it ungated without the affinity.
    """
    annotations = {names.ANNOTATION_RESERVATION: reservation}
    if steered_to:
        annotations[names.KOORDINATOR_AFFINITY] = encode({"name": steered_to}).decode()
    spec = dict(_GATE_OFF)
    if tolerations is not None:
        spec["tolerations"] = [encode_toleration(t) for t in tolerations]
    return _patch_pod("remove_gate", pod, {"uid": pod.uid, "annotations": annotations}, spec)


def tolerate(pod: Pod, reservation: str, tolerations: Iterable[Toleration]) -> Call:
    """Let a pending pod without a gate tolerate the hand-over taint, before it claims the Reservation of that name.

    ``tolerations``: the whole list, ours included; the API server takes no list that lacks one that the pod has.
    """
    seen = {"uid": pod.uid, "resourceVersion": pod.resource_version}
    annotations = {names.ANNOTATION_RESERVATION: reservation}
    spec = {"tolerations": [encode_toleration(t) for t in tolerations]}
    return _patch_pod("tolerate", pod, {**seen, "annotations": annotations}, spec)


def release(pod: Pod, why: str) -> Call:
    """Take our gate off a pod that gets no room: the scheduler may bind it to any node."""
    metadata = {"uid": pod.uid, "annotations": {names.ANNOTATION_RESERVATION: None}}
    return _patch_pod("release", pod, metadata, dict(_GATE_OFF), on_error=OnError.IGNORE_NOT_FOUND, why=why)


def unsteer(pod: Pod) -> Call:
    """Take the name of a room that is lost off a pending pod: it would wait for it for ever."""
    annotations = {names.ANNOTATION_RESERVATION: None, names.KOORDINATOR_AFFINITY: None}
    patch = {"metadata": {"uid": pod.uid, "annotations": annotations}}
    return merge_patch("unsteer", Kind.POD, pod.key, patch, lane=pod.namespace)


def tried_hand_over(pod: Pod) -> tuple[Call, ...]:
    """The changes of a hand-over, tried on the pod that stands: admission that refuses them would keep its replacement gated.

    It is bound, so the API server itself would refuse a nomination: none is taken back.
    """
    return _tried(nominate(pod, "")), _tried(remove_gate(pod, pod.name))


def tried_deletion(placeholder: Pod) -> tuple[Call, ...]:
    """The deletion of a placeholder, tried: without it no replacement gets the room."""
    return (_tried(delete("delete_placeholder", Kind.POD, placeholder.key, placeholder.uid, grace_s=1)),)


def _tried(call: Call) -> Call:
    asked = OnError.IGNORE_NOT_FOUND | OnError.RETURN_REFUSAL
    return dataclasses.replace(call, dry_run=True, on_error=asked)


# Pods that are moved


def evict(pod: Pod, grace_s: int | None = None, *, dry_run: bool = False) -> Call:
    """Evict the pod. In a dry run: to see whether rights, admission and budgets allow it now."""
    return Call(
        does="rehearse_eviction" if dry_run else "evict",
        verb=Verb.EVICT,
        kind=Kind.POD,
        key=pod.key,
        subresource="eviction",
        uid=pod.uid,
        grace_s=grace_s,
        dry_run=dry_run,
        lane=pod.namespace,
    )


def evict_by_request(pod: Pod, move: PodMigration) -> Call:
    """Ask for the eviction by an EvictionRequest, so that other responders of the pod have their turn; then evict it."""
    call = evict(pod, move.grace_s)
    return dataclasses.replace(call, does="evict_by_request", verb=Verb.EVICT_BY_REQUEST, seen=move)


def withdraw_eviction_request(pod: Pod, move: PodMigration) -> Call:
    """Nobody is to take the pod off its node for this move any more."""
    call = evict(pod)
    return dataclasses.replace(call, does="withdraw_eviction_request", verb=Verb.WITHDRAW_REQUEST, seen=move)


def label_replacement(pod: Pod, labels: Mapping[str, str]) -> Call:
    """Add the labels that the ReplicaSet selects, so that it adopts the pod."""
    patch = {"metadata": {"uid": pod.uid, "labels": dict(labels)}}
    return merge_patch("label_replacement", Kind.POD, pod.key, patch, lane=pod.namespace)


def remove_replacement(pod: Pod) -> Call:
    """Delete a replacement that no ReplicaSet adopted, with its own grace period."""
    return delete("remove_replacement", Kind.POD, pod.key, pod.uid, lane=pod.namespace)


def _patch_pod(
    does: str, pod: Pod, metadata: Json, spec: Json, *, on_error: OnError = OnError.RAISE, why: str = ""
) -> Call:
    return Call(
        does=does,
        verb=Verb.STRATEGIC_PATCH,
        kind=Kind.POD,
        key=pod.key,
        body=encode({"metadata": metadata, "spec": spec}),
        on_error=on_error,
        lane=pod.namespace,
        why=why,
    )


def _read(pod: ObjectKey) -> Call:
    return Call(does="read", verb=Verb.GET, kind=Kind.POD, key=pod, on_error=OnError.IGNORE_NOT_FOUND)


class _Status(msgspec.Struct, rename="camel", frozen=True):
    nominated_node_name: str | None = ""


class _Read(msgspec.Struct):
    """The fields of a pod that is read right before a call."""

    metadata: ObjectMeta
    status: _Status = _Status()


# Made at import: the first use of a decoder is not safe from two threads.
_READ: Final = msgspec.json.Decoder(_Read)
