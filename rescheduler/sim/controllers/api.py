"""What the embedded control plane needs of an API server: reads, writes and one stream of events.

``Api`` is the seam: the embedded API server implements it, and controllers know nothing else. Writes go
through admission and validation as a client's would. A refusal is raised as ``ApiRefusal``; callers that
can go on after one (the object changed, is gone, or is there already) ask its ``reason``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from rescheduler.sim.controllers.wire import GroupKind, Obj


class ApiRefusal(Exception):  # noqa: N818 - a refusal by the API server is an answer, not an error of ours
    """The API server said no. ``code`` is the HTTP status, ``reason`` metav1's (NotFound, Conflict, ...)."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class Change:
    """One event: ``type`` is ADDED, MODIFIED or DELETED. The object is shared and must not be changed."""

    type: str
    object: Obj


class Api(Protocol):
    """Reads and writes of wire objects. Returned objects are the caller's to keep, not to change."""

    def list(self, kind: GroupKind) -> list[Obj]:
        """All objects of a kind, over all namespaces; empty for a kind that is not served."""
        ...

    def get(self, kind: GroupKind, namespace: str, name: str) -> Obj | None:
        """One object or None."""
        ...

    def create(self, obj: Obj) -> Obj:
        """Create from a full object; raises ApiRefusal."""
        ...

    def patch(self, obj: Obj, change: Obj, *, subresource: str = "") -> Obj:
        """Merge-patch the object with this identity (uid is a precondition); raises ApiRefusal."""
        ...

    def delete(self, obj: Obj, *, grace_s: int | None = None) -> None:
        """Delete the object with this identity (uid is a precondition), dependents in the background."""
        ...

    def remove_finalizer(self, obj: Obj, finalizer: str) -> None:
        """Take one finalizer off; the last one off a terminating object removes it."""
        ...

    def bind(self, pod: Obj, node: str) -> None:
        """POST pods/binding; raises ApiRefusal (409 if gated, bound or terminating)."""
        ...

    def finalize_namespace(self, name: str) -> None:
        """Remove a terminating namespace whose content is gone."""
        ...

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Hear every change from now on, in order, from any thread; gives the unsubscribe function."""
        ...
