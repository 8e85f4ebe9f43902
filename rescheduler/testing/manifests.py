"""Puts the project's manifests into a cluster under test, without kubectl, and fails at the first refusal."""

from __future__ import annotations

from rescheduler.sim.installation import FOLDER, load, path_of
from rescheduler.testing.api import APPLY, Answer, Api, Json

__all__ = ["FOLDER", "apply", "load", "path_of"]


def apply(api: Api, objects: list[Json]) -> list[Answer]:
    """Server-side apply of each object; AssertionError at the first refusal."""
    return [
        api.patch(path_of(obj), obj, APPLY, fieldManager="rescheduler-tests", force="true").expect()
        for obj in objects
    ]
