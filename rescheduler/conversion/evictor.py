"""What DefaultEvictor and the settings of a whole DeschedulerPolicy become: ``limits`` and ``protections``.

Where descheduler's default moves more than ours, the result says so in a line of its own, so that the same pods may be
moved as before, and so that this can be seen and taken back. Each profile keeps protections of its own; what all have alike stands
once. What cannot be said here switches the policies of the profile off. A limit never becomes looser than the default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rescheduler.conversion.converted_document import ProfilePart, Remark, Result, Section
from rescheduler.conversion.failed_pods import PLUGIN as FAILED_PODS
from rescheduler.conversion.operator_profiles import PROTECTED_NAMESPACES
from rescheduler.conversion.policy_document import DeschedulerPolicy, Fields
from rescheduler.model.counted import plural
from rescheduler.model.times import DurationError, format_duration, parse_duration
from rescheduler.planning.limits import limits_for
from rescheduler.planning.protections import SYSTEM_CRITICAL_PRIORITY

_BALANCED: Final = 0.5
_CLASSES: Final = {
    "system-cluster-critical": SYSTEM_CRITICAL_PRIORITY,
    "system-node-critical": SYSTEM_CRITICAL_PRIORITY + 1000,
}
"""Priority classes that every cluster has."""
ALWAYS_FITS: Final = "always on: each move has a target by all rules of the scheduler"
_GONE: Final = "such pods are never moved: nothing creates them anew elsewhere"

_SETTINGS: Final = {
    "gracePeriodSeconds": "the grace period of each pod holds",
    "evictionFailureEventNotification": "always on: Events tell what was not moved, and why",
    "metricsCollector": "set 'usage: actual' of LowNodeUtilization, which reads metrics-server",
    "metricsProviders": "set 'usage: actual' of LowNodeUtilization, and usage.prometheus where it is not metrics-server",
    "featureGates": "there are none",
}
"""Keys at the top that have no equivalent."""

BARE: Final = "FailedBarePods"
_CRITICAL: Final = "SystemCriticalPods"
DAEMONS: Final = "DaemonSetPods"
_LOCAL: Final = "PodsWithLocalStorage"
_CLAIMS: Final = "PodsWithPVC"
_NO_BUDGET: Final = "PodsWithoutPDB"
_DEFAULTS_DISABLED: Final = {
    _LOCAL: "",
    DAEMONS: _GONE,
    BARE: "section failedPods deletes them, which RemoveFailedPods becomes; no policy moves them",
    _CRITICAL: "pods of system priority are never moved",
}
"""Protections that can be taken back, with the reason why one has no equivalent; "": it has."""
_EXTRA_ENABLED: Final = {
    _CLAIMS: "",
    _NO_BUDGET: "",
    "PodsWithResourceClaims": "always on",
    "PodsWithPDBBlockingSingleReplicaOwner": "budgets are always honoured; mode StartFirst moves single replicas "
    "without a gap",
}
"""The same of those that can be added."""
_LISTS: Final = ("defaultDisabled", "extraEnabled")
_OLD_NAMES: Final = {
    "evictLocalStoragePods": _LOCAL,
    "evictDaemonSetPods": DAEMONS,
    "evictFailedBarePods": BARE,
    "evictSystemCriticalPods": _CRITICAL,
    "ignorePvcPods": _CLAIMS,
    "ignorePodsWithoutPDB": _NO_BUDGET,
}
"""Keys that descheduler refuses beside a list of podProtections."""


def convert_settings(policy: DeschedulerPolicy, result: Result) -> None:
    """The limits, and keys of the whole policy without an equivalent."""
    base = limits_for(_BALANCED)
    top = policy.settings
    for key, name, ours in (
        ("maxNoOfPodsToEvictPerNode", "perNode", base.per_node),
        ("maxNoOfPodsToEvictPerNamespace", "perNamespace", base.per_namespace),
        ("maxNoOfPodsToEvictTotal", "movesAtOnce", base.moves_at_once),
    ):
        most = top.get(key, int)
        if most is None:
            continue
        if 0 <= most < ours:
            note = f"line {top.line_of(key)}: {key}, which counts by cycle; here: moves at the same time"
            result.limits.put(name, most, note)
        else:
            reason = f"limits.{name} is {plural(ours, 'move')} at the same time, and more careful"
            top.leave_out(result.limits, key, reason, most)
    for key, reason in _SETTINGS.items():
        if key in top and top.get(key, object) not in (None, False):
            result.left_out.append(Remark(top.line_of(key), key, reason))


def convert_evictors(policy: DeschedulerPolicy, result: Result) -> None:
    """The protections of each profile, from its DefaultEvictor and the keys at the top; and why its policies must stay off."""
    for profile in policy.profiles:
        part = ProfilePart(profile.name)
        result.profiles.append(part)
        sources = [source for source in (profile.evictor, policy.settings) if source is not None]
        _priority(sources, part)
        _replicas_and_age(sources, part)
        _protected_kinds(sources, part, profile.has(FAILED_PODS))
        part.protections.put(
            "namespaces",
            {"exclude": []},
            "as descheduler, which excludes none; the default here is [kube-system]",
        )
        for source in sources:
            if source.get("nodeFit", bool) is False:
                source.leave_out(part.protections, "nodeFit", ALWAYS_FITS)
            if source.get("noEvictionPolicy", str) == "Mandatory":
                part.protections.put("preferNoEviction", True, line=source.line_of("noEvictionPolicy"))
        if profile.evictor is not None:
            selector = profile.evictor.get("labelSelector", dict[str, Any])
            if selector is not None:
                line = profile.evictor.line_of("labelSelector")
                part.protections.put("labelSelector", selector, line=line)
            _refused(profile.evictor, part)
            _without_equivalent(profile.evictor, part)
        part.off += [_filter_words(name) for name, _ in profile.filters]
        known = {plugin.name for plugin in profile.plugins}
        result.left_out += [
            Remark(line, name, _filter_words(name)) for name, line in profile.filters if name not in known
        ]
    result.gather_protections()


def _filter_words(name: str) -> str:
    if name == PROTECTED_NAMESPACES:
        return (
            "the operator protects kube-system and all namespaces of OpenShift and Hypershift, which only the cluster can list: "
            "write them into 'namespaces: {exclude: [...]}', and switch it on"
        )
    return f"the filter {name} keeps pods from being evicted, and is not known here: switch it on if they may go as well"


def _without_equivalent(source: Fields, profile: ProfilePart) -> None:
    part = profile.protections
    for key in ("apiVersion", "kind"):
        source.get(key, object)
    if selected := source.get("nodeSelector", str):
        reason = "with nodeFit it says which nodes count as places to go; here these are all that the scheduler allows"
        source.leave_out(part, "nodeSelector", reason, selected)
    if selector := source.get("namespaceLabelSelector", dict[str, Any]):
        reason = "namespaces are given by name here: write those with these labels into 'namespaces' of the policies"
        source.leave_out(part, "namespaceLabelSelector", reason, selector)
        profile.off.append(
            "the profile evicts only from namespaces with certain labels: name them, and switch it on"
        )
    for key in source.unread():
        source.leave_out(part, key, "descheduler has no such argument", source.raw(key))


def threshold(fields: Fields, part: Section, *, value_key: str, name_key: str) -> int | None:
    """A priority given as a number or as the name of a class; a name that not every cluster has is left out."""
    value, name = fields.get(value_key, int), fields.get(name_key, str)
    if value is None and name:
        value = _CLASSES.get(name)
        if value is None:
            reason = "write protections.priorityThreshold: the value of this PriorityClass, which only the cluster knows"
            fields.leave_out(part, name_key, reason, name)
    return value


UNKNOWN_CLASS: Final = (
    "pods are protected by the value of a PriorityClass, which only the cluster knows: write protections.priorityThreshold, "
    "and switch it on"
)


def _priority(sources: Sequence[Fields], profile: ProfilePart) -> None:
    part, found = profile.protections, list[tuple[int, int]]()
    for source in sources:
        inner = source.within("priorityThreshold")
        # Where pods of system priority may be evicted, descheduler asks for no pod's priority.
        if inner is not None and not takes_back(source, _CRITICAL):
            value = threshold(inner, part, value_key="value", name_key="name")
            if value is not None:
                found.append((value, inner.line))
            elif inner.get("name", str):
                profile.off.append(UNKNOWN_CLASS)
            inner.tell_unread(part, "priorityThreshold")
    value, line = min(found, default=(SYSTEM_CRITICAL_PRIORITY, 1))
    if value < SYSTEM_CRITICAL_PRIORITY:
        part.put("priorityThreshold", value, line=line)
    elif UNKNOWN_CLASS not in profile.off:
        note = "as descheduler: below system priority; the default here is 1000000"
        part.put("priorityThreshold", SYSTEM_CRITICAL_PRIORITY, note)


def _refused(evictor: Fields, profile: ProfilePart) -> None:
    """What descheduler refuses: nobody knows whom it was to keep, so all stay."""
    wrong: list[tuple[str, str]] = []
    if (evictor.get("noEvictionPolicy", str) or "Preferred") not in ("Preferred", "Mandatory"):
        wrong.append(("noEvictionPolicy", "use Preferred or Mandatory"))
    threshold = evictor.within("priorityThreshold")
    if threshold is not None and threshold.raw("name") and threshold.raw("value") is not None:
        wrong.append(("priorityThreshold", "keep its value or its name"))
    protections = evictor.within("podProtections")
    if protections is not None and any(protections.raw(key) for key in _LISTS):
        reason = "name it in podProtections, as the others"
        wrong += [(key, reason) for key in _OLD_NAMES if evictor.raw(key)]
    for key, remedy in wrong:
        reason = f"descheduler refuses it: {remedy}"
        evictor.leave_out(profile.protections, key, reason, evictor.raw(key))
        profile.off.append(f"descheduler refuses {key}: {remedy}, and switch it on")


def takes_back(source: Fields | None, protection: str) -> bool:
    """True if descheduler evicts these pods, too, which it protects otherwise."""
    if source is None:
        return False
    protections = source.within("podProtections")
    words = protections.get("defaultDisabled", list[str]) if protections is not None else None
    old = next(key for key, word in _OLD_NAMES.items() if word == protection)
    return bool(source.get(old, bool)) or protection in (words or ())


def _replicas_and_age(sources: Sequence[Fields], profile: ProfilePart) -> None:
    part = profile.protections
    replicas = [
        (least, source.line_of("minReplicas"))
        for source in sources
        if (least := source.get("minReplicas", int)) is not None
    ]
    if replicas:
        least, line = max(replicas)
        part.put("minReplicas", least, line=line)
    ages: list[tuple[float, int]] = []
    for source in sources:
        age = source.get("minPodAge", str)
        if age is None:
            continue
        try:
            ages.append((parse_duration(age), source.line_of("minPodAge")))
        except DurationError as error:
            source.leave_out(part, "minPodAge", str(error), age)
            profile.off.append(
                "the age of pods that are protected cannot be read: write protections.minAge, and switch it on"
            )
    if ages:
        age_s, line = max(ages)
        part.put("minAge", format_duration(age_s), line=line)


def _protected_kinds(sources: Sequence[Fields], profile: ProfilePart, deletes_failed: bool) -> None:  # noqa: FBT001 - of the profile
    """``deletes_failed``: section failedPods says what becomes of failed pods without a controller."""
    part = profile.protections
    known = frozenset({BARE} if deletes_failed else ())
    local = volumes = budget = False
    for source in sources:
        for key, word in _OLD_NAMES.items():
            reason = _DEFAULTS_DISABLED.get(word, "")
            if source.get(key, bool) and reason and word not in known:
                source.leave_out(part, key, reason)
        protections = source.within("podProtections")
        if protections is not None:
            _words(protections, "defaultDisabled", part, _DEFAULTS_DISABLED, known)
            on = _words(protections, "extraEnabled", part, _EXTRA_ENABLED)
            volumes |= _CLAIMS in on
            budget |= _NO_BUDGET in on
            _storage_classes(protections, part)
            _misspelt(protections, on, profile)
        local |= takes_back(source, _LOCAL)
        volumes |= bool(source.get("ignorePvcPods", bool))
        budget |= bool(source.get("ignorePodsWithoutPDB", bool))
    if local:
        part.put("localStorage", False)
    note = (
        ""
        if volumes
        else "as descheduler, which moves pods with persistent volume claims; the default here is true"
    )
    part.put("persistentVolumes", volumes, note)
    if budget:
        part.put("withoutBudget", True)


def _words(
    protections: Fields, key: str, part: Section, words: dict[str, str], known: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """Those of a list of podProtections. ``words``: all that there are, with the reason why one has no equivalent; those of ``known`` have."""
    found = tuple(protections.get(key, list[str]) or ())
    for index, word in enumerate(found):
        reason = words.get(word, f"descheduler has no such protection: use one of {', '.join(words)}")
        if reason and word not in known:
            part.leave_out(protections.line_of_item(key, index), f"{key} {word}", None, reason)
    return found


def _misspelt(protections: Fields, enabled: Sequence[str], profile: ProfilePart) -> None:
    """Nobody knows whom a misspelt protection was to keep, so all stay. descheduler refuses such a policy."""
    protections.tell_unread(profile.protections, "podProtections")
    wrong = [word for word in enabled if word not in _EXTRA_ENABLED]
    profile.off += [
        f"{word} is no protection of descheduler: correct it, and switch it on"
        for word in (*protections.unread(), *wrong)
    ]


def _storage_classes(protections: Fields, part: Section) -> None:
    config = protections.within("config")
    if config is not None and "PodsWithPVC" in config:
        reason = "all pods with persistent volume claims are protected, whatever their storage class"
        config.leave_out(part, "PodsWithPVC", reason)
