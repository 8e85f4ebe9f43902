"""Since when the marks of a node (its taints, its labels) are as they are, for decisions that wait until they have lasted. Pure.

A component that restarts, or a kubelet that reclaims memory, taints its node for seconds; a job that labels nodes may take its labels
off for as long. Kubernetes says of few taints when they were added, so the controller remembers when it saw each first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from rescheduler.model.records import Node, Taint

_REMEMBERED_S: Final = 86_400.0
"""Changes of labels that are older count as old."""


class NodeMarksSince(msgspec.Struct, frozen=True):
    """Of one node. Seconds since the epoch."""

    taints: Mapping[Taint, float] = {}
    """When each was seen first."""
    labels: Mapping[str, float] = {}
    """When the value of a label changed, or it came or went, while somebody watched."""

    def after(self, before: Node | None, now: Node, now_s: float) -> NodeMarksSince:
        """The same after a change of the node; ``before`` None: it is seen for the first time."""
        taints = {taint: self.taints.get(taint, now_s) for taint in now.taints}
        if before is None or before.labels == now.labels:
            return NodeMarksSince(taints, self.labels)
        keys = {key for key, _ in set(before.labels.items()) ^ set(now.labels.items())}
        recent = {key: since_s for key, since_s in self.labels.items() if now_s - since_s < _REMEMBERED_S}
        return NodeMarksSince(taints, {**recent, **dict.fromkeys(keys, now_s)})


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
