"""The resources that the API server serves: one record for each, and the registry of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from kube_sandbox.apiserver.errors import FieldError, Json, qualified

Verbs = tuple[str, ...]

ALL_VERBS: Verbs = (
    "create",
    "delete",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


class CustomRules(Protocol):
    """The rules of a CustomResourceDefinition for its objects."""

    schema: Json

    def prune_and_default(self, obj: Json) -> None:
        """Drop unknown fields and write defaults, in place."""
        ...

    def unknown_fields(self, obj: Json) -> list[str]:
        """Paths of fields that the schema does not have."""
        ...

    def validate(self, obj: Json, old: Json | None) -> list[FieldError]:
        """Errors of a new (``old`` None) or changed object."""
        ...

    def list_keys(self, field: str) -> tuple[str, ...]:
        """Merge keys of a list field."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceType:
    """One resource in one version."""

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
    """It has the status subresource."""
    scale: bool = False
    """It has the scale subresource."""
    subresources: tuple[tuple[str, str], ...] = ()
    """(name, kind) of further subresources."""
    generation: bool = False
    """Changes of the spec increment metadata.generation."""
    fields: tuple[str, ...] = ()
    """Supported field selectors."""
    storage: str = ""
    """Table of its objects, if it shares that with another version or group."""
    decode: Callable[[Json], Json] | None = None
    """Converts an object of this version to the stored form."""
    encode: Callable[[Json], Json] | None = None
    """Converts a stored object to this version."""
    returns_deleted: bool = False
    """DELETE returns the object, not a Status."""
    printed: tuple[tuple[str, str, str, int], ...] = ()
    """additionalPrinterColumns: name, type, jsonPath, priority."""
    custom: CustomRules | None = None
    """Rules of a custom resource; None for built-in kinds."""

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
        """The singular name."""
        return self.singular or self.kind.lower()


@dataclass(slots=True)
class Registry:
    """The resources that are served now."""

    _by_path: dict[tuple[str, str, str], ResourceType] = field(default_factory=dict)
    generation: int = 0
    """Increases at every change."""

    def add(self, resource: ResourceType) -> None:
        """Serve ``resource``; it replaces one of the same group, version and name."""
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Stop serving all versions of a resource."""
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
