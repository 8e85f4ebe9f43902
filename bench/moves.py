"""Moves on the real control plane, measured: how many land where their room is reserved, and what is left behind.

    python -m bench.moves stampede [--moves 40] [--competitors equal|higher] [--gate policy|webhook]
    python -m bench.moves kill [--kills 20] [--gate policy|webhook]

``stampede``: every node is full and more pods wait than there are rooms; Deployments and StatefulSets under
PodDisruptionBudgets are moved. ``kill``: the controller, a process of its own, is killed by SIGKILL at random
moments while moves are in flight, and started again. All
count from the objects and from watches, not from what the controller says of itself. ``--gate webhook``: on an API server without the policy engine, as before 1.36. Needs the
binaries of ``make controlplane``, or others of KUBEBUILDER_ASSETS.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from dataclasses import dataclass, field

import click

from bench.stage import ENDED, PLACEHOLDERS, allowed, at_work, crowd, held, left_behind, moment, read
from bench.stage import moves as moves_of
from harness.controlplane.servers import ControlPlane, without_policies
from harness.controlplane.world import World, is_ready, node_of

GATES = click.Choice(["policy", "webhook"])


@dataclass
class Witness:
    """Watches pods and Reservations from outside and notes what must never happen."""

    world: World
    apps: dict[str, int]
    least_ready: dict[str, int] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Look again and again at how many pods of each workload are Ready."""
        while not self.stop.is_set():
            ready: dict[str, int] = dict.fromkeys(self.apps, 0)
            for pod in read(self.world.pods):
                app = pod["metadata"].get("labels", {}).get("app")
                if app in ready and is_ready(pod) and "deletionTimestamp" not in pod["metadata"]:
                    ready[app] += 1
            for app, count in ready.items():
                self.least_ready[app] = min(self.least_ready.get(app, count), count)
            time.sleep(0.05)


@dataclass
class Scene:
    """A cluster in which ``wanted`` moves are asked for: PodMigration name -> (kind, target node)."""

    world: World
    wanted: dict[str, tuple[str, str]]
    apps: dict[str, int]


def build(world: World, moves: int, plane: ControlPlane) -> Scene:
    """Full nodes; moves asked for; every Reservation Available; nothing may be evicted yet (PDBs say 0).

    The scheduler is away while the moves are asked for, so that no eviction comes before the budgets are closed.
    """
    replicas = 4
    apps: dict[str, int] = {}
    wanted: dict[str, tuple[str, str]] = {}
    kinds: dict[str, str] = {}
    for number in range(-(-moves // replicas)):
        app = f"app{number}"
        kinds[app] = "StatefulSet" if number % 2 else "Deployment"
        world.node(f"src{number}", cpu=str(replicas))
        world.workload(kinds[app], app, replicas)
        apps[app] = replicas
    sitting = {app: world.wait_ready(app, replicas, 60) for app in apps}
    for app in apps:
        world.budget(app, app, maxUnavailable=1)
    world.wait(lambda: allowed(world) == [1] * len(apps), 30)
    plane.kill_scheduler()
    for app, pods in sitting.items():
        for pod in pods[: moves - len(wanted)]:
            target = world.node(f"to{len(wanted)}", cpu="2")
            world.pod(f"filler{len(wanted)}", nodeName=target)
            wanted[world.migrate(pod, target, ttl="10m")] = (kinds[app], target)
    world.wait(lambda: len(world.api.get(PLACEHOLDERS).expect().items) >= moves, 60)
    set_budgets(world, apps, 0)
    world.wait(lambda: allowed(world) == [0] * len(apps), 30)
    plane.start_scheduler()
    world.wait(lambda: len(held(world, "Available")) >= moves, 120)
    return Scene(world=world, wanted=wanted, apps=apps)


def set_budgets(world: World, apps: dict[str, int], count: int) -> None:
    """From now on so many pods of each workload may be disrupted at a time."""
    for app in apps:
        path = world.path("poddisruptionbudgets", app, group="policy/v1")
        world.api.patch(path, {"spec": {"maxUnavailable": count}}).expect()


def statuses(scene: Scene) -> dict[str, dict]:
    """status of each wanted PodMigration."""
    found = {m["metadata"]["name"]: m.get("status") or {} for m in moves_of(scene.world)}
    return {name: status for name, status in found.items() if name in scene.wanted}


def wait_ended(scene: Scene, seconds: float) -> dict[str, dict]:
    """Waits until all moves have ended; gives what there is when the time is over."""
    ends = time.monotonic() + seconds
    while True:
        found = statuses(scene)
        if all(s.get("phase") in ENDED for s in found.values()) or time.monotonic() > ends:
            return found
        time.sleep(0.2)


def report(scene: Scene, found: dict[str, dict], witness: Witness) -> bool:
    """Prints the figures; True if every promise was kept."""
    world = scene.world
    evicted = {n: s for n, s in found.items() if s.get("evictedAt")}
    landed = 0
    for name, status in evicted.items():
        replacement = status.get("replacement")
        target = scene.wanted[name][1]
        if replacement and node_of(world.get_pod(replacement["name"])) == target:
            landed += 1
    early = sum(
        1
        for s in evicted.values()
        if not s.get("reservedAt") or moment(s["reservedAt"]) > moment(s["evictionRequestedAt"])
    )
    overrun = {a: n for a, n in witness.least_ready.items() if n < scene.apps[a] - 1}
    leftovers = left_behind(world)
    times = sorted(
        moment(s["landedAt"]) - moment(s["evictedAt"]) for s in evicted.values() if s.get("landedAt")
    )
    print(f"moves asked for                          {len(scene.wanted)}")
    print(f"evicted                                  {len(evicted)}")
    print(f"replacements on their reserved node      {landed} of {len(evicted)}")
    print(f"evictions before the room was Available  {early}")
    print(f"budgets overrun                          {len(overrun)} {overrun or ''}")
    print(f"left behind                              {leftovers}")
    if times:
        print(
            f"eviction to binding, seconds             median {statistics.median(times):.2f}, most {times[-1]:.2f}"
        )
    for name, status in found.items():
        if status.get("phase") != "Succeeded":
            print(f"  {name}: {status.get('phase')} {status.get('reason')}: {status.get('message')}")
    return landed == len(evicted) and not early and not overrun and not any(leftovers.values())


def play(moves: int, competitors: str, seed: int, gate: str, *, kills: int = 0) -> bool:
    """One run; True if every promise was kept."""
    rng = random.Random(seed)
    flags = without_policies() if gate == "webhook" else ()
    with ControlPlane(apiserver_flags=flags) as plane:
        api = plane.api()
        print(f"Kubernetes {api.get('/version').expect().body['gitVersion']}, gate by {gate}", flush=True)
        high = {"metadata": {"name": "higher"}, "value": 5000, "preemptionPolicy": "Never"}
        api.create("/apis/scheduling.k8s.io/v1/priorityclasses", high).expect()
        with at_work(plane, api, gate=gate) as controllers, World(api, "moves") as world:
            scene = build(world, moves, plane)
            print(
                f"{moves} rooms held, the crowd comes ({3 * moves} pods of {competitors} priority)",
                flush=True,
            )
            crowd(world, 3 * moves, "higher" if competitors == "higher" else "")
            witness = Witness(world, scene.apps)
            watcher = threading.Thread(target=witness.run)
            watcher.start()
            begun = time.monotonic()
            set_budgets(world, scene.apps, 1)
            for _ in range(kills):
                time.sleep(rng.uniform(1.2, 4.0))
                controllers.kill()
                controllers.start()
            found = wait_ended(scene, 240)
            seconds = time.monotonic() - begun
            time.sleep(3.0)
            witness.stop.set()
            watcher.join()
            disturbed = f" with {kills} kills" * bool(kills)
            print(f"seconds                                  {seconds:.1f}{disturbed}")
            kept = report(scene, found, witness)
            if not kept:
                controllers.tell()
            return kept


@click.group()
def main() -> None:
    """Moves on the real control plane, measured."""


@main.command("stampede")
@click.option("--moves", default=40, show_default=True)
@click.option("--competitors", type=click.Choice(["equal", "higher"]), default="equal", show_default=True)
@click.option("--gate", type=GATES, default="policy", show_default=True)
@click.option("--seed", default=1, show_default=True)
def stampede(moves: int, competitors: str, gate: str, seed: int) -> None:
    """A full cluster, and a crowd that wants every room."""
    raise SystemExit(not play(moves, competitors, seed, gate))


@main.command("kill")
@click.option("--moves", default=40, show_default=True)
@click.option("--kills", default=20, show_default=True)
@click.option("--gate", type=GATES, default="policy", show_default=True)
@click.option("--seed", default=1, show_default=True)
def kill(moves: int, kills: int, gate: str, seed: int) -> None:
    """SIGKILL at random moments."""
    raise SystemExit(not play(moves, "equal", seed, gate, kills=kills))


if __name__ == "__main__":
    main()
