"""The calls to the API server, as values: what is sent and how errors are treated (pure).

``controller.call_table`` makes them, ``controller.sender`` sends them. A value can be printed and compared, so a
test or a dry run shows exactly what a real run sends. This module sends nothing and knows no clock.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from rescheduler.model.kinds import BY_NAME, RESOURCES, Kind
from rescheduler.model.records import ObjectKey, OwnerRef
from rescheduler.reservations.actions import RecordEvent


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


class OnError(enum.Flag):
    """Refusals of the API server that are not raised to the caller."""

    RAISE = 0
    IGNORE_NOT_FOUND = enum.auto()
    """404: what the call would remove is gone already."""
    IGNORE_ALREADY_EXISTS = enum.auto()
    """409 AlreadyExists: names are deterministic, so the object is that of our own earlier try."""
    RETURN_REFUSAL = enum.auto()
    """403, 422 and the like: the same call would be refused again, so the server's message is an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request about one object."""

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

    read: Call
    then: Callable[[bytes], Call | ReadThenCall | None]
    """Makes the call, or the next read, from the body that was read; None: no call is needed. Pure; may raise
    ConflictError.

    It is not asked if the object is gone and ``read`` ignores that.
    """
    purpose: str
    """What the second call does, and when."""

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
    """A dry-run creation whose answer is a value, refusals included (``model.pod_creation``)."""

    steps: ReadThenCall
    """Reads the template; the last call creates the pod in a dry run."""

    @property
    def line(self) -> str:
        """All steps in one line."""
        return self.steps.line

    def __str__(self) -> str:
        return self.line


@dataclass(frozen=True, slots=True)
class TemplateTrial:
    """A dry-run creation of which only the verdict of the API server's validation matters; unknown fields are refused."""

    call: Call

    @property
    def line(self) -> str:
        """The call, in one line."""
        return self.call.line

    def __str__(self) -> str:
        return str(self.call)


@dataclass(frozen=True, slots=True)
class EventNote:
    """An Event for the recorder, which aggregates and sends it later; its answer matters to no decision."""

    event: RecordEvent

    @property
    def line(self) -> str:
        """The Event as ``kubectl get events`` shows it."""
        event = self.event
        name = f"{event.namespace}/{event.name}" if event.namespace else event.name
        return f"EVENT {'Warning' if event.warning else 'Normal'} {event.reason} {event.kind}/{name}"

    def __str__(self) -> str:
        return f"{self.line}: {self.event.message}"


Operation = Call | ReadThenCall | GateProbe | CreationTrial | TemplateTrial | EventNote
"""What one action stands for."""
