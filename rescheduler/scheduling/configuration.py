"""Reads a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) into the Profile that it describes.

Only what changes a verdict or a score is kept. Plugins that are not here, extenders, and arguments that
kube-scheduler would refuse are errors that say where they stand; nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, TypeVar

import msgspec

from rescheduler.errors import ReschedulerError
from rescheduler.model.decode.selectors import node_selector, preferred_node_terms, spread_constraints
from rescheduler.model.selectors import key_error
from rescheduler.scheduling.configuration_general import Path, faults
from rescheduler.scheduling.configuration_wire import (
    ArgsWire,
    BalancedArgs,
    ConfigurationWire,
    FitArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    PluginConfigWire,
    PluginSetWire,
    PluginsWire,
    PreemptionArgs,
    ProfileWire,
    ResourceSpecWire,
    ShapePointWire,
    SpreadArgs,
    VolumeBindingArgs,
)
from rescheduler.scheduling.framework import (
    CPU_AND_MEMORY,
    SYSTEM_DEFAULT_SPREAD,
    Profile,
    ResourceWeight,
    ScoringStrategy,
    ShapePoint,
)
from rescheduler.scheduling.pre_score import PreScore
from rescheduler.scheduling.registry import FILTERS, SCORES
from rescheduler.suggestions import did_you_mean

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
_SILENT: Final = frozenset(
    {"PrioritySort", "DefaultBinder", "DefaultPreemption", "SchedulingGates", "NodeName", "GangScheduling"}
)
"""Plugins that change no verdict: they sort, bind, preempt, or are judged before the profile."""
_FILTERS: Final = frozenset(plugin.name for plugin in FILTERS) - {PreScore.name}
_SCORES: Final = frozenset(plugin.name for plugin in SCORES)
KNOWN: Final = _FILTERS | _SCORES | _SILENT
_MAX_WEIGHT: Final = 100
_MAX_PLUGIN_WEIGHT: Final = 2**31 - 1
_STEP: Final = re.compile(r"\[(\d+)\]|\.(\w+)")
_BOUND: Final = re.compile(r"Expected `[^`]*` ([<>]=) (\S+) - at .*")
_UNKNOWN: Final = re.compile(r"unknown field `([^`]*)`")
"""What msgspec says of the place of a mistake."""
_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
ArgsT = TypeVar("ArgsT", bound=ArgsWire)


class SchedulerConfigurationError(ReschedulerError, ValueError):
    """The document is not one that kube-scheduler would take, or asks for what is left out here.

    ``path``: the place in the document. Its text is the message and the remedy.
    """

    def __init__(self, message: str, path: Path = (), remedy: str = "see docs/scheduling.md") -> None:
        super().__init__(f"{message} ({remedy})")
        self.message = message
        self.path = path
        self.remedy = remedy


@contextmanager
def _at(*steps: str | int) -> Iterator[None]:
    """What is refused inside stands there."""
    try:
        yield
    except SchedulerConfigurationError as error:
        error.path = (*steps, *error.path)
        raise


def _no_such(
    message: str, error: msgspec.ValidationError, document: object = None
) -> SchedulerConfigurationError:
    """Msgspec's complaint, at the place that it names. A number out of its bounds is shown, if it is in ``document``."""
    told = str(error)
    names = (*_STEP.findall(told.partition("`$")[2]), *(("", key) for key in _UNKNOWN.findall(told)))
    path: Path = tuple(int(index) if index else key for index, key in names)
    if document is not None and (bound := _BOUND.fullmatch(told)) is not None:
        value: Any = document
        for step in path:
            value = value[step]
        use = f"use {bound[2]} or {'more' if bound[1] == '>=' else 'less'}, or leave it out"
        return SchedulerConfigurationError(f"{_dotted(path)} is {value}", path, use)
    return SchedulerConfigurationError(f"{message}: {told}", path)


def _dotted(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def parse_scheduler_configuration(document: object) -> Profile:
    """The profile of a parsed document (mappings, lists and scalars, as YAML or JSON give them): default-scheduler, else the first.

    Raises:
        SchedulerConfigurationError: unknown fields, plugins or values; the message says where.
    """
    try:
        wire = msgspec.convert(document, ConfigurationWire)
    except msgspec.ValidationError as error:
        raise _no_such(f"not a {KIND}", error, document) from error
    if wire.api_version != API_VERSION or wire.kind != KIND:
        found = f"{wire.api_version} {wire.kind}"
        wrong = "kind" if wire.api_version == API_VERSION else "apiVersion"
        raise SchedulerConfigurationError(f"expected {API_VERSION} {KIND}, found {found}", (wrong,))
    for fault in faults(wire):
        raise SchedulerConfigurationError(f"{_dotted(fault.path)} {fault.message}", fault.path, fault.remedy)
    if wire.extenders:
        message = "extenders: scheduler extenders are left out and cannot be judged"
        raise SchedulerConfigurationError(message, ("extenders",), "remove them")
    profiles = wire.profiles or [ProfileWire()]
    with _at("profiles"):
        at, profile = _chosen(profiles)
        with _at(at):
            chosen = _profile(profile)
    names = frozenset(profile.scheduler_name or "default-scheduler" for profile in profiles)
    return replace(chosen, process=names - {chosen.scheduler_name})


def _chosen(profiles: list[ProfileWire]) -> tuple[int, ProfileWire]:
    by_name = {one.scheduler_name or "default-scheduler": (at, one) for at, one in enumerate(profiles)}
    _once([profile.scheduler_name or "default-scheduler" for profile in profiles], "profiles: schedulerName")
    return by_name.get("default-scheduler") or (0, profiles[0])


def _profile(wire: ProfileWire) -> Profile:
    plain = Profile(scheduler_name=wire.scheduler_name or "default-scheduler")
    with _at("plugins"):
        disabled, weights = _plugins(wire.plugins or PluginsWire(), plain)
    profile = replace(plain, disabled=disabled, weights=weights)
    with _at("pluginConfig"):
        _once([config.name for config in wire.plugin_config or ()], "pluginConfig")
        for at, config in enumerate(wire.plugin_config or ()):
            with _at(at):
                profile = _with_args(profile, config)
    return profile


def _once(names: Iterable[str], where: str) -> None:
    """Raises if a name is given twice."""
    seen: set[str] = set()
    for at, name in enumerate(names):
        if name in seen:
            raise SchedulerConfigurationError(f"{where}: {name} is given twice", (at,), "remove one of them")
        seen.add(name)


def _plugins(wire: PluginsWire, plain: Profile) -> tuple[frozenset[str], tuple[tuple[str, int], ...]]:
    everywhere = wire.multi_point or PluginSetWire()
    filters = _switched(_FILTERS, everywhere, wire.filter, "filter")
    pre_filters = _switched(_FILTERS, everywhere, wire.pre_filter, "preFilter")
    if filters != pre_filters:
        odd = ", ".join(sorted(filters ^ pre_filters))
        message = f"plugins: filter and preFilter differ for {odd}"
        raise SchedulerConfigurationError(message, remedy="switch both, or use multiPoint")
    _switched(_SCORES, everywhere, wire.pre_score, "preScore")
    defaults = dict(plain.weights)
    scoring = _switched(frozenset(defaults), everywhere, wire.score, "score")
    chosen = _weights(everywhere) | _weights(wire.score)
    weights = {name: chosen.get(name) or defaults.get(name, 1) for name in [*defaults, *sorted(scoring)]}
    for name, weight in weights.items():
        if not 0 < weight <= _MAX_PLUGIN_WEIGHT:
            message = f"plugins.score: weight {weight} of {name} is not in 1..{_MAX_PLUGIN_WEIGHT}"
            raise SchedulerConfigurationError(message, ("score",))
    return _FILTERS - filters, tuple((name, weight) for name, weight in weights.items() if name in scoring)


def _switched(
    defaults: frozenset[str], everywhere: PluginSetWire, point: PluginSetWire | None, where: str
) -> frozenset[str]:
    active = set(defaults)
    for switches, path in ((everywhere, "multiPoint"), (point or PluginSetWire(), where)):
        for key, plugins in (("disabled", switches.disabled), ("enabled", switches.enabled)):
            for at, plugin in enumerate(plugins or ()):
                if plugin.name != "*" and plugin.name not in KNOWN:
                    message = f"plugins.{path}: {_unknown(plugin.name)}"
                    raise SchedulerConfigurationError(message, (path, key, at))
        off = {plugin.name for plugin in switches.disabled or ()}
        active = set() if "*" in off else active - off
        able = defaults | (_SCORES if where in ("score", "preScore") else _FILTERS)
        with _at(path, "enabled"):
            _once([plugin.name for plugin in switches.enabled or ()], f"plugins.{path}")
        if path != "multiPoint":
            for at, plugin in enumerate(switches.enabled or ()):
                if plugin.name not in able | _SILENT:
                    message = f"plugins.{path}: {plugin.name} has no part in that extension point"
                    raise SchedulerConfigurationError(message, (path, "enabled", at))
        active |= {plugin.name for plugin in switches.enabled or () if plugin.name in able}
    return frozenset(active)


def _unknown(name: str) -> str:
    return f"unknown plugin {name!r}{did_you_mean(name, KNOWN)}"


def _weights(switches: PluginSetWire | None) -> dict[str, int]:
    enabled = (switches.enabled if switches else None) or ()
    return {plugin.name: plugin.weight or 1 for plugin in enabled}


def _with_args(profile: Profile, config: PluginConfigWire) -> Profile:
    match config.name:
        case "NodeResourcesFit":
            return _fit(profile, _args(config, FitArgs))
        case "NodeResourcesBalancedAllocation":
            balanced = _resources(_args(config, BalancedArgs).resources, config.name)
            _once((item.name for item in balanced), f"pluginConfig of {config.name}: resource")
            if any(item.weight != 1 for item in balanced):
                message = f"pluginConfig of {config.name}: the weight of every resource must be 1"
                raise SchedulerConfigurationError(message)
            return replace(profile, balanced_resources=balanced)
        case "NodeAffinity":
            return _added_affinity(profile, _args(config, NodeAffinityArgs))
        case "PodTopologySpread":
            return _default_spread(profile, _args(config, SpreadArgs))
        case "InterPodAffinity":
            return _pod_affinity(profile, _args(config, InterPodAffinityArgs))
        case "VolumeBinding":
            return _volume_binding(profile, _args(config, VolumeBindingArgs))
        case "DefaultPreemption":
            _check_preemption(_args(config, PreemptionArgs))
            return profile
        case name if name in KNOWN:
            return profile
        case name:
            raise SchedulerConfigurationError(f"pluginConfig: {_unknown(name)}", ("name",))


def _volume_binding(profile: Profile, args: VolumeBindingArgs) -> Profile:
    if args.bind_timeout_seconds is not None and args.bind_timeout_seconds < 0:
        message = f"pluginConfig of VolumeBinding: bindTimeoutSeconds is {args.bind_timeout_seconds}"
        raise SchedulerConfigurationError(message, remedy="use 0 or more")
    return replace(profile, volume_shape=_shape(args.shape, "VolumeBinding")) if args.shape else profile


def _check_preemption(args: PreemptionArgs) -> None:
    share, least = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    where = "pluginConfig of DefaultPreemption: minCandidateNodes"
    if share is not None and not 0 <= share <= 100:  # noqa: PLR2004 -- percent
        raise SchedulerConfigurationError(
            f"{where}Percentage is {share}", remedy="use a percentage from 0 to 100"
        )
    if least is not None and least < 0:
        raise SchedulerConfigurationError(f"{where}Absolute is {least}", remedy="use 0 or more")
    if share == 0 and least == 0:
        raise SchedulerConfigurationError(
            f"{where}Percentage and minCandidateNodesAbsolute are both 0", remedy="raise one"
        )


def _args(config: PluginConfigWire, wire: type[ArgsT]) -> ArgsT:
    try:
        args = msgspec.convert(config.args or {}, wire)
    except msgspec.ValidationError as error:
        with _at("args"):
            raise _no_such(f"pluginConfig of {config.name}", error) from error
    if args.kind not in (None, f"{config.name}Args"):
        raise SchedulerConfigurationError(f"pluginConfig of {config.name}: args are of kind {args.kind}")
    return args


def _fit(profile: Profile, args: FitArgs) -> Profile:
    _names(args.ignored_resources, "ignoredResources", slash=True)
    _names(args.ignored_resource_groups, "ignoredResourceGroups", slash=False)
    profile = replace(
        profile,
        ignored_resources=frozenset(args.ignored_resources or ()),
        ignored_resource_groups=frozenset(args.ignored_resource_groups or ()),
    )
    strategy = args.scoring_strategy
    if strategy is None:
        return profile
    try:
        kind = ScoringStrategy(strategy.type or "")
    except ValueError:
        known = ", ".join(ScoringStrategy)
        message = (
            f"pluginConfig of NodeResourcesFit: scoringStrategy.type {strategy.type!r} is not one of {known}"
        )
        raise SchedulerConfigurationError(message) from None
    ratio = strategy.requested_to_capacity_ratio
    if ratio is not None and not _is_ratio(kind):
        message = f"scoringStrategy.requestedToCapacityRatio does not belong to type {kind}"
        raise SchedulerConfigurationError(f"pluginConfig of NodeResourcesFit: {message}")
    shape = _shape(ratio.shape if ratio else None, "NodeResourcesFit") if _is_ratio(kind) else ()
    resources = _resources(strategy.resources, "NodeResourcesFit")
    return replace(profile, fit_strategy=kind, fit_resources=resources, fit_shape=shape)


def _names(names: list[str] | None, field: str, *, slash: bool) -> None:
    for name in names or ():
        error = key_error(name) or ("" if slash or "/" not in name else "a group has no '/'")
        if error:
            raise SchedulerConfigurationError(f"pluginConfig of NodeResourcesFit: {field}: {name!r}: {error}")


def _is_ratio(kind: ScoringStrategy) -> bool:
    return kind is ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO


def _resources(wires: list[ResourceSpecWire] | None, plugin: str) -> tuple[ResourceWeight, ...]:
    if not wires:
        return CPU_AND_MEMORY
    found = tuple(ResourceWeight(wire.name, wire.weight or 1) for wire in wires)
    for name, weight in found:
        if not 0 < weight <= _MAX_WEIGHT:
            message = f"pluginConfig of {plugin}: weight {weight} of resource {name} is not in 1..100"
            raise SchedulerConfigurationError(message)
    return found


def _shape(wires: list[ShapePointWire] | None, plugin: str) -> tuple[ShapePoint, ...]:
    points = tuple(ShapePoint(wire.utilization, wire.score) for wire in wires or ())
    places = [point.utilization for point in points]
    rising = all(a < b for a, b in pairwise(places))
    inside = all(0 <= p.utilization <= 100 and 0 <= p.score <= 10 for p in points)  # noqa: PLR2004 -- API limits
    if not points or not rising or not inside:
        message = "needs points of rising utilization 0..100 with scores 0..10"
        raise SchedulerConfigurationError(f"pluginConfig of {plugin}: shape {message}")
    return points


def _added_affinity(profile: Profile, args: NodeAffinityArgs) -> Profile:
    if args.added_affinity is None:
        return profile
    required = node_selector(args.added_affinity.required_during_scheduling_ignored_during_execution)
    preferred = preferred_node_terms(args.added_affinity.preferred_during_scheduling_ignored_during_execution)
    _complain((*(required.terms if required else ()), *(p.term for p in preferred if p.weight)))
    return replace(profile, added_affinity=required, added_affinity_preferred=preferred)


def _complain(terms: Iterable[Any]) -> None:
    for term in terms:
        if term.invalid:
            raise SchedulerConfigurationError(f"pluginConfig of NodeAffinity: addedAffinity: {term.invalid}")


def _default_spread(profile: Profile, args: SpreadArgs) -> Profile:
    kind = args.defaulting_type or "System"
    constraints = spread_constraints(args.default_constraints)
    if kind == "System":
        if constraints:
            message = "defaultConstraints need defaultingType List"
            raise SchedulerConfigurationError(f"pluginConfig of PodTopologySpread: {message}")
        return replace(profile, default_spread=SYSTEM_DEFAULT_SPREAD, system_default_spread=True)
    if kind != "List":
        message = f"defaultingType {kind!r} is not System or List"
        raise SchedulerConfigurationError(f"pluginConfig of PodTopologySpread: {message}")
    for constraint in constraints:
        if constraint.selector is not None or constraint.max_skew < 1 or key_error(constraint.topology_key):
            message = "default constraints need maxSkew and a topologyKey that labels can have, and no labelSelector"
            raise SchedulerConfigurationError(f"pluginConfig of PodTopologySpread: {message}")
    actions = [wire.when_unsatisfiable for wire in args.default_constraints or ()]
    if any(action not in _ACTIONS for action in actions):
        message = f"whenUnsatisfiable of default constraints is not one of {', '.join(_ACTIONS)}"
        raise SchedulerConfigurationError(f"pluginConfig of PodTopologySpread: {message}")
    _once(
        (f"{one.topology_key} {action}" for one, action in zip(constraints, actions, strict=True)),
        "pluginConfig of PodTopologySpread: defaultConstraints",
    )
    return replace(profile, default_spread=constraints, system_default_spread=False)


def _pod_affinity(profile: Profile, args: InterPodAffinityArgs) -> Profile:
    weight = 1 if args.hard_pod_affinity_weight is None else args.hard_pod_affinity_weight
    if not 0 <= weight <= _MAX_WEIGHT:
        message = f"hardPodAffinityWeight {weight} is not in 0..100"
        raise SchedulerConfigurationError(f"pluginConfig of InterPodAffinity: {message}")
    return replace(
        profile,
        hard_pod_affinity_weight=weight,
        ignore_preferred_terms_of_existing_pods=bool(args.ignore_preferred_terms_of_existing_pods),
    )
