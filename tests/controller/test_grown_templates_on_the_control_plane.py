"""Templates that grew after the pods were created, on the real control plane, with and without the right to dry-run creations."""

import pytest

from harness.controlplane import manifests
from harness.controlplane.api import STRATEGIC
from harness.controlplane.controllers import running
from harness.controlplane.nodes import cordon
from harness.controlplane.world import condition, node_of

pytestmark = pytest.mark.realcluster

ROLES = [obj for obj in manifests.load() if obj["metadata"]["name"] == "rescheduler-dry-run-creation"]
ON_DELETE = {"updateStrategy": {"type": "OnDelete"}}
BELOW_PARTITION = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}}


@pytest.fixture(scope="module", params=[True, False], ids=["with the right", "without it"])
def right(request, control_plane):
    api = control_plane.api()
    for obj in () if request.param else ROLES:
        api.delete(manifests.path_of(obj)).expect()
    account = control_plane.account()
    with running(account.transport):
        yield request.param
    manifests.apply(api, ROLES)


def grown(world, kind, more):
    """One pod of 1 CPU whose controller's template asks for 2 now."""
    source = world.node("source", cpu="4")
    (pod,) = world.running(kind, "web", 1, more=more)
    cordon(world.api, source).expect()
    path = world.path(kind.lower() + "s", "web", group="apps/v1")
    container = {"name": "main", "resources": {"requests": {"cpu": "2"}}}
    spec = {"template": {"spec": {"containers": [container]}}}
    world.api.patch(path, {"spec": spec}, STRATEGIC).expect()
    if kind == "StatefulSet":
        world.wait(lambda: two_revisions(world.api.get(path).expect().body["status"]))
    return pod


def two_revisions(status):
    return status["updateRevision"] != status["currentRevision"]


@pytest.mark.parametrize(
    ("kind", "more", "cpu"),
    [("ReplicaSet", {}, "2"), ("StatefulSet", ON_DELETE, "2"), ("StatefulSet", BELOW_PARTITION, "1")],
    ids=["bare ReplicaSet", "OnDelete", "below the partition"],
)
def test_the_replacement_has_room(right, world, kind, more, cpu):
    pod = grown(world, kind, more)
    target = world.node("target", cpu="2")
    status = world.end_of(world.migrate(pod, target, ttl="15s"))
    assert (status["phase"], status["nodeName"]) == ("Succeeded", target), status
    noted = condition({"status": status}, "ReplacementAdmitted")
    assert (noted["status"] == "True") is right
    assert f"cpu {cpu}," in noted["message"]
    assert [node_of(p) for p in world.wait_ready("web", 1)] == [target]
