"""Which nodes the pods of which controllers avoid: ConfigMap ``avoid-nodes``, which admission reads, and our own choices. Pure.

Computed anew in each round from the hints on nodes. As with gate keys (``gate_store``): a key names controller and namespace, so
that it finds pods of that namespace only; all keys stay within ``MOST_BYTES``, because beyond 1 MiB the API server would
refuse those of all; and a namespace with few keys finds room however many others have (``gate_store.fitting``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from rescheduler.calls.call import Call
from rescheduler.calls.nodes import write_avoid_hints
from rescheduler.coordination.gate_store import ShareRequest, fitting
from rescheduler.model import names
from rescheduler.model.controller_key import controller_key
from rescheduler.model.records import AvoidEntry, Node, ObjectKey, OwnerRef
from rescheduler.model.reservation import ControllerRef, Reservation
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.avoid import collected
from rescheduler.reservations.owners import controller_matches

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


def avoided_by(reservation: Reservation, snapshot: Snapshot, node: Node) -> bool:
    """True if the node has a hint that has not ended against a controller that the Reservation is for, or one below it."""
    if not node.avoid:
        return False
    wanted = [
        owner.controller
        for owner in reservation.owners
        if owner.controller is not None and owner.controller != ControllerRef()
    ]
    return any(
        controller_matches(controller, entry.namespace, ref)
        for entry in node.avoid
        if entry.expires_at_s > snapshot.taken_at_s
        for ref in _controllers(entry, snapshot)
        for controller in wanted
    )


def _controllers(entry: AvoidEntry, snapshot: Snapshot) -> Iterator[OwnerRef]:
    workload = snapshot.workloads.get(entry.controller_uid)
    if workload is None or workload.namespace != entry.namespace:
        return
    yield OwnerRef(workload.api_version, workload.kind, workload.name, workload.uid)
    if workload.controller is not None:
        yield workload.controller
