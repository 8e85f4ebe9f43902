"""The nodes that somebody names, and cordoning them, as kubectl does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.cli.installed import allowed
from rescheduler.cli.listing import listed
from rescheduler.kube.client import KubeApi
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.records import Node
from rescheduler.suggestions import did_you_mean

_RIGHT: Final = "draining needs the rights of kubectl drain: to read all nodes and pods, and to patch nodes"


def find_nodes(api: KubeApi, words: Sequence[str], selector: str = "") -> list[Node]:
    """Nodes by name (NAME or node/NAME), in that order, or by labels.

    Raises:
        CommandError: one does not exist, or nodes may not be read.
        ApiError, TransportError: the API server refuses the query, or does not answer.
    """
    names = list(dict.fromkeys(word.removeprefix("nodes/").removeprefix("node/") for word in words))
    query = {"labelSelector": selector} if selector else {}
    with allowed("list nodes", _RIGHT):
        found = {node.name: node for node in listed(api, Decoder(), Kind.NODE, Node, query=query)}
    if not names:
        return [found[name] for name in sorted(found)]
    missing = [name for name in names if name not in found]
    if missing:
        raise CommandError(
            f"there is no node {', '.join(missing)}{did_you_mean(missing[0], found)}", EXIT_USAGE
        )
    return [found[name] for name in names]


def cordon(api: KubeApi, name: str, *, on: bool) -> None:
    """Pods are not, or are again, scheduled to the node. Idempotent. Raises CommandError, ApiError, TransportError."""
    with allowed(f"patch node {name}", _RIGHT):
        api.merge_patch(
            RESOURCES[Kind.NODE].object_path("", name), {"spec": {"unschedulable": True if on else None}}
        )
