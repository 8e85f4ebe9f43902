"""Effective requests of an incoming pod, and resources that a pod occupies (component-helpers ``PodRequests``).

Containers and sidecars are summed; ordinary init containers raise the sum to their own peak;
pod-level resources replace it; overhead is added. A pod on a node occupies the maximum of three such
sums: spec, allocated and actual resources. All sums are exact and rounded once, as in kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rescheduler.model.decode.pod_wire_types import ContainerStatusWire, ContainerWire, HeldWire, PodSpecWire
from rescheduler.model.resources import (
    DEFAULT_CPU,
    DEFAULT_MEMORY,
    Nanos,
    Resources,
    add_amounts,
    bounded,
    is_pod_level,
    parse_amounts,
    raise_to,
    resources_of,
)

RequestOf = Callable[[ContainerWire], Nanos]


class Requests(NamedTuple):
    """An effective request, and CPU and memory as scores count them."""

    resources: Resources
    score_cpu_milli: int
    """A container without a CPU request counts 100m."""
    score_memory_bytes: int
    """A container without a memory request counts 200 MiB."""
    fit_score: Resources | None = None
    """What the score of NodeResourcesFit counts for an incoming pod with pod-level resources."""


def incoming_requests(spec: PodSpecWire) -> Requests:
    """The effective request of an incoming pod with this spec."""
    found = _with_score(spec, lambda missing: _total(spec, _aggregate(spec, _spec_request, missing)))
    return found._replace(fit_score=_containers_only(spec)) if _pod_level_requests(spec) else found


def held_resources(spec: PodSpecWire, status: HeldWire) -> Requests:
    """The resources that a pod occupies on its node, also during an in-place resize (KEP-1287)."""
    reported = {c.name: c for c in (*(status.init_containers or ()), *(status.containers or ()))}

    def allocated(container: ContainerWire) -> Nanos:
        return _allocated(container, reported.get(container.name), infeasible=status.infeasible)

    def actuated(container: ContainerWire) -> Nanos:
        found = reported.get(container.name)
        if found is not None and found.resources is not None and found.resources.requests is not None:
            return parse_amounts(found.resources.requests)
        return allocated(container)

    def total(missing: Nanos) -> Nanos:
        if _pod_level_reported(status):
            amounts = parse_amounts(status.resources.requests if status.resources else None)
            raise_to(amounts, parse_amounts(status.allocated))
        else:
            amounts = _aggregate(spec, actuated, missing)
            raise_to(amounts, _aggregate(spec, allocated, missing))
        if not status.infeasible:
            raise_to(amounts, _aggregate(spec, _spec_request, missing))
        return _total(spec, amounts, status)

    return _with_score(spec, total)


def _with_score(spec: PodSpecWire, total: Callable[[Nanos], Nanos]) -> Requests:
    amounts = total({})
    missing = {"cpu": DEFAULT_CPU, "memory": DEFAULT_MEMORY}
    if _pod_level_requests(spec):
        missing = {name: value for name, value in missing.items() if name not in amounts}
    scored = total(missing) if missing else amounts
    found = bounded(resources_of(scored))
    return Requests(bounded(resources_of(amounts)), found.cpu_milli, found.memory_bytes)


def _containers_only(spec: PodSpecWire) -> Resources:
    """Containers with the scores' defaults, and overhead: kube-scheduler ignores pod-level resources here."""
    amounts = _aggregate(spec, _spec_request, {"cpu": DEFAULT_CPU, "memory": DEFAULT_MEMORY})
    add_amounts(amounts, parse_amounts(spec.overhead))
    return bounded(resources_of(amounts))


def _total(spec: PodSpecWire, amounts: Nanos, status: HeldWire | None = None) -> Nanos:
    level = _pod_level_requests(spec)
    if level:
        if status is not None and status.resources is not None:
            level = {} if status.infeasible else level
            raise_to(level, parse_amounts(status.resources.requests))
            raise_to(level, parse_amounts(status.allocated))
        amounts.update({name: value for name, value in level.items() if is_pod_level(name)})
    add_amounts(amounts, parse_amounts(spec.overhead))
    return amounts


def _aggregate(spec: PodSpecWire, request_of: RequestOf, missing: Nanos) -> Nanos:
    """Containers and sidecars, raised to the peak of each init container."""
    total: Nanos = {}
    for container in spec.containers or ():
        add_amounts(total, missing | request_of(container))
    sidecars: Nanos = {}
    peak: Nanos = {}
    for container in spec.init_containers or ():
        request = missing | request_of(container)
        if container.restart_policy == "Always":
            add_amounts(total, request)
            add_amounts(sidecars, request)
            raise_to(peak, sidecars)
        else:
            add_amounts(request, sidecars)
            raise_to(peak, request)
    raise_to(total, peak)
    return total


def _spec_request(container: ContainerWire) -> Nanos:
    """The request of a container. A missing request is the limit, as the API server defaults it."""
    if container.resources is None:
        return {}
    return parse_amounts(container.resources.limits) | parse_amounts(container.resources.requests)


def _allocated(container: ContainerWire, status: ContainerStatusWire | None, *, infeasible: bool) -> Nanos:
    if status is not None and status.allocated_resources is not None:
        return parse_amounts(status.allocated_resources)
    return {} if infeasible else _spec_request(container)


def _pod_level_reported(status: HeldWire) -> bool:
    return (
        status.allocated is not None
        and status.resources is not None
        and status.resources.requests is not None
    )


def _pod_level_requests(spec: PodSpecWire) -> Nanos:
    """Pod-level requests with the API server's defaults; empty if the pod sets no supported resource."""
    if spec.resources is None:
        return {}
    requests = parse_amounts(spec.resources.requests)
    limits = parse_amounts(spec.resources.limits)
    if limits:
        for name, amount in _aggregate(spec, _spec_request, {}).items():
            if name in ("cpu", "memory"):
                requests.setdefault(name, amount)
        for name, amount in limits.items():
            if is_pod_level(name):
                requests.setdefault(name, amount)
    return requests if any(is_pod_level(name) for name in requests) else {}
