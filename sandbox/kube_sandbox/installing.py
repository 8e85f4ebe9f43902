"""Applies the manifests of the project to the sandbox."""

from __future__ import annotations

import functools
from typing import Final

import msgspec

from rescheduler.kube.client import KubeApi
from rescheduler.kube.installation import load, path_of
from rescheduler.kube.transport import Transport

_INSTALLER: Final = "kubectl"
"""As on a real cluster: what the controller writes itself is told from it (policy controller-times)."""
_NOT_INSTALLED: Final = frozenset({"Deployment", "Service"})
"""Objects of the controller itself, which runs outside of the sandbox."""


def install(transport: Transport) -> None:
    """Apply all objects except those of the controller itself. Raises ApiError, TransportError."""
    api = KubeApi(transport)
    for path, body in _bodies():
        api.apply(path, body, manager=_INSTALLER)


@functools.cache
def _bodies() -> tuple[tuple[str, bytes], ...]:
    """Path and JSON of each object that is applied; the manifests are parsed once in a process."""
    return tuple(
        (path_of(obj), msgspec.json.encode(obj)) for obj in load() if obj["kind"] not in _NOT_INSTALLED
    )
