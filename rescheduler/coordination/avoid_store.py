"""Which nodes the pods of which controllers avoid: the content of ConfigMap ``avoid-nodes``, which admission reads. Pure.

Computed anew in each round from the hints on nodes. As with gate keys (``gate_store``): a key names controller and namespace, so
that it finds pods of that namespace only; all keys stay within ``MOST_BYTES``, because beyond 1 MiB the API server would
refuse those of all; and a namespace with few keys finds room however many others have (``shares``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from rescheduler.calls.call import Call
from rescheduler.calls.nodes import write_avoid_hints
from rescheduler.coordination.shares import ShareRequest, fitting
from rescheduler.model import names
from rescheduler.model.controller_key import controller_key
from rescheduler.model.records import Node, ObjectKey
from rescheduler.planning.avoid import collected

MOST_NODES: Final = 20
"""The most nodes to avoid per controller; with more of them the preference would exclude most of the cluster."""
MOST_BYTES: Final = 512 * 1024
"""Of all keys with their nodes."""


def hints_machine(node: str) -> ObjectKey:
    """The machine that takes outdated hints off a node."""
    return ObjectKey("hints", node)


def avoid_keys(hinted: Iterable[Node], now_s: float) -> dict[str, str]:
    """What ConfigMap ``avoid-nodes`` should contain. ``hinted``: all nodes with hints."""
    hosts: dict[tuple[str, str], set[str]] = defaultdict(set)
    for node in hinted:
        host = node.labels.get(names.HOSTNAME) or node.name
        for entry in node.avoid:
            if entry.expires_at_s > now_s and entry.controller_uid and entry.namespace:
                hosts[entry.namespace, entry.controller_uid].add(host)
    found: dict[str, str] = {}
    requested: dict[str, list[ShareRequest]] = defaultdict(list)
    for (namespace, uid), listed in sorted(hosts.items()):
        key, text = controller_key(namespace, uid), ",".join(sorted(listed)[:MOST_NODES])
        found[key] = text
        requested[namespace].append(ShareRequest(late=False, size=len(key) + len(text), name=key))
    return {key: found[key] for key in sorted(fitting(requested, MOST_BYTES))}


def outdated_hints(hinted: Iterable[Node], controllers: Collection[str], now_s: float) -> Iterator[Call]:
    """For each node with expired entries, or entries of controllers that are gone: its list without them.

    ``controllers``: uids of the controllers that exist.
    """
    for node in hinted:
        alive = [entry.controller_uid for entry in node.avoid if entry.controller_uid in controllers]
        kept = collected(node.avoid, alive, now_s)
        if len(kept) != len(node.avoid):
            yield write_avoid_hints(node, kept)
