"""The seam between storing and admission: what an admission step sees and what it may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rescheduler.sim.apiserver.errors import Json
from rescheduler.sim.apiserver.resources import ResourceType


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """One write on its way in. ``old`` is None for a creation; ``operation`` is CREATE, UPDATE or DELETE."""

    resource: ResourceType
    operation: str
    namespace: str
    name: str
    subresource: str = ""
    old: Json | None = None
    dry_run: bool = False


class Admission(Protocol):
    """Changes and refuses writes."""

    def mutate(self, attributes: Attributes, obj: Json) -> Json:
        """The object to store. Raises ApiError to refuse."""
        ...

    def validate(self, attributes: Attributes, obj: Json) -> None:
        """Raises ApiError to refuse the final object."""
        ...
