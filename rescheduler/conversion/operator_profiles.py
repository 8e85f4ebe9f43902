"""The DeschedulerPolicy that OpenShift's operator makes of a KubeDescheduler: its profiles, written out. Pure.

The operator never evicts from ``kube-system`` and the namespaces of OpenShift and Hypershift, which only the cluster can list. So
plugins that no list of included namespaces bounds are marked here as a filter that is not known, and are switched off later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from rescheduler.configuration.problems import ConfigurationError, Problem
from rescheduler.configuration.strictyaml import Document, Path
from rescheduler.conversion.converted_document import Remark

OPERATOR_KIND: Final = "KubeDescheduler"
PROTECTED_NAMESPACES: Final = "protected namespaces of the operator"
"""Stands for a filter of the operator's own among the plugins of a profile."""
_CUSTOM: Final = "profileCustomizations"
_EVICTS: Final = ("EvictPodsWithPVC", "EvictPodsWithLocalStorage")
_LOW: Final = {"": (20, 50), "Low": (10, 30), "Medium": (20, 50), "High": (40, 70)}
_DEVIATION: Final = {
    "Low": (10, 10), "Medium": (20, 20), "High": (30, 30),
    "AsymmetricLow": (0, 10), "AsymmetricMedium": (0, 20), "AsymmetricHigh": (0, 30),
}  # fmt: skip
_HIGH: Final = {"": 20, "Minimal": 10, "Modest": 20, "Moderate": 30}
_RESOURCES: Final = ("cpu", "memory", "pods")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_KNOWN_CUSTOM: Final = frozenset({
    "namespaces", "podLifetime", "thresholdPriority", "thresholdPriorityClassName", "devLowNodeUtilizationThresholds",
    "devDeviationThresholds", "devHighNodeUtilizationThresholds", "devActualUtilizationProfile", "devEnableEvictionsInBackground",
    "devEnableSoftTainter", "devMigrationCooldown", "devMaxMigrationCooldown", "devMigrationHistoryWindow",
})  # fmt: skip

Json = dict[str, Any]


def generated(document: Document, path: Path, file: str) -> tuple[Document, tuple[Remark, ...]]:
    """The policy of the KubeDescheduler at ``path``, as a document of its own with the lines of the original.

    Raises:
        ConfigurationError: a profile or a customization that the operator refuses, or one that is not known here.
    """
    return _Operator(document, path, file).policy()


class _Operator:
    def __init__(self, document: Document, path: Path, file: str) -> None:
        self._document, self._path, self._file = document, (*path, "spec"), file
        self._spec = self._mapping(document.at(path).get("spec"), ())
        if "strategies" in self._spec:
            raise self._error(
                ("strategies",),
                "is of an old version of the operator",
                "give the ConfigMap that it has written",
            )
        self._custom = self._mapping(self._spec.get(_CUSTOM), (_CUSTOM,))
        self._namespaces = self._mapping(self._custom.get("namespaces"), (_CUSTOM, "namespaces"))
        for key in self._custom.keys() - _KNOWN_CUSTOM:
            raise self._error(
                (_CUSTOM, key), "is not known", "give the ConfigMap that the operator has written"
            )

    def policy(self) -> tuple[Document, tuple[Remark, ...]]:
        profiles = self._spec.get("profiles") or []
        if not isinstance(profiles, list) or not all(isinstance(name, str) for name in profiles):
            raise self._error(("profiles",), "is no list of names", "write [AffinityAndTaints]")
        if not profiles:
            raise self._error(("profiles",), "is empty", "give the ConfigMap that the operator has written")
        made: list[Json] = []
        lines: dict[Path, int] = {(): self._line(()), ("profiles",): self._line(("profiles",))}
        for index, name in enumerate(profiles):
            if name in _EVICTS:
                continue
            build = _PROFILES.get(name)
            if build is None:
                known = ", ".join((*_PROFILES, *_EVICTS))
                raise self._error(("profiles", index), f"{name!r} is not known", f"known are {known}")
            lines[("profiles", len(made))] = self._line(("profiles", index))
            made.append(build(self, name))
        data: Json = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": made}
        if any("KubeVirt" in name for name in profiles):
            data["nodeSelector"] = "kubevirt.io/schedulable=true"
        limits = self._mapping(self._spec.get("evictionLimits"), ("evictionLimits",))
        for key, ours in (("total", "maxNoOfPodsToEvictTotal"), ("node", "maxNoOfPodsToEvictPerNode")):
            if key in limits:
                data[ours] = limits[key]
                lines[(ours,)] = self._line(("evictionLimits", key))
        return Document(data, lines), tuple(self._remarks())

    def _remarks(self) -> list[Remark]:
        found = []
        if self._spec.get("mode", "Predictive") != "Automatic":
            reason = "the operator only simulates evictions in this mode; 'rescheduler plan' does so here"
            found.append(Remark(self._line(("mode",)), "mode: Predictive", reason))
        return found

    def _evictor(self, **more: Any) -> Json:
        names = self._spec.get("profiles") or []
        arguments: Json = {
            "ignorePvcPods": "EvictPodsWithPVC" not in names,
            "evictLocalStoragePods": "EvictPodsWithLocalStorage" in names,
            **more,
        }
        value, name = self._custom.get("thresholdPriority"), self._custom.get("thresholdPriorityClassName")
        if value is not None or name:
            arguments["priorityThreshold"] = {"value": value, "name": name or ""}
        return {"name": "DefaultEvictor", "args": arguments}

    def _scope(self) -> Json:
        """Of plugins that can be bounded to namespaces."""
        included, excluded = (self._names(key) for key in ("included", "excluded"))
        if included and excluded:
            raise self._error((_CUSTOM, "namespaces"), "has included and excluded", "keep one of them")
        return {"namespaces": {"include": included, "exclude": excluded}} if included or excluded else {}

    def _names(self, key: str) -> list[str]:
        names = self._namespaces.get(key) or []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise self._error((_CUSTOM, "namespaces", key), "is no list of names", "write [a, b]")
        return names

    def _profile(
        self,
        name: str,
        point: str,
        plugins: Mapping[str, Json],
        evictor: Json | None = None,
        *,
        bounded: bool,
    ) -> Json:
        filters = [] if bounded and self._names("included") else [PROTECTED_NAMESPACES]
        config = [{"name": plugin, "args": arguments} for plugin, arguments in plugins.items()]
        return {
            "name": name,
            "pluginConfig": [*config, evictor or self._evictor()],
            "plugins": {point: {"enabled": list(plugins)}, "filter": {"enabled": filters}},
        }

    def affinity(self, name: str) -> Json:
        plugins = {
            "RemovePodsViolatingInterPodAntiAffinity": self._scope(),
            "RemovePodsViolatingNodeTaints": self._scope(),
            "RemovePodsViolatingNodeAffinity": {"nodeAffinityType": [_REQUIRED], **self._scope()},
        }
        return self._profile(name, "deschedule", plugins, bounded=True)

    def topology(self, name: str) -> Json:
        constraints = ["DoNotSchedule", "ScheduleAnyway"] if name.startswith("Soft") else ["DoNotSchedule"]
        plugins = {
            "RemovePodsViolatingTopologySpreadConstraint": {"constraints": constraints, **self._scope()},
            "RemoveDuplicates": self._scope(),
        }
        return self._profile(name, "balance", plugins, bounded=True)

    def utilization(self, name: str) -> Json:
        low, high = self._chosen("devLowNodeUtilizationThresholds", _LOW)
        made = self._profile(name, "balance", {"LowNodeUtilization": self._low(low, high)}, bounded=False)
        others = ["RemovePodsHavingTooManyRestarts"]
        if name == "LifecycleAndUtilization":
            others.insert(0, "PodLifeTime")
        made["plugins"]["deschedule"] = {"enabled": others}
        return made

    def virtual_machines(self, name: str) -> Json:
        deviation = "devLowNodeUtilizationThresholds" not in self._custom
        if deviation:
            low, high = self._chosen("devDeviationThresholds", {"": (0, 10), **_DEVIATION})
        else:
            low, high = self._chosen("devLowNodeUtilizationThresholds", _LOW)
        arguments = self._low(low, high, query=True)
        arguments["useDeviationThresholds"] = deviation
        evictor = self._evictor(ignorePvcPods=False, evictLocalStoragePods=True, noEvictionPolicy="Mandatory")
        made = self._profile(name, "balance", {"LowNodeUtilization": arguments}, evictor, bounded=False)
        made["plugins"]["filter"]["enabled"].append("KubevirtMigrationAware")
        return made

    def compact(self, name: str) -> Json:
        percent = self._chosen("devHighNodeUtilizationThresholds", _HIGH)
        arguments: Json = {"thresholds": dict.fromkeys(_RESOURCES, percent)}
        if excluded := self._names("excluded"):
            arguments["evictableNamespaces"] = {"exclude": excluded}
        return self._profile(name, "balance", {"HighNodeUtilization": arguments}, bounded=False)

    def _low(self, low: int, high: int, *, query: bool = False) -> Json:
        queried = query or bool(self._custom.get("devActualUtilizationProfile"))
        resources = ("MetricResource",) if queried else _RESOURCES
        arguments: Json = {
            "thresholds": dict.fromkeys(resources, low),
            "targetThresholds": dict.fromkeys(resources, high),
        }
        if queried:
            arguments["metricsUtilization"] = {"source": "Prometheus", "prometheus": {}}
        if excluded := self._names("excluded"):
            arguments["evictableNamespaces"] = {"exclude": excluded}
        return arguments

    def _chosen(self, key: str, table: Mapping[str, Any]) -> Any:
        word = self._custom.get(key) or ""
        if not isinstance(word, str) or word not in table:
            raise self._error((_CUSTOM, key), f"is {word!r}", f"use {', '.join(filter(None, table))}")
        return table[word]

    def _mapping(self, value: Any, path: Path) -> Json:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._error(path, "is no mapping", "correct it")
        return value

    def _line(self, path: Path) -> int:
        return self._document.line((*self._path, *path))

    def _error(self, path: Path, message: str, remedy: str) -> ConfigurationError:
        name = ".".join(str(step) for step in ("spec", *path))
        return ConfigurationError([Problem(self._file, self._line(path), name, message, remedy)])


_PROFILES: Final[Mapping[str, Callable[[_Operator, str], Json]]] = {
    "AffinityAndTaints": _Operator.affinity,
    "TopologyAndDuplicates": _Operator.topology,
    "SoftTopologyAndDuplicates": _Operator.topology,
    "LifecycleAndUtilization": _Operator.utilization,
    "LongLifecycle": _Operator.utilization,
    "DevPreviewLongLifecycle": _Operator.utilization,
    "CompactAndScale": _Operator.compact,
    "KubeVirtRelieveAndMigrate": _Operator.virtual_machines,
    "DevKubeVirtRelieveAndMigrate": _Operator.virtual_machines,
}
