"""What the PodMigration machine looks at: one move, and the objects around it at one moment.

Fields of ``Calls`` are what memory knows of calls made; losing them (a crash) is safe: each is asked again.
"""

from __future__ import annotations

from dataclasses import dataclass

from rescheduler.model.eviction import EvictionResult
from rescheduler.model.migration import MoveMode, PodMigration
from rescheduler.model.records import DisruptionBudget, Node, Pod, PodSpec, Workload
from rescheduler.model.reservation import Reservation
from rescheduler.model.selectors import NodeSelector


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationSettings:
    """Limits of a move, in seconds.

    ``ttl_s``: from the creation of the PodMigration until the eviction, where it names none itself.
    ``replacement_limit_s``: how long after the old pod has gone a replacement may take to claim its room.
    ``ready_limit_s``: how long after landing Ready is waited for. ``finished_ttl_s``: a finished one is
    deleted after it. ``gate_limit_s``: how long the gate may take to be proven. ``gate_settle_s``: wait
    after the proof, for other API servers. ``default_mode``: what Auto means. ``soft_allowed``: Soft was
    chosen in the configuration. ``*_backoff_s``: waits between tries while a budget blocks.
    ``start_first_policies``: policies of which the configuration says that their moves start first.
    """

    ttl_s: float = 300.0
    replacement_limit_s: float = 60.0
    ready_limit_s: float = 600.0
    finished_ttl_s: float = 3_600.0
    gate_limit_s: float = 15.0
    gate_settle_s: float = 1.0
    default_mode: MoveMode = MoveMode.RESERVE_FIRST
    soft_allowed: bool = False
    start_first_policies: frozenset[str] = frozenset()
    first_backoff_s: float = 1.0
    last_backoff_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """An answer with its reason. ``ok`` True needs no message."""

    ok: bool
    message: str = ""


YES = Verdict(ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Memory of calls for one move. Times are when the answer came; 0.0 = never.

    ``dry_run``/``eviction``: the last answers. ``tries``: refusals in a row. ``gate_proven_at_s``: the
    gate was seen to be in force then. ``gate_asked_at_s``: the first proof was asked for then.
    ``pod_gone_at_s``: the old pod was first missed then. ``start_refused``: the server's words where it
    does not let us create the replacement of mode StartFirst. ``forbidden_since_s``: from then on every answer
    was that we may not evict.
    """

    dry_run: EvictionResult | None = None
    dry_run_at_s: float = 0.0
    eviction: EvictionResult | None = None
    eviction_at_s: float = 0.0
    tries: int = 0
    gate_proven_at_s: float = 0.0
    gate_asked_at_s: float = 0.0
    gate_message: str = ""
    pod_gone_at_s: float = 0.0
    start_refused: str = ""
    forbidden_since_s: float = 0.0


NO_CALLS = Calls()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedSwap:
    """What mode StartFirst looks at besides.

    ``declared``: owner or configuration asks for the mode. ``eligible``: two pods may stand side by side.
    ``replica_set`` and ``deployment``: the pod's owners. ``owned``: live pods of the ReplicaSet, held ones
    included. ``orphan``: the pod named ``orphan_name``, or the replacement that was started. ``busy``:
    what of another move of the same ReplicaSet must end first, in words; "" if nothing.
    """

    declared: bool = False
    eligible: Verdict = YES
    replica_set: Workload | None = None
    deployment: Workload | None = None
    owned: int = 0
    orphan: Pod | None = None
    orphan_name: str = ""
    busy: str = ""

    def serves(self, asked: MoveMode) -> bool:
        """True if a move that asks for this mode is carried out by StartFirst."""
        return self.declared and self.eligible.ok and asked in (MoveMode.AUTO, MoveMode.START_FIRST)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedMigration:
    """One move at one moment.

    ``pod``: the pod of that namespace and name now, whatever its uid. ``movable``: may it be moved at all
    (protections, controller). ``target``: the node to go to, the user's or the one chosen ("" and
    ``target_message``: none). ``target_node``: its record. ``fits``: would the replacement itself fit
    there now, by our own rules, with the old pod gone. ``reservation``: that of ``reservation_name``;
    ``room_held``: its placeholder stands and nobody was just given it, for its status may not tell so yet.
    ``template``, ``volumes``: what the pod's controller would create, and the node affinity of its bound
    volumes. ``owner_of_reservation``: our pod matches its owners. ``budgets``: those that select the pod.
    ``claimant``: the pod that claimed. ``stray``: a replacement without our gate, if one was seen.
    ``another``: a move of the same pod that goes first. ``source``: the node that the pod leaves. ``swap``: None where StartFirst is out of the question.
    """

    migration: PodMigration
    reservation_name: str
    pod: Pod | None = None
    movable: Verdict = YES
    target: str = ""
    target_message: str = ""
    target_node: Node | None = None
    fits: Verdict = YES
    template: PodSpec | None = None
    volumes: tuple[NodeSelector, ...] = ()
    reservation: Reservation | None = None
    room_held: bool = True
    owner_of_reservation: bool = True
    budgets: tuple[DisruptionBudget, ...] = ()
    claimant: Pod | None = None
    stray: Pod | None = None
    another: str = ""
    source: Node | None = None
    swap: ObservedSwap | None = None
    calls: Calls = NO_CALLS

    @property
    def same_pod(self) -> bool:
        """True if the pod that was asked for is still there under its uid."""
        return self.pod is not None and self.migration.pod_uid in ("", self.pod.uid)
