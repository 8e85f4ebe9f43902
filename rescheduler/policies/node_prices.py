"""What it costs to keep a node: by labels that the configuration names, by the value of a label, else a default.

Prices are in a unit of the administrator's own (dollars an hour, say), of which only proportions matter. They are counted in
whole millionths (``objective.ONE``), so that sums of them are exact and the objective stays a function of the placement. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
import numpy as np

from rescheduler.model.records import Node
from rescheduler.model.selectors import key_error
from rescheduler.policies.objective import ONE
from rescheduler.policies.wire import ArgumentProblem, NodePoolArgs
from rescheduler.scheduling.framework import IntArray
from rescheduler.scheduling.nodes import NodeTable

MOST: Final = 1_000_000
"""The highest price: so many nodes of that price as a cluster has are far from the largest integer."""

_NUMBER: Final = re.compile(r"([0-9]{1,7})(?:\.([0-9]+))?", re.ASCII)
_DIGITS: Final = 6
_NAMED: Final = 3


_Price = Annotated[float, msgspec.Meta(ge=1 / ONE, le=MOST)]


class NodePriceArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One entry of ``prices``: what each node with these labels costs."""

    node_selector: dict[str, str]
    price: _Price


class PricedNodesArgs(NodePoolArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Arguments of a policy that weighs nodes by their price.

    Of ``prices`` the first entry whose labels a node has counts; then the value of ``price_label``; then ``default_price``.
    """

    prices: tuple[NodePriceArgs, ...] = ()
    price_label: str = ""
    default_price: _Price = 1.0

    def problems(self) -> Iterator[ArgumentProblem]:
        """Value errors."""
        yield from super().problems()
        for i, entry in enumerate(self.prices):
            if not entry.node_selector:
                yield ("prices", i, "nodeSelector"), "is empty: name a label, or use defaultPrice"
        if self.price_label and (error := key_error(self.price_label)):
            yield ("priceLabel",), f"is no key of a label: {error}"

    def unknown_to(self, nodes: NodeTable) -> Iterator[ArgumentProblem]:
        """Prices of labels that no node has, and nodes whose price is a default only because their label says none."""
        yield from super().unknown_to(nodes)
        if not nodes.size:
            return
        for i, entry in enumerate(self.prices):
            if not nodes.labels_mask(tuple(sorted(entry.node_selector.items()))).any():
                yield ("prices", i, "nodeSelector"), "no node has these labels, so it changes nothing"
        if self.price_label:
            yield from self._unpriced(nodes)

    def _unpriced(self, nodes: NodeTable) -> Iterator[ArgumentProblem]:
        takes_part = np.flatnonzero(self.nodes(nodes)).tolist()
        names = sorted(nodes.names[i] for i in takes_part if self._known_price(nodes.records[i]) is None)
        if names:
            some = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
            found = f"{len(names)} of {len(takes_part)} nodes that take part have no such label with a price ({some})"
            yield ("priceLabel",), f"{found}: each costs defaultPrice {self.default_price:g}"

    def prices_of(self, nodes: NodeTable) -> IntArray:
        """Of each node, in millionths, at least 1."""
        if not self.prices and not self.price_label:
            return np.full(nodes.size, _millionths(self.default_price), dtype=np.int64)
        default = _millionths(self.default_price)
        found = (
            (price if (price := self._known_price(node)) is not None else default) for node in nodes.records
        )
        return np.fromiter(found, np.int64, nodes.size)

    def _known_price(self, node: Node) -> int | None:
        for entry in self.prices:
            if all(node.labels.get(key) == value for key, value in entry.node_selector.items()):
                return _millionths(entry.price)
        return price_in(node.labels.get(self.price_label) or "") if self.price_label else None


def price_in(text: str) -> int | None:
    """The price that a label's value gives, in millionths, cut off after six decimals; None if it is none."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    whole, part = found.groups()
    price = int(whole) * ONE + int(((part or "") + "0" * _DIGITS)[:_DIGITS])
    return price if 0 < price <= MOST * ONE else None


def _millionths(price: float) -> int:
    return max(round(price * ONE), 1)
