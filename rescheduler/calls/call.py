"""A call to the API server as a value: what is sent, on which precondition, and how a refusal is treated. Pure.

The machines return calls, made by the constructors beside this module and in ``reservations`` and ``migrations``;
``controller.sender`` sends them. A value can be printed and compared, so a test or a dry run shows exactly what a real run sends.
Every call that changes something carries the uid or the resourceVersion that it was decided on, so that a late one misses
instead of hitting a successor: a wrong uid answers 422 (patches) or 409 (deletes), a stale version 409. Each is idempotent.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from rescheduler.model.event import Event
from rescheduler.model.kinds import BY_NAME, RESOURCES, Kind
from rescheduler.model.migration import MigrationStatus, PodMigration
from rescheduler.model.records import ObjectKey, OwnerRef, Pod
from rescheduler.model.replacement_rules import TemplateKey
from rescheduler.model.reservation import Reservation, ReservationStatus
from rescheduler.model.room_sets import HeadRoom, HeadRoomStatus, ReservationWindow, WindowStatus

Json = dict[str, Any]
Seen = Reservation | PodMigration | ReservationWindow | HeadRoom
Status = ReservationStatus | MigrationStatus | WindowStatus | HeadRoomStatus


class Verb(enum.Enum):
    """The kind of a request; the value is printed."""

    GET = "GET"
    CREATE = "POST"
    REPLACE = "PUT"
    MERGE_PATCH = "PATCH(merge)"
    STRATEGIC_PATCH = "PATCH(strategic)"
    JSON_PATCH = "PATCH(json)"
    DELETE = "DELETE"
    EVICT = "EVICT"
    """POST of an Eviction to the subresource ``eviction``: the one call that cannot be taken back."""
    EVICT_BY_REQUEST = "EVICT(request)"
    """POST of an EvictionRequest, and EVICT once no other responder of the pod is before ours."""
    WITHDRAW_REQUEST = "DELETE(request)"
    """The pod's EvictionRequest of ours is deleted."""


class OnError(enum.Flag):
    """Refusals of the API server that are not raised to the caller."""

    RAISE = 0
    IGNORE_NOT_FOUND = enum.auto()
    """404: what the call would remove is gone already."""
    IGNORE_ALREADY_EXISTS = enum.auto()
    """409 AlreadyExists: names are deterministic, so the object is that of our own earlier try."""
    RETURN_REFUSAL = enum.auto()
    """403, 422 and the like: the same call would be refused again, so the server's message is an answer."""
    RETURN_INVALID = enum.auto()
    """The same, but only what validation says of the object is an answer; fields that its kind does not have are invalid, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request about one object."""

    does: str
    """The name of its constructor."""
    verb: Verb
    kind: Kind
    key: ObjectKey
    """The object that the call reads or changes."""
    subresource: str = ""
    body: bytes = b""
    """The object or the patch, as JSON. Patches carry their preconditions (uid, resourceVersion) themselves."""
    uid: str = ""
    """Precondition of DELETE and EVICT: the object of that name must still have this uid."""
    resource_version: str = ""
    """Precondition of DELETE: the object must not have been written since."""
    grace_s: int | None = None
    """Grace period of DELETE and EVICT; None: the pod's own."""
    dry_run: bool = False
    """The API server does everything except storing the result."""
    on_error: OnError = OnError.RAISE
    lane: str = ""
    """The namespace of people whose admission the call may wait for; "": it waits for nobody."""
    seen: Seen | None = None
    """The object that a status or a deletion was decided on."""
    status: Status | None = None
    """What is written as its status."""
    holds_on: str = ""
    """The node on which what is created will hold room."""
    why: str = ""
    """For the log."""

    @property
    def evicts(self) -> bool:
        """True if a pod may be evicted by it."""
        return self.verb in (Verb.EVICT, Verb.EVICT_BY_REQUEST) and not self.dry_run

    @property
    def path(self) -> str:
        """Where the request goes: the collection for CREATE, else the object or its subresource."""
        resource = BY_NAME.get(self.kind) or RESOURCES[self.kind]
        if self.verb is Verb.CREATE:
            return resource.object_path(self.key.namespace, "")
        path = resource.object_path(self.key.namespace, self.key.name)
        return f"{path}/{self.subresource}" if self.subresource else path

    @property
    def line(self) -> str:
        """Verb, path and preconditions in one line, without the body."""
        parts = [f"{self.verb.value} {self.path}"]
        if self.dry_run:
            parts[0] += "?dryRun=All"
        if self.verb is Verb.CREATE:
            parts.append(f"name={self.key.name}")
        if self.uid:
            parts.append(f"uid={self.uid}")
        if self.resource_version:
            parts.append(f"resourceVersion={self.resource_version}")
        if self.grace_s is not None:
            parts.append(f"gracePeriodSeconds={self.grace_s}")
        return " ".join(parts)

    def __str__(self) -> str:
        return f"{self.line} {self.body.decode()}" if self.body else self.line


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadThenCall:
    """A read whose answer decides the call, for facts that must not come from a cache."""

    does: str
    read: Call
    then: Callable[[bytes], Call | ReadThenCall | None] = field(compare=False)
    """Makes the call, or the next read, from the body that was read; None: no call is needed. Pure; may raise
    ``OwnerReplacedError``.

    It is not asked if the object is gone and ``read`` ignores that.
    """
    purpose: str
    """What the second call does, and when."""
    lane: str = ""

    @property
    def line(self) -> str:
        """Both steps in one line."""
        return f"{self.read.line}, then {self.purpose}"

    def __str__(self) -> str:
        return self.line


@dataclass(frozen=True, slots=True)
class GateProbe:
    """Dry-run creations of a pod of ``owner`` until one is held by the gate, or two seconds have passed.

    How often it is tried and what counts as held is the business of ``kube.gate``.
    """

    does: ClassVar = "prove_gate"
    lane: ClassVar = ""
    owner: OwnerRef
    namespace: str

    @property
    def line(self) -> str:
        """What is tried, in one line."""
        return (
            f"POST pods?dryRun=All owner={self.owner.kind}/{self.owner.name} uid={self.owner.uid} "
            f"for namespace {self.namespace}, until it has the scheduling gate"
        )

    def __str__(self) -> str:
        return self.line


@dataclass(frozen=True, slots=True)
class CreationTrial:
    """A dry-run creation, in place of ``pod``, whose answer is a value, refusals included (``model.outcomes``)."""

    does: ClassVar = "try_creation"
    steps: ReadThenCall | Call
    """Reads the template, unless it was read a moment ago; the last call creates the pod in a dry run."""
    pod: Pod
    template: TemplateKey
    """The template that the pod comes from."""
    changes: tuple[Call, ...] = ()
    """Tried before, in dry runs: what its replacement is changed by after its creation, and the end of the placeholder."""

    @property
    def lane(self) -> str:
        """Admission of the pod's namespace is asked."""
        return self.pod.namespace

    @property
    def line(self) -> str:
        """All steps in one line."""
        return self.steps.line

    def __str__(self) -> str:
        return self.line


AnyCall = Call | ReadThenCall | GateProbe | CreationTrial | Event


def writes_status(call: AnyCall) -> bool:
    """True if it writes the status of an object of ours."""
    return isinstance(call, Call) and call.status is not None


def acts(call: AnyCall) -> bool:
    """True if it does more than tell: it is neither the write of a status nor an Event."""
    return not isinstance(call, Event) and not writes_status(call)


# What several constructors have in common


def create(
    does: str,
    kind: Kind,
    key: ObjectKey,
    body: bytes,
    *,
    on_error: OnError = OnError.RAISE,
    holds_on: str = "",
) -> Call:
    """Create the object; if it exists already, it is that of an earlier try."""
    ignored = on_error | OnError.IGNORE_ALREADY_EXISTS
    return Call(
        does=does, verb=Verb.CREATE, kind=kind, key=key, body=body, on_error=ignored, holds_on=holds_on
    )


def merge_patch(does: str, kind: Kind, key: ObjectKey, patch: Json, **more: Any) -> Call:
    """``more``: other fields of the call."""
    return Call(does=does, verb=Verb.MERGE_PATCH, kind=kind, key=key, body=encode(patch), **more)


def delete(does: str, kind: Kind, key: ObjectKey, uid: str, **more: Any) -> Call:
    """Delete the object with that uid, if it is still there. ``more``: other fields of the call."""
    ignored = OnError.IGNORE_NOT_FOUND
    return Call(does=does, verb=Verb.DELETE, kind=kind, key=key, uid=uid, on_error=ignored, **more)


def encode(body: Any) -> bytes:
    """As JSON."""
    return msgspec.json.encode(body)
