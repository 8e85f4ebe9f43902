"""KubeSchedulerConfiguration v1 as written: the fields that filters and scores depend on."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from rescheduler.model.decode.pod_wire_types import PreferredNodeTermWire, SpreadWire
from rescheduler.model.decode.wire_types import NodeSelectorWire

MAX_INT32: Final = 2**31 - 1
Percentage = Annotated[int, msgspec.Meta(ge=0, le=100)]


class StrictWire(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """An object in which unknown fields are errors."""


class PluginWire(StrictWire):
    """One plugin of a set. Weight 0 or none means the default of 1."""

    name: str
    weight: int | None = None


class PluginSetWire(StrictWire):
    """What is switched on and off at an extension point."""

    enabled: list[PluginWire] | None = None
    disabled: list[PluginWire] | None = None


class PluginsWire(StrictWire):
    """The extension points."""

    pre_enqueue: PluginSetWire | None = None
    queue_sort: PluginSetWire | None = None
    pre_filter: PluginSetWire | None = None
    filter: PluginSetWire | None = None
    post_filter: PluginSetWire | None = None
    pre_score: PluginSetWire | None = None
    score: PluginSetWire | None = None
    reserve: PluginSetWire | None = None
    permit: PluginSetWire | None = None
    pre_bind: PluginSetWire | None = None
    bind: PluginSetWire | None = None
    post_bind: PluginSetWire | None = None
    multi_point: PluginSetWire | None = None


class PluginConfigWire(StrictWire):
    """Arguments of one plugin."""

    name: str
    args: dict[str, Any] | None = None


class ProfileWire(StrictWire):
    """One profile."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Percentage | None = None
    plugins: PluginsWire | None = None
    plugin_config: list[PluginConfigWire] | None = None


class LeaderElectionWire(StrictWire):
    """leaderElection."""

    leader_elect: bool | None = None
    lease_duration: str | None = None
    renew_deadline: str | None = None
    retry_period: str | None = None
    resource_lock: str | None = None
    resource_name: str | None = None
    resource_namespace: str | None = None


class ClientConnectionWire(StrictWire):
    """clientConnection."""

    kubeconfig: str | None = None
    accept_content_types: str | None = None
    content_type: str | None = None
    qps: float | None = None
    burst: Annotated[int, msgspec.Meta(ge=0)] | None = None


class ConfigurationWire(StrictWire):
    """The document."""

    api_version: str
    kind: str
    profiles: list[ProfileWire] | None = None
    extenders: list[Any] | None = None
    parallelism: Annotated[int, msgspec.Meta(ge=1, le=MAX_INT32)] | None = None
    leader_election: LeaderElectionWire | None = None
    client_connection: ClientConnectionWire | None = None
    health_z_bind_address: str | None = msgspec.field(default=None, name="healthzBindAddress")
    metrics_bind_address: str | None = None
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Percentage | None = None
    pod_initial_backoff_seconds: Annotated[int, msgspec.Meta(ge=1)] | None = None
    pod_max_backoff_seconds: int | None = None
    delay_cache_until_active: bool | None = None


class ArgsWire(StrictWire):
    """What arguments of every plugin may carry."""

    api_version: str | None = None
    kind: str | None = None


class ResourceSpecWire(StrictWire):
    """A scored resource."""

    name: str
    weight: int | None = None


class ShapePointWire(StrictWire):
    """A point of a scoring shape."""

    utilization: int
    score: int


class RatioWire(StrictWire):
    """requestedToCapacityRatio."""

    shape: list[ShapePointWire] | None = None


class StrategyWire(StrictWire):
    """scoringStrategy."""

    type: str | None = None
    resources: list[ResourceSpecWire] | None = None
    requested_to_capacity_ratio: RatioWire | None = None


class FitArgs(ArgsWire):
    """NodeResourcesFitArgs."""

    ignored_resources: list[str] | None = None
    ignored_resource_groups: list[str] | None = None
    scoring_strategy: StrategyWire | None = None


class BalancedArgs(ArgsWire):
    """NodeResourcesBalancedAllocationArgs."""

    resources: list[ResourceSpecWire] | None = None


class AddedAffinityWire(StrictWire):
    """v1.NodeAffinity."""

    required_during_scheduling_ignored_during_execution: NodeSelectorWire | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredNodeTermWire] | None = None


class NodeAffinityArgs(ArgsWire):
    """NodeAffinityArgs."""

    added_affinity: AddedAffinityWire | None = None


class SpreadArgs(ArgsWire):
    """PodTopologySpreadArgs."""

    default_constraints: list[SpreadWire] | None = None
    defaulting_type: str | None = None


class InterPodAffinityArgs(ArgsWire):
    """InterPodAffinityArgs."""

    hard_pod_affinity_weight: int | None = None
    ignore_preferred_terms_of_existing_pods: bool | None = None


class VolumeBindingArgs(ArgsWire):
    """VolumeBindingArgs."""

    bind_timeout_seconds: int | None = None
    shape: list[ShapePointWire] | None = None


class PreemptionArgs(ArgsWire):
    """DefaultPreemptionArgs."""

    min_candidate_nodes_percentage: int | None = None
    min_candidate_nodes_absolute: int | None = None
