"""The condition ``Readable`` of Reservations and PodMigrations: whether the controller can read the whole object. Pure.

An object has it only once a field of it could not be read. While it is False, no step is taken for the object, and what
it holds stays held; when it has been mended, the condition is True, and it goes on.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rescheduler.model.conditions import Condition, condition, with_condition
from rescheduler.model.times import format_seconds

CONDITION_READABLE: Final = "Readable"


def with_readable(conditions: tuple[Condition, ...], unreadable: str, now_s: float) -> tuple[Condition, ...]:
    """The conditions with what is unreadable ("": nothing); the same value if nothing changes."""
    old = condition(conditions, CONDITION_READABLE)
    if unreadable:
        new = Condition(CONDITION_READABLE, "False", "FieldsUnreadable", unreadable)
    elif old is not None and old.status != "True":
        new = Condition(CONDITION_READABLE, "True", "Mended")
    else:
        return conditions
    if old is not None and (old.status, old.message) == (new.status, new.message):
        return conditions
    moment = format_seconds(now_s)
    return with_condition(
        conditions, msgspec.structs.replace(new, last_probe_time=moment, last_transition_time=moment)
    )
