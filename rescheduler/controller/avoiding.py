"""PreferAvoidPods hints after they were recorded: passed on to admission, and garbage-collected (R53-R58).

The truth is the bounded list on each node; ConfigMap ``avoid`` is computed from it: controller uid -> host
names, comma-separated, as the hint policy reads them. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from rescheduler.migrations.actions import WriteAvoidHints
from rescheduler.model import names
from rescheduler.model.records import Node
from rescheduler.planning.avoid import collected

MOST_NODES: Final = 20
"""Host names per controller; a longer list would be no preference any more."""


def avoid_keys(hinted: Iterable[Node], now_s: float) -> dict[str, str]:
    """What ConfigMap ``avoid`` should contain. ``hinted``: all nodes with hints."""
    nodes: dict[str, set[str]] = {}
    for node in hinted:
        for entry in node.avoid:
            if entry.expires_at_s > now_s and entry.controller_uid:
                host = node.labels.get(names.HOSTNAME) or node.name
                nodes.setdefault(entry.controller_uid, set()).add(host)
    return {uid: ",".join(sorted(hosts)[:MOST_NODES]) for uid, hosts in sorted(nodes.items())}


def outdated(hinted: Iterable[Node], controllers: Collection[str], now_s: float) -> Iterator[WriteAvoidHints]:
    """For each node whose list holds ended entries, or entries of controllers that are gone: the list without.

    ``controllers``: uids of those that are there.
    """
    for node in hinted:
        alive = [entry.controller_uid for entry in node.avoid if entry.controller_uid in controllers]
        kept = collected(node.avoid, alive, now_s)
        if len(kept) != len(node.avoid):
            yield WriteAvoidHints(node.name, node.resource_version, kept)
