"""Whether rules of a pod's own (spread, anti-affinity, taints, ...) keep it from a node, whatever room is there.

Asked of the same scheduling rules that the embedded scheduler binds by, on the truth, when a room was lost:
who reserves room for a pod that may not go there cannot be helped.
"""

from __future__ import annotations

from typing import Final

from rescheduler.model.names import ANNOTATION_HANDOVER_TAINT, GATE
from rescheduler.model.records import ObjectKey
from rescheduler.scheduling.state import SchedulingState
from rescheduler.sim.cluster import EmbeddedCluster
from rescheduler.sim.controllers.api import Change
from rescheduler.sim.controllers.wire import Obj, key, spec, uid
from rescheduler.sim.scheduler.records import ClusterRecords

_ROOM: Final = "NodeResourcesFit"
_VOLUMES: Final = frozenset({"VolumeBinding", "VolumeZone", "VolumeRestrictions"})


class OwnRules:
    """A question to the rules. Slow, so it is asked last."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster

    def __call__(self, pod: Obj, node: str, *, moved: bool) -> bool:
        """True if the pod, unbound again, would be refused there for something else than room.

        ``moved``: by a PodMigration, which knows the volumes; they excuse nothing then.
        """
        aside = {_ROOM, *_VOLUMES} if moved else {_ROOM}
        records = ClusterRecords()
        for obj in self._cluster.api.everything():
            records.apply(Change("ADDED", _unbound(obj) if uid(obj) == uid(pod) else obj))
        snapshot = records.snapshot(self._cluster.clock())
        record = snapshot.pods.get(ObjectKey(*key(pod)))
        if record is None:
            return False
        verdicts = SchedulingState(snapshot).explain(record)
        refusals = [r for v in verdicts if v.node == node for r in v.refusals]
        return any(r.plugin not in aside and ANNOTATION_HANDOVER_TAINT not in r.reason for r in refusals)


def _unbound(pod: Obj) -> Obj:
    wanted = {k: v for k, v in spec(pod).items() if k != "nodeName"}
    wanted["schedulingGates"] = [g for g in spec(pod).get("schedulingGates") or () if g["name"] != GATE]
    return {**pod, "spec": wanted}
