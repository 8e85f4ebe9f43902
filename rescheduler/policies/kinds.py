"""Pods that no policy ever proposes, because nothing could bring them back elsewhere. Pure."""

from __future__ import annotations

from rescheduler.model.names import LABEL_PLACEHOLDER, MIRROR_POD
from rescheduler.model.records import Pod
from rescheduler.model.selectors import NO_LABELS


def never_moves(pod: Pod) -> bool:
    """DaemonSet pods, static and mirror pods, and placeholders of Reservations."""
    owner = pod.controller
    if owner is not None and owner.kind in ("DaemonSet", "Node"):
        return True
    if pod.annotations is not NO_LABELS and pod.annotations.get(MIRROR_POD) is not None:
        return True
    return pod.labels.get(LABEL_PLACEHOLDER) is not None
