"""Reserve before scaling, on both clusters: every new pod lands in its room while a crowd waits; all or nothing."""

import secrets
import time

import pytest
from reserving import SANDBOX

from harness.controlplane.world import gates_of, node_of, placeholders
from rescheduler.cli.errors import CommandError
from rescheduler.cli.reservation_client import ReservationClient
from rescheduler.cli.scale_up import ScaleUp
from rescheduler.cli.workload import parse_workload, read_workload
from rescheduler.kube.client import KubeApi
from rescheduler.model.reservation import ReservationPhase
from rescheduler.reports.reservation_words import reservation_line

pytestmark = pytest.mark.usefixtures("api")

KINDS = [
    ("embedded_api", "StatefulSet"),
    pytest.param("real_api", "Deployment", marks=pytest.mark.realcluster),
]
"""Who creates the pods and who binds them differ; what the rooms are, and who gets them, is decided alike."""


def scale_up(world, text, replicas, clock=time.monotonic):
    api = KubeApi(world.api.transport)
    found = read_workload(api, parse_workload(text, world.namespace))
    return ScaleUp(
        rooms=ReservationClient(api), workload=found, replicas=replicas, group=secrets.token_hex(4),
        timeout_s=120.0, clock=clock, pause=lambda: time.sleep(0.1),
    )  # fmt: skip


def stuck(world, landing):
    """What became of rooms that nobody landed in, for the failure message."""
    holders = placeholders(world.api)
    found = [reservation_line(room) for room in landing.missed]
    for room in landing.missed:
        for pod in [p for p in holders if p["metadata"]["name"].startswith(room.name)] + [
            world.get_pod(owner.name) for owner in room.status.current_owners
        ]:
            meta, status = pod["metadata"], pod["status"]
            found.append(
                f"{meta['name']} on {node_of(pod) or '-'} gates {gates_of(pod)} "
                f"nominated {status.get('nominatedNodeName')} ending {meta.get('deletionTimestamp')} "
                f"{status.get('phase')} {meta.get('annotations')}"
            )
    return "\n".join(found)


def rooms_of(job):
    return job.rooms.group(job.group)


@pytest.mark.parametrize(("cluster", "kind"), KINDS, indirect=["cluster"])
def test_scale_up_by_twenty_lands_twenty_while_a_crowd_waits_for_every_room(world, kind):
    for index in range(7):
        world.node(f"n{index}", cpu="3")
    world.running(kind, "web", 1)
    job = scale_up(world, f"{kind.lower()}/web", 21)
    held = {room.name: room.status.node_name for room in job.reserve()}
    assert len(held) == 20
    world.crowd(60)
    job.scale()
    landing = job.land()
    assert not landing.missed, stuck(world, landing)
    assert {room.name: room.status.node_name for room in landing.landed} == held
    pods = world.wait_ready("web", 21)
    where = {pod["metadata"]["name"]: node_of(pod) for pod in pods}
    assert {
        r.status.current_owners[0].name: r.status.node_name for r in landing.landed
    }.items() <= where.items()
    assert not [p for p in world.pods("web") if not node_of(p)]
    assert not any(map(node_of, world.pods("crowd")))


@SANDBOX
def test_nothing_is_scaled_where_only_nineteen_of_twenty_fit(world):
    for index in range(4):
        world.node(f"n{index}", cpu="5")
    world.running("Deployment", "web", 1)

    decided = [False]

    def clock():
        """Time is over at the first look after nineteen rooms are held, and one is refused: the command has looked since."""
        found = rooms_of(job)
        held = sum(room.status.phase is ReservationPhase.AVAILABLE for room in found)
        decided.append(held == 19 and all(room.status.conditions for room in found))
        return time.monotonic() + (1000.0 if decided[-2] else 0.0)

    job = scale_up(world, "deployment/web", 21, clock)
    with pytest.raises(CommandError) as refused:
        job.reserve()
    assert "room for 19 of 20 new pods of deployment/web" in str(refused.value)
    assert "1 x Pending: 0/" in str(refused.value)
    assert rooms_of(job) == ()
    assert len(world.pods("web")) == 1
    world.wait(lambda: not [p for p in placeholders(world.api) if job.group in p["metadata"]["name"]])
