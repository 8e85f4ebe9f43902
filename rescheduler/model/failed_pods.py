"""What the clean-up of failed pods looks at. The caches of the controller have no such pods: they take up no room."""

from __future__ import annotations

from itertools import chain
from typing import Final

import msgspec
from msgspec import field

from rescheduler.model.records import Namespaced
from rescheduler.model.selectors import NO_LABELS, LabelSet
from rescheduler.model.times import Moment

FAILED: Final = "Failed"


class ContainerEnd(msgspec.Struct, frozen=True, gc=False):
    """How a container of the pod has ended, or why it waits."""

    waits_for: str = field(default="", name="state.waiting.reason")
    reason: str = field(default="", name="state.terminated.reason")
    at_s: Moment = field(default=0.0, name="state.terminated.finishedAt")


class FailedPod(Namespaced, frozen=True, gc=False, kw_only=True):
    """A pod whose phase is Failed, which is final."""

    uid: str
    controller_kind: str = ""
    labels: LabelSet = NO_LABELS
    annotations: LabelSet = NO_LABELS
    created_at_s: float = 0.0
    deleting: bool = False
    phase: str = field(default="", name="status.phase")
    reason: str = field(default="", name="status.reason")
    started_at_s: Moment = field(default=0.0, name="status.startTime")
    containers: tuple[ContainerEnd, ...] = field(default=(), name="status.containerStatuses")
    init_containers: tuple[ContainerEnd, ...] = field(default=(), name="status.initContainerStatuses")

    @property
    def reasons(self) -> frozenset[str]:
        """Of the pod (Evicted, OutOfcpu, UnexpectedAdmissionError) and of its containers (Error, CreateContainerConfigError)."""
        ends = (reason for one in self._ends() for reason in (one.waits_for, one.reason))
        return frozenset(filter(None, (self.reason, *ends)))

    @property
    def failed_at_s(self) -> float:
        """When its last container ended; where none ran, when the kubelet took or the API server created it."""
        last_s = max((one.at_s for one in self._ends()), default=0.0)
        return last_s or self.started_at_s or self.created_at_s

    def _ends(self) -> chain[ContainerEnd]:
        return chain(self.containers, self.init_containers)
