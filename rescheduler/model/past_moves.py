"""What ConfigMap ``move-history`` keeps of a move after its PodMigration is deleted: records and their text.

One entry for each PodMigration, its uid as the key; the value is one line such as

    begun=2026-11-01T08:00:00Z by=request namespace=shop pod=UID workload=UID evicting=2026-11-01T08:00:04Z ended=2026-11-01T08:00:09Z result=failed

One whose target did not take its placeholder has ``refused=`` and a digest of that node's name.

Decoding is total: a value that people wrote wrongly is None, and a time in the far future counts as now. Times are whole
seconds, rounded up, so that no limit ends earlier because of the text.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from rescheduler.model.times import format_seconds, parse_timestamp

CLOCK_TOLERANCE_S: Final = 300.0
"""A stored time may be so far ahead, because the clocks of two leaders differ."""
_LONGEST_TEXT: Final = 400
_UID: Final = re.compile(r"[-._a-zA-Z0-9]{1,63}")
_BY_POLICY: Final = "policy"
_BY_REQUEST: Final = "request"
_FAILED: Final = "failed"
_KEYS: Final = frozenset(
    {"begun", "by", "namespace", "pod", "workload", "evicting", "ended", "result", "refused"}
)
_DIGEST_BYTES: Final = 6
_DIGEST: Final = re.compile(rf"[0-9a-f]{{{2 * _DIGEST_BYTES}}}")


class PastMove(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One move. Times: epoch seconds, whole; 0.0: not."""

    begun_s: float = 0.0
    """0.0 also for a planned move that failed before it began: only its failure counts."""
    requested: bool = False
    """Asked for by people, not planned by the controller."""
    namespace: str = ""
    """Of the pod; "" in entries of earlier versions."""
    pod_uid: str = ""
    workload_uid: str = ""
    """Of the topmost controller of the pod."""
    evicting_s: float = 0.0
    """When the eviction was intended, or the move began, which may evict until it ends; 0.0: it ended without."""
    ended_s: float = 0.0
    failed: bool = False
    refused_by: str = ""
    """``node_digest`` of the target that did not take its placeholder. Such a move has failed and evicted nothing."""

    @property
    def disturbed_s(self) -> float:
        """When the move disturbed its workload last; 0.0: it evicted nothing."""
        return max(self.evicting_s, self.ended_s) if self.evicting_s else 0.0

    @property
    def failed_s(self) -> float:
        """When it failed; 0.0: it did not."""
        return self.ended_s if self.failed else 0.0


def node_digest(name: str) -> str:
    """What stands for the name of a node, which may be longer than an entry may be."""
    return hashlib.blake2b(name.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def whole_s(seconds: float) -> float:
    """Rounded up to whole seconds."""
    return float(math.ceil(seconds))


def is_key(text: str) -> bool:
    """True for a uid that can be the key of an entry."""
    return _UID.fullmatch(text) is not None


@functools.lru_cache(maxsize=4096)
def encode_past_move(move: PastMove) -> str:
    """The value of an entry. A uid that is no uid is left out."""
    parts = [
        ("begun", _time(move.begun_s)),
        ("by", _BY_REQUEST if move.requested else _BY_POLICY),
        ("namespace", move.namespace if is_key(move.namespace) else ""),
        ("pod", move.pod_uid if is_key(move.pod_uid) else ""),
        ("workload", move.workload_uid if is_key(move.workload_uid) else ""),
        ("evicting", _time(move.evicting_s)),
        ("ended", _time(move.ended_s)),
        ("result", _FAILED if move.failed else ""),
        ("refused", move.refused_by if move.failed and not move.evicting_s else ""),
    ]
    return " ".join(f"{key}={value}" for key, value in parts if value)


def decode_past_move(text: str, now_s: float) -> PastMove | None:
    """The record of a value; None if it is not of the form that ``encode_past_move`` writes."""
    if len(text) > _LONGEST_TEXT:
        return None
    found: dict[str, str] = {}
    for part in text.split():
        key, _, value = part.partition("=")
        if key not in _KEYS or key in found or not value:
            return None
        found[key] = value
    uids = [found[key] for key in ("namespace", "pod", "workload") if key in found]
    if found.get("by") not in (_BY_POLICY, _BY_REQUEST) or not all(map(is_key, uids)):
        return None
    if found.get("result", _FAILED) != _FAILED or ("result" in found) > ("ended" in found):
        return None
    refused_by = found.get("refused", "")
    if refused_by and ("result" not in found or "evicting" in found or _DIGEST.fullmatch(refused_by) is None):
        return None
    try:
        begun_s, evicting_s, ended_s = (_seconds(found, key, now_s) for key in ("begun", "evicting", "ended"))
    except ValueError:
        return None
    return PastMove(
        begun_s=begun_s,
        requested=found["by"] == _BY_REQUEST,
        namespace=found.get("namespace", ""),
        pod_uid=found.get("pod", ""),
        workload_uid=found.get("workload", ""),
        evicting_s=evicting_s,
        ended_s=ended_s,
        failed="result" in found,
        refused_by=refused_by,
    )


def decode_past_moves(data: Mapping[str, str], now_s: float) -> tuple[dict[str, PastMove], tuple[str, ...]]:
    """(entries by uid of their PodMigration, keys of entries that cannot be read)."""
    found: dict[str, PastMove] = {}
    bad: list[str] = []
    for key, text in data.items():
        move = decode_past_move(text, now_s) if is_key(key) else None
        if move is None:
            bad.append(key)
        else:
            found[key] = move
    return found, tuple(bad)


def _time(seconds: float) -> str:
    return format_seconds(seconds) if seconds else ""


def _seconds(found: Mapping[str, str], key: str, now_s: float) -> float:
    """Raises TimestampError."""
    text = found.get(key)
    if text is None:
        return 0.0
    seconds = whole_s(parse_timestamp(text))
    return whole_s(now_s) if seconds > now_s + CLOCK_TOLERANCE_S else seconds
