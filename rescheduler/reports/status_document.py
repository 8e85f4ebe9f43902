"""What is going on in a cluster, as one document: ``status -o json``, and ``/state.json`` of the page. Types only.

``status_text`` shows it on a terminal, the script of the live page in a browser (docs/commands.md, docs/page.md). It has of pods no
more than their names, and those of moved and planned pods only: what is shown of all pods is their number on each node.
"""

from __future__ import annotations

import enum

import msgspec

from rescheduler import __version__
from rescheduler.model.names import API_VERSION
from rescheduler.model.node_marks import NodeMark


class Presence(enum.StrEnum):
    """What is known of the controller."""

    LEADING = "Leading"
    """A process holds the Lease and renews it."""
    STOPPED = "Stopped"
    """The Lease was given back, or is not renewed any more."""
    ABSENT = "Absent"
    """There is no Lease, and leader election is not switched off: none has ever run here."""
    UNKNOWN = "Unknown"
    """The Lease may not be read, or leader election is off."""


class ControllerStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The controller. Times: RFC 3339, "" where they are not known."""

    presence: Presence = Presence.UNKNOWN
    holder: str = ""
    leads_since: str = ""
    renewed: str = ""
    images: tuple[str, ...] = ()
    """Of the pod that leads, with their versions; none if the leader is no pod."""
    configuration: str = ""
    """The version of the configuration that it goes by, and where it is from; "" where that is not known."""
    message: str = ""
    """Why it is not known, or why it does not run."""
    remedy: str = ""
    """What mends it; "" if it runs."""

    @property
    def runs(self) -> bool:
        """False if none does; True also where that is not known."""
        return self.presence not in (Presence.STOPPED, Presence.ABSENT)


class HealthLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of one part of the installation."""

    part: str
    ok: bool | None
    """None: it is not known."""
    says: str


class GatedPod(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A pod that waits at the gate."""

    namespace: str
    pod: str
    since: str
    """RFC 3339."""
    message: str
    """Which Reservation holds, lacks or refuses it."""


class ShownPolicy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many pods one policy finds badly placed."""

    name: str
    badly_placed: int


class Blocker(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many badly placed pods are not moved for one reason, because of one thing."""

    reason: str
    blocked_by: str
    pods: int


class ShownMove(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={
        "source": "from",
        "target": "to",
        "began_at": "beganAt",
        "reserved_at": "reservedAt",
        "evicted_at": "evictedAt",
        "landed_at": "landedAt",
        "ended_at": "endedAt",
    },
):
    """A move, or one that a plan would make (phase Planned)."""

    namespace: str
    pod: str
    source: str
    target: str
    phase: str
    reason: str
    message: str
    """What it waits for, or how it ended."""
    by: str
    waits: bool = False
    """It cannot go on now; ``reason`` and ``message`` say because of what."""
    began_at: str = ""
    """This and what follows: RFC 3339."""
    reserved_at: str = ""
    evicted_at: str = ""
    landed_at: str = ""
    ended_at: str = ""


class HeldCapacity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A Reservation that has not ended, a ReservationWindow or a HeadRoom. Times: RFC 3339."""

    kind: str
    name: str
    phase: str
    owners: str
    """For which pods."""
    asked_by: str
    """Who asked for it, or the move, window or head-room that it belongs to."""
    held: int = 0
    """Reservations that are Available."""
    wanted: int = 1
    nodes: tuple[str, ...] = ()
    """The first of them."""
    since: str = ""
    until: str = ""
    """"": it does not end by itself."""
    cpu_milli: int = 0
    """This and memory: of one Reservation, held and not used."""
    memory_bytes: int = 0
    message: str = ""
    """Why it is not held."""


class ShownNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One node. Amounts in milli-CPU and bytes; requested includes reserved."""

    name: str
    zone: str = ""
    marks: tuple[NodeMark, ...] = ()
    taints: tuple[str, ...] = ()
    """Those that people or programs have set, at most five."""
    hints: tuple[str, ...] = ()
    """Whose pods do not come back until when, at most five."""
    pods: int = 0
    badly_placed: int = 0
    """Of these pods, those that the last decision moves, or would if nothing blocked it."""
    pods_allocatable: int = 0
    cpu_requested_milli: int = 0
    cpu_reserved_milli: int = 0
    cpu_allocatable_milli: int = 0
    memory_requested_bytes: int = 0
    memory_reserved_bytes: int = 0
    memory_allocatable_bytes: int = 0
    cpu_used_milli: int | None = None
    """Measured; None: not known."""
    memory_used_bytes: int | None = None


class TrendSample(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Figures of one moment."""

    at: str
    badly_placed: int
    moves_under_way: int
    """The most since the sample before."""
    moves_ended: int
    """Since the sample before."""
    pending_pods: int
    nodes_in_use: int
    cpu_requested: float
    """Share of the whole cluster, 0..1."""
    memory_requested: float


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything. Times: RFC 3339, "" where there is none."""

    api_version: str = API_VERSION
    kind: str = "Status"
    at: str = ""
    """Of the last look at moves, rooms and nodes; "": there was none."""
    version: str = __version__
    """Of the program that made this document."""
    source: str = ""
    """Where the state is from, for people."""
    dry_run: bool = False
    leads: bool = True
    """False: another process leads, and the one that was asked knows no more than that."""
    controller: ControllerStatus = ControllerStatus()
    gate: str = "Unknown"
    """InForce, Missing or Unknown."""
    configuration: str = ""
    """What is wrong with it; "" if nothing is known to be."""
    health: tuple[HealthLine, ...] = ()
    """Of controller, gate and configuration, as ``status`` prints them."""
    headline: str = ""
    gated: tuple[GatedPod, ...] | None = ()
    """The oldest of the pods at the gate; None: they may not be read."""
    gated_in_all: int = 0
    moves: tuple[ShownMove, ...] | None = ()
    """Under way or planned; None: they may not be read."""
    moves_in_all: int = 0
    """Also those that a limited document leaves out."""
    moves_under_way: int = 0
    """Of these, those that are no plan."""
    evicted_now: int = 0
    """Of these, those whose pod is evicted and has no bound replacement yet."""
    waiting: tuple[Blocker, ...] = ()
    """Why moves under way cannot go on now, and how many."""
    finished: tuple[ShownMove, ...] = ()
    planned_at: str = ""
    """When pods were counted and what follows was decided; "": they were not read."""
    policies: tuple[ShownPolicy, ...] = ()
    blocked: tuple[Blocker, ...] = ()
    would_move: int = 0
    """Moves that the next decision would begin."""
    pods: int = 0
    pending_pods: int = 0
    nodes: tuple[ShownNode, ...] = ()
    held: tuple[HeldCapacity, ...] = ()
    """First Reservations that people asked for, windows and head-rooms; those of moves last."""
    held_in_all: int = 0
    samples: tuple[TrendSample, ...] = ()
    warnings: tuple[str, ...] = ()
