"""Pods that no policy ever proposes, because nothing could bring them back elsewhere. Pure."""

from __future__ import annotations

from rescheduler.model.names import LABEL_PLACEHOLDER, MIRROR_POD
from rescheduler.model.records import Pod


def never_moves(pod: Pod) -> bool:
    """DaemonSet pods, static and mirror pods, and placeholders of Reservations."""
    owner = pod.controller
    if owner is not None and owner.kind in ("DaemonSet", "Node"):
        return True
    return pod.annotations.get(MIRROR_POD) is not None or pod.labels.get(LABEL_PLACEHOLDER) is not None
