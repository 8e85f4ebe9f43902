"""The selector of default spread constraints: the pod's Services and its owning controller."""

from __future__ import annotations

from rescheduler.model.records import Workload
from rescheduler.model.selectors import LabelSelector, Operator, Requirement
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.cluster import Cluster

_OWNERS = frozenset({("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")})


def default_selector(kind: PodClass, cluster: Cluster) -> LabelSelector:
    """Requirements of all Services that select the pod and of its ReplicaSet, StatefulSet or controller."""
    requirements: dict[Requirement, None] = {}
    for service in cluster.services_in(kind.namespace):
        if service.selector is None:
            continue
        wanted = [Requirement(key, Operator.IN, (value,)) for key, value in service.selector]
        if all(requirement.matches(kind.labels) for requirement in wanted):
            requirements.update(dict.fromkeys(wanted))
    owner = _owner(kind, cluster)
    if owner is not None and owner.selector is not None and not owner.selector.invalid:
        requirements.update(dict.fromkeys(owner.selector.requirements))
    return LabelSelector(tuple(requirements))


def _owner(kind: PodClass, cluster: Cluster) -> Workload | None:
    controller = kind.controller
    if controller is None or (controller.api_version, controller.kind) not in _OWNERS:
        return None
    return cluster.workload(controller.kind, kind.namespace, controller.name)
