"""Whether kube-controller-manager is at work: it creates the replacements, and its leader renews a Lease in ``kube-system``.

Promises: it says that nobody is at work only if the Lease has not been renewed for half a minute by the API server's time, and did
not change between two looks either, so that the clock of another machine stops nothing. Where there is no such Lease, or it may not
be read, nothing is known. One that is older than a day was left by a leader election that was switched off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from rescheduler.kube.answers import read_items
from rescheduler.kube.client import KubeApi
from rescheduler.kube.election import Lease
from rescheduler.kube.errors import ApiError, ForbiddenError
from rescheduler.kube.transport import TransportError
from rescheduler.model.names import KUBE_SYSTEM
from rescheduler.model.times import parse_timestamp

NAME: Final = "kube-controller-manager"
_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{KUBE_SYSTEM}/leases"
_ITS_OWN: Final = {"fieldSelector": f"metadata.name={NAME}"}
AWAY_S: Final = 30.0
"""Twice what a Lease lasts, after which another one leads."""
LEFT_S: Final = 86_400.0
LOOK_S: Final = 5.0
"""How long it is relied on that somebody is at work."""
_LOOK_AGAIN_S: Final = 1.0
_NO_LEASE_S: Final = 600.0


@dataclass(slots=True)
class ControllerManager:
    """Looks when it is asked, now and then. Used by any thread."""

    api: KubeApi
    monotonic_s: Callable[[], float]
    server_s: Callable[[], float]
    """The API server's time."""
    _renewed: str = ""
    _changed_at_s: float = field(default=-math.inf)
    _again_at_s: float = field(default=-math.inf)
    _away: str = ""

    def away(self) -> str:
        """Why no replacement would be created now; "": nothing is known against it."""
        now_s = self.monotonic_s()
        if now_s >= self._again_at_s:
            self._again_at_s = now_s + _LOOK_AGAIN_S  # other threads do not ask meanwhile
            self._look(now_s)
        return self._away

    def _look(self, now_s: float) -> None:
        try:
            leases = read_items(self.api.get(_LEASES, _ITS_OWN), Lease)
        except (ApiError, TransportError) as error:
            self._away = ""
            self._again_at_s = now_s + (_NO_LEASE_S if isinstance(error, ForbiddenError) else LOOK_S)
            return
        renewed = (leases[0].spec.renew_time or "") if leases else ""
        if self._renewed and renewed != self._renewed:
            self._changed_at_s = now_s
        self._renewed, self._away = renewed, ""
        if not renewed:
            self._again_at_s = now_s + _NO_LEASE_S
            return
        age_s = self.server_s() - parse_timestamp(renewed)
        if AWAY_S < age_s < LEFT_S and now_s > self._changed_at_s + AWAY_S:
            self._away = (
                f"no controller would create the replacement: {NAME} has not renewed its Lease in {KUBE_SYSTEM} for {age_s:.0f} s "
                "(delete the Lease if it runs without leader election)"
            )
        else:
            self._again_at_s = now_s + LOOK_S
