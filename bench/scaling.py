"""Reserve before scaling, on the real control plane: how many new pods land in their rooms, and what is left behind.

    python bench/scaling.py [--count 20] [--kind Deployment|StatefulSet] [--short 0]
                            [--disturb none|scheduler|apiserver|kill|both] [--when reserving|landing]

The nodes have room for exactly ``count`` new pods, less ``--short``: then nothing may be scaled. Once the rooms are
held, three times as many pods want them. ``--disturb``: as in ``bench/reservations.py``, while the rooms are being
reserved or while the pods land. It is the code of ``rescheduler scale`` that reserves and scales. Counted from the
objects, not from what it says. Needs the binaries of ``make controlplane``.
"""

from __future__ import annotations

import secrets
import threading
import time

import click
from moves import PLACEHOLDERS, crowd
from reservations import DISTURBANCES, Stage, intruders, leftovers, must, patiently, play

from harness.controlplane.world import World, node_of
from rescheduler.cli.errors import CommandError
from rescheduler.cli.reservation_client import ReservationClient, reservation_line
from rescheduler.cli.scale_up import ScaleUp
from rescheduler.cli.workload import parse_workload, read_workload
from rescheduler.kube.client import KubeApi
from rescheduler.kube.transport import TransportError

LIMIT_S = 120.0
SHORT_LIMIT_S = 30.0


def scale_up(world: World, kind: str, replicas: int, limit_s: float) -> ScaleUp:
    """What ``rescheduler scale KIND/web --replicas N`` works with."""
    api = KubeApi(world.api.transport)
    return ScaleUp(
        rooms=ReservationClient(api),
        workload=read_workload(api, parse_workload(f"{kind.lower()}/web", world.namespace)),
        replicas=replicas,
        group=secrets.token_hex(4),
        timeout_s=limit_s,
    )


def scene(kind: str, short: int, when: str, stage: Stage, count: int) -> None:
    """One pod runs; ``count`` more are wanted, and there is room for ``count`` less ``short``."""
    world = stage.world
    world.node("first", cpu="1")
    world.workload(kind, "web", 1)
    world.wait_ready("web", 1)
    nodes = [world.node(f"to{number}", cpu="2") for number in range(count - short)]
    for number, node in enumerate(nodes):
        world.pod(f"filler{number}", nodeName=node)
    must(lambda: all(node_of(p) for p in world.pods()), 30)
    job = scale_up(world, kind, count + 1, SHORT_LIMIT_S if short else LIMIT_S)
    begun = time.monotonic()
    trouble = stage.trouble() if when == "reserving" else None
    try:
        held = {room.name: room.status.node_name for room in job.reserve()}
    except (CommandError, TransportError) as refused:
        finish(trouble)
        print(f"seconds {time.monotonic() - begun:.1f}; {str(refused).splitlines()[0]}")
        stage.expect("refused", bool(short), True)
    else:
        print(f"reserved after {time.monotonic() - begun:.1f} s")
        stage.expect("rooms held", len(held), count)
        crowd(world, 3 * count, "")
        if when == "landing":
            trouble = stage.trouble()
        job.scale()
        landing = job.land()
        finish(trouble)
        print(f"seconds {time.monotonic() - begun:.1f}")
        stage.expect(
            "landed in the room that was shown",
            sum(held[r.name] == r.status.node_name for r in landing.landed),
            count,
        )
        for room in landing.missed:
            print(f"  missed: {reservation_line(room)}")
        patiently(lambda: all(node_of(p) for p in world.pods("web")), 30)
    new = [p for p in world.pods("web") if node_of(p) in nodes]
    wanted = 0 if short else count
    stage.expect("new pods, one on each node", len({node_of(p) for p in new}), wanted)
    stage.expect("new pods that are Pending", sum(not node_of(p) for p in world.pods("web")), 0)
    stage.expect("replicas", len(world.pods("web")), wanted + 1)
    stage.expect("pods of the crowd in the rooms", intruders(world, set(nodes)), 0)
    patiently(lambda: not world.api.get(PLACEHOLDERS).expect().items, 30)
    if short:
        stage.expect("Reservations left", len(job.rooms.group(job.group)), 0)
    leftovers(stage, 0, other=1)


def finish(trouble: threading.Thread | None) -> None:
    """Until the disturbance, where there is one, is over."""
    if trouble is not None:
        trouble.join()


@click.command()
@click.option("--count", default=20, show_default=True)
@click.option(
    "--kind", type=click.Choice(["Deployment", "StatefulSet"]), default="Deployment", show_default=True
)
@click.option("--short", default=0, show_default=True, help="ReservationClient too few.")
@click.option("--disturb", type=DISTURBANCES, default="none", show_default=True)
@click.option("--when", type=click.Choice(["reserving", "landing"]), default="landing", show_default=True)
def main(count: int, kind: str, short: int, disturb: str, when: str) -> None:
    """Reserve before scaling, measured."""
    print(f"--- {kind}, {count} more, {short} rooms too few, disturbed: {disturb} while {when}", flush=True)
    raise SystemExit(not play(lambda stage, n: scene(kind, short, when, stage, n), count, disturb))


if __name__ == "__main__":
    main()
