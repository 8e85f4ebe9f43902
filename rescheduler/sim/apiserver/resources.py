"""What the API server serves: one record for each resource, and the registry that finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from rescheduler.sim.apiserver.errors import FieldError, Json, qualified

Verbs = tuple[str, ...]

ALL_VERBS: Verbs = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column. ``cell`` gives its value for an object and the time now (seconds)."""

    name: str
    type: str
    cell: Callable[[Json, float], Any]
    priority: int = 0
    format: str = ""
    description: str = ""


class CustomRules(Protocol):
    """What the definition of a custom resource does to its objects."""

    schema: Json

    def prune_and_default(self, obj: Json) -> None:
        """Drops unknown fields and writes defaults, in place."""
        ...

    def unknown_fields(self, obj: Json) -> list[str]:
        """Paths of fields that the schema does not know."""
        ...

    def validate(self, obj: Json, old: Json | None) -> list[FieldError]:
        """Faults of a new (``old`` None) or changed object."""
        ...

    def list_keys(self, field: str) -> tuple[str, ...]:
        """Keys by which a list of that name is merged."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceType:
    """One resource in one version.

    ``storage`` names the table that holds it: two versions or groups may share one, with ``decode`` and
    ``encode`` between their form and the stored form. ``subresources`` without status and scale are those
    with handlers of their own. ``generation``: spec changes count in metadata.generation.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: Verbs = ALL_VERBS
    status: bool = False
    scale: bool = False
    subresources: tuple[tuple[str, str], ...] = ()
    generation: bool = False
    fields: tuple[str, ...] = ()
    storage: str = ""
    decode: Callable[[Json], Json] | None = None
    encode: Callable[[Json], Json] | None = None
    columns: tuple[Column, ...] = ()
    orphans_by_default: bool = False
    returns_deleted: bool = False
    custom: CustomRules | None = None

    @property
    def name(self) -> str:
        """``pods`` or ``deployments.apps``."""
        return qualified(self.group, self.plural)

    @property
    def table(self) -> str:
        """The key of its objects in storage."""
        return self.storage or self.name

    @property
    def api_version(self) -> str:
        """``v1`` or ``apps/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def list_kind(self) -> str:
        """Kind of its lists."""
        return f"{self.kind}List"

    @property
    def singular_name(self) -> str:
        """The singular that clients may type."""
        return self.singular or self.kind.lower()


@dataclass(slots=True)
class Registry:
    """The resources that are served now; custom ones come and go."""

    _by_path: dict[tuple[str, str, str], ResourceType] = field(default_factory=dict)
    generation: int = 0

    def add(self, resource: ResourceType) -> None:
        """Serves ``resource``, in place of an equal one."""
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Stops to serve all versions of a resource."""
        for key in [k for k in self._by_path if k[0] == group and k[2] == plural]:
            del self._by_path[key]
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        """The resource at a path, or None."""
        return self._by_path.get((group, version, plural))

    def named(self, name: str) -> ResourceType:
        """The resource called ``pods`` or ``deployments.apps``. Raises KeyError."""
        for resource in self._by_path.values():
            if resource.name == name:
                return resource
        raise KeyError(name)

    def by_kind(self, api_version: str, kind: str) -> ResourceType | None:
        """The resource of a kind, or None."""
        for resource in self._by_path.values():
            if resource.kind == kind and resource.api_version == api_version:
                return resource
        return None

    def __iter__(self) -> Iterator[ResourceType]:
        return iter(tuple(self._by_path.values()))

    def versions(self) -> dict[str, list[str]]:
        """Versions of each group, in the order of registration."""
        found: dict[str, list[str]] = {}
        for group, version, _ in self._by_path:
            if version not in found.setdefault(group, []):
                found[group].append(version)
        return found
