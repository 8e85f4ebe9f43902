"""List and watch of one kind as a state machine (pure): what to ask next, and what an answer changed.

Promises: each change since the first list reaches the caller exactly once, in order, as Added, Modified
or Deleted; whatever was missed while the connection was away is found by the difference on the next list.
No request is ever repeated without waiting (full jitter); the wait grows until a stream has lived a while.
Time and chance are arguments. Rules: WatchList KEP-3157, bookmarks KEP-956, resource versions are opaque.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from rescheduler.kube.store import Store, namespace_of
from rescheduler.model.kinds import Kind
from rescheduler.model.names import LABEL_PLACEHOLDER
from rescheduler.model.records import ObjectKey, Pod, PodPhase
from rescheduler.model.times import RECONNECT_S, doubling_s

BASE_S: Final = 0.5
CAP_S: Final = 10.0
"""Of a server that answers badly. Half a minute without the watch of pods would be half of the time that a pod may be gated."""
UNANSWERED_CAP_S: Final = RECONNECT_S
"""While no server answers: asking is no load then, and the slowest kind decides when the caches are complete again."""
RETURNS_S: Final = 10.0
"""For so long after a connection broke or nobody answered, refusals are those of a server that starts: it answers 403 until it has
read the roles, 429 and 503 until it can serve a kind, 410 because it has forgotten its versions."""
RETURNING_S: Final = 1.0
"""Longest wait after such a refusal: each kind must be complete before anything is decided, and it costs the server little."""
NEXT_WATCH_S: Final = 0.1
"""Longest pause after a watch that the server has ended in time."""
LIVED_S: Final = 20.0
"""A stream that lived so long proves the connection: the next wait is short again."""
REMOVED_AFTER_S: Final = 600.0
"""A kind of others that was there is taken for removed once the server has not listed it for so long. Until then, and of
our own kinds always, its objects are unknown: kinds are removed and made again within seconds when they are installed anew."""
PROBE_S: Final = 30.0
"""Half of the mean pause between two looks for a kind that the server does not have."""
CONFIRM_S: Final = 1.0
"""Pause before the second list, where the first one lacks most of what was there."""
RECHECKS_S: Final = (30.0, 120.0, 600.0)
"""Pauses before the lists that follow where the second one lacks it, too: a server that answers wrongly twice would hide
for ever what never changes."""


class ChangeType(enum.StrEnum):
    """What happened to an object. SYNCED: the first list is complete, all its events came before.

    LOST: it cannot be seen any more, because its kind is not served or its text cannot be read. Unlike one that is
    deleted it may be seen again as it was.
    """

    ADDED = "Added"
    MODIFIED = "Modified"
    DELETED = "Deleted"
    LOST = "Lost"
    SYNCED = "Synced"


class InformerEvent(NamedTuple):
    """One change."""

    kind: Kind
    type: ChangeType
    record: Any
    """The new state; of DELETED and LOST the last known one; of SYNCED None."""
    old: Any = None
    """The state before, where there was one."""


class Gaps(NamedTuple):
    """How often changes may have come too late, or not in the order in which they happened."""

    number: int = 0
    """Of first lists, broken streams and lists that had to be read again."""
    away_s: float = 0.0
    """How long the server did not answer before the last of these lists."""


class ListRequest(NamedTuple):
    """Ask for a page of a consistent list; an empty ``token`` is the first."""

    token: str


class WatchRequest(NamedTuple):
    """Open a watch after ``version``; ``initial``: without a list before, by sendInitialEvents."""

    version: str
    initial: bool
    longest_s: float | None = None
    """The server is to end it after so long, because a list comes next; None: as usual."""


class EndKind(enum.StrEnum):
    """Why a request or a stream ended; also the label of re-lists in metrics."""

    CLEAN = "clean"
    """The server ended the stream, as it does after timeoutSeconds."""
    BROKEN = "broken"
    """No answer, reset, cut inside a line."""
    SILENT = "silent"
    """Nothing came for long. Normal where nothing is written at all: a bookmark needs a newer version."""
    EXPIRED = "expired"
    """410: the version is too old."""
    UNDECODABLE = "undecodable"
    """A line that is not JSON, or longer than the cap."""
    REFUSED = "refused"
    """An error of the server: 429, 5xx, anything else."""
    UNSUPPORTED = "unsupported"
    """400 or 422 to sendInitialEvents: the server has no WatchList."""
    ABSENT = "absent"
    """404, and the server's list of kinds does not have it: the kind is not served."""
    UNPROVEN = "unproven"
    """404, and nothing proves that the kind is not served: something else than the API server may have answered."""
    UNCONFIRMED = "unconfirmed"
    """A complete list that lacks most of what was there."""
    DENIED = "denied"
    """401 or 403."""


_OF_A_START: Final = frozenset({EndKind.DENIED, EndKind.EXPIRED, EndKind.REFUSED})
_STREAM_ENDS: Final = frozenset({EndKind.CLEAN, EndKind.BROKEN, EndKind.SILENT})


@dataclass(frozen=True, slots=True)
class End:
    """The end of a request or stream."""

    kind: EndKind
    message: str = ""
    retry_after_s: float | None = None


class _Phase(enum.Enum):
    LISTING = enum.auto()
    INITIAL = enum.auto()
    WATCHING = enum.auto()


class Reflector:
    """The machine for one kind. Not thread-safe: one thread feeds it; properties may be read by others."""

    def __init__(
        self, kind: Kind, *, optional: bool = False, kept: bool = False, watch_list: bool = True
    ) -> None:
        """``optional``: the server may not have the kind. ``kept``: once seen, it is never taken for removed."""
        self.kind = kind
        self._optional, self._kept = optional, kept
        self._watch_list = watch_list
        self._phase = _Phase.INITIAL if watch_list else _Phase.LISTING
        self._cache = Store()
        self._seen = Store()
        self._token = ""
        self._version = ""
        self._failures = 0
        self._unanswered = 0
        self._broken_at_s: float | None = None
        """When a connection broke last, or nobody answered."""
        self._refusals = 0
        """404 in a row."""
        self._absent_since_s: float | None = None
        """Since when it is proven without a break that the kind is not served."""
        self._second_look = False
        """The list that is on its way confirms the one before, or does not."""
        self._rechecks_s: tuple[float, ...] = ()
        """How long each watch lasts until the kind is listed once more; empty: it is not."""
        self.doubt: End | None = None
        """The list that was complete just now must be read again: pass this to ``on_end``."""
        self.unknown = ""
        """Why nothing is known of a kind that was seen: its objects are those of before, and nothing may depend on them."""
        self._opened_at_s: float | None = None
        self.synced = False
        self.absent = False
        self.problem = ""
        """Why the cache is not up to date; empty if it is."""
        self.last_contact_s: float | None = None
        """When the server last proved that we are up to date: end of a list, watch accepted, event, bookmark."""
        self.gaps = Gaps()
        self._lost_at_s: float | None = None
        self.relists: dict[EndKind, int] = dict.fromkeys(EndKind, 0)

    @property
    def objects(self) -> int:
        """Number of objects known."""
        return len(self._cache)

    @property
    def filling(self) -> bool:
        """True while a whole list is on its way."""
        return self._phase is not _Phase.WATCHING

    def next_step(self) -> ListRequest | WatchRequest:
        """What to ask the server now."""
        if self._phase is _Phase.LISTING:
            return ListRequest(self._token)
        longest_s = self._rechecks_s[0] if self._rechecks_s and not self.filling else None
        return WatchRequest(self._version, initial=self._phase is _Phase.INITIAL, longest_s=longest_s)

    def on_page(self, records: Sequence[Any], version: str, token: str, now_s: float) -> list[InformerEvent]:
        """A page arrived. The last one (``token`` "") also brings the deletions that were missed."""
        events = [event for record in records for event in self._upsert(record)]
        self._token = token
        if not token:
            events += self._complete(version, now_s)
        return events

    def on_opened(self, now_s: float) -> None:
        """The server accepted the watch."""
        self._opened_at_s = now_s
        self.absent = False
        if not self.filling:
            self.last_contact_s = now_s
            self.problem = ""

    def on_change(self, record: Any, version: str, *, deleted: bool, now_s: float) -> list[InformerEvent]:
        """An object was added, modified or deleted; which one, our own memory says."""
        self._version = version or self._version
        self.last_contact_s = now_s
        self._caught_up()
        if deleted:
            return self._remove(ObjectKey(namespace_of(record), record.name), record)
        return self._upsert(record)

    def on_damaged(
        self, key: ObjectKey, stand_in: Any | None, version: str, *, deleted: bool, now_s: float
    ) -> list[InformerEvent]:
        """An object cannot be read. Its stand-in counts instead; without one it is out of sight, as in a list."""
        if stand_in is not None and not deleted:
            return self.on_change(stand_in, version, deleted=False, now_s=now_s)
        self._version = version or self._version
        self.last_contact_s = now_s
        return self._remove(key, lost=not deleted)

    def on_bookmark(self, version: str, *, initial_end: bool, now_s: float) -> list[InformerEvent]:
        """The server says how far we have seen; ``initial_end``: the initial events are complete."""
        if initial_end and self._phase is _Phase.INITIAL:
            return self._complete(version, now_s)
        self._version = version or self._version
        self.last_contact_s = now_s
        self._caught_up()
        return []

    def on_end(self, end: End, now_s: float, chance: float) -> tuple[float, list[InformerEvent]]:
        """A request failed or a stream ended: seconds to wait before the next step, and what follows.

        ``chance``: uniform in 0..1.
        """
        opened = self._opened_at_s is not None
        lived = self._opened_at_s is not None and now_s - self._opened_at_s >= LIVED_S
        self._opened_at_s = None
        if end.kind in (EndKind.ABSENT, EndKind.UNPROVEN):
            return self._not_served(end, now_s, chance)
        self._refusals, self._absent_since_s = 0, None
        if end.kind is EndKind.UNCONFIRMED:
            self.doubt = None
            return CONFIRM_S * (1 + chance), []
        if end.kind is EndKind.UNSUPPORTED:
            # Not a failure: the same is asked at once in the older way, without a pause.
            self._watch_list = False
            self._restart(end)
            return 0.0, []
        self.problem = "" if end.kind in (EndKind.CLEAN, EndKind.SILENT) else end.message
        if self.synced and end.kind not in (EndKind.CLEAN, EndKind.SILENT):
            self._lose_connection(now_s)
        # No server answered at all: counted apart, with a shorter longest wait, so that every informer is back soon
        # after an outage. A list that breaks off may have been answered, and lists are work: it backs off as usual.
        unanswered = end.kind is EndKind.BROKEN and not opened and self._phase is not _Phase.LISTING
        wait_s = self._wait_s(end.kind, now_s, unanswered=unanswered, lived=lived)
        if self._phase is _Phase.INITIAL and opened and end.kind in _STREAM_ENDS:
            # A server that does not know sendInitialEvents streams on without ever marking the end.
            self._watch_list = False
            self._restart(end)
        elif end.kind in (EndKind.EXPIRED, EndKind.UNDECODABLE) or self._phase is _Phase.INITIAL:
            self._restart(end)
        elif self._rechecks_s and opened and not self.filling:
            self._rechecks_s = self._rechecks_s[1:]
            self._restart(End(EndKind.UNCONFIRMED))
        if lived and end.kind is EndKind.CLEAN and not self.filling:
            return (
                NEXT_WATCH_S * chance,
                [],
            )  # as it was asked to: every pause is time in which nothing is seen
        return (end.retry_after_s or 0.0) + wait_s * chance, []

    def _wait_s(self, kind: EndKind, now_s: float, *, unanswered: bool, lived: bool) -> float:
        """The longest wait after this end, which is counted."""
        if kind is EndKind.BROKEN:
            self._broken_at_s = now_s
        if unanswered:
            self._unanswered += 1
            return doubling_s(BASE_S, self._unanswered, UNANSWERED_CAP_S)
        if kind in _OF_A_START and self._returns(now_s):
            return BASE_S if kind is EndKind.EXPIRED else RETURNING_S
        self._unanswered = 0
        # Not 0 after a stream that lived: what ends all watches at once must not bring all lists at once.
        self._failures = 1 if lived else self._failures + 1
        return doubling_s(BASE_S, self._failures, CAP_S)

    def _returns(self, now_s: float) -> bool:
        return self._broken_at_s is not None and now_s < self._broken_at_s + RETURNS_S

    def _not_served(self, end: End, now_s: float, chance: float) -> tuple[float, list[InformerEvent]]:
        """A kind that was never seen is absent as soon as that is proven. One that was seen is unknown, and asked for again."""
        if end.kind is EndKind.UNPROVEN or not self._optional:
            self._absent_since_s = None
        elif self._absent_since_s is None:
            self._absent_since_s = now_s
        since_s = self._absent_since_s
        seen = self.synced and not self.absent
        removed = since_s is not None and not self._kept and now_s >= since_s + REMOVED_AFTER_S
        self._refusals += 1
        if since_s is not None and (removed or not seen):
            self._refusals, self._absent_since_s = 0, None
            self.problem = self.unknown = ""
            return PROBE_S + 2 * PROBE_S * chance, self._vanish(now_s)
        self.problem = end.message or "404"
        if self.synced:
            self.unknown = f"it was served and is not now ({self.problem})"
            self._lose_connection(now_s)
        self._restart(end)  # what was deleted with the kind is found by a list only
        longest_s = RETURNING_S if self._returns(now_s) else UNANSWERED_CAP_S
        wait_s = doubling_s(BASE_S, self._refusals, longest_s) * chance
        return (end.retry_after_s or 0.0) + wait_s, []

    def _restart(self, end: End) -> None:
        """Forget the version: the next step lists from the beginning; the objects stay until then."""
        if self.synced:
            self.relists[end.kind] += 1
        # In doubt by a list: a watch with initial events is another answer, and may be wrong where a list is not.
        streams = self._watch_list and end.kind is not EndKind.UNCONFIRMED
        self._phase = _Phase.INITIAL if streams else _Phase.LISTING
        self._version, self._token = "", ""
        self._seen = Store()

    def _vanish(self, now_s: float) -> list[InformerEvent]:
        """The kind is not served (any more): no object of it exists."""
        self._restart(End(EndKind.ABSENT))
        self.absent = True
        self.last_contact_s = now_s
        events = [event for key in list(self._cache) for event in self._remove(key, lost=True)]
        return events + self._now_synced()

    def _complete(self, version: str, now_s: float) -> list[InformerEvent]:
        missed = [key for key in self._cache if key not in self._seen]
        doubtful = self.synced and 2 * len(missed) > len(self._cache)
        if doubtful and not self._second_look:
            return self._look_again(len(missed))
        if doubtful:
            self._rechecks_s = RECHECKS_S
        self._second_look, self._refusals, self._absent_since_s = False, 0, None
        self.unknown = ""
        # Not deleted for certain: the same objects may be listed again.
        events = [event for key in missed for event in self._remove(key, lost=doubtful)]
        self._seen = Store()
        self._version, self._token = version, ""
        self._phase = _Phase.WATCHING
        self.last_contact_s = now_s
        self.problem, self.absent = "", False
        away_s = 0.0 if self._lost_at_s is None else now_s - self._lost_at_s
        self.gaps = Gaps(self.gaps.number + 1, away_s)
        self._lost_at_s = None
        return events + self._now_synced()

    def _look_again(self, missed: int) -> list[InformerEvent]:
        """Most of what was there is not in the list: a second one must confirm it before anything depends on it."""
        message = f"a list lacks {missed} of {len(self._cache)} objects that were there"
        self.doubt = End(EndKind.UNCONFIRMED, message)
        self.problem, self.unknown = message, f"{message}; it is read again"
        self._second_look = True
        self._restart(self.doubt)
        return []

    def _lose_connection(self, now_s: float) -> None:
        """The connection is lost: counted once, however many tries to get it back fail."""
        if self._lost_at_s is None:
            self._lost_at_s = now_s
            self.gaps = self.gaps._replace(number=self.gaps.number + 1)

    def _caught_up(self) -> None:
        """A watch that goes on from where it broke has missed nothing."""
        if not self.filling:
            self._lost_at_s = None

    def _now_synced(self) -> list[InformerEvent]:
        if self.synced:
            return []
        self.synced = True
        return [InformerEvent(self.kind, ChangeType.SYNCED, None)]

    def _upsert(self, record: Any) -> list[InformerEvent]:
        if _over(record):
            return self._remove(ObjectKey(namespace_of(record), record.name), record)
        if self.filling:
            self._seen.put(record)
        old = self._cache.get(record)
        if old == record:
            return []
        self._cache.put(record)
        if old is None:
            return [InformerEvent(self.kind, ChangeType.ADDED, record)]
        if getattr(old, "uid", "") != getattr(record, "uid", ""):
            # Another object of the same name: its predecessor's end was missed.
            return [
                InformerEvent(self.kind, ChangeType.DELETED, old, old),
                InformerEvent(self.kind, ChangeType.ADDED, record),
            ]
        return [InformerEvent(self.kind, ChangeType.MODIFIED, record, old)]

    def _remove(self, key: ObjectKey, last: Any = None, *, lost: bool = False) -> list[InformerEvent]:
        old = self._cache.pop(key)
        self._seen.pop(key)
        if old is None:
            return []
        gone = ChangeType.LOST if lost else ChangeType.DELETED
        return [InformerEvent(self.kind, gone, old if last is None else last, old)]


def _over(record: Any) -> bool:
    """True for a pod that has failed after its kubelet took it: it counts as deleted.

    One that a kubelet did not take tells of its node. A placeholder keeps its name from the next one until it is deleted.
    """
    if not isinstance(record, Pod) or record.phase is not PodPhase.FAILED:
        return False
    return not record.not_taken and LABEL_PLACEHOLDER not in record.labels


class Reflected:
    """What is told of the cache that a Reflector keeps."""

    kind: Kind
    decode_errors: int
    """Objects and lines that could not be read."""
    _reflector: Reflector
    _clock: Callable[[], float]
    _started_at_s: float

    @property
    def synced(self) -> bool:
        """The first complete list was told (or the kind is known to be absent)."""
        return self._reflector.synced

    @property
    def gaps(self) -> Gaps:
        """What may be missing from, or out of order in, what was told."""
        return self._reflector.gaps

    def stale_for_s(self) -> float:
        """Seconds since the server last proved that we are up to date; since the start if never."""
        last_s = self._reflector.last_contact_s
        return self._clock() - (self._started_at_s if last_s is None else last_s)

    @property
    def problem(self) -> str:
        """Why the cache is not up to date; empty if it is."""
        return self._reflector.problem

    @property
    def unknown(self) -> str:
        """Why nothing is known of the kind now although it was read before; empty if the cache is what is known."""
        return self._reflector.unknown

    @property
    def objects(self) -> int:
        """Number of objects known."""
        return self._reflector.objects

    @property
    def relists(self) -> dict[EndKind, int]:
        """How often everything was read again, by reason."""
        return dict(self._reflector.relists)
