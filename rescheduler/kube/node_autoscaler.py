"""Whether a node autoscaler says that it is at work: cluster-autoscaler by the ConfigMap of its status, Karpenter by NodePools.

Both are seen wherever the program itself runs, also outside of the cluster, as with providers. Absence is normal, and so is that one
may not read them: then the nodes and Deployments of the cluster tell what they can (policy PendingPods).
"""

from __future__ import annotations

from typing import Final

import msgspec

from rescheduler.kube.answers import read_items
from rescheduler.kube.client import KubeApi
from rescheduler.kube.config_maps import read_config_map
from rescheduler.kube.errors import AccessError, NotFoundError, TryLaterError
from rescheduler.model.names import KUBE_SYSTEM
from rescheduler.model.times import parse_timestamp

STATUS: Final = "cluster-autoscaler-status"
LAST_UPDATED: Final = "cluster-autoscaler.kubernetes.io/last-updated"
_NODE_POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
_STALE_S: Final = 600.0
"""cluster-autoscaler writes its status every 10 s by default; the ConfigMap stays when it is uninstalled."""


def node_autoscaler_reports(api: KubeApi, now_s: float) -> bool:
    """True if cluster-autoscaler has written its status within ten minutes, or Karpenter has a NodePool.

    Raises TransportError and ApiError other than 401, 403, 404, 429 and 5xx.
    """
    return _status_is_fresh(api, now_s) or _has_node_pools(api)


def _status_is_fresh(api: KubeApi, now_s: float) -> bool:
    try:
        found = read_config_map(api, KUBE_SYSTEM, STATUS)
    except (TryLaterError, AccessError):
        return False
    return now_s - _written_at_s(found.annotations.get(LAST_UPDATED, "")) <= _STALE_S


def _has_node_pools(api: KubeApi) -> bool:
    try:
        return bool(read_items(api.get(_NODE_POOLS, {"limit": "1"}), msgspec.Raw))
    except (NotFoundError, TryLaterError, AccessError):
        return False


def _written_at_s(text: str) -> float:
    """As Go writes a time: ``2026-09-15 04:05:52.354884346 +0000 UTC``; 0.0 if it is none."""
    parts = text.split()
    if len(parts) < 3:  # noqa: PLR2004 - day, time, zone
        return 0.0
    zone = f"{parts[2][:3]}:{parts[2][3:]}"
    try:
        return parse_timestamp(f"{parts[0]}T{parts[1]}{zone}")
    except ValueError:
        return 0.0
