"""Mode StartFirst on the real control plane, measured: Ready pods at every instant, pods too many, what is left.

    python bench/start_first.py [--moves 20] [--kills 0]

Deployments under PodDisruptionBudgets that allow nothing (``maxUnavailable: 0``) are moved: of one replica, of
three, and with a rollout, a change of scale and a pause in the middle. Pods are counted at every event of a
watch, in the order of the API server, not by what the controller says of itself. The controller is a process of
its own with the rights of its service account and of ``manifests/components/start-first``. ``--kills``: it is
killed by SIGKILL at random moments and started again. Needs the binaries of ``make controlplane``.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import click
import yaml
from moves import GROUP, PLACEHOLDERS, Controllers, moment

from harness.controlplane import manifests
from harness.controlplane.api import Json
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import World, condition, gates_of, is_ready, node_of
from kube_sandbox.kubelet import KubeletThread
from rescheduler.model.names import ANNOTATION_MODE, LABEL_START_FIRST

ROLE = manifests.FOLDER / "components" / "start-first" / "role-start-first.yaml"


@dataclass
class Counter:
    """Pods of each workload at every event of one watch: fewest Ready, most bound, most of any kind."""

    world: World
    least: dict[str, int] = field(default_factory=dict)
    most_bound: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    evicted: set[str] = field(default_factory=set)
    pods: dict[str, Json] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)
    seen: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """List, then follow; a watch that ends goes on from the version that it came to."""
        path = self.world.path("pods")
        answer = self.world.api.get(path).expect()
        self.pods = {p["metadata"]["uid"]: p for p in answer.items}
        self._count()
        self.seen.set()
        version = answer.version
        while not self.stop.is_set():
            for event in self.world.api.watch(path, seconds=5, resourceVersion=version):
                pod = event["object"]
                version = pod["metadata"]["resourceVersion"]
                if event["type"] == "DELETED":
                    self.pods.pop(pod["metadata"]["uid"], None)
                else:
                    self.pods[pod["metadata"]["uid"]] = pod
                if condition(pod, "DisruptionTarget").get("reason") == "EvictionByEvictionAPI":
                    self.evicted.add(pod["metadata"]["uid"])
                self._count()
                if self.stop.is_set():
                    break

    def _count(self) -> None:
        by_app: dict[str, list[Json]] = {}
        for pod in self.pods.values():
            by_app.setdefault(pod["metadata"].get("labels", {}).get("app", ""), []).append(pod)
        for app, pods in by_app.items():
            alive = [p for p in pods if "deletionTimestamp" not in p["metadata"]]
            ready = sum(map(is_ready, alive))
            self.least[app] = min(self.least.get(app, ready), ready)
            self.most[app] = max(self.most.get(app, 0), len(alive))
            self.most_bound[app] = max(self.most_bound.get(app, 0), sum(bool(node_of(p)) for p in alive))


@dataclass(frozen=True)
class Case:
    """One Deployment and the move of one of its pods. ``least``, ``most``: what is promised at every instant."""

    app: str
    replicas: int
    kind: str
    in_the_middle: Callable[[World, str], None] | None = None
    finally_: int = -1

    @property
    def wanted(self) -> int:
        """Replicas in the end."""
        return self.replicas if self.finally_ < 0 else self.finally_


def deployment(world: World, app: str) -> str:
    """Path of a Deployment."""
    return world.path("deployments", app, group="apps/v1")


def scaled(count: int) -> Callable[[World, str], None]:
    """A change of scale."""
    return lambda world, app: (
        world.api.patch(deployment(world, app), {"spec": {"replicas": count}}).expect() and None
    )


def rolled_out(world: World, app: str) -> None:
    """A new template."""
    template = {"metadata": {"annotations": {"version": "2"}}}
    world.api.patch(deployment(world, app), {"spec": {"template": template}}).expect()


def paused(world: World, app: str) -> None:
    """No more rollouts."""
    world.api.patch(deployment(world, app), {"spec": {"paused": True}}).expect()


def cases(moves: int) -> list[Case]:
    """What is played."""
    few = max(1, moves // 5)
    return [
        *(Case(f"one{i}", 1, "1 replica, maxUnavailable 0") for i in range(moves)),
        *(Case(f"three{i}", 3, "3 replicas, maxUnavailable 0") for i in range(moves // 2)),
        *(Case(f"up{i}", 3, "scale 3 to 4 in the middle", scaled(4), 4) for i in range(few)),
        *(Case(f"down{i}", 3, "scale 3 to 2 in the middle", scaled(2), 2) for i in range(few)),
        *(Case(f"roll{i}", 3, "rollout in the middle", rolled_out) for i in range(few)),
        *(Case(f"pause{i}", 3, "pause in the middle", paused) for i in range(few)),
    ]


def build(world: World, played: list[Case]) -> None:
    """The workloads, all Ready, their budgets counted."""
    for number in range(8):
        world.node(f"s{number}", cpu="64")
    for case in played:
        world.workload("Deployment", case.app, case.replicas, "100m")
        world.api.patch(
            deployment(world, case.app), {"metadata": {"annotations": {ANNOTATION_MODE: "StartFirst"}}}
        ).expect()
        world.budget(case.app, case.app, maxUnavailable=0)
    total = sum(case.replicas for case in played)
    world.wait(lambda: sum(map(is_ready, world.pods())) == total, 120)
    budgets = world.path("poddisruptionbudgets", group="policy/v1")
    world.wait(
        lambda: all(b.get("status", {}).get("currentHealthy") for b in world.api.get(budgets).expect().items),
        60,
    )


def ask(world: World, case: Case, target: str) -> str:
    """A move of one pod; nothing says the mode: the Deployment's annotation does."""
    pod = world.pods(case.app)[0]
    name = f"move-{case.app}"
    body = {
        "apiVersion": GROUP,
        "kind": "PodMigration",
        "metadata": {"name": name},
        "spec": {
            "podRef": {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
            "target": {"nodeName": target},
            "ttl": "3m",
        },
    }
    world.api.create(world.path("podmigrations", group=GROUP), body).expect()
    return name


def statuses(world: World) -> dict[str, Json]:
    """status of each PodMigration by the name of its workload."""
    items = world.api.get(world.path("podmigrations", group=GROUP)).expect().items
    return {m["metadata"]["name"].removeprefix("move-"): m.get("status") or {} for m in items}


def follow(world: World, played: list[Case], seconds: float) -> dict[str, Json]:
    """Interrupts each case once, when its replacement is there, and waits until all have ended."""
    waiting = {case.app: case for case in played if case.in_the_middle is not None}
    ends = time.monotonic() + seconds
    while True:
        found = statuses(world)
        for app, status in found.items():
            case = waiting.get(app)
            if case is not None and case.in_the_middle is not None and status.get("replacement"):
                case.in_the_middle(world, app)
                del waiting[app]
        over = all(s.get("phase") in ("Succeeded", "Failed") for s in found.values())
        if (over and len(found) == len(played) and not waiting) or time.monotonic() > ends:
            return found
        time.sleep(0.1)


def left_behind(world: World) -> dict[str, int]:
    """What a finished run must not leave."""
    pods = world.pods()
    return {
        "replacements without owner": sum(
            LABEL_START_FIRST in p["metadata"]["labels"] and not p["metadata"].get("ownerReferences")
            for p in pods
        ),
        "gated pods": sum(bool(gates_of(p)) for p in pods),
        "gate keys": len(
            world.api.get("/api/v1/namespaces/rescheduler/configmaps/gate-keys").expect().body.get("data")
            or {}
        ),
        "placeholders": len(world.api.get(PLACEHOLDERS).expect().items),
    }


def report(
    world: World, played: list[Case], found: dict[str, Json], counter: Counter, targets: dict[str, str]
) -> bool:
    """Prints the figures; True if every promise was kept."""
    kept = True
    for kind in dict.fromkeys(case.kind for case in played):
        group = [case for case in played if case.kind == kind]
        landed = sum(
            any(
                node_of(p) == targets[c.app] and p["metadata"].get("ownerReferences") and is_ready(p)
                for p in world.pods(c.app)
            )
            for c in group
        )
        moved = [c for c in group if found.get(c.app, {}).get("phase") == "Succeeded"]
        fewer = [c.app for c in group if counter.least[c.app] < min(c.replicas, c.wanted)]
        above = [c.app for c in group if counter.most_bound[c.app] > max(c.replicas, c.wanted) + 1]
        wrong = [
            c.app
            for c in group
            if sum(map(is_ready, world.pods(c.app))) != c.wanted or len(world.pods(c.app)) != c.wanted
        ]
        reasons = sorted(
            {s.get("reason", "") for c in group if (s := found.get(c.app, {})).get("phase") != "Succeeded"}
        )
        rolls = group[0].in_the_middle is rolled_out
        print(f"{kind}: {len(group)} moves")
        print(
            f"  moved                                    {len(moved)}"
            + (f", others {reasons}" if reasons else "")
        )
        print(f"  a pod on the target in the end           {landed}")
        print(f"  least Ready at any instant               {sorted({counter.least[c.app] for c in group})}")
        print(
            f"  most bound, not ending, at any instant   {sorted({counter.most_bound[c.app] for c in group})}"
        )
        print(f"  most not ending, gated ones included     {sorted({counter.most[c.app] for c in group})}")
        print(f"  not as the owner wants it in the end     {len(wrong)} {wrong or ''}")
        quiet = group[0].in_the_middle is None or group[0].in_the_middle is paused
        kept &= not wrong and (rolls or not (fewer or above)) and (not quiet or len(moved) == len(group))
    times = sorted(
        moment(s["landedAt"]) - moment(s["startedAt"])
        for s in found.values()
        if s.get("landedAt") and s.get("startedAt")
    )
    leftovers = left_behind(world)
    print(f"evictions through the subresource          {len(counter.evicted)}")
    print(f"left behind                                {leftovers}")
    if times:
        print(
            f"start to adoption, seconds                 median {statistics.median(times):.2f}, most {times[-1]:.2f}"
        )
    return kept and not any(leftovers.values())


def play(moves: int, kills: int, seed: int) -> bool:
    """One run; True if every promise was kept."""
    rng = random.Random(seed)
    played = cases(moves)
    with ControlPlane() as plane, tempfile.TemporaryDirectory() as folder:
        api = plane.api()
        with KubeletThread(api.transport):
            manifests.apply(api, [o for o in manifests.load() if o["kind"] != "Deployment"])
            manifests.apply(api, list(yaml.safe_load_all(ROLE.read_text())))
            controllers = Controllers(plane, Path(folder))
            with World(api, "sf") as world:
                build(world, played)
                counter = Counter(world)
                watcher = threading.Thread(target=counter.run)
                watcher.start()
                counter.seen.wait(10)
                targets = {case.app: world.node(f"t{number}", cpu="1") for number, case in enumerate(played)}
                controllers.start()
                begun = time.monotonic()
                for case in played:
                    ask(world, case, targets[case.app])
                killer = threading.Thread(target=kill, args=(controllers, kills, rng))
                killer.start()
                found = follow(world, played, 240)
                killer.join()
                print(
                    f"seconds                                    {time.monotonic() - begun:.1f}, kills {kills}"
                )
                time.sleep(4.0)
                counter.stop.set()
                watcher.join()
                kept = report(world, played, found, counter, targets)
                code = controllers.terminate()
                print(f"exit code of the controller                {code}")
                if not kept:
                    print({app: s for app, s in found.items() if s.get("phase") != "Succeeded"})
                    print(controllers.log_path.read_text()[-6000:])
                return kept and code == 0


def kill(controllers: Controllers, kills: int, rng: random.Random) -> None:
    """SIGKILL at random moments, and a new process each time."""
    for _ in range(kills):
        time.sleep(rng.uniform(1.2, 3.0))
        controllers.kill()
        controllers.start()


@click.command()
@click.option("--moves", default=20, show_default=True)
@click.option("--kills", default=0, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(moves: int, kills: int, seed: int) -> None:
    """Moves whose replacement starts first, measured."""
    raise SystemExit(not play(moves, kills, seed))


if __name__ == "__main__":
    main()
