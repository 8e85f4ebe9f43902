"""The metadata of one object as an API server answers it, for whoever reads a single object and not the caches.

What the caches keep of objects is decoded by ``model.decode``, which expects damage of any kind; an answer of the API server has none.
"""

from __future__ import annotations

import msgspec


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel"):
    """metav1.ObjectMeta, as far as somebody reads it."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None


class Described(msgspec.Struct, frozen=True):
    """An object of which nothing but the metadata count."""

    metadata: ObjectMeta = ObjectMeta()
