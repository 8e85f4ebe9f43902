"""What is known about replacements besides the objects of the cluster: kinds of controllers, and dry-run creations.

Part of a Snapshot, so that everything that asks for a replacement (plans, rooms, the look right before an eviction,
``explain``) gets the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, NamedTuple

import msgspec

from rescheduler.model.records import PodSpec
from rescheduler.model.selectors import NO_LABELS, LabelSet
from rescheduler.model.written import DocumentSection, Mistake, MistakenError, NoKey, WrittenAs

GroupKind = tuple[str, str]
"""API group (empty for the core group) and kind."""


_KUBERNETES: Final[dict[GroupKind, str]] = {
    ("batch", "Job"): "set replacements.jobs: true",
    ("apps", "DaemonSet"): "remove it: its pods belong to their nodes and are never moved",
    ("apps", "ReplicaSet"): "remove it: its rules are known",
    ("apps", "StatefulSet"): "remove it: its rules are known",
    ("", "ReplicationController"): "remove it: its rules are known",
    ("", "Node"): "remove it: static pods are never moved",
}


class KindThere(NamedTuple):
    """A kind of controllers in one namespace."""

    namespace: str
    group: str
    kind: str


class _WrittenKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    api_group: str
    kind: str


def _kinds(written: list[_WrittenKind]) -> tuple[GroupKind, ...]:
    mistakes: list[Mistake] = []
    for index, found in enumerate(written):
        group, slash, _ = found.api_group.partition("/")
        if slash:
            remedy = f"leave the version out: {group}"
            mistakes.append(((index, "apiGroup"), f"is {found.api_group!r}", remedy))
        if not found.kind:
            remedy = "write the kind as in an ownerReference, such as CloneSet"
            mistakes.append(((index, "kind"), "is empty", remedy))
    if mistakes:
        raise MistakenError(mistakes)
    return tuple((found.api_group, found.kind) for found in written)


_Kinds = Annotated[tuple[GroupKind, ...], WrittenAs(list[_WrittenKind], _kinds)]


class ReplacementRules(DocumentSection, frozen=True, kw_only=True):
    """Section ``replacements``: which controllers create a new pod for one that is evicted, besides those of Kubernetes."""

    jobs: bool = False
    """Pods of Jobs may be moved, where their Job does not count a disruption as a failure."""
    replacing: _Kinds = msgspec.field(default=(), name="controllers")
    """Custom controllers that replace their pods."""
    not_replacing: _Kinds = ()
    """Those that do not; it goes before everything else."""
    seen: NoKey[frozenset[KindThere]] = frozenset()
    """Kinds whose controller was seen to replace a pod. A kind in neither set is not known: its pods do not move."""
    watched: NoKey[frozenset[GroupKind]] = frozenset()
    """Kinds of Kubernetes' own controllers whose objects are all in the Snapshot: an owner of such a kind that is not
    there is gone. Empty for a dump, which may be incomplete, and where no API server is asked for other kinds."""

    def mistakes(self) -> Iterator[Mistake]:
        """Kinds whose rules are known, and kinds of which both is said."""
        for index, key in enumerate(self.replacing):
            path, kind = ("controllers", index), key[1]
            if key in _KUBERNETES:
                yield path, f"{kind} is a controller of Kubernetes", _KUBERNETES[key]
            if key in self.not_replacing:
                yield path, f"{kind} is also in notReplacing", "keep one of the two"


DEFAULT_RULES = ReplacementRules()


class AdmittedPod(msgspec.Struct, frozen=True, kw_only=True):
    """What a dry-run creation of a pod from a controller's template gave: the pod as it will be created now."""

    spec: PodSpec | None = None
    """As admission completed it; None: the API server refuses to create it."""
    labels: LabelSet = NO_LABELS
    ungated: bool = False
    """It came without the gate of this program: no key held it, or another policy or webhook takes the gate off."""
    refusal: str = ""
    """The API server's message if it refuses."""
    asked_at_s: float = 0.0


class TemplateKey(msgspec.Struct, frozen=True, gc=False):
    """Names the template that a dry-run creation was made from."""

    controller_uid: str
    revision: str = ""
    """That of a StatefulSet; empty for other controllers."""
