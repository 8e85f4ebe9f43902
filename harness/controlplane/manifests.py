"""Puts the project's manifests into a cluster under test, without kubectl, and fails at the first refusal."""

from __future__ import annotations

from harness.controlplane.api import APPLY, Answer, Api, Json
from harness.controlplane.in_force import wait_until_in_force, wait_until_mutated, wait_until_served
from rescheduler.kube.installation import FOLDER, load, path_of

__all__ = ["FOLDER", "apply", "load", "of", "path_of"]


def of(gate: str) -> list[Json]:
    """What is installed beside a controller outside of the cluster. ``gate``: "policy", "webhook" (before 1.36), or "guard"."""
    base = [obj for obj in load() if obj["kind"] != "Deployment"]
    if gate == "policy":
        return base
    components = [obj for name in ("webhook-server", gate) for obj in load(FOLDER / "components" / name)]
    if gate == "guard":
        return base + components
    return [obj for obj in base if not obj["kind"].startswith("MutatingAdmissionPolicy")] + components


def apply(api: Api, objects: list[Json]) -> list[Answer]:
    """Server-side apply of each object; the admission policies among them are in force then, and the new kinds are served.

    AssertionError at the first refusal.
    """
    answers = [
        api.patch(path_of(obj), obj, APPLY, fieldManager="rescheduler-tests", force="true").expect()
        for obj in objects
    ]
    wait_until_served(api, objects)
    wait_until_in_force(api, objects)
    wait_until_mutated(api, objects)
    return answers
