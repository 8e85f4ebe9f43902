"""Status conditions of our own objects.

An object has the condition ``Readable`` only once a field of it could not be read. While it is False, no step is taken for the object,
and what it holds stays held; when it has been mended, the condition is True, and it goes on.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rescheduler.model.times import TimestampError, format_seconds, parse_timestamp

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
    """The conditions with what is unreadable ("": nothing); the same value if nothing changes."""
    return with_fault(
        conditions,
        CONDITION_READABLE,
        unreadable,
        reason="FieldsUnreadable",
        mended="Mended",
        now_s=now_s,
    )
