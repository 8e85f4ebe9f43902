"""What the objects of ``rescheduler.dev`` have in common: identity, template, layout, conditions, and who asked for them. Pure.

The Structs of the four kinds declare each field of the API once: ``decode.wire_form`` reads and writes by these declarations, and a test
compares them with the schemas of the manifests.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Final

import msgspec

from rescheduler.model.names import ANNOTATION_REQUESTED_BY
from rescheduler.model.records import PodSpec
from rescheduler.model.selectors import NO_LABELS, LabelSet
from rescheduler.model.times import TimestampError, format_seconds, parse_timestamp
from rescheduler.visible import visible_line

_POD_NAME_IN_A_NAME: Final = 52
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


OWNERS_WAIT: Final = "OwnersWait"
"""Condition of a Reservation: a pending pod of its owners cannot use it."""


class Condition(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One condition. Times are RFC 3339 strings in UTC with seconds."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_probe_time: str = ""
    last_transition_time: str = ""


def with_condition(conditions: tuple[Condition, ...], new: Condition) -> tuple[Condition, ...]:
    """Replace or append ``new``. If its status is unchanged, the transition time is kept."""
    result: list[Condition] = []
    done = False
    for old in conditions:
        if old.type != new.type:
            result.append(old)
            continue
        kept = old.last_transition_time if old.status == new.status else new.last_transition_time
        result.append(msgspec.structs.replace(new, last_transition_time=kept))
        done = True
    if not done:
        result.append(new)
    return tuple(result)


def told(
    conditions: tuple[Condition, ...], new: Condition, now_s: float, *, again: bool = False
) -> tuple[Condition, ...]:
    """``conditions`` with ``new``; the same value if only the time would differ. ``again``: also then."""
    old = condition(conditions, new.type)
    if not again and old and (old.status, old.reason, old.message) == (new.status, new.reason, new.message):
        return conditions
    moment = format_seconds(now_s)
    return with_condition(
        conditions, msgspec.structs.replace(new, last_probe_time=moment, last_transition_time=moment)
    )


def with_fault(
    conditions: tuple[Condition, ...], kind: str, fault: str, *, reason: str, mended: str, now_s: float
) -> tuple[Condition, ...]:
    """With a condition that objects have only once there was a fault: False with ``reason`` and the fault as message.

    ``fault`` "": there is none, so the condition becomes True, with reason ``mended``. The same value if nothing changes.
    """
    old = condition(conditions, kind)
    if fault:
        new = Condition(kind, "False", reason, fault)
    elif old is not None and old.status != "True":
        new = Condition(kind, "True", mended)
    else:
        return conditions
    return told(conditions, new, now_s)


def condition(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    """The condition of type ``kind``, if there is one."""
    return next((c for c in conditions if c.type == kind), None)


def seconds_of(text: str) -> float:
    """Epoch seconds of a condition's time; 0.0 if it is empty or no RFC 3339 time."""
    try:
        return parse_timestamp(text)
    except TimestampError:
        return 0.0


def who_waits(conditions: tuple[Condition, ...]) -> str:
    """The message of condition OwnersWait while it is True; "": no owner is kept out."""
    found = condition(conditions, OWNERS_WAIT)
    return found.message if found is not None and found.status == "True" else ""


CONDITION_READABLE: Final = "Readable"


def with_readable(conditions: tuple[Condition, ...], unreadable: str, now_s: float) -> tuple[Condition, ...]:
    """The conditions with what is unreadable ("": nothing); the same value if nothing changes.

    An object has the condition only once a field of it could not be read. While it is False, no step is taken for the object, and what it
    holds stays held.
    """
    return with_fault(
        conditions,
        CONDITION_READABLE,
        unreadable,
        reason="FieldsUnreadable",
        mended="Mended",
        now_s=now_s,
    )


def named_after(pod_name: str, key: str, digits: int = 8) -> str:
    """The name of an object about a pod: the same for the same ``key``, such as uid and purpose, and that of no other."""
    digest = hashlib.sha256(key.encode()).hexdigest()[:digits]
    return f"{pod_name[:_POD_NAME_IN_A_NAME].rstrip('-.')}-{digest}"
