"""Says what is wrong with a pod template that has no record: the field, the reason and the remedy. Pure; only asked for a refusal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from rescheduler.model.bounds import MOST_TEMPLATE_BYTES, OVERSIZED_TEMPLATE
from rescheduler.model.decode.custom_resources import decode_template
from rescheduler.model.decode.interning import SharedParts
from rescheduler.model.decode.pod_templates import NOTHING
from rescheduler.model.decode.pods import PodDecoder
from rescheduler.model.decode.wire_types import DAMAGE
from rescheduler.model.resources import QuantityError, parse_amounts
from rescheduler.model.selectors import NO_LABELS

_AMOUNTS: Final = ("requests", "limits", "overhead")
_EMPTY: Final = "is missing (give the containers whose requests are to be held)"


def template_fault(raw: bytes) -> str:
    """Why ``spec.template``, of which there is no record, cannot be read."""
    if raw == OVERSIZED_TEMPLATE:
        return (
            f"spec.template is larger than {MOST_TEMPLATE_BYTES // 1024} KiB (leave out what holds no room: commands, "
            "environment, probes, annotations)"
        )
    if raw in (*NOTHING, b"{}"):
        return f"spec.template {_EMPTY}"
    shared, path, kind = SharedParts(), "spec.template", "podtemplate.template"
    try:
        template = decode_template(raw)
        if template.metadata is not None:
            path, kind = "spec.template.metadata.labels", "podtemplate.template.metadata.labels"
            shared.labels(template.metadata.labels)
        path, kind = "spec.template.spec", "pod.spec"
        if bytes(template.spec) in NOTHING:
            return f"{path} {_EMPTY}"
        PodDecoder(shared).template_spec(template.spec, NO_LABELS)
    except QuantityError as error:
        return _amount_fault(msgspec.json.decode(template.spec), path) or f"{path}: {error}"
    except msgspec.ValidationError as error:
        return field_fault(str(error), path, kind)
    except DAMAGE as error:
        return f"spec.template.{error} (see kubectl explain pod.spec)"
    return "spec.template cannot be read as a pod (see kubectl explain pod.spec)"


def field_fault(error: str, path: str, kind: str) -> str:
    """What msgspec says, as field, reason and remedy. ``path``: of the ``kind`` in the object, "" for the object itself."""
    words, _, at = error.partition(" - at `$")
    field = f"{path}{at.rstrip('`')}".lstrip(".")
    explained = re.sub(r"\[[^]]*\]", "", kind + at.rstrip("`"))
    return f"{field or 'the object'}: {words} (see kubectl explain {explained})"


def _amount_fault(spec: Any, path: str) -> str:
    for where, amounts in _amounts(spec, path):
        for name, amount in amounts.items():
            try:
                parse_amounts({name: amount})
            except QuantityError as error:
                return f"{where}.{error} (write an amount of 0 or more, such as 500m or 2Gi)"
    return ""


def _amounts(value: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    fields = value.items() if isinstance(value, dict) else ()
    for name, inner in fields:
        if name in _AMOUNTS and isinstance(inner, dict):
            yield f"{path}.{name}", inner
        else:
            yield from _amounts(inner, f"{path}.{name}")
    for index, inner in enumerate(value if isinstance(value, list) else ()):
        yield from _amounts(inner, f"{path}[{index}]")
