"""Status conditions as Reservation and PodMigration carry them (row K47)."""

from __future__ import annotations

import datetime

import msgspec


class Condition(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One condition. Times are RFC 3339 strings in UTC with seconds."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_probe_time: str = ""
    last_transition_time: str = ""


def with_condition(conditions: tuple[Condition, ...], new: Condition) -> tuple[Condition, ...]:
    """Replace or append ``new``; the transition time of an unchanged status is kept."""
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


def condition(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    """The condition of that type, if there is one."""
    return next((c for c in conditions if c.type == kind), None)


def timestamp(at_s: float) -> str:
    """RFC 3339 in UTC with whole seconds, as conditions carry it."""
    moment = datetime.datetime.fromtimestamp(int(at_s), tz=datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> float:
    """Epoch seconds of an RFC 3339 time; 0.0 for "" and for what cannot be read."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    if moment.tzinfo is None:
        return 0.0
    return moment.timestamp()
