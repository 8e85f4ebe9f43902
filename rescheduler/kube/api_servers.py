"""Whether the cluster has a single API server: each kube-apiserver renews a Lease of its own in ``kube-system`` (KEP-1965).

Promises: says True only if there was exactly one Lease within the last half minute; where they cannot be read, or there are
none (feature gate ``APIServerIdentity`` off), there may be several. A server that has ended is counted for up to an hour more.
Must not be relied on alone: several servers with one host name share a Lease.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rescheduler.kube.answers import read_items
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ApiError
from rescheduler.kube.transport import TransportError
from rescheduler.model.names import KUBE_SYSTEM

_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{KUBE_SYSTEM}/leases"
_OF_API_SERVERS: Final = {"labelSelector": "apiserver.kubernetes.io/identity=kube-apiserver", "limit": "2"}
SINGLE_S: Final = 30.0
"""How long a single one is taken to be the only one: a second one may be added."""
SEVERAL_S: Final = 600.0
"""How long several are taken to be several: that costs a second of each move, and nothing else."""


@dataclass(slots=True)
class ApiServers:
    """Counts them, at most once in SINGLE_S. Used by any thread."""

    api: KubeApi
    monotonic_s: Callable[[], float]
    _single: bool = False
    _asked_at_s: float = field(default=-math.inf)

    def single(self) -> bool:
        """True if there is one API server, as far as is known."""
        now_s = self.monotonic_s()
        if now_s >= self._asked_at_s + (SINGLE_S if self._single else SEVERAL_S):
            self._asked_at_s = now_s
            self._single = self._ask()
        return self._single

    def _ask(self) -> bool:
        try:
            return len(read_items(self.api.get(_LEASES, _OF_API_SERVERS), msgspec.Raw)) == 1
        except (ApiError, TransportError):
            return False
