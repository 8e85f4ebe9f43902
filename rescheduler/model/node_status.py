"""What a node says of itself that has fields of its own."""

from __future__ import annotations

import msgspec


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
