"""Decodes the pod templates of workloads and of our own objects, as far as they can be read."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Raw

from rescheduler.model.decode.interning import SharedParts
from rescheduler.model.decode.pods import PodDecoder
from rescheduler.model.decode.wire_types import ABSENT, DAMAGE, Wire
from rescheduler.model.records import PodSpec
from rescheduler.model.selectors import NO_LABELS, LabelSet

NOTHING: Final = (b"", b"null")


class PodTemplateMetaWire(Wire):
    """metadata of a template."""

    namespace: str | None = None
    labels: Raw = ABSENT


class PodTemplateWire(Wire):
    """v1.PodTemplateSpec. The spec is decoded on its own, so that a damaged one loses nothing else."""

    metadata: PodTemplateMetaWire | None = None
    spec: Raw = ABSENT


class PodTemplate(NamedTuple):
    """What is read of a template."""

    spec: PodSpec | None = None
    """None: there is none, or it cannot be decoded: such pods are not moved."""
    labels: LabelSet = NO_LABELS
    namespace: str = ""
    node: str = ""
    """spec.nodeName."""


def pod_template(wire: PodTemplateWire | None, shared: SharedParts, pods: PodDecoder) -> PodTemplate:
    """The record of a template. Raises DAMAGE: the labels cannot be read."""
    if wire is None:
        return PodTemplate()
    meta = wire.metadata or PodTemplateMetaWire()
    labels, namespace = shared.labels(meta.labels), meta.namespace or ""
    if bytes(wire.spec) in NOTHING:
        return PodTemplate(labels=labels, namespace=namespace)
    try:
        spec, node = pods.template_spec(wire.spec, labels)
        return PodTemplate(spec, labels, namespace, node)
    except DAMAGE:
        return PodTemplate(labels=labels, namespace=namespace)
