"""What a node says of itself that has fields of its own."""

from __future__ import annotations

from typing import Final

import msgspec

MOVED_ON_REQUEST: Final = "Moved"
"""Reason of the hints of moves that no policy asked for."""


class NodeCondition(msgspec.Struct, frozen=True, gc=False):
    """A condition of a node besides Ready, as node-problem-detector and the kubelet report them."""

    type: str
    status: str
    """True, False or Unknown."""
    since_s: float = 0.0
    """lastTransitionTime; 0.0: not said."""


class Image(msgspec.Struct, frozen=True, gc=False):
    """A container image on a node, with all its names."""

    names: tuple[str, ...]
    size_bytes: int


class AvoidEntry(msgspec.Struct, frozen=True, gc=False):
    """A PreferAvoidPods hint on a node: pods of this controller should avoid the node until the hint expires."""

    controller_kind: str
    controller_name: str
    controller_uid: str
    namespace: str
    reason: str
    expires_at_s: float
