"""PodLifeTime: pods that have lived for longer than they should are replaced, on another node."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final
from zlib import crc32

import msgspec

from rescheduler.model.records import PodPhase
from rescheduler.model.times import format_duration
from rescheduler.model.written import SECONDS, document_key
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.replacing_policy import PodsToReplace, ReplacingPolicy
from rescheduler.policies.wire import PolicyArgs

LEAST_AGE_S: Final = 600.0
"""A younger limit would move a pod as soon as its replacement had come up."""
_CRC_VALUES: Final = 1 << 32


class PodLifeTimeArgs(PolicyArgs, frozen=True, kw_only=True, rename=document_key):
    """``max_age_s``: a pod may live for so long and up to the share ``jitter`` longer, so that replicas do not go together."""

    max_age_s: Annotated[float, SECONDS, msgspec.Meta(ge=LEAST_AGE_S)] = 30 * 86_400.0
    jitter: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.1


class PodLifeTime(ReplacingPolicy[PodLifeTimeArgs]):
    """Running pods that were created longer ago than that; each has a limit of its own, which its uid gives."""

    name: str = "PodLifeTime"
    reason: ClassVar[str] = "TooOld"

    def to_replace(self, view: PolicyView) -> PodsToReplace:
        """Those past their limit."""
        now_s, most_s = view.snapshot.taken_at_s, self.args.max_age_s
        why = f"is older than {format_duration(most_s)}"
        return {
            pod.uid: (pod, why)
            for pod in view.snapshot.pods.values()
            if 0.0 < pod.created_at_s <= now_s - most_s
            and pod.phase is PodPhase.RUNNING
            and pod.created_at_s <= now_s - self._limit_s(pod.uid)
        }

    def _limit_s(self, uid: str) -> float:
        return self.args.max_age_s * (1.0 + self.args.jitter * crc32(uid.encode()) / _CRC_VALUES)
