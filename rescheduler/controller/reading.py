"""Reads a whole live cluster once, for commands that do not follow it.

It uses the same decoder and ClusterState as the informers, so both ways give the same Snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from rescheduler.controller.seen_replacements import WATCHED
from rescheduler.kube.client import KubeApi
from rescheduler.kube.config_maps import read_config_map
from rescheduler.kube.discovery import proves_absent
from rescheduler.kube.errors import ForbiddenError, NotServedError
from rescheduler.kube.gc_pause import PROCESS_PAUSE
from rescheduler.kube.list_page import read_page
from rescheduler.kube.metrics_api import measured_usage
from rescheduler.kube.node_autoscaler import node_autoscaler_reports
from rescheduler.model.cluster import ClusterState
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.names import DEFAULT_NAMESPACE, HISTORY_CONFIG_MAP
from rescheduler.model.past_moves import decode_past_moves
from rescheduler.model.replacement_rules import ReplacementRules
from rescheduler.model.usage import PodUsage

Advance = Callable[[int, int, str], None]
"""(done, total, what is being read)."""

_ESSENTIAL = frozenset({Kind.NODE, Kind.POD})


class ReadCluster(NamedTuple):
    """What was read."""

    state: ClusterState
    warnings: tuple[str, ...]
    forbidden: frozenset[Kind]
    """Kinds that may not be read, and are taken as none."""


def read_cluster(
    api: KubeApi,
    decoder: Decoder,
    advance: Advance,
    *,
    now_s: float,
    namespace: str = DEFAULT_NAMESPACE,
    pod_usage: bool = False,
) -> ReadCluster:
    """Everything that a Snapshot is made of, and warnings about what could not be read.

    ``namespace``: the controller's. ``pod_usage``: measured usage of pods too, which is much on a large cluster.

    Kinds that the cluster does not serve are empty. Kinds that may not be read are one warning together, except for
    nodes and pods, without which there is nothing to decide.

    Raises:
        ApiError, TransportError: the server refused nodes or pods, or does not answer.
    """
    state = ClusterState()
    warnings: list[str] = []
    forbidden: dict[Kind, str] = {}
    with PROCESS_PAUSE.during():
        for index, kind in enumerate(RESOURCES):
            advance(index, len(RESOURCES), RESOURCES[kind].plural)
            try:
                warnings += _read_kind(api, decoder, state, kind)
            except ForbiddenError as error:
                if kind in _ESSENTIAL:
                    raise
                forbidden[kind] = error.message
        usage = measured_usage(api, pods=pod_usage)
        state.set_usage(usage.nodes, PodUsage.of_readings(usage.pods) if usage.pods.size else None)
        state.set_node_autoscaler(reports=node_autoscaler_reports(api, now_s))
        warnings += _read_history(api, state, namespace)
    return ReadCluster(state, (*_unread(forbidden), *warnings), frozenset(forbidden))


def read_rules(found: ReadCluster, configured: ReplacementRules) -> ReplacementRules:
    """Which controllers replace their pods: by configuration; one look at a cluster sees none replace a pod."""
    watched = frozenset(key for key in WATCHED if Kind(key[1]) not in found.forbidden)
    return msgspec.structs.replace(configured, watched=watched)


def _unread(forbidden: Mapping[Kind, str]) -> Iterator[str]:
    """One sentence about all kinds that may not be read, with what the API server said of the first."""
    if forbidden:
        names = (
            ".".join(filter(None, (RESOURCES[kind].plural, RESOURCES[kind].group))) for kind in forbidden
        )
        yield (
            f"these may not be read and are taken as none: {', '.join(names)}; ClusterRole rescheduler-read gives the "
            f"right ({next(iter(forbidden.values()))})"
        )


def _read_history(api: KubeApi, state: ClusterState, namespace: str) -> list[str]:
    try:
        data = read_config_map(api, namespace, HISTORY_CONFIG_MAP).data
    except ForbiddenError as error:
        known = "limits per hour, cool-down and back-off are taken from PodMigrations alone"
        return [f"ConfigMap {HISTORY_CONFIG_MAP} may not be read, {known}: {error.message}"]
    state.set_past_moves(decode_past_moves(data, math.inf)[0])
    return []


def _read_kind(api: KubeApi, decoder: Decoder, state: ClusterState, kind: Kind) -> list[str]:
    warnings: list[str] = []
    try:
        for body in api.list(RESOURCES[kind].collection_path):
            page = read_page(body, decoder, kind)
            state.add(kind, page.records)
            warnings += [f"{kind} {bad.name} cannot be read in full: {bad.error}" for bad in page.bad]
    except NotServedError:
        if not (RESOURCES[kind].optional and proves_absent(api, RESOURCES[kind])):
            raise
    return warnings
