"""What the objects of ``rescheduler.dev`` have in common: identity, template, layout, and who asked for them. Pure.

 The Structs of the four kinds declare each field of the API once: ``wire_form`` reads and writes by these
declarations, and a test compares them with the schemas of the manifests.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from rescheduler.model.names import ANNOTATION_REQUESTED_BY
from rescheduler.model.records import PodSpec
from rescheduler.model.selectors import NO_LABELS, LabelSet
from rescheduler.visible import visible_line

LAYOUT: Final = 1
"""The number of the layout in which this version stores its objects (``status.layout``). Absent: written by 0.1.0 or before. An
absent mark means what the version meant that did not write it. The number rises only where an older version would do harm
with what a newer one has stored; fields that an older one may ignore do not raise it (docs/upgrading.md)."""
LAYOUT_FIELD: Final = "status.layout"
Layout = Annotated[int, "layout"]


def check_layout(stored: int) -> int:
    """This version's layout; ValueError for one that it does not know: then no step is taken for the object."""
    if stored > LAYOUT:
        raise ValueError(
            f"{stored} is of a newer version of rescheduler, and this one knows {LAYOUT}: it is left alone; go on with the newer version"
        )
    return LAYOUT


class OwnObject(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Identity of an object as read from the API server, and what cannot be read of it. All other fields are of its spec and status."""

    name: str
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    created_at_s: float = 0.0
    deleting: bool = False
    labels: LabelSet = NO_LABELS
    annotations: LabelSet = NO_LABELS
    finalizers: tuple[str, ...] = ()

    unreadable: str = ""
    """Fields that cannot be read, and why; "": none. Such an object holds what it holds, and no step is taken for it."""
    status_unreadable: bool = False
    """Its status is among them: nothing may be written there."""


class TemplatedObject(OwnObject, frozen=True, kw_only=True):
    """An object whose ``spec.template`` is a PodTemplateSpec. The schema leaves most of it open, so it is read as far as possible."""

    template: PodSpec | None = None
    """What scheduling reads of the template's spec. None: there is none, or it cannot be decoded."""
    template_labels: LabelSet = NO_LABELS
    template_namespace: str = ""
    template_node: str = ""
    """spec.nodeName of the template: for this node only."""
    template_raw: bytes = b"{}"
    """The PodTemplateSpec as JSON without white space."""


UNKNOWN: Final = "a request"
LONGEST_USER: Final = 256
"""Characters of the name; ``manifests/base/requested-by.yaml`` notes no more."""


def asked_by(annotations: LabelSet) -> str:
    """``user NAME``, as admission noted it when the object was created; ``a request`` where nobody is noted.

    That is so on older objects and before Kubernetes 1.36. The name is somebody else's text: cut, on one line, without characters that are not seen.
    """
    name = visible_line((annotations.get(ANNOTATION_REQUESTED_BY) or "")[:LONGEST_USER]).strip()
    return f"user {name}" if name else UNKNOWN
