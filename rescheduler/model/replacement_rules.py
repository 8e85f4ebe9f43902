"""What is known about replacements besides the objects of the cluster: kinds of controllers, and dry-run creations.

Part of a Snapshot, so that everything that asks for a replacement (plans, rooms, the look right before an eviction,
``explain``) gets the same answer.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from rescheduler.model.records import PodSpec
from rescheduler.model.selectors import NO_LABELS, LabelSet

GroupKind = tuple[str, str]
"""API group (empty for the core group) and kind."""


class KindThere(NamedTuple):
    """A kind of controllers in one namespace."""

    namespace: str
    group: str
    kind: str


class ReplacementRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which controllers create a new pod for one that is evicted, besides those of Kubernetes itself."""

    jobs: bool = False
    """Pods of Jobs may be moved, where their Job does not count a disruption as a failure."""
    replacing: frozenset[GroupKind] = frozenset()
    """Custom controllers that replace their pods, by configuration."""
    not_replacing: frozenset[GroupKind] = frozenset()
    """Those that do not, by configuration; it goes before everything else."""
    seen: frozenset[KindThere] = frozenset()
    """Kinds whose controller was seen to replace a pod. A kind in neither set is not known: its pods do not move."""
    watched: frozenset[GroupKind] = frozenset()
    """Kinds of Kubernetes' own controllers whose objects are all in the Snapshot: an owner of such a kind that is not
    there is gone. Empty for a dump, which may be incomplete, and where no API server is asked for other kinds."""


DEFAULT_RULES = ReplacementRules()


class AdmittedPod(msgspec.Struct, frozen=True, kw_only=True):
    """What a dry-run creation of a pod from a controller's template gave: the pod as it will be created now."""

    spec: PodSpec | None = None
    """As admission completed it; None: the API server refuses to create it."""
    labels: LabelSet = NO_LABELS
    refusal: str = ""
    """The API server's message if it refuses."""
    asked_at_s: float = 0.0


class TemplateKey(msgspec.Struct, frozen=True, gc=False):
    """Names the template that a dry-run creation was made from."""

    controller_uid: str
    revision: str = ""
    """That of a StatefulSet; empty for other controllers."""
