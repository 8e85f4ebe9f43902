"""What an eviction that somebody asks for is answered: the pure core of the guard, one table.

A function of what the caches know: no call, no clock, no state. Promises: in doubt, and in every case that the table does not
name, the eviction is let through as if there were no guard; nobody waits longer than ``limit_s`` (and ``CATCHES_UP_S`` more while
the caches are not up to date), unless room is held and a budget would refuse the eviction without the guard, too, or the
configuration says that evictions without room are refused.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from rescheduler.guard.settings import GuardSettings, WhenNoRoom
from rescheduler.migrations.migration_lifecycle import MigrationReason as Reason
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.records import Namespace, Pod, PodPhase
from rescheduler.model.selectors import int64

SILENCE_S: Final = 120.0
"""Who has not asked for so long has given up."""
LAST_ASK_S: Final = 30.0
"""How much later a move is told that its caller still asks."""
TRY_AGAIN_S: Final = 60.0
"""So long after a move has failed another one is made: within the limit, and with ``whenNoRoom: Refuse`` also after it. A move that had begun
makes its pod back off for as long, and for twice as long with each further one; in the last quarter of the limit it does not."""
TRY_AGAIN_SOON_S: Final = 10.0
"""The same for short limits: a fifth of them, and at least so long."""
BUDGET_FREES_S: Final = 30.0
"""Once its budget allows disruptions again, the move whose room is held has so long to go first."""
CATCHES_UP_S: Final = 30.0
"""So long evictions wait for caches that are not up to date any more, as after an outage of the API server: in the middle of a drain, too."""
_WHILE_IT_ENDS_S: Final = 1
"""Who counts hears in time that the pod is ending."""
_SOON_S: Final = 3
_LATER_S: Final = 10


class Why(enum.StrEnum):
    """Why an eviction is answered so: a closed list, for metrics."""

    # Let through, as without the guard
    OWN = "Own"
    DRY_RUN = "DryRun"
    NOT_GUARDED = "NotGuarded"
    CACHES_STALE = "CachesStale"
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    UNKNOWN_POD = "UnknownPod"
    ENDING = "Ending"
    NOT_MOVED = "NotMoved"
    BUDGET = "Budget"
    TOO_MANY = "TooMany"
    NOT_FILED = "NotFiled"
    # Let through although it was to wait
    NO_ROOM = "NoRoom"
    LIMIT = "Limit"
    # Told that it is done
    MOVED = "Moved"
    # Asked to come again
    WAITS = "Waits"
    REFUSED = "Refused"


WITHOUT_ROOM: Final = frozenset({Why.NO_ROOM, Why.LIMIT})
"""People should hear of these: the replacement may stay pending."""


@dataclass(frozen=True, slots=True)
class Allow:
    """The eviction goes on. ``message``: a warning to the caller; "": none."""

    why: Why
    message: str = ""


@dataclass(frozen=True, slots=True)
class AskAgain:
    """The caller gets 429 and asks again."""

    message: str
    retry_after_s: int
    """0: he is not told when, so that his client does not ask again by itself."""
    why: Why = Why.WAITS
    budget: str = ""
    """The PodDisruptionBudget that keeps the pod, in words; "": none."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The caller gets 404: the pod that he means has been moved, and another one has its name."""

    message: str
    why: Why = Why.MOVED


Answer = Allow | AskAgain | Gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known when the question is answered."""

    user: str
    own_user: str
    """The controller's."""
    dry_run: bool = False
    uid: str = ""
    """The caller's precondition; "": any pod of the name."""
    version: str = ""
    """The resourceVersion that he wants evicted, and no other; "": any."""
    stale_s: float | None = None
    """For how long evictions have been asked for while the caches are not up to date; None: they are; infinite: they never were."""
    namespace: Namespace | None
    """None: it is not known, or not guarded."""
    pod: Pod | None
    succeeded: bool = False
    """The pod that the caller waits for is gone, and this one, on a node in service or on none yet, has its name."""
    stays: str = ""
    """Why the pod is never moved, as far as the pod alone tells it; "": it may be."""
    move: PodMigration | None = None
    """The pod's guarded move."""
    first_asked_s: float | None
    """When the eviction was first asked for; None: there is no place to remember it."""
    one_by_one: bool = False
    """The caller counts what he evicts, of nodes in service: he asks for the next pod where he is refused one."""
    unconfirmed: str = ""
    """Another pod that such a caller has asked for and does not know to be evicted; "": none."""
    problem: str = ""
    """Why the API server refused the PodMigration; "": it did not."""
    used_up_s: float = 0.0
    """When a budget of the pod was last seen to be used up while the move held room; 0.0: never."""
    now_s: float


def decide(known: Known, settings: GuardSettings) -> Answer:
    """The first row of the table that answers, else the step that the move is in."""
    for row in _TABLE:
        answer = row(known, settings)
        if answer is not None:
            return answer
    return _step(known)


def asked_since_s(known_first_s: float, move: PodMigration | None, limit_s: float) -> float:
    """When this request began: with the first ask, or with a move that another replica made for it before."""
    if move is None or of_earlier_request(move, known_first_s, limit_s):
        return known_first_s
    return min(known_first_s, move.asked_since_s)


def of_earlier_request(move: PodMigration, first_asked_s: float, limit_s: float) -> bool:
    """True for a finished move that says nothing of this request: its caller had given up, or was let through long ago."""
    if not move.finished:
        return False
    lived_until_s = move.created_at_s + (move.ttl_s or 0.0)
    withdrawn = move.status.reason == Reason.TIMEOUT and lived_until_s + 1.0 < move.asked_since_s + limit_s
    return withdrawn or move.status.finished_at_s + SILENCE_S < first_asked_s


def waits_for_budget(move: PodMigration) -> bool:
    """Its room is held, and the API server would refuse its eviction, whoever asked: its time does not run out meanwhile."""
    return move.status.phase is MigrationPhase.EVICTING and move.status.reason == Reason.DISRUPTION_BUDGET


def failed_curably(move: PodMigration) -> bool:
    """True if it failed for a reason that another move may not meet."""
    return move.status.phase is MigrationPhase.FAILED and move.status.reason not in _NOT_FOR_LACK_OF_ROOM


def another_at_s(move: PodMigration, limit_s: float) -> float:
    """When another move may take the place of a failed one; infinite: never, as that would fail as well, or the move has not failed."""
    if not failed_curably(move):
        return math.inf
    return move.status.finished_at_s + min(TRY_AGAIN_S, max(TRY_AGAIN_SOON_S, limit_s / 5))


def _own(known: Known, _: GuardSettings) -> Answer | None:
    return Allow(Why.OWN) if known.user == known.own_user else None


def _dry_run(known: Known, _: GuardSettings) -> Answer | None:
    return Allow(Why.DRY_RUN) if known.dry_run else None


def _stale(known: Known, _: GuardSettings) -> Answer | None:
    if known.stale_s is None:
        return None
    if known.stale_s >= CATCHES_UP_S or known.namespace is None or known.pod is None:
        return Allow(Why.CACHES_STALE)
    return AskAgain("the controller is reading the cluster again; ask again", _SOON_S)


def _other_namespace(known: Known, _: GuardSettings) -> Answer | None:
    if known.namespace is None:
        return Allow(Why.NOT_GUARDED)
    return Allow(Why.NAMESPACE_TERMINATING) if known.namespace.deleting else None


def _is_past(cached: str, named: str) -> bool:
    """True if the pod cannot have that version any more: it is no version, or the cache shows a later one.

    Where the cache is behind it, the API server would evict.
    """
    have, wanted = int64(cached), int64(named)
    return wanted is None or (have is not None and have > wanted)


def _no_running_pod(known: Known, _: GuardSettings) -> Answer | None:
    pod = known.pod
    if pod is None or (known.uid and known.uid != pod.uid):
        return Allow(Why.UNKNOWN_POD)
    if known.version and _is_past(pod.resource_version, known.version):
        return Allow(Why.UNKNOWN_POD)  # the API server refuses it: nothing may be moved for it
    ending = pod.deleting or pod.terminal or not pod.node
    return Allow(Why.ENDING) if ending or pod.phase is PodPhase.PENDING else None


def _name_returns(known: Known, settings: GuardSettings) -> Answer | None:
    """The moved pod ends, and its successor will have its name: what the API server evicts by that name may be either of them."""
    pod, move = known.pod, known.move
    if pod is None or not pod.deleting or known.uid or move is None or move.finished:
        return None
    if pod.controller is None or pod.controller.kind in _NAMES_NEVER_RETURN:
        return None
    first_s = asked_since_s(known.first_asked_s or known.now_s, move, settings.limit_s)
    return None if known.now_s - first_s >= settings.limit_s else AskAgain("it is ending; ask again", _SOON_S)


def _succeeded(known: Known, _: GuardSettings) -> Answer | None:
    """Kubectl drain and cluster-autoscaler ask by name alone: of a StatefulSet they would go on with the successor, which they never saw."""
    if not known.succeeded or known.uid:
        return None
    return Gone("it has been moved; the pod that has its name now is its successor")


def _not_moved(known: Known, _: GuardSettings) -> Answer | None:
    if known.stays:
        return Allow(Why.NOT_MOVED)
    move = known.move
    if move is not None and move.finished and move.status.reason in _NOT_FOR_LACK_OF_ROOM:
        return Allow(Why.NOT_MOVED, f"evicted as it is: {move.status.reason}: {move.status.message}")
    return None


def _not_filed(known: Known, _: GuardSettings) -> Answer | None:
    if known.first_asked_s is None:
        return Allow(Why.TOO_MANY, "evicted as it is: too many evictions wait already")
    return Allow(Why.NOT_FILED, f"evicted as it is: {known.problem}") if known.problem else None


def _budget(known: Known, _: GuardSettings) -> Answer | None:
    """A budget that can never allow the eviction: the API server says so itself."""
    move = known.move
    never = (
        move is not None
        and move.status.phase is MigrationPhase.PENDING
        and move.status.reason == Reason.DISRUPTION_BUDGET
    )
    return Allow(Why.BUDGET) if never else None


def _no_room(known: Known, settings: GuardSettings) -> Answer | None:
    """The move has failed, and the time is too short for another one; or the time is over."""
    first_s, move = known.first_asked_s or known.now_s, known.move
    ends_s = asked_since_s(first_s, move, settings.limit_s) + settings.limit_s
    failed = move is not None and move.status.phase is MigrationPhase.FAILED
    ended = (
        failed
        and move is not None
        and not of_earlier_request(move, first_s, settings.limit_s)
        and another_at_s(move, settings.limit_s) >= ends_s
    )
    held = move is not None and move.status.phase is MigrationPhase.EVICTING
    used_up = held and 0.0 <= known.now_s - known.used_up_s < BUDGET_FREES_S
    over = known.now_s >= ends_s and not used_up
    if not (ended or over):
        return None
    refuses = settings.when_no_room is WhenNoRoom.REFUSE
    if refuses and move is not None and not move.finished:
        return None  # another try is under way
    message = f"{move.status.reason}: {move.status.message}" if move is not None else "it had no turn"
    if refuses:
        return AskAgain(f"there is no room for the replacement ({message})", _LATER_S, Why.REFUSED)
    why = Why.NO_ROOM if ended else Why.LIMIT
    return Allow(why, f"evicted without room for its replacement ({message})")


def _not_its_turn(known: Known, _: GuardSettings) -> Answer | None:
    """He would not have asked, had he known that the other pod goes: a descheduler would empty its node."""
    if not known.unconfirmed or (known.move is not None and not known.move.finished):
        return None
    return AskAgain(f"the eviction of {known.unconfirmed} comes first; ask again later", 0)


_TABLE: Final[tuple[Callable[[Known, GuardSettings], Answer | None], ...]] = (
    _own,
    _dry_run,
    _stale,
    _other_namespace,
    _succeeded,
    _name_returns,
    _no_running_pod,
    _not_moved,
    _not_filed,
    _budget,
    _no_room,
    _not_its_turn,
)
"""In the order in which they count."""

_NAMES_NEVER_RETURN: Final = frozenset({"ReplicaSet", "ReplicationController"})
"""Kinds of controllers that generate the names of their pods."""

_NOT_FOR_LACK_OF_ROOM: Final = frozenset(
    {
        Reason.POD_GONE,
        Reason.POD_REPLACED,
        Reason.NOT_MOVABLE,
        Reason.MODE_NOT_SUPPORTED,
        Reason.MULTIPLE_BUDGETS,
        Reason.GATE_NOT_IN_FORCE,
        Reason.FORBIDDEN,
        Reason.EVICTION_FAILED,
    }
)
"""Ends of a move that more room would not change: waiting helps nobody."""

_STEPS: Final[Mapping[MigrationPhase, str]] = {
    MigrationPhase.PENDING: "it is to be moved to a node with room for its replacement",
    MigrationPhase.RESERVING: "room for its replacement is being reserved{node}",
    MigrationPhase.EVICTING: "room for its replacement is held{node}, and it is about to be evicted",
    MigrationPhase.HANDING_OVER: "it is being evicted; room for its replacement is held{node}",
}


def _step(known: Known) -> AskAgain:
    """What happens now, for the caller."""
    move, soon_s = known.move, _WHILE_IT_ENDS_S if known.one_by_one else _SOON_S
    if move is None or move.finished:
        failed = move is not None and failed_curably(move)
        told = f" (a move failed: {move.status.reason}: {move.status.message})" if move and failed else ""
        return AskAgain(f"{_STEPS[MigrationPhase.PENDING]}{told}; ask again", soon_s)
    status = move.status
    happens = _STEPS[status.phase].format(node=f" on {status.node_name}" if status.node_name else "")
    told = f" ({status.reason}: {status.message})" if status.message else ""
    budget = status.message if status.reason == Reason.DISRUPTION_BUDGET else ""
    return AskAgain(f"{happens}{told}; ask again", soon_s, budget=budget)
