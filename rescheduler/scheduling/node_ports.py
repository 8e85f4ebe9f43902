"""NodePorts: a host port is free if no pod on the node takes it on the same address or on every address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rescheduler.model.records import HostPort
from rescheduler.scheduling.classes import Ask, Nominated
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import BoolArray, Refusal
from rescheduler.scheduling.occupancy import ANY_ADDRESS
from rescheduler.scheduling.plugin import FilterPlugin

REASON = "node(s) didn't have free ports for the requested pod ports"


class NodePorts(FilterPlugin):
    """Judges host ports."""

    name: ClassVar[str] = "NodePorts"

    def mask(self, ask: Ask, cluster: Cluster) -> BoolArray | None:
        """Nodes on which every wanted port is free."""
        wanted = ask.kind.spec.host_ports
        if not wanted:
            return None
        mask = cluster.nodes.all.copy()
        for port in wanted:
            for node, addresses in cluster.occupancy.ports.get(_name(port), {}).items():
                if _taken(port, addresses):
                    mask[node] = False
        return mask

    def refusals(
        self, ask: Ask, cluster: Cluster, node: int, nominated: Sequence[Nominated] = ()
    ) -> tuple[Refusal, ...]:
        """The one reason; it goes away with the pod that holds the port."""
        wanted = ask.kind.spec.host_ports
        others = [port for one in nominated for port in one.kind.spec.host_ports]
        for port in wanted:
            addresses = set(cluster.occupancy.ports.get(_name(port), {}).get(node, ()))
            addresses |= {o.ip or ANY_ADDRESS for o in others if _name(o) == _name(port)}
            if _taken(port, addresses):
                return (Refusal(self.name, REASON),)
        return ()


def _name(port: HostPort) -> tuple[str, int]:
    return port.protocol or "TCP", port.port


def _taken(port: HostPort, addresses: Iterable[str]) -> bool:
    address = port.ip or ANY_ADDRESS
    used = set(addresses)
    if not used:
        return False
    return address in (ANY_ADDRESS, *used) or ANY_ADDRESS in used
