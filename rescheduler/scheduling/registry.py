"""All plugins, in the order in which kube-scheduler 1.37 runs them. A new plugin is one file and one line."""

from __future__ import annotations

from rescheduler.scheduling.dynamic_resources import DynamicResources
from rescheduler.scheduling.image_locality import ImageLocality
from rescheduler.scheduling.inter_pod_affinity import InterPodAffinity
from rescheduler.scheduling.node_affinity import NodeAffinity
from rescheduler.scheduling.node_declared_features import NodeDeclaredFeatures
from rescheduler.scheduling.node_ports import NodePorts
from rescheduler.scheduling.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from rescheduler.scheduling.node_resources_fit import NodeResourcesFit
from rescheduler.scheduling.node_unschedulable import NodeUnschedulable
from rescheduler.scheduling.node_volume_limits import NodeVolumeLimits
from rescheduler.scheduling.plugin import FilterPlugin, ScorePlugin
from rescheduler.scheduling.pod_topology_spread import PodTopologySpread
from rescheduler.scheduling.pre_score import PreScore
from rescheduler.scheduling.scheduling_gates import SchedulingGates
from rescheduler.scheduling.taint_toleration import TaintToleration
from rescheduler.scheduling.volume_binding import VolumeBinding
from rescheduler.scheduling.volume_restrictions import VolumeRestrictions
from rescheduler.scheduling.volume_zone import VolumeZone

FILTERS: tuple[FilterPlugin, ...] = (
    SchedulingGates(),
    NodeUnschedulable(),
    TaintToleration(),
    NodeAffinity(),
    NodePorts(),
    NodeResourcesFit(),
    VolumeRestrictions(),
    NodeVolumeLimits(),
    VolumeBinding(),
    VolumeZone(),
    PodTopologySpread(),
    InterPodAffinity(),
    DynamicResources(),
    NodeDeclaredFeatures(),
    PreScore(),
)

SCORES: tuple[ScorePlugin, ...] = (
    TaintToleration(),
    NodeAffinity(),
    NodeResourcesFit(),
    PodTopologySpread(),
    InterPodAffinity(),
    NodeResourcesBalancedAllocation(),
    ImageLocality(),
    VolumeBinding(),
    DynamicResources(),
)
