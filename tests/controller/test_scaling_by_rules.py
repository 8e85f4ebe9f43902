"""Reserve before scaling where rules forbid some orders of landing: spread, keeping apart, one after the other."""

import pytest
from test_scaling_into_rooms import KINDS, scale_up, stuck

from harness.controlplane.world import node_of
from rescheduler.model.names import HOSTNAME, ZONE

pytestmark = pytest.mark.usefixtures("api")

MINE = {"matchLabels": {"app": "web"}}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOSTNAME, "labelSelector": MINE}]
    }
}


def even_over(key):
    """At most one pod more in one place than in another."""
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": MINE}]


def nodes(world, count, cpu):
    """In three zones by turns."""
    for index in range(count):
        name = f"{world.namespace}-n{index}"
        world.node(f"n{index}", cpu=cpu, labels={ZONE: "abc"[index % 3], HOSTNAME: name})


def lands(world, kind, replicas, *, crowd, **spec):
    """All new pods land in the rooms that were shown, though others want those."""
    world.running(kind, "web", 1, **spec)
    job = scale_up(world, f"{kind.lower()}/web", replicas)
    held = {room.name: room.status.node_name for room in job.reserve()}
    world.crowd(crowd)
    job.scale()
    landing = job.land()
    assert not landing.missed, stuck(world, landing)
    assert {room.name: room.status.node_name for room in landing.landed} == held
    return [node_of(pod) for pod in world.wait_ready("web", replicas)]


@pytest.mark.parametrize(("cluster", "kind"), KINDS, indirect=["cluster"])
def test_pods_that_must_be_even_over_zones_all_land(world, kind):
    nodes(world, 6, "2")
    where = lands(world, kind, 12, crowd=12, topologySpreadConstraints=even_over(ZONE))
    assert len(where) == 12


@pytest.mark.parametrize(("cluster", "kind"), KINDS, indirect=["cluster"])
def test_pods_that_must_be_even_over_nodes_all_land(world, kind):
    nodes(world, 4, "3")
    where = lands(world, kind, 12, crowd=12, topologySpreadConstraints=even_over(HOSTNAME))
    assert sorted(map(where.count, set(where))) == [3, 3, 3, 3]


@pytest.mark.parametrize(("cluster", "kind"), KINDS, indirect=["cluster"])
def test_pods_that_must_keep_apart_all_land(world, kind):
    nodes(world, 9, "1")
    where = lands(world, kind, 9, crowd=9, affinity=APART)
    assert len(set(where)) == 9


@pytest.mark.parametrize("cluster", [pytest.param("real_api", marks=pytest.mark.realcluster)], indirect=True)
def test_pods_that_start_one_after_the_other_all_land(world):
    nodes(world, 4, "3")
    where = lands(world, "StatefulSet", 9, crowd=9, more={"podManagementPolicy": "OrderedReady"})
    assert len(where) == 9
