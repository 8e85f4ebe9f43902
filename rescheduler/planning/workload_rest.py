"""The cool-down that the owner of a workload asks for by annotation, besides ``limits.workloadCooldown``. Pure.

It can only be longer than that of the configuration, and holds for planned moves. So that it outlives PodMigrations, the last
move of such a workload is kept in the history for as long, in bounds that no namespace can use up for the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Final

from rescheduler.model.names import ANNOTATION_COOLDOWN
from rescheduler.model.past_moves import PastMove
from rescheduler.model.records import Workload
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import DurationError, parse_duration

MOST_REST_S: Final = 7 * 86_400.0
_MOST_KEPT: Final = 300
_MOST_OF_A_NAMESPACE: Final = 30


def rest_s(workload: Workload | None) -> float | None:
    """Seconds between two moves that the annotation asks for, at most ``MOST_REST_S``; 0.0: nothing; None: it cannot be read."""
    text = workload.annotations.get(ANNOTATION_COOLDOWN) if workload is not None else None
    return 0.0 if text is None else _read(text)


@lru_cache(maxsize=1024)
def _read(text: str) -> float | None:
    try:
        found_s = parse_duration(text.strip())
    except DurationError:
        return None
    return min(found_s, MOST_REST_S) if found_s >= 0.0 else None


def still_resting(moves: Mapping[str, PastMove], kept: Collection[str], snapshot: Snapshot) -> list[str]:
    """Keys of entries besides those ``kept`` that an annotation still needs: the last move of each workload, the newest first."""
    last: dict[str, str] = {}
    for key, move in moves.items():
        before = last.get(move.workload_uid)
        if move.disturbed_s and (before is None or moves[before].disturbed_s < move.disturbed_s):
            last[move.workload_uid] = key
    found: list[str] = []
    of_namespace: Counter[str] = Counter()
    for key in sorted(last.values(), key=lambda key: (-moves[key].disturbed_s, key)):
        move = moves[key]
        workload = snapshot.workloads.get(move.workload_uid)
        ends_s = move.disturbed_s + (rest_s(workload) or 0.0)
        if key in kept or workload is None or ends_s <= snapshot.taken_at_s:
            continue
        of_namespace[workload.namespace] += 1
        if of_namespace[workload.namespace] <= _MOST_OF_A_NAMESPACE and len(found) < _MOST_KEPT:
            found.append(key)
    return found
