"""Manifests with anything in any place, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Place = tuple[str | int, ...]
"""Keys and indices from the manifest down."""


def places(value: Any, path: Place = ()) -> Iterator[Place]:
    """Every place in a manifest, the whole first: ()."""
    yield path
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield from places(child, (*path, key))


def put(manifest: Any, path: Place, junk: Any) -> None:
    """Put ``junk`` in a place of the manifest, which changes; ``path`` is not ()."""
    for key in path[:-1]:
        manifest = manifest[key]
    manifest[path[-1]] = junk


def plant(manifest: Any, path: Place, junk: Any) -> None:
    """Put ``junk`` in a place that need not exist; what stands above it and is no list or object is replaced."""
    for key, inner in zip(path, (*path[1:], None), strict=True):
        if isinstance(key, int):
            manifest.extend([None] * (key + 1 - len(manifest)))
        elif key not in manifest:
            manifest[key] = None
        if inner is None:
            manifest[key] = junk
            return
        wanted = list if isinstance(inner, int) else dict
        if not isinstance(manifest[key], wanted):
            manifest[key] = wanted()
        manifest = manifest[key]
