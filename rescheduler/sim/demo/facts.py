"""What is wrong with the demonstration's cluster, counted straight from its objects.

Independent of the policies on purpose: it is how the demonstration shows that they did their work.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from rescheduler.model.names import ZONE
from rescheduler.model.quantity import milli
from rescheduler.sim.controllers.api import Api
from rescheduler.sim.controllers.nodematch import node_affinity_allows, tolerates
from rescheduler.sim.controllers.wire import NODE, POD, Obj, deleting, labels, meta, spec, terminal
from rescheduler.sim.demo.workloads import RACK

_MOVED_APPS = frozenset({"web", "api", "reports", "payments", "db", "kafka"})


@dataclass(frozen=True, slots=True)
class Facts:
    """The state at one moment.

    ``load``: (node, percent of its CPU that pods ask for), by name. ``on_tainted``, ``affinity_broken``,
    ``sharing_a_rack``: pods. ``web_skew``: difference between the zones with most and fewest ``web`` pods.
    ``pending``: workload pods without a node.
    """

    load: tuple[tuple[str, int], ...]
    on_tainted: int
    affinity_broken: int
    sharing_a_rack: int
    web_skew: int
    pending: int

    @property
    def busiest(self) -> int:
        """Percent of the fullest of the large nodes."""
        return max((percent for _, percent in self.load), default=0)

    @property
    def violations(self) -> int:
        """Pods that stand where their own rules no longer allow it, and skew beyond one."""
        return self.on_tainted + self.affinity_broken + self.sharing_a_rack + max(self.web_skew - 1, 0)


def observe(api: Api) -> Facts:
    """Count now."""
    nodes = {meta(n)["name"]: n for n in api.list(NODE)}
    pods = [p for p in api.list(POD) if not terminal(p)]
    placed = [(p, nodes[n]) for p in pods if (n := spec(p).get("nodeName")) in nodes]
    own = [(p, n) for p, n in placed if labels(p).get("app") in _MOVED_APPS and not deleting(p)]
    racks = Counter(labels(n).get(RACK) for p, n in own if labels(p).get("app") == "kafka")
    zones = Counter({labels(n).get(ZONE): 0 for n in nodes.values()})
    zones.update(labels(n).get(ZONE) for p, n in own if labels(p).get("app") == "web")
    return Facts(
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
