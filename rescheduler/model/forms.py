"""How a declared field is written where its type alone does not say so; ``decode.wire_form`` reads them."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from rescheduler.model.selectors import NodeSelectorTerm

Bytes = Annotated[int, "bytes"]
"""Written as a quantity."""
CompactJson = Annotated[bytes, "compact"]
"""As JSON with sorted keys, without what is empty."""
Amounts = Annotated[dict[str, Any], "amounts"]
"""Quantities as they are written, by resource."""
Texts = Annotated[dict[str, str], "texts"]
Keys = Annotated[tuple[str, ...], "keys"]
"""The keys of a map, sorted."""


TopologyTerm = Annotated[NodeSelectorTerm, "topology"]
"""As a TopologySelectorTerm."""


class Says(NamedTuple):
    """How a choice of two is written: by this word for ``meant``, and by any other for the contrary."""

    word: str
    meant: bool = True
