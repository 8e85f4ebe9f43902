"""Whether a pod's own rules (spread, anti-affinity, taints, ...) keep it from a node, however much room is there.

Checked when a room was lost, with the rules of the sandbox's scheduler and the objects of the API server: a user may
reserve room on a node that the pod cannot go to, and the program cannot prevent that.
"""

from __future__ import annotations

from typing import Final

from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.unstructured import Obj, key, spec, uid
from kube_sandbox.sandbox import Sandbox
from kube_sandbox.scheduler.cache import SchedulerCache
from rescheduler.model.names import ANNOTATION_HANDOVER_TAINT, GATE
from rescheduler.model.records import ObjectKey
from rescheduler.scheduling.state import SchedulingState

_ROOM: Final = "NodeResourcesFit"
_VOLUMES: Final = frozenset({"VolumeBinding", "VolumeZone", "VolumeRestrictions"})


class OwnRules:
    """Implements ``rooms.Refuses``. Slow, so it is called last."""

    def __init__(self, cluster: Sandbox) -> None:
        self._cluster = cluster

    def __call__(self, pod: Obj, node: str, *, moved: bool) -> bool:
        """True if the pod, were it unbound, would be refused there by a filter other than room.

        ``moved``: by a PodMigration, which must check the volumes itself, so that they are no excuse.
        """
        aside = {_ROOM, *_VOLUMES} if moved else {_ROOM}
        records = SchedulerCache()
        for obj in self._cluster.api.everything():
            records.apply(ObjectChange("ADDED", _unbound(obj) if uid(obj) == uid(pod) else obj))
        snapshot = records.snapshot(self._cluster.clock())
        record = snapshot.pods.get(ObjectKey(*key(pod)))
        if record is None:
            return False
        verdicts = SchedulingState(snapshot).explain(record)
        refusals = [r for v in verdicts if v.node == node for r in v.refusals]
        return any(r.plugin not in aside for r in refusals)


def as_released(pod: Obj) -> Obj:
    """As kube-scheduler sees it once it is let to its room: without our gate, and tolerating the hand-over taint."""
    gates = [g for g in spec(pod).get("schedulingGates") or () if g["name"] != GATE]
    ours = {"key": ANNOTATION_HANDOVER_TAINT, "operator": "Exists"}
    tolerations = [*(spec(pod).get("tolerations") or ()), ours]
    return {**pod, "spec": {**spec(pod), "schedulingGates": gates, "tolerations": tolerations}}


def _unbound(pod: Obj) -> Obj:
    return as_released({**pod, "spec": {k: v for k, v in spec(pod).items() if k != "nodeName"}})
