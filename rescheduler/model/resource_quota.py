"""The ResourceQuota of a namespace, as far as it limits pods by their requests and number.

Which pods a quota with scopes counts follows ``pkg/quota/v1/evaluator/core/pods.go`` (``podMatchesScopeFunc``). What limits and other
objects may sum up to is not read.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from msgspec import field

from rescheduler.model.forms import Amounts
from rescheduler.model.records import Namespaced, PodAffinityTerm, PodSpec


class QuotaLimit(NamedTuple):
    """One resource, by the name that pods request it by, or ``pods``: CPU in milli, all others in their base unit."""

    resource: str
    most: int
    used: int


class QuotaScope(enum.StrEnum):
    """The scopes that tell pods apart. Another one, such as that of volume attributes, counts no pod."""

    TERMINATING = "Terminating"
    NOT_TERMINATING = "NotTerminating"
    BEST_EFFORT = "BestEffort"
    NOT_BEST_EFFORT = "NotBestEffort"
    PRIORITY_CLASS = "PriorityClass"
    CROSS_NAMESPACE_POD_AFFINITY = "CrossNamespacePodAffinity"


class ScopeRequirement(msgspec.Struct, frozen=True, gc=False):
    """One of ``spec.scopes`` (operator Exists) or of ``spec.scopeSelector``."""

    scope: str = field(name="scopeName")
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class ResourceQuota(Namespaced, frozen=True, gc=False, kw_only=True):
    """A ResourceQuota."""

    uid: str = ""
    resource_version: str = ""
    hard: Amounts = field(default_factory=dict, name="spec.hard")
    used: Amounts = field(default_factory=dict, name="status.used")
    limits: tuple[QuotaLimit, ...] = ()
    """Those of ``hard`` that are read, each with what is used of it."""
    named_scopes: tuple[str, ...] = field(default=(), name="spec.scopes")
    selected_scopes: tuple[ScopeRequirement, ...] = field(
        default=(), name="spec.scopeSelector.matchExpressions"
    )

    @property
    def scopes(self) -> tuple[ScopeRequirement, ...]:
        """A pod is counted if it meets all of them."""
        return (*map(ScopeRequirement, self.named_scopes), *self.selected_scopes)

    def counts(self, pod: PodSpec, default_class: str) -> bool:
        """True if the quota counts such a pod. ``default_class``: the PriorityClass that one without any gets; "": none."""
        return all(_meets(scope, pod, pod.priority_class or default_class) for scope in self.scopes)


def _meets(wanted: ScopeRequirement, pod: PodSpec, priority_class: str) -> bool:
    match wanted.scope:
        case QuotaScope.TERMINATING:
            return pod.deadline_s is not None
        case QuotaScope.NOT_TERMINATING:
            return pod.deadline_s is None
        case QuotaScope.BEST_EFFORT:
            return _best_effort(pod)
        case QuotaScope.NOT_BEST_EFFORT:
            return not _best_effort(pod)
        case QuotaScope.CROSS_NAMESPACE_POD_AFFINITY:
            return any(term.namespaces or term.namespace_selector is not None for term in _terms(pod))
        case QuotaScope.PRIORITY_CLASS:
            return _of_class(wanted, priority_class)
        case _:
            return False


def _of_class(wanted: ScopeRequirement, priority_class: str) -> bool:
    """As a label selector judges a label that a pod without a PriorityClass lacks."""
    match wanted.operator:
        case "In":
            return priority_class in wanted.values if priority_class else False
        case "NotIn":
            return priority_class not in wanted.values
        case "DoesNotExist":
            return not priority_class
        case _:
            return bool(priority_class)


def _best_effort(pod: PodSpec) -> bool:
    """No container asks for CPU or memory, nor is limited in it: a limit without a request is a request."""
    return pod.requests.cpu_milli <= 0 and pod.requests.memory_bytes <= 0


def _terms(pod: PodSpec) -> Iterable[PodAffinityTerm]:
    yield from pod.pod_affinity
    yield from pod.pod_anti_affinity
    for weighted in (*pod.pod_affinity_preferred, *pod.pod_anti_affinity_preferred):
        yield weighted.term
