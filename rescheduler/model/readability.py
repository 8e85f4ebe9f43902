"""The condition ``Readable`` of Reservations and PodMigrations: whether the controller can read the whole object. Pure.

An object has it only once a field of it could not be read. While it is False, no step is taken for the object, and what
it holds stays held; when it has been mended, the condition is True, and it goes on.
"""

from __future__ import annotations

from typing import Final

from rescheduler.model.conditions import Condition, with_fault

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
