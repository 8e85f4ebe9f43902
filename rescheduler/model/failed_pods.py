"""What the clean-up of failed pods looks at. The caches of the controller have no such pods: they take up no room."""

from __future__ import annotations

import msgspec

from rescheduler.model.records import ObjectKey
from rescheduler.model.selectors import NO_LABELS, LabelSet


class FailedPod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod whose phase is Failed, which is final."""

    key: ObjectKey
    uid: str
    controller_kind: str = ""
    labels: LabelSet = NO_LABELS
    annotations: LabelSet = NO_LABELS
    reasons: frozenset[str] = frozenset()
    """Of the pod (Evicted, OutOfcpu, UnexpectedAdmissionError) and of its containers (Error, CreateContainerConfigError)."""
    failed_at_s: float = 0.0
    """When its last container ended; where none ran, when the kubelet took or the API server created it."""
    deleting: bool = False
