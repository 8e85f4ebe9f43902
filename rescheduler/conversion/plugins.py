"""What each plugin of descheduler becomes: an entry of ``policies``, or a remark that says why there is none.

A plugin that can be converted is a function in ``_CONVERTED``: it reads its arguments and sets those of the policy. RemoveFailedPods
becomes a section of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from rescheduler.conversion.converted_document import PolicyEntry, ProfilePart, Remark, Result
from rescheduler.conversion.evictor import (
    ALWAYS_FITS,
    BARE,
    DAEMONS,
    UNKNOWN_CLASS,
    takes_back,
    threshold,
)
from rescheduler.conversion.failed_pods import PLUGIN as FAILED_PODS
from rescheduler.conversion.failed_pods import convert_failed_pods
from rescheduler.conversion.policy_document import DeschedulerPolicy, Fields, Plugin
from rescheduler.policies.pod_life_time import LEAST_AGE_S
from rescheduler.policies.wire import PERCENT

_SOURCES: Final = ("KubernetesMetrics", "Prometheus")
_TERM: Final = re.compile(r"\s*([^\s=!,]+)\s*==?\s*([^\s=!,]*)\s*")
_AFFINITY: Final = {
    "requiredDuringSchedulingIgnoredDuringExecution": "required",
    "preferredDuringSchedulingIgnoredDuringExecution": "preferred",
}


def convert_plugins(policy: DeschedulerPolicy, result: Result) -> None:
    """Every plugin of every profile, in the order in which they run. The protections are converted before."""
    selector = _NodeSelector.of(policy.settings)
    if selector.left_out:
        result.left_out.append(selector.left_out)
    for profile, part in zip(policy.profiles, result.profiles, strict=True):
        sources = (profile.evictor, policy.settings)
        bare, daemons = (any(takes_back(one, kind) for one in sources) for kind in (BARE, DAEMONS))
        for plugin in profile.plugins:
            if plugin.name == FAILED_PODS and plugin.enabled:
                convert_failed_pods(plugin, tuple(_off(selector, part)), result, bare=bare, daemons=daemons)
            else:
                _plugin(plugin, selector, part, result)
    _not_both(result)


def _off(selector: _NodeSelector, profile: ProfilePart) -> Iterator[str]:
    """Why section failedPods must stay off, whatever its plugin says."""
    yield from profile.off
    if selector.labels or selector.left_out:
        yield "failedPods has no nodeSelector"
    if "labelSelector" in profile.protections.values:
        yield "failedPods has no labelSelector of its own"


def _plugin(plugin: Plugin, selector: _NodeSelector, profile: ProfilePart, result: Result) -> None:
    if not plugin.enabled:
        result.left_out.append(Remark(plugin.line, plugin.name, "it is configured, but not enabled"))
        return
    known = _CONVERTED.get(plugin.name)
    if known is None:
        result.left_out.append(Remark(plugin.line, plugin.name, "no plugin of descheduler itself"))
        return
    name, convert = known
    part = PolicyEntry(name=name, line=plugin.line)
    if selector.labels:
        part.put("nodeSelector", dict(selector.labels))
    if plugin.arguments is not None:
        _common(plugin.arguments, part)
        _priority(plugin.arguments, part)
        convert(plugin.arguments, part)
        _unknown(plugin.arguments, plugin.name, part)
    key, argument = _NEEDED.get(name, ("", ""))
    if key and key not in part.values and "enabled" not in part.values:
        part.switch_off(f"descheduler refuses {plugin.name} without a valid {argument}")
        part.leave_out(plugin.line, argument, None, f"it is missing or invalid, so {name} is off")
    if selector.left_out:
        note = "it would move pods of nodes that descheduler leaves: give it a nodeSelector of labels, and switch it on"
        part.put("enabled", False, note)
    for reason in dict.fromkeys(profile.off):
        part.switch_off(reason)
    profile.policies.append(part)


def _unknown(arguments: Fields, plugin: str, part: PolicyEntry) -> None:
    """What nobody has read: what only descheduler can do, and what it has not either."""
    for key in arguments.unread():
        known = key in _ONLY_THERE.get(plugin, ())
        reason = "it has no equivalent" if known else f"no argument of {plugin}"
        arguments.leave_out(part, key, reason, arguments.raw(key))
        if key in _NARROWING:
            part.switch_off(f"without {key} it would move pods that descheduler leaves")


def _common(arguments: Fields, part: PolicyEntry) -> None:
    for key in ("apiVersion", "kind"):
        arguments.get(key, object)
    selector = arguments.get("labelSelector", dict[str, Any])
    if selector is not None:
        part.put("labelSelector", selector)
    for key in ("namespaces", "evictableNamespaces"):
        _namespaces(arguments.within(key), part)
    if arguments.get("nodeFit", bool) is False:
        arguments.leave_out(part, "nodeFit", ALWAYS_FITS)


def _priority(arguments: Fields, part: PolicyEntry) -> None:
    """``thresholdPriority`` of a strategy; the one of ``protections`` holds, too."""
    value = threshold(arguments, part, value_key="thresholdPriority", name_key="thresholdPriorityClassName")
    if value is not None:
        part.put("priorityThreshold", value)
    elif arguments.get("thresholdPriorityClassName", str):
        part.switch_off(UNKNOWN_CLASS)


def _namespaces(fields: Fields | None, part: PolicyEntry) -> None:
    """``include`` or ``exclude``; descheduler's own documentation once wrote them below another ``namespaces``."""
    if fields is None:
        return
    _namespaces(fields.within("namespaces"), part)
    for key in ("include", "exclude"):
        if found := fields.namespaces(key, part):
            part.put("namespaces", {**part.values.get("namespaces", {}), key: found})
        elif fields.raw(key) and key == "include":
            part.switch_off("no namespace that it includes can exist, so descheduler moves no pod")
    fields.tell_unread(part, "namespaces")


def _node_taints(arguments: Fields, part: PolicyEntry) -> None:
    for key in ("includedTaints", "excludedTaints"):
        taints = arguments.get(key, list[str])
        if taints:
            part.put(key, taints)
    if arguments.get("includePreferNoSchedule", bool):
        part.put("includePreferNoSchedule", True)


def _node_affinity(arguments: Fields, part: PolicyEntry) -> None:
    types = arguments.get("nodeAffinityType", list[str]) or []
    known = [_AFFINITY[word] for word in types if word in _AFFINITY]
    for index, word in enumerate(types):
        if word not in _AFFINITY:
            line = arguments.line_of_item("nodeAffinityType", index)
            part.leave_out(line, "nodeAffinityType", word, f"use {' or '.join(_AFFINITY)}")
    if known:
        part.put("types", list(dict.fromkeys(known)))


def _topology_spread(arguments: Fields, part: PolicyEntry) -> None:
    if arguments.get("includeSoftConstraints", bool):
        part.put("constraints", ["DoNotSchedule", "ScheduleAnyway"])
    constraints = arguments.get("constraints", list[str])
    if constraints:
        part.put("constraints", constraints)
    if arguments.get("topologyBalanceNodeFit", bool) is False:
        arguments.leave_out(part, "topologyBalanceNodeFit", ALWAYS_FITS)


def _duplicates(arguments: Fields, part: PolicyEntry) -> None:
    kinds = arguments.get("excludeOwnerKinds", list[str])
    if kinds:
        part.put("excludeOwnerKinds", kinds)


def _too_many_restarts(arguments: Fields, part: PolicyEntry) -> None:
    threshold = arguments.get("podRestartThreshold", int)
    if threshold is not None:
        part.put("podRestartThreshold", threshold)
        part.put(
            "requireHealthyReplicas", False, "as descheduler; true: only where a replica elsewhere is well"
        )
    if arguments.get("includingInitContainers", bool):
        part.put("includingInitContainers", True)
    states = arguments.get("states", list[str]) or []
    if states and not {"Running", "CrashLoopBackOff"}.issubset(states):
        part.switch_off(
            "it moves pods that restart too often whether they run just now or wait for the next start"
        )
        arguments.leave_out(part, "states", "Running and CrashLoopBackOff only go together", states)


def _pod_life_time(arguments: Fields, part: PolicyEntry) -> None:
    age_s = arguments.get("maxPodLifeTimeSeconds", int)
    if age_s is not None and age_s >= 0:
        least_s = int(LEAST_AGE_S)
        note = f"maxPodLifeTimeSeconds is {age_s}; the least here is {least_s}" if age_s < least_s else ""
        part.put("maxAge", f"{max(age_s, least_s)}s", note)
        part.put("jitter", 0.0)
    _states(arguments, part)


def _states(arguments: Fields, part: PolicyEntry) -> None:
    """Only running pods are moved: other states are no reason. ``podStatusPhases`` is the older name."""
    states = [
        *(arguments.get("states", list[str]) or ()),
        *(arguments.get("podStatusPhases", list[str]) or ()),
    ]
    if states and "Running" not in states:
        part.switch_off(f"only running pods are moved, not those in state {', '.join(states)}")
    if states and states != ["Running"]:
        arguments.leave_out(part, "states", "only running pods are moved", states)


def _low_node_utilization(arguments: Fields, part: PolicyEntry) -> None:
    _thresholds(arguments, part, "thresholds", "targetThresholds")
    if arguments.get("useDeviationThresholds", bool):
        part.put("useDeviationThresholds", True)
    limits = arguments.within("evictionLimits")
    if limits is not None:
        reason = "limits.perNode holds for the moves of all policies"
        if (most := limits.get("node", int)) is not None:
            limits.leave_out(part, "node", reason, most, name="evictionLimits.node")
            if most <= 0:
                part.switch_off(f"descheduler evicts no pod with evictionLimits.node: {most}")
        limits.tell_unread(part, "evictionLimits")
    part.put("minimumRelief", 0, "as descheduler, which moves the smallest pods, too; the default here is 2")
    if not _measured(arguments, part):
        _bare_requests(part)


def _high_node_utilization(arguments: Fields, part: PolicyEntry) -> None:
    _thresholds(arguments, part, "thresholds")
    if thresholds := part.values.get("thresholds"):
        part.values["thresholds"] = _below_full(thresholds)
    note = "as descheduler, which lets nodes be filled up; the default here is 90"
    part.put("targetThresholds", dict.fromkeys(("cpu", "memory"), 100), note)
    _bare_requests(part)
    modes = arguments.get("evictionModes", list[str])
    if modes:
        reason = "a node is emptied as a whole or not at all, so no pod of it is left out"
        arguments.leave_out(part, "evictionModes", reason, modes)
        note = "it would move pods that descheduler leaves: switch it on if these may go as well"
        part.put("enabled", False, note)


def _below_full(thresholds: dict[str, float]) -> dict[str, float]:
    """Every node is below 100 percent, so such a threshold says nothing beside others."""
    return {name: percent for name, percent in thresholds.items() if percent < PERCENT} or thresholds


def _thresholds(arguments: Fields, part: PolicyEntry, *keys: str) -> None:
    for key in keys:
        percent = arguments.get(key, dict[str, float])
        if percent:
            part.put(key, {name: int(n) if n.is_integer() else n for name, n in percent.items()})
    least = arguments.get("numberOfNodes", int)
    if least:
        note = "descheduler acts above its numberOfNodes, this policy from it on"
        part.put("numberOfNodes", least + 1, note)


def _bare_requests(part: PolicyEntry) -> None:
    part.put("useDefaultRequests", False, "as descheduler, where a container without requests takes nothing")


def _measured(arguments: Fields, part: PolicyEntry) -> bool:
    """True if descheduler goes by measured usage."""
    metrics = arguments.within("metricsUtilization")
    if metrics is None:
        return False
    source = metrics.get("source", str)
    if source not in (None, *_SOURCES):
        metrics.leave_out(
            part, "source", f"use {' or '.join(_SOURCES)}", source, name="metricsUtilization.source"
        )
        part.switch_off(f"descheduler refuses the source {source}")
    if metrics.get("metricsServer", bool) or source == "KubernetesMetrics":
        part.put("usage", "actual")
    metrics.get("prometheus", object)
    metrics.tell_unread(part, "metricsUtilization")
    if source == "Prometheus" or "prometheus" in metrics:
        reason = (
            "thresholds here are of cpu and memory, which usage.prometheus can ask for: write both, set 'usage: actual', "
            "and switch it on"
        )
        metrics.leave_out(part, "prometheus", reason, name="metricsUtilization.prometheus")
        for key in ("thresholds", "targetThresholds"):
            part.values.pop(key, None)
        part.put("enabled", False, "the thresholds of a query are none of nodes")
        return True
    return "usage" in part.values


_CONVERTED: Final[dict[str, tuple[str, Callable[[Fields, PolicyEntry], None]]]] = {
    "RemovePodsViolatingNodeTaints": ("NodeTaints", _node_taints),
    "RemovePodsViolatingNodeAffinity": ("NodeAffinity", _node_affinity),
    "RemovePodsViolatingInterPodAntiAffinity": ("InterPodAntiAffinity", lambda *_: None),
    "RemovePodsViolatingTopologySpreadConstraint": ("TopologySpread", _topology_spread),
    "RemoveDuplicates": ("Duplicates", _duplicates),
    "RemovePodsHavingTooManyRestarts": ("TooManyRestarts", _too_many_restarts),
    "PodLifeTime": ("PodLifeTime", _pod_life_time),
    "LowNodeUtilization": ("LowNodeUtilization", _low_node_utilization),
    "HighNodeUtilization": ("HighNodeUtilization", _high_node_utilization),
}
"""Plugin -> policy, and how its arguments are converted."""

_ONLY_THERE: Final = {
    "PodLifeTime": frozenset(
        {"conditions", "exitCodes", "ownerKinds", "includingInitContainers", "includingEphemeralContainers"}
    ),
}
"""By plugin: arguments of descheduler 0.36 without an equivalent, so that nobody takes them for misspelt."""

_NARROWING: Final = frozenset({"conditions", "evictionModes", "exitCodes", "ownerKinds"})
"""Arguments of descheduler by which a plugin leaves pods, and which have no equivalent."""

_NEEDED: Final = {
    "NodeAffinity": ("types", "nodeAffinityType"),
    "TooManyRestarts": ("podRestartThreshold", "podRestartThreshold"),
    "PodLifeTime": ("maxAge", "maxPodLifeTimeSeconds"),
    "LowNodeUtilization": ("thresholds", "thresholds"),
    "HighNodeUtilization": ("thresholds", "thresholds"),
}
"""By policy: the argument without which descheduler does nothing, and its name there; our defaults are not meant then."""


class _NodeSelector(NamedTuple):
    """``nodeSelector`` of the whole policy: labels, or why they cannot be said here."""

    labels: Mapping[str, str]
    left_out: Remark | None = None

    @classmethod
    def of(cls, settings: Fields) -> _NodeSelector:
        """The selector of a policy; none selects every node."""
        text = settings.get("nodeSelector", str)
        if not text:
            return cls({})
        labels = dict(_terms(text))
        if labels:
            return cls(labels)
        reason = "only labels with one value each (key=value) can be given to policies as nodeSelector"
        return cls({}, Remark(settings.line_of("nodeSelector"), f"nodeSelector: {text}", reason))


def _terms(text: str) -> Iterator[tuple[str, str]]:
    """Labels of a selector of equalities; nothing if it says anything else."""
    found = [_TERM.fullmatch(term) for term in text.split(",")]
    if all(found):
        yield from ((term[1], term[2]) for term in found if term is not None)


def _not_both(result: Result) -> None:
    """Without node pools of their own, one policy would fill the nodes that the other empties: one is switched off."""
    names = {part.name for part in result.policies if part.values.get("enabled", True)}
    if not {"LowNodeUtilization", "HighNodeUtilization"} <= names:
        return
    for part in result.policies:
        if part.name == "HighNodeUtilization":
            note = (
                "LowNodeUtilization fills the nodes that this policy empties; to have both, give both a "
                "nodeSelector with the same label and different values"
            )
            part.put("enabled", False, note)
