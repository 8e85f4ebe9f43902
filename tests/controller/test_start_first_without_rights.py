"""Mode StartFirst with the rights of ``manifests/`` alone, on the real control plane: the optional role is missing."""

import pytest

from harness.controlplane.world import condition, gates_of, node_of
from rescheduler.model.names import ANNOTATION_MODE

pytestmark = [pytest.mark.realcluster, pytest.mark.usefixtures("controller")]


OWN_RIGHTS = True
CONFIGURATION = {"interval": "1s", "policies": [{"name": "NodeTaints", "after": "0s", "mode": "StartFirst"}]}


def workload(world, *, annotated=True):
    source = world.node("source", cpu="8")
    world.workload("Deployment", "web", 1)
    if annotated:
        path = world.path("deployments", "web", group="apps/v1")
        world.api.patch(path, {"metadata": {"annotations": {ANNOTATION_MODE: "StartFirst"}}}).expect()
    (old,) = world.wait_ready("web", 1)
    return source, old


def budget(world, **spec):
    world.budget("web", "web", **spec)
    path = world.path("poddisruptionbudgets", "web", group="policy/v1")
    world.wait(lambda: world.api.get(path).body.get("status", {}).get("currentHealthy") == 1)


def test_a_move_that_leaves_its_mode_open_reserves_first_and_says_so(world):
    _, old = workload(world)
    budget(world, maxUnavailable=1)
    target = world.node("target", cpu="1")
    status = world.end_of(world.migrate(old, target))
    assert (status["phase"], status["mode"], status["nodeName"]) == ("Succeeded", "ReserveFirst", target), (
        status
    )
    noted = condition({"status": status}, "StartFirst")
    assert (noted["status"], noted["reason"]) == ("False", "Forbidden")
    assert "in dry runs only" in noted["message"]
    assert [node_of(p) for p in world.wait_ready("web", 1)] == [target]
    assert not [p for p in world.pods() if gates_of(p)]


@pytest.mark.parametrize(
    ("mode", "allowed"), [("StartFirst", 1), ("Auto", 0)], ids=["asked for by name", "closed budget"]
)
def test_where_reserving_first_is_no_help_it_ends_and_nothing_is_left(world, mode, allowed):
    _, old = workload(world)
    budget(world, maxUnavailable=allowed)
    status = world.end_of(world.migrate(old, world.node("target", cpu="1"), mode=mode))
    assert (status["phase"], status["reason"]) == ("Failed", "Forbidden"), status
    assert "manifests/components/start-first" in status["message"]
    assert "in dry runs only" in status["message"]
    assert "evictedAt" not in status
    assert [p["metadata"]["uid"] for p in world.pods()] == [old["metadata"]["uid"]]
    assert not world.rooms()


def test_a_policy_declares_the_mode_in_the_status_with_these_rights(world):
    source, _ = workload(world, annotated=False)
    target = world.node("target", cpu="1")
    world.taint(source, "old")
    (planned,) = world.wait(world.moves, 30)
    status = world.end_of(planned["metadata"]["name"])
    # That it was tried to start first shows that the mode was in the status before the first look.
    assert condition({"status": status}, "StartFirst").get("reason") == "Forbidden", status
    assert (status["phase"], status["nodeName"]) == ("Succeeded", target), status
