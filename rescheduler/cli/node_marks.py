"""What commands write on nodes: a cordon, and on those that a consolidation empties a label, and what tells that they are empty.

The label ``rescheduler.dev/consolidation`` is written in the same request as the cordon, so an interrupted consolidation is
found again. ``cluster-autoscaler`` gets its own taint of nodes that it does not need (of effect PreferNoSchedule, valued with the
time), and the node takes pods again if nothing else has room. ``karpenter``: the Node is deleted; Karpenter's finalizer on it
takes the machine away first. A Node without that finalizer is never deleted.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from tenacity import stop_after_attempt, wait_fixed

from rescheduler.cli.by_name import NODE_RIGHT
from rescheduler.cli.clients import allowed
from rescheduler.kube.answers import read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ConflictError, NotFoundError
from rescheduler.kube.retry import Retry
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.names import DELETION_CANDIDATE, LABEL_CONSOLIDATION
from rescheduler.model.object_meta import ObjectMeta

KARPENTER_FINALIZER: Final = "karpenter.sh/termination"
_RIGHT: Final = (
    "consolidating needs the rights of kubectl drain: to read all nodes and pods, and to patch nodes"
)
_AGAIN: Final = Retry(wait=wait_fixed(0.2), stop=stop_after_attempt(10))


class EmptyingProgress(enum.StrEnum):
    """The value of the label: how far a consolidation has got with a node. Written by the command alone."""

    EMPTYING = "Emptying"
    """The node is cordoned, and its pods are being moved away."""
    EMPTIED = "Emptied"
    """No pod that counts was left."""


class Then(enum.StrEnum):
    """Who takes the empty nodes away."""

    CORDON = "cordon"
    """People, or whoever removes empty nodes: they stay cordoned."""
    CLUSTER_AUTOSCALER = "cluster-autoscaler"
    KARPENTER = "karpenter"


class _Spec(msgspec.Struct):
    taints: list[dict[str, Any]] | None = None


class _Node(msgspec.Struct):
    metadata: ObjectMeta
    spec: _Spec


def cordon(api: KubeApi, name: str, *, on: bool) -> None:
    """Pods are not, or are again, scheduled to the node. Idempotent. Raises CommandError, ApiError, TransportError."""
    with allowed(f"patch node/{name}", NODE_RIGHT):
        api.merge_patch(node_path(name), {"spec": {"unschedulable": True if on else None}})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMarks:
    """Writes the marks. All methods raise CommandError, ApiError and TransportError; each is idempotent.

    ``now_s``: epoch seconds.
    """

    api: KubeApi
    now_s: Callable[[], float]

    def begin(self, name: str) -> None:
        """Cordon the node, and note why."""
        self._patch(
            name,
            {
                "metadata": {"labels": {LABEL_CONSOLIDATION: EmptyingProgress.EMPTYING}},
                "spec": {"unschedulable": True},
            },
        )

    def end(self, name: str, then: Then) -> str:
        """The node is empty: tell who takes it away. What was done, for people."""
        if then is Then.CLUSTER_AUTOSCALER:
            taint = {"key": DELETION_CANDIDATE, "value": str(int(self.now_s())), "effect": "PreferNoSchedule"}
            self._write(name, [taint], {LABEL_CONSOLIDATION: EmptyingProgress.EMPTIED})
            return "emptied, marked for cluster-autoscaler"
        self._patch(name, {"metadata": {"labels": {LABEL_CONSOLIDATION: EmptyingProgress.EMPTIED}}})
        if then is Then.KARPENTER:
            found = self._read(name)
            if found is not None and KARPENTER_FINALIZER in (found.metadata.finalizers or ()):
                with allowed(f"delete node/{name}", "--then karpenter needs the right to delete nodes"):
                    self.api.delete(node_path(name), uid=found.metadata.uid)
                return "emptied, deleted: Karpenter takes it away"
            return "emptied, cordoned: it has no finalizer of Karpenter any more"
        return "emptied, cordoned"

    def give_back(self, name: str) -> bool:
        """Take off everything that ``begin`` and ``end`` have written; False if they have written nothing."""
        found = self._read(name)
        if found is None or LABEL_CONSOLIDATION not in (found.metadata.labels or {}):
            return False
        self._write(name, [], {LABEL_CONSOLIDATION: None})
        return True

    def without_karpenter(self, names: Iterable[str]) -> list[str]:
        """Those of the nodes that Karpenter would not take away."""
        return [
            name
            for name in names
            if (found := self._read(name)) is not None
            and KARPENTER_FINALIZER not in (found.metadata.finalizers or ())
        ]

    def _write(self, name: str, taints: list[dict[str, Any]], labels: dict[str, str | None]) -> None:
        """Uncordon, with these labels and these taints in place of ours."""

        def written() -> bool:
            found = self._read(name)
            if found is None:
                return True
            others = [one for one in found.spec.taints or [] if one.get("key") != DELETION_CANDIDATE]
            patch = {
                "metadata": {"labels": labels, "resourceVersion": found.metadata.resource_version},
                "spec": {"unschedulable": None, "taints": [*others, *taints] or None},
            }
            try:
                self._patch(name, patch)
            except ConflictError:
                return False
            return True

        if not _AGAIN.until_true(written):
            raise ConflictError(409, "Conflict", f"node/{name} is changed all the time; try again")

    def _read(self, name: str) -> _Node | None:
        try:
            return read_answer(self.api.get(node_path(name)), _Node)
        except NotFoundError:
            return None

    def _patch(self, name: str, patch: dict[str, Any]) -> None:
        with allowed(f"patch node/{name}", _RIGHT):
            self.api.merge_patch(node_path(name), patch)


def node_path(name: str) -> str:
    """Of a Node in the API."""
    return RESOURCES[Kind.NODE].object_path("", name)
