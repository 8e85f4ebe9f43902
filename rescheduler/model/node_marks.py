"""What is special about a node, since when, and the hint by which admission keeps new pods off it. Pure.

A component that restarts, or a kubelet that reclaims memory, taints its node for seconds; a job that labels nodes may take its labels
off for as long. Kubernetes says of few taints when they were added, so the controller remembers when it saw each first.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from rescheduler.model.names import HOSTNAME
from rescheduler.model.node_status import NodeCondition
from rescheduler.model.records import Node, PreferredNodeTerm, Taint
from rescheduler.model.selectors import Operator

_OF_THE_SYSTEM: Final = "node.kubernetes.io/"
"""Prefix of taints that repeat what the marks say: unschedulable, not-ready, unreachable."""


class NodeMark(enum.StrEnum):
    """What is special about a node."""

    NOT_READY = "NotReady"
    CORDONED = "Cordoned"
    TAINTED = "Tainted"
    KEPT_EMPTY = "KeptEmpty"
    """The controller has emptied it, and keeps new pods away."""
    DELETING = "Deleting"


def marks_of(node: Node) -> tuple[NodeMark, ...]:
    """In the order of the enumeration."""
    if node.usable and not node.taints and node.kept_empty is None:
        return ()
    found = {
        NodeMark.NOT_READY: not node.ready,
        NodeMark.CORDONED: node.unschedulable,
        NodeMark.TAINTED: bool(own_taints(node)),
        NodeMark.KEPT_EMPTY: node.kept_empty is not None,
        NodeMark.DELETING: node.deleting,
    }
    return tuple(mark for mark, there in found.items() if there)


def own_taints(node: Node) -> list[Taint]:
    """Those that people or programs have set."""
    return [taint for taint in node.taints if not taint.key.startswith(_OF_THE_SYSTEM)]


_REMEMBERED_S: Final = 86_400.0
"""Changes of labels that are older count as old."""
MOST_FLAPS: Final = 32
"""So many times at which a node stopped being Ready are remembered."""


class NodeMarksSince(msgspec.Struct, frozen=True):
    """Of one node. Seconds since the epoch."""

    taints: Mapping[Taint, float] = {}
    """When each was seen first."""
    labels: Mapping[str, float] = {}
    """When the value of a label changed, or it came or went, while somebody watched."""
    conditions: Mapping[NodeCondition, float] = {}
    """When each was seen first."""
    lost_ready: tuple[float, ...] = ()
    """The last times at which it stopped being Ready while somebody watched."""

    def after(self, before: Node | None, now: Node, now_s: float) -> NodeMarksSince:
        """The same after a change of the node; ``before`` None: it is seen for the first time."""
        seen = NodeMarksSince(
            taints={taint: self.taints.get(taint, now_s) for taint in now.taints},
            labels=self.labels,
            conditions={condition: self.conditions.get(condition, now_s) for condition in now.conditions},
            lost_ready=self.lost_ready,
        )
        if before is None:
            return seen
        if before.ready and not now.ready:
            seen = msgspec.structs.replace(seen, lost_ready=(*self.lost_ready, now_s)[-MOST_FLAPS:])
        if before.labels == now.labels:
            return seen
        keys = {key for key, _ in set(before.labels.items()) ^ set(now.labels.items())}
        recent = {key: since_s for key, since_s in self.labels.items() if now_s - since_s < _REMEMBERED_S}
        return msgspec.structs.replace(seen, labels={**recent, **dict.fromkeys(keys, now_s)})


NOTHING_SEEN = NodeMarksSince()


def young_labels(seen: NodeMarksSince, now_s: float, least_s: float) -> Iterator[str]:
    """Labels that have not been as they are for ``least_s`` yet. One of which nobody saw a change is none of them."""
    return (key for key, since_s in seen.labels.items() if now_s - since_s < least_s)


def young_taints(node: Node, seen: NodeMarksSince, now_s: float, least_s: float) -> Iterator[Taint]:
    """Taints that have not stood for ``least_s`` yet. One of which nobody knows since when it stands is none of them.

    What the object says counts before what was seen, unless it lies in the future.
    """
    for number, taint in enumerate(node.taints):
        said_s = node.taints_added_s[number] if node.taints_added_s else 0.0
        since_s = said_s if 0.0 < said_s <= now_s else seen.taints.get(taint, said_s)
        if since_s > 0.0 and now_s - since_s < least_s:
            yield taint


def condition_since_s(condition: NodeCondition, seen: NodeMarksSince, now_s: float) -> float:
    """Since when a node has a condition; 0.0: nobody knows. As for taints, the object counts before what was seen."""
    said_s = condition.since_s
    return said_s if 0.0 < said_s <= now_s else seen.conditions.get(condition, 0.0)


FAULT_CONDITIONS: Final = (
    "KernelDeadlock",
    "ReadonlyFilesystem",
    "XfsShutdown",
    "CperHardwareErrorFatal",
    "CorruptDockerOverlay2",
    "FrequentKubeletRestart",
    "FrequentDockerRestart",
    "FrequentContainerdRestart",
    "FrequentUnregisterNetDevice",
    "AcceleratedHardwareReady=False",
    "ContainerRuntimeReady=False",
    "KernelReady=False",
    "NetworkingReady=False",
    "StorageReady=False",
)
"""Conditions that say a node is faulty: those of node-problem-detector, and of the node monitoring agent of EKS."""


def condition_written(text: str) -> tuple[str, str]:
    """Type and status of a condition that is written ``Type`` (status True) or ``Type=Status``."""
    kind, _, status = text.partition("=")
    return kind, status or "True"


_FAULTS: Final = frozenset(map(condition_written, FAULT_CONDITIONS))


def reports_fault(node: Node) -> bool:
    """True if a node has one of the known conditions that say so: it is taken last for rooms and moves."""
    return any((condition.type, condition.status) in _FAULTS for condition in node.conditions)


# The term that admission adds to pods so that kube-scheduler takes other nodes than those that their controller's pods left. It stays in the
# pod for good, while the hint on the node ends: what asks what the owner of a pod wishes leaves it out.

HINT_WEIGHT: Final = 100
"""The highest that Kubernetes has for one term."""
HINT_COPIES: Final = 3
"""How often the term is added: kube-scheduler sums the weights (NodeAffinity), so a hint outweighs two wishes of the owner of
weight 100 (R57)."""


def is_avoid_hint(term: PreferredNodeTerm) -> bool:
    """True for each copy of a term of the form that admission adds: weight 100, ``kubernetes.io/hostname NotIn (...)``, nothing else."""
    if term.weight != HINT_WEIGHT or term.term.fields or len(term.term.expressions) != 1:
        return False
    only = term.term.expressions[0]
    return only.key == HOSTNAME and only.operator is Operator.NOT_IN
