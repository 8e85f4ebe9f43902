"""Reads failed pods, for their clean-up: a list with a field selector, page by page, of which only a few fields are decoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import Final

import msgspec

from rescheduler.kube.answers import read_items
from rescheduler.kube.client import KubeApi
from rescheduler.model.decode.wire_types import OwnerReferenceWire
from rescheduler.model.failed_pods import FailedPod
from rescheduler.model.object_meta import ObjectMeta
from rescheduler.model.records import ObjectKey
from rescheduler.model.selectors import LabelSet

_FAILED: Final = {"fieldSelector": "status.phase=Failed"}


class _Meta(ObjectMeta, frozen=True, rename="camel"):
    namespace: str = ""
    owner_references: list[OwnerReferenceWire] | None = None
    creation_timestamp: datetime | None = None


class _Terminated(msgspec.Struct, frozen=True, rename="camel"):
    reason: str | None = None
    finished_at: datetime | None = None


class _Waiting(msgspec.Struct, frozen=True):
    reason: str | None = None


class _State(msgspec.Struct, frozen=True):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _Container(msgspec.Struct, frozen=True):
    state: _State | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str | None = None
    start_time: datetime | None = None
    container_statuses: list[_Container] | None = None
    init_container_statuses: list[_Container] | None = None


class _PodWire(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    status: _Status = _Status()


def failed_pods(api: KubeApi) -> Iterator[FailedPod]:
    """All of them. Raises ApiError, TransportError."""
    for page in api.list("/api/v1/pods", _FAILED):
        for wire in read_items(page, _PodWire):
            if wire.status.phase == "Failed":
                yield _failed_pod(wire)


def _failed_pod(wire: _PodWire) -> FailedPod:
    meta, status = wire.metadata, wire.status
    states = list(_states(chain(status.container_statuses or (), status.init_container_statuses or ())))
    ended = [state.terminated for state in states if state.terminated is not None]
    waiting = [state.waiting.reason for state in states if state.waiting is not None]
    times = [one.finished_at for one in ended if one.finished_at] or [
        time for time in (status.start_time or meta.creation_timestamp,) if time
    ]
    owners = meta.owner_references or ()
    return FailedPod(
        key=ObjectKey(meta.namespace, meta.name),
        uid=meta.uid,
        controller_kind=next((owner.kind or "" for owner in owners if owner.controller), ""),
        labels=LabelSet(meta.labels or {}),
        annotations=LabelSet(meta.annotations or {}),
        reasons=frozenset(filter(None, (status.reason, *waiting, *(one.reason for one in ended)))),
        failed_at_s=max((time.timestamp() for time in times), default=0.0),
        deleting=meta.deletion_timestamp is not None,
    )


def _states(containers: Iterable[_Container]) -> Iterator[_State]:
    return (container.state for container in containers if container.state is not None)
