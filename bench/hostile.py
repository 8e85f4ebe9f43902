"""Forty moves while one namespace does everything that a hostile tenant can do, on the real control plane.

    python -m bench.hostile [--minutes 10] [--calm 10] [--moves 40] [--flood 2500]

First the moves are made undisturbed, then the same ones again while a tenant with role ``edit`` and the role of a reserver attacks
(``attacks``). Prints how many landed where their room was reserved, the median time of a move in both runs, the longest time
that a pod of the others was gated, what was left behind, and what the API server refused the tenant. Ends with 1 if a move did
not land, something was left behind, or the median is more than twice the undisturbed one. Needs the binaries of
``make controlplane``.
"""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass, field

import click

from bench.attacks import LEFT, Tenant
from bench.stage import at_work, left_behind, moment, over, read, settled
from bench.stage import moves as moves_of
from harness.controlplane.api import Api
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import World, gates_of, node_of
from rescheduler.model.names import GATE

REPLICAS = 4
STAGES = ("reservedAt", "evictionRequestedAt", "evictedAt", "landedAt")
"""What the status of a move notes of its way, in order."""


@dataclass
class Figures:
    """What became of the moves of one run."""

    asked: int = 0
    landed: int = 0
    seconds: list[float] = field(default_factory=list)
    gated_s: float = 0.0
    """The longest time that a pod was gated."""
    failed: list[str] = field(default_factory=list)
    stages: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of each stage of the way, by what it ended with."""

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds) if self.seconds else float("inf")


class GateWitness:
    """Looks from outside at how long pods of a namespace are gated."""

    def __init__(self, world: World) -> None:
        self._world, self._stop = world, threading.Event()
        self._since: dict[str, float] = {}
        self.longest_s = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> float:
        self._stop.set()
        self._thread.join(30)
        return self.longest_s

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            now_s = time.monotonic()
            held = {p["metadata"]["uid"] for p in read(self._world.pods) if GATE in gates_of(p)}
            self._since = {uid: self._since.get(uid, now_s) for uid in held}
            self.longest_s = max([self.longest_s, *(now_s - at_s for at_s in self._since.values())])


def build(world: World, moves: int) -> list[tuple[dict, str]]:
    """Workloads on nodes of their own; each pod with the node that it shall move to."""
    apps = [f"app{number}" for number in range(-(-moves // REPLICAS))]
    for number, app in enumerate(apps):
        world.node(f"src{number}", labels=LEFT, cpu=str(REPLICAS))
        world.workload("StatefulSet" if number % 2 else "Deployment", app, REPLICAS)
    pods = [pod for app in apps for pod in world.wait_ready(app, REPLICAS, 120)]
    settled(world)
    return [(pod, world.node(f"to{number}", cpu="1")) for number, pod in enumerate(pods[:moves])]


def run(world: World, wanted: list[tuple[dict, str]], minutes: float) -> Figures:
    """Ask for the moves, evenly over the time, and wait for them."""
    witness, asked = GateWitness(world), {}
    begun_s, every_s = time.monotonic(), minutes * 60.0 / len(wanted)
    for number, (pod, target) in enumerate(wanted):
        time.sleep(max(0.0, begun_s + number * every_s - time.monotonic()))
        asked[world.migrate(pod, target, ttl="10m")] = target
    ends_s, found = time.monotonic() + 240.0, {}
    while time.monotonic() < ends_s:
        found = {m["metadata"]["name"]: m for m in moves_of(world)}
        if all(over(found[name]) for name in asked if name in found):
            break
        time.sleep(0.5)
    figures = Figures(asked=len(asked), gated_s=witness.end())
    for name, target in asked.items():
        status = (found.get(name) or {}).get("status") or {}
        replacement = status.get("replacement")
        if replacement and status.get("landedAt") and node_of(world.get_pod(replacement["name"])) == target:
            figures.landed += 1
            created_s = moment(found[name]["metadata"]["creationTimestamp"])
            figures.seconds.append(moment(status["landedAt"]) - created_s)
            for stage in filter(status.get, STAGES):
                ended_s = moment(status[stage])
                figures.stages.setdefault(stage, []).append(ended_s - created_s)
                created_s = ended_s
        else:
            figures.failed.append(
                f"{name}: {status.get('phase')} {status.get('reason')}: {status.get('message')}"
            )
    return figures


def hostile(plane: ControlPlane, api: Api, own: World, victim: World, flood: int) -> Tenant:
    """The tenant with its service account and two workloads of its own."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "attacker"}}
    api.create(own.path("serviceaccounts"), account).expect()
    subject = {"kind": "ServiceAccount", "name": "attacker", "namespace": own.namespace}
    for kind, plural, role in (
        ("RoleBinding", own.path("rolebindings", group="rbac.authorization.k8s.io/v1"), "edit"),
        (
            "ClusterRoleBinding",
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            "rescheduler-reserver",
        ),
    ):
        body = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": "attacker"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [subject],
        }
        api.create(plural, body).expect()
    own.node("own0", cpu="16")
    own.node("own1", cpu="16")
    for app in ("own", "growing"):
        own.workload("ReplicaSet", app, 5, cpu="1m")
        own.wait_ready(app, 5, 120)
    tenant = Api.from_kubeconfig(plane.kubeconfig_for(own.namespace, "attacker"))
    return Tenant(api=tenant, own=own, victim=victim, flood=flood)


@click.command()
@click.option("--minutes", default=10.0, show_default=True, help="How long the tenant attacks.")
@click.option("--calm", default=10.0, show_default=True, help="How many minutes the undisturbed run takes.")
@click.option("--moves", default=40, show_default=True)
@click.option("--flood", default=2500, show_default=True, help="Pairs of PodMigrations of the tenant.")
def main(minutes: float, calm: float, moves: int, flood: int) -> None:
    """Moves of others, undisturbed and under attack."""
    with ControlPlane() as plane:
        api = plane.api()
        with at_work(plane, api) as (controllers,):
            with World(api, "calm") as quiet:
                alone = run(quiet, build(quiet, moves), calm)
                show("undisturbed", alone)
            with World(api, "others") as others, World(api, "hostile") as own:
                wanted = build(others, moves)
                tenant = hostile(plane, api, own, others, flood)
                tenant.attack()
                time.sleep(5.0)
                attacked = run(others, wanted, minutes)
                tenant.end()
                time.sleep(5.0)
                left = left_behind(others)
                show("under attack", attacked)
                tried = tenant.accepted | tenant.refused
                for name in sorted(tried):
                    print(f"  {name:12} {tenant.accepted[name]:6} accepted, {tenant.refused[name]:6} refused")
            print(f"left behind: {left}")
            kept = attacked.landed == moves and not any(left.values()) and not controllers.deaths
            if not kept:
                controllers.tell()
            raise SystemExit(not (kept and attacked.median_s <= 2.0 * alone.median_s))


def show(name: str, figures: Figures) -> None:
    """Print the figures of a run."""
    print(
        f"{name}: {figures.landed} of {figures.asked} landed, median {figures.median_s:.1f} s, "
        f"most {max(figures.seconds, default=0.0):.1f} s, longest gate {figures.gated_s:.1f} s",
        flush=True,
    )
    stages = (f"{stage} {statistics.median(times):.1f} s" for stage, times in figures.stages.items())
    print(f"  of it until {', '.join(stages)}", flush=True)
    for line in figures.failed:
        print(f"  {line}", flush=True)


if __name__ == "__main__":
    main()
