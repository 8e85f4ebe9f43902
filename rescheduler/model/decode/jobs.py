"""Decodes what of a Job tells whether it replaces an evicted pod: failure policy, conditions, deadline.

Decoded for Jobs only: the parts of the wire types that all controllers share stay raw bytes until then.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

import msgspec
from msgspec import Raw

from rescheduler.model.decode.wire_types import ConditionWire, Wire
from rescheduler.model.records import JobState

_OWN_CONTROLLER: Final = "kubernetes.io/job-controller"
_DISRUPTION: Final = "DisruptionTarget"
"""Condition that the API server sets on a pod before it evicts it."""
_ENDS: Final = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")
_EMPTY: Final = (b"", b"null")


class FailureRuleWire(Wire):
    """batch/v1 PodFailurePolicyRule; the API server completes the status of a pattern to True."""

    action: str | None = None
    on_pod_conditions: list[ConditionWire] | None = None


class FailurePolicyWire(Wire):
    """batch/v1 PodFailurePolicy."""

    rules: list[FailureRuleWire] | None = None


_decode_conditions = msgspec.json.Decoder(list[ConditionWire]).decode
_decode_policy = msgspec.json.Decoder(FailurePolicyWire).decode
_decode_time = msgspec.json.Decoder(dt.datetime).decode


def job_state(
    *,
    completions: int | None,
    succeeded: int,
    failure_policy: Raw,
    conditions: Raw,
    started: Raw,
    deadline_s: int | None,
    managed_by: str,
) -> JobState:
    """The state of a Job. Raises DAMAGE."""
    return JobState(
        completions=completions,
        succeeded=succeeded,
        ignores_disruption=_ignores_disruption(bytes(failure_policy)),
        ended=_ended(bytes(conditions)),
        deadline_at_s=_deadline(bytes(started), deadline_s),
        managed_by="" if managed_by == _OWN_CONTROLLER else managed_by,
    )


def _ignores_disruption(policy: bytes) -> bool:
    """As ``matchPodFailurePolicy`` (pkg/controller/job): the first rule that matches the failed pod counts.

    The exit code of a program that is asked to end is its own choice, so any rule with another action that comes
    first might match.
    """
    if policy in _EMPTY:
        return False
    for rule in _decode_policy(policy).rules or ():
        if rule.action != "Ignore":
            return False
        if any(c.type == _DISRUPTION and c.status in (None, "True") for c in rule.on_pod_conditions or ()):
            return True
    return False


def _ended(conditions: bytes) -> str:
    if conditions in _EMPTY:
        return ""
    met = {c.type for c in _decode_conditions(conditions) if c.status == "True"}
    return next((kind for kind in _ENDS if kind in met), "")


def _deadline(started: bytes, deadline_s: int | None) -> float:
    if deadline_s is None or started in _EMPTY:
        return 0.0
    return _decode_time(started).timestamp() + deadline_s
