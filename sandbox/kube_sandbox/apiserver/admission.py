"""What admission is told of a request: its attributes, and who sends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from kube_sandbox.apiserver.errors import Json
from kube_sandbox.apiserver.registry import ResourceType

USER: Json = {"username": "sandbox-admin", "groups": ["system:masters", "system:authenticated"]}
"""Who sends a request that names nobody. Every user of the sandbox is allowed everything that admission lets pass."""
_REQUESTER: ContextVar[Json] = ContextVar("requester", default=USER)

_FIELD_MANAGER: ContextVar[str] = ContextVar("field_manager", default="")


def requester() -> Json:
    """``userInfo`` of the request that is being answered."""
    return _REQUESTER.get()


def field_manager() -> str:
    """``fieldManager`` of the request that is being answered."""
    return _FIELD_MANAGER.get()


@contextmanager
def acting_as(username: str = "") -> Iterator[None]:
    """Requests within are those of this user, without a name those of ``USER``."""
    named: Json = {"username": username, "groups": ["system:authenticated"]}
    token = _REQUESTER.set(named if username else USER)
    try:
        yield
    finally:
        _REQUESTER.reset(token)


@contextmanager
def managing(manager: str) -> Iterator[None]:
    """Requests within name this field manager."""
    token = _FIELD_MANAGER.set(manager)
    try:
        yield
    finally:
        _FIELD_MANAGER.reset(token)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """The attributes of a write. ``operation`` is CREATE, UPDATE or DELETE; ``old`` is None for CREATE."""

    resource: ResourceType
    operation: str
    namespace: str
    name: str
    subresource: str = ""
    old: Json | None = None
    dry_run: bool = False
    user: Json = field(default_factory=requester)
    manager: str = field(default_factory=field_manager)
    """``fieldManager`` of the request; "" if it names none."""
