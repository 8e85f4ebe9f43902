"""The interface between the sandbox's control plane and its API server: reads, writes and one stream of events.

Controllers, scheduler and kubelets use only ``Api``; ``StoreClient`` implements it. Writes pass admission and
validation as those of any client. A rejected request is raised as ``ApiRefusal``; callers that can go on after it
(the object was changed, deleted, or exists already) check its ``reason``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kube_sandbox.controllers.unstructured import GroupKind, Obj
from rescheduler.errors import ReschedulerError


class ApiRefusal(ReschedulerError):  # noqa: N818 - a refusal by the API server is an answer, not an error of ours
    """The API server rejected a request. ``code`` is the HTTP status, ``reason`` metav1's (NotFound, Conflict, ...)."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """One event: ``type`` is ADDED, MODIFIED or DELETED. The object is shared and must not be changed."""

    type: str
    object: Obj


class Api(Protocol):
    """Reads and writes of objects in JSON. The caller must not change returned objects."""

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

    def bind(self, pod: Obj, node: str) -> None:
        """POST pods/binding; raises ApiRefusal (409 if gated, bound or terminating)."""
        ...

    def finalize_namespace(self, name: str) -> None:
        """Remove a terminating namespace whose content is gone."""
        ...

    def subscribe(self, listener: Callable[[ObjectChange], None]) -> Callable[[], None]:
        """Call ``listener`` for every change from now on, in order, from any thread; returns the unsubscribe function."""
        ...
