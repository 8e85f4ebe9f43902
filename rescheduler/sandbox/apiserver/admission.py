"""The interface between the store and admission: the attributes of a request, and what a plugin may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rescheduler.sandbox.apiserver.errors import Json
from rescheduler.sandbox.apiserver.registry import ResourceType

USER: Json = {"username": "sandbox-admin", "groups": ["system:masters", "system:authenticated"]}
"""The only user of the sandbox; every request is allowed."""


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


class Admission(Protocol):
    """Mutates and validates writes."""

    def mutate(self, attributes: Attributes, obj: Json) -> Json:
        """The object to store. Raises StatusError to reject the request."""
        ...

    def validate(self, attributes: Attributes, obj: Json) -> None:
        """Check the final object. Raises StatusError to reject the request."""
        ...
