"""Reservations on a cluster, as people make and look at them, and on which of the two clusters a test runs."""

import pytest

from harness import documents
from harness.controlplane.world import RESERVATIONS, condition, node_of
from harness.controlplane.world import placeholders as all_placeholders

SANDBOX = pytest.mark.parametrize("cluster", ["embedded_api"], indirect=True)
"""Of tests of which the real control plane would say the same: what they look at is the controller's alone."""


def reserve(world, name, owner, *, node="", cpu="1", template=None, labels=None, **spec):
    """Asks for a Reservation called WORLD-NAME; gives the server's answer."""
    pinned = {"nodeName": node} if node else {}
    spec = {
        "template": {"metadata": {"labels": labels or {}}, "spec": world.spec(cpu, **pinned, **(template or {}))},
        "owners": [owner],
        **spec,
    }  # fmt: skip
    body = documents.own("Reservation", f"{world.namespace}-{name}", spec)
    return world.api.create(RESERVATIONS, body)


def path_of(world, name):
    """Where the API server has it."""
    return f"{RESERVATIONS}/{world.namespace}-{name}"


def look(world, name):
    """Its status."""
    return world.api.get(path_of(world, name)).expect().body.get("status") or {}


def phase(world, name, wanted, seconds=30):
    """Waits for a phase; gives the status."""
    try:
        world.wait(lambda: look(world, name).get("phase") == wanted, seconds)
    except AssertionError as error:
        raise AssertionError(f"{look(world, name)}") from error
    return look(world, name)


def told(world, name, kind="Scheduled", text="", seconds=30):
    """Waits until a condition says something that contains ``text``; gives the condition."""

    def said():
        found = condition({"status": look(world, name)}, kind)
        return found if text in found.get("message", "") and found else None

    try:
        return world.wait(said, seconds)
    except AssertionError as error:
        raise AssertionError(f"{look(world, name)}") from error


def of_web(world):
    """The owner: Deployment web."""
    return {"controller": {"kind": "Deployment", "name": "web", "namespace": world.namespace}}


def scale(world, count):
    """Sets the replicas of Deployment web."""
    path = world.path("deployments", "web", group="apps/v1")
    world.api.patch(path, {"spec": {"replicas": count}}).expect()


def on(world, node, app="web"):
    """Names of the pods of a workload on a node."""
    return [p["metadata"]["name"] for p in world.pods(app) if node_of(p) == node]


def placeholders(world, name):
    """Placeholders of a Reservation."""
    found = all_placeholders(world.api)
    owner = f"{world.namespace}-{name}"
    return [p for p in found if any(o["name"] == owner for o in p["metadata"].get("ownerReferences") or ())]
