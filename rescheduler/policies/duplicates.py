"""Duplicates: copies of a workload that share a node, as descheduler's RemoveDuplicates sees them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import comb
from typing import ClassVar

from rescheduler.model.records import Pod
from rescheduler.policies.proposals import NODE
from rescheduler.policies.simple import SimplePolicy
from rescheduler.policies.wire import PolicyArgs


class DuplicatesArgs(PolicyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """``excludeOwnerKinds``: kinds of controllers whose pods may share a node."""

    exclude_owner_kinds: tuple[str, ...] = ()


class Duplicates(SimplePolicy[DuplicatesArgs]):
    """Every pair of copies on one node costs one pod, so that a workload ends up spread evenly over what takes it."""

    name: str = "Duplicates"
    reason: ClassVar[str] = "Duplicate"
    message: ClassVar[str] = f"shares node/{NODE} with a copy of itself"

    def group(self, pod: Pod) -> Hashable | None:
        """Copies have one controller and the same images."""
        owner = pod.controller
        if owner is None or owner.kind in self.args.exclude_owner_kinds:
            return None
        return pod.namespace, owner.uid, pod.spec.images

    def cost_together(self, pods: Sequence[Pod]) -> float:
        """Pairs of them."""
        return comb(len(pods), 2)
