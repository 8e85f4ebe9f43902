"""Decodes the objects of ``rescheduler.dev``: identity and template here, all else as the record declares it (``wire_form``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
from msgspec import Raw

from rescheduler.model.bounds import MOST_TEMPLATE_BYTES, OVERSIZED_TEMPLATE
from rescheduler.model.decode.interning import SharedParts
from rescheduler.model.decode.pod_templates import NOTHING, PodTemplate, PodTemplateWire, pod_template
from rescheduler.model.decode.pods import PodDecoder
from rescheduler.model.decode.wire_form import identity, reader, wire_type
from rescheduler.model.decode.wire_types import DAMAGE, MetaWire, ObjectWire
from rescheduler.model.own_objects import OwnObject, TemplatedObject
from rescheduler.model.selectors import NO_LABELS, LabelSet

decode_template = msgspec.json.Decoder(PodTemplateWire).decode


@cache
def own_wire(record: type[OwnObject]) -> Any:
    """The Struct into which an object of one of our kinds is decoded."""
    spec, status = wire_type(record), wire_type(status_type(record))
    return msgspec.defstruct(
        f"{record.__name__}ObjectWire",
        [("spec", spec | None, None), ("status", status | None, None)],
        bases=(ObjectWire,),
        gc=False,
    )


@cache  # msgspec looks at all annotations, for a millisecond, and each Decoder asks for each of our kinds
def status_type(record: type[OwnObject]) -> Any:
    """The Struct of its status."""
    (status,) = (field.type for field in msgspec.structs.fields(record) if field.name == "status")
    return status


def own_reader(
    record: type[OwnObject], shared: SharedParts, pods: PodDecoder
) -> Callable[[Any, MetaWire], Any]:
    """Makes the record of such an object. A template that cannot be decoded is None; ``template_raw`` still contains it."""
    status = status_type(record)
    read, read_status = reader(record), reader(status)
    no_spec, no_status = wire_type(record)(), wire_type(status)()
    known, templated = identity(record, shared), issubclass(record, TemplatedObject)

    def read_object(wire: Any, meta: MetaWire) -> Any:
        more = known(meta)
        if templated and wire.spec is not None:
            more |= _template_fields(wire.spec.template, shared, pods)
        return read(
            wire.spec or no_spec,
            annotations=_annotations(meta),
            finalizers=tuple(meta.finalizers or ()),
            status=read_status(wire.status or no_status),
            **more,
        )

    return read_object


def _annotations(meta: MetaWire) -> LabelSet:
    annotations = {key: value or "" for key, value in (meta.annotations or {}).items()}
    return LabelSet(annotations) if annotations else NO_LABELS


def _template_fields(template: Raw, shared: SharedParts, pods: PodDecoder) -> dict[str, Any]:
    """What is read of spec.template; nothing is kept of one that is too large."""
    if bytes(template) in NOTHING:
        return {}
    raw = msgspec.json.format(bytes(template), indent=-1)
    if len(raw) > MOST_TEMPLATE_BYTES:
        return {"template_raw": OVERSIZED_TEMPLATE}
    try:
        found = pod_template(decode_template(raw), shared, pods)
    except DAMAGE:  # the schema leaves the template's metadata open
        found = PodTemplate()
    return {
        "template": found.spec,
        "template_labels": found.labels,
        "template_namespace": found.namespace,
        "template_node": found.node,
        "template_raw": raw,
    }
