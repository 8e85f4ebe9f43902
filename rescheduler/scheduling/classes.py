"""Pod classes: interchangeable pods (same namespace, spec, labels, controller) are judged once.

A class also knows on which nodes its pods stand, so that a count asked for later is summed over classes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rescheduler.model.records import OwnerRef, Pod, PodSpec, VolumeKind
from rescheduler.model.selectors import LabelSet
from rescheduler.scheduling.counts import PodGroup, TermCount

_DISKS = frozenset({VolumeKind.GCE, VolumeKind.AWS, VolumeKind.ISCSI, VolumeKind.RBD})
_CLAIMS = frozenset({VolumeKind.CLAIM, VolumeKind.EPHEMERAL})


class ClassKey(NamedTuple):
    """What makes pods interchangeable. ``pod_name``/``pod_uid``: only for pods with claims named after them."""

    namespace: str
    spec: PodSpec
    labels: LabelSet
    controller: OwnerRef | None
    pod_name: str = ""
    pod_uid: str = ""


class PodClass:
    """One class of pods. ``living``/``terminating``: node index -> how many stand there."""

    __slots__ = (
        "attaches",
        "claims",
        "controller",
        "disks",
        "groups",
        "key",
        "labels",
        "living",
        "memo",
        "namespace",
        "plain",
        "spec",
        "terminating",
        "terms",
    )

    def __init__(self, key: ClassKey) -> None:
        self.key = key
        self.namespace = key.namespace
        self.spec = key.spec
        self.labels = key.labels
        self.controller = key.controller
        self.living: dict[int, int] = {}
        self.terminating: dict[int, int] = {}
        self.groups: list[PodGroup] = []
        """Groups that count its pods."""
        self.terms: list[TermCount] = []
        """Terms that its pods carry."""
        self.memo: dict[str, Any] = {}
        """Results of plugins for this class; each plugin checks itself what they depend on."""
        self.claims = any(volume.kind in _CLAIMS for volume in key.spec.volumes)
        self.disks = any(volume.kind in _DISKS for volume in key.spec.volumes)
        self.attaches = self.claims or any(v.driver or v.untranslatable for v in key.spec.volumes)
        self.plain = not (self.attaches or self.disks or key.spec.host_ports)
        """True if its pods hold nothing on a node but resources."""


def class_key(pod: Pod) -> ClassKey:
    """The class of a pod."""
    spec = pod.spec
    if spec.volumes and any(volume.kind is VolumeKind.EPHEMERAL for volume in spec.volumes):
        return ClassKey(pod.namespace, spec, pod.labels, pod.controller, pod.name, pod.uid)
    return ClassKey(pod.namespace, spec, pod.labels, pod.controller)


class Ask(NamedTuple):
    """The question that filters and scores answer: could this pod go there?"""

    pod: Pod
    kind: PodClass


class Nominated(NamedTuple):
    """A nominated pod that is counted on a node in the first of the two passes."""

    pod: Pod
    kind: PodClass
