"""Reads failed pods, for their clean-up: a list with a field selector, page by page, of which only a few fields are decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from rescheduler.kube.answers import read_items
from rescheduler.kube.client import KubeApi
from rescheduler.model.decode.interning import SharedParts
from rescheduler.model.decode.wire_form import object_reader, object_type
from rescheduler.model.decode.wire_types import DAMAGE, MetaWire
from rescheduler.model.failed_pods import FAILED, FailedPod
from rescheduler.model.selectors import LabelSet

_FAILED: Final = {"fieldSelector": f"status.phase={FAILED}"}
_WIRE: Final = object_type(FailedPod)


def failed_pods(api: KubeApi) -> Iterator[FailedPod]:
    """All of them that can be read. Raises ApiError, TransportError."""
    read = object_reader(FailedPod, SharedParts(), _completed)
    for page in api.list("/api/v1/pods", _FAILED):
        for wire in read_items(page, _WIRE):
            try:
                pod: FailedPod = read(wire, wire.metadata or MetaWire())
            except DAMAGE:
                continue
            if pod.phase == FAILED:
                yield pod


def _completed(found: FailedPod, meta: MetaWire, shared: SharedParts) -> FailedPod:
    controller = shared.owners(meta.owner_references, found.namespace).controller
    return msgspec.structs.replace(
        found,
        annotations=LabelSet(meta.noted),
        controller_kind=controller.kind if controller is not None else "",
    )
