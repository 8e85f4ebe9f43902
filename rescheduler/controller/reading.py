"""One reading of a whole live cluster, for commands that look once and for ``run --once``.

The same decoder and the same ClusterState as the informers use, so both ways give the same Snapshot.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ForbiddenError, NotFoundError
from rescheduler.kube.metrics_api import node_usage
from rescheduler.model.cluster import ClusterState
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import RESOURCES, Kind

Advance = Callable[[int, int, str], None]
"""(done, total, what is being read)."""

_ESSENTIAL = frozenset({Kind.NODE, Kind.POD})


def read_cluster(api: KubeApi, decoder: Decoder, advance: Advance) -> tuple[ClusterState, tuple[str, ...]]:
    """Everything that a Snapshot is made of, and warnings about what could not be read.

    Kinds that the cluster does not serve are empty. A kind that may not be read is a warning, except for
    nodes and pods, without which there is nothing to decide.

    Raises:
        ApiError, TransportError: the server refused nodes or pods, or does not answer.
    """
    state = ClusterState()
    warnings: list[str] = []
    collecting = gc.isenabled()
    gc.disable()  # a list allocates only what stays; scanning it again and again is most of its cost
    try:
        for index, kind in enumerate(RESOURCES):
            advance(index, len(RESOURCES), RESOURCES[kind].plural)
            warnings += _read_kind(api, decoder, state, kind)
        state.set_usage(node_usage(api))
    finally:
        if collecting:
            gc.enable()
    return state, tuple(warnings)


def _read_kind(api: KubeApi, decoder: Decoder, state: ClusterState, kind: Kind) -> list[str]:
    warnings: list[str] = []
    try:
        for body in api.list(RESOURCES[kind].collection_path):
            page = decoder.page(kind, body)
            for record in page.records:
                state.apply(kind, record)
            warnings += [f"{kind} {bad.name} is damaged and left out: {bad.error}" for bad in page.bad]
    except NotFoundError:
        return warnings
    except ForbiddenError as error:
        if kind in _ESSENTIAL:
            raise
        warnings.append(f"{RESOURCES[kind].plural} may not be read and are taken as none: {error.message}")
    return warnings
