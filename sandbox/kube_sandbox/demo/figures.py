"""The problems of the demo's cluster, counted from its objects.

Independent of the policies on purpose: the demo proves their effect with these figures.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from kube_sandbox.controllers.api import Api
from kube_sandbox.controllers.node_fit import node_affinity_allows, tolerates
from kube_sandbox.controllers.unstructured import (
    NODE,
    POD,
    Obj,
    deleting,
    labels,
    meta,
    spec,
    terminal,
)
from kube_sandbox.demo.workloads import RACK
from rescheduler.model.names import ZONE
from rescheduler.model.resources import milli

_MOVED_APPS = frozenset({"web", "api", "reports", "payments", "db", "kafka"})


@dataclass(frozen=True, slots=True)
class DemoFigures:
    """The state of the cluster at one time."""

    load: tuple[tuple[str, int], ...]
    """(node, requested CPU in percent of its allocatable), by name."""
    on_tainted: int
    """Pods on nodes whose taints they do not tolerate."""
    affinity_broken: int
    """Pods on nodes that their node affinity does not match."""
    sharing_a_rack: int
    """Pods of ``kafka`` in one rack, against their anti-affinity."""
    web_skew: int
    """Difference between the zones with the most and the fewest pods of ``web``."""
    pending: int
    """Pods of workloads without a node."""

    @property
    def busiest(self) -> int:
        """Load of the fullest node, in percent."""
        return max((percent for _, percent in self.load), default=0)

    @property
    def violations(self) -> int:
        """Pods on nodes where their own rules do not allow them, and the skew above one."""
        return self.on_tainted + self.affinity_broken + self.sharing_a_rack + max(self.web_skew - 1, 0)


def measure(api: Api) -> DemoFigures:
    """The figures now."""
    nodes = {meta(n)["name"]: n for n in api.list(NODE)}
    pods = [p for p in api.list(POD) if not terminal(p)]
    placed = [(p, nodes[n]) for p in pods if (n := spec(p).get("nodeName")) in nodes]
    own = [(p, n) for p, n in placed if labels(p).get("app") in _MOVED_APPS and not deleting(p)]
    racks = Counter(labels(n).get(RACK) for p, n in own if labels(p).get("app") == "kafka")
    zones = Counter({labels(n).get(ZONE): 0 for n in nodes.values()})
    zones.update(labels(n).get(ZONE) for p, n in own if labels(p).get("app") == "web")
    return DemoFigures(
        load=tuple(sorted((name, _load(node, placed)) for name, node in nodes.items())),
        on_tainted=sum(not _tolerated(p, n) for p, n in own),
        affinity_broken=sum(not node_affinity_allows(spec(p), n) for p, n in own),
        sharing_a_rack=sum(count for count in racks.values() if count > 1),
        web_skew=max(zones.values(), default=0) - min(zones.values(), default=0),
        pending=sum(not spec(p).get("nodeName") and labels(p).get("app") in _MOVED_APPS for p in pods),
    )


def _tolerated(pod: Obj, node: Obj) -> bool:
    return tolerates(spec(pod).get("tolerations") or (), node, ("NoSchedule", "NoExecute"))


def _load(node: Obj, placed: list[tuple[Obj, Obj]]) -> int:
    asked = sum(_cpu(p) for p, n in placed if n is node)
    room = milli((node.get("status") or {}).get("allocatable", {}).get("cpu", "0"))
    return round(100 * asked / room) if room else 0


def _cpu(pod: Obj) -> int:
    containers = spec(pod).get("containers") or ()
    return sum(milli(((c.get("resources") or {}).get("requests") or {}).get("cpu", "0")) for c in containers)
