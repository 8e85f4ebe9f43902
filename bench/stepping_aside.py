"""Pending pods on the real control plane that fit only after others have moved, with competitors for every room.

    python -m bench.stepping_aside [--pods 30] [--kills 0] [--seed 1]

Every node is full or has less left than a pending pod needs. For a third of the pods one pod steps aside, for a third two of different
workloads do, for a third two do in a chain. All workloads have budgets. Pods of the same size and priority are created all the time
and want every place that comes free; besides, for every Reservation that has a node two pods come that want just that node.
``--kills``: two controllers with leader election; the one that leads is killed by SIGKILL so often, at random moments, and started
again. Judged from the versions that watches showed (``stepping_aside_audit``, ``evictions``). Ends with 1 if a promise was broken.
Needs the binaries of ``make controlplane``.
"""

from __future__ import annotations

import itertools
import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from bench.evictions import Watched, judge
from bench.moves import PLACEHOLDERS, Controllers, moment, read
from bench.stepping_aside_audit import Landing, bound_ever, early, landings, least_ready
from harness.controlplane import manifests
from harness.controlplane.api import Api, Json
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import RESERVATIONS, WORLD, World, condition, gates_of, node_of
from kube_sandbox.kubelet import KubeletThread
from rescheduler.kube.transport import TransportError
from rescheduler.model.names import (
    API_VERSION,
    DEFAULT_NAMESPACE,
    GATE_CONFIG_MAP,
    GROUP,
    HOSTNAME,
    LEASE_NAME,
)

REPLICAS: Final = 4
WANTED_CPU: Final = "2"
SPARE: Final = "spare"
"""Label of the nodes that are free: what is free is anybody's, so taking it would prove nothing."""
CROWD: Final = 60
"""Competitors at a time besides those that want one node."""
LIMIT_S: Final = 900.0
SETTLE_S: Final = 120.0
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{DEFAULT_NAMESPACE}/leases/{LEASE_NAME}"
GATE_KEYS: Final = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/configmaps/{GATE_CONFIG_MAP}"
ENDED: Final = ("Succeeded", "Failed")
CONFIGURATION: Final = """\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
interval: 5s
limits: {{movesPerHour: 5000, workloadCooldown: 0s}}
protections: {{namespaces: {{include: [{namespace}]}}}}
policies:
- name: PendingPods
  after: 5s
  namespaces: {{include: [{namespace}]}}
reservations: {{ttl: 10m}}
server: {{port: 0}}
"""


@dataclass
class Scene:
    """Full nodes, and pods that wait."""

    world: World
    apps: list[str] = field(default_factory=list)

    def build(self, count: int) -> None:
        """Nodes and workloads, one kind of way after the other; then free places, then the pods that wait."""
        ways = (self._one, self._two, self._chain)
        spares: list[tuple[str, str, str]] = []
        for number, way in enumerate(ways):
            spares += way(len(range(number, count, len(ways))))
        self._settle()
        for app in self.apps:
            self.world.budget(app, app, maxUnavailable=1)
        for name, kind, cpu in spares:
            self.world.node(name, cpu=cpu, labels={kind: "", SPARE: ""})
        for number in range(count):
            self.world.pod(f"wanted{number}", WANTED_CPU, labels={"wanted": "yes"})

    def wanted(self) -> list[Json]:
        """The pods that wait, or waited."""
        return [pod for pod in self.world.pods() if "wanted" in pod["metadata"].get("labels", {})]

    def _one(self, count: int) -> Iterator[tuple[str, str, str]]:
        """One pod steps aside; a pod beside it stays where it is."""
        for number in range(count):
            node = self.world.node(f"one{number}", cpu="3", labels={"one": ""})
            self.world.pod(f"stays{number}", nodeName=node)
        self._workloads("one", "one", "1500m", count)
        return ((f"one-spare{number}", "one", "1500m") for number in range(count))

    def _two(self, count: int) -> Iterator[tuple[str, str, str]]:
        """Two pods of different workloads step aside, each for a place of its own."""
        for number in range(count):
            self.world.node(f"two{number}", cpu="2", labels={"two": ""})
        for name in ("left", "right"):
            self._workloads(name, "two", "1", count)
        return ((f"two-spare{number}", "two", "1") for number in range(2 * count))

    def _chain(self, count: int) -> Iterator[tuple[str, str, str]]:
        """One pod takes the place of another one, which has left first."""
        for number in range(count):
            self.world.node(f"middle{number}", cpu="1200m", labels={"small": "", "large": ""})
        self._workloads("small", "small", "700m", count)
        self._settle()
        for number in range(count):
            self.world.node(f"chain{number}", cpu="2", labels={"large": ""})
        self._workloads("large", "large", "1200m", count)
        return ((f"chain-spare{number}", "small", "700m") for number in range(count))

    def _workloads(self, name: str, kind: str, cpu: str, count: int) -> None:
        """So many pods on nodes of that kind; no two of a workload on one node."""
        for start in range(0, count, REPLICAS):
            app = f"{name}{start // REPLICAS}"
            apart = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME}
            self.world.workload(
                "StatefulSet" if len(self.apps) % 2 else "Deployment",
                app,
                min(REPLICAS, count - start),
                cpu,
                nodeSelector={WORLD: self.world.namespace, kind: ""},
                affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
            )
            self.apps.append(app)

    def replicas(self) -> dict[str, int]:
        """By workload."""
        found = {}
        for plural in ("deployments", "statefulsets"):
            for item in self.world.api.get(self.world.path(plural, group="apps/v1")).expect().items:
                found[item["metadata"]["name"]] = item["spec"]["replicas"]
        return found

    def _settle(self) -> None:
        for app, count in self.replicas().items():
            self.world.wait_ready(app, count, 120)


class Crowd:
    """Pods that want every place that comes free, in a namespace of their own, created all the time."""

    def __init__(self, world: World, own: World) -> None:
        self._world, self._own = world, own
        self._numbers = itertools.count()
        self._any: list[str] = []
        self._seen: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.created = 0

    def come(self) -> None:
        """The first ones, and from now on more."""
        for _ in range(CROWD):
            self._create(WANTED_CPU)
        self._thread.start()

    def end(self) -> None:
        """No more come; those that are there stay."""
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            try:
                for cpu in (WANTED_CPU, "1"):
                    self._create(cpu)
                self._want_rooms()
                while len(self._any) > CROWD:
                    self._own.api.delete(self._own.path("pods", self._any.pop(0)))
            except (AssertionError, TransportError):
                continue

    def _want_rooms(self) -> None:
        """Two pods for the node of each Reservation that has got one: of the size of the room, and of a small part of it."""
        for room in self._own.api.get(RESERVATIONS).expect().items:
            node = (room.get("status") or {}).get("nodeName")
            if not node or room["metadata"]["uid"] in self._seen:
                continue
            self._seen.add(room["metadata"]["uid"])
            requests = room["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
            for cpu in (requests["cpu"], "600m"):
                self._create(cpu, {HOSTNAME: node})

    def _create(self, cpu: str, selector: dict[str, str] | None = None) -> None:
        """A pod that any node but the free places takes, or the node that it selects."""
        name = f"competitor{next(self._numbers)}"
        spec = self._world.spec(cpu)
        if selector is None:
            term = {"matchExpressions": [{"key": SPARE, "operator": "DoesNotExist"}]}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            spec["affinity"] = {"nodeAffinity": required}
            self._any.append(name)
        else:
            spec["nodeSelector"] |= selector
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self._own.api.create(self._own.path("pods"), body).expect()
        self.created += 1


def refused(pod: Json) -> bool:
    """Has kube-scheduler refused it?"""
    return condition(pod, "PodScheduled").get("reason") == "Unschedulable"


def kill_leaders(
    api: Api, controllers: list[Controllers], kills: int, rng: random.Random, scene: Scene
) -> int:
    """SIGKILL of the leader at random moments, while pods wait; gives how often."""
    done = 0
    while done < kills and any(not node_of(pod) for pod in read(scene.wanted)):
        time.sleep(rng.uniform(1.0, 5.0))
        holder = read(lambda: [api.get(LEASE).expect().body])[0]["spec"].get("holderIdentity")
        leader = next((each for each in controllers if each.identity == holder), None)
        if leader is not None:
            leader.kill()
            leader.start()
            done += 1
    return done


def left_behind(api: Api, scene: Scene) -> dict[str, int]:
    """What is there of the moves and rooms when all is over."""
    world = scene.world
    moves = api.get(world.path("podmigrations", group=API_VERSION)).expect().items
    return {
        "placeholders": len(api.get(PLACEHOLDERS).expect().items),
        "unfinished Reservations": sum(map(_unfinished, api.get(RESERVATIONS).expect().items)),
        "unfinished moves": sum(map(_unfinished, moves)),
        "gated pods": sum(bool(gates_of(pod)) for pod in world.pods()),
        "gate keys": len(api.get(GATE_KEYS).expect().body.get("data") or {}),
        "hand-over taints": sum(
            taint["key"].startswith(GROUP)
            for node in api.get("/api/v1/nodes").expect().items
            for taint in node["spec"].get("taints", [])
        ),
    }


def _unfinished(item: Json) -> bool:
    return (item.get("status") or {}).get("phase") not in ENDED


def report(watched: Watched, scene: Scene, own: World, left: dict[str, int]) -> bool:
    """Prints the figures; True if every promise was kept."""
    namespace = scene.world.namespace
    found = list(landings(watched, scene.wanted()))
    right = [each for each in found if each.right]
    verdict, before = judge(watched, namespace), list(early(watched, namespace))
    replicas = scene.replicas()
    least = least_ready(watched, namespace, replicas)
    overrun = {app: count for app, count in least.items() if count < replicas[app] - 1}
    moves = [rows[-1][1] for _, rows in watched.of_kind("PodMigration")]
    failed = [m for m in moves if (m.get("status") or {}).get("phase") == "Failed"]
    strangers = bound_ever(watched, own.namespace)
    print(f"pods in the room that was made for them           {len(right)} of {len(found)}")
    print(f"rooms made                                        {sum(len(each.rooms) for each in found)}")
    print(f"pods evicted                                      {verdict.evicted}")
    print(f"evictions without an Available room               {len(verdict.without_room)}")
    print(f"evictions while the pending pod's room was unkept {len(before)}")
    print(f"budgets overrun                                   {len(overrun)} {overrun or ''}")
    print(f"competitors that got a node                       {len(strangers)} {strangers or ''}")
    print(f"moves that failed                                 {len(failed)}")
    times = sorted(took(each, pod) for each, pod in zip(found, scene.wanted(), strict=True) if each.right)
    if times:
        middle = statistics.median(times)
        print(f"seconds from the last room to the binding         median {middle:.0f}, most {times[-1]:.0f}")
    print(f"left behind                                       {left}")
    print(*verdict.without_room, *before, sep="\n")
    for each in found:
        if not each.right or len(each.rooms) > 1:
            print(f"  {each.pod} on {each.node or '-'}: {[_told(room) for room in each.rooms]}")
    for move in failed:
        status = move["status"]
        print(f"  {move['metadata']['name']}: {status.get('reason')}: {status.get('message')}")
    broken = verdict.without_room or before or overrun or any(left.values()) or strangers
    return len(right) == len(found) and not broken


def took(landing: Landing, pod: Json) -> float:
    """Seconds from the creation of the room to the binding, by the API server's clock."""
    bound = condition(pod, "PodScheduled")["lastTransitionTime"]
    return moment(bound) - moment(landing.rooms[-1]["metadata"]["creationTimestamp"])


def _told(room: Json) -> str:
    status = room.get("status") or {}
    said = condition(room, "Ready").get("message", "")
    return f"{room['metadata']['name']} {status.get('phase')} on {status.get('nodeName')} {said}"


def play(pods: int, kills: int, seed: int) -> bool:
    """One run; True if every promise was kept."""
    rng = random.Random(seed)
    with ControlPlane() as plane, tempfile.TemporaryDirectory() as folder:
        api = plane.api()
        with KubeletThread(api.transport), World(api, "aside") as world, World(api, "crowd") as own:
            manifests.apply(api, manifests.of("policy"))
            scene, watched = Scene(world), Watched()
            watched.follow(api)
            scene.build(pods)
            crowd = Crowd(world, own)
            crowd.come()
            world.wait(lambda: all(map(refused, scene.wanted())), 120)
            controllers = []
            for number in range(2 if kills else 1):
                place = Path(folder) / str(number)
                place.mkdir()
                text = CONFIGURATION.format(namespace=world.namespace)
                controllers.append(Controllers(plane, place, identity=f"bench-{number}", document=text))
            begun_s, loads = time.monotonic(), [os.getloadavg()[0]]
            for each in controllers:
                each.start()
            done = kill_leaders(api, controllers, kills, rng, scene)
            while time.monotonic() < begun_s + LIMIT_S and any(
                not node_of(pod) for pod in read(scene.wanted)
            ):
                time.sleep(0.5)
            seconds = time.monotonic() - begun_s
            loads.append(os.getloadavg()[0])
            left = settle(api, scene)
            crowd.end()
            watched.stop.set()
            print(
                f"{pods} pods, {done} kills of the leader, {crowd.created} competitors came: {seconds:.1f} s, "
                f"load {min(loads):.1f} to {max(loads):.1f}"
            )
            kept = report(watched, scene, own, left)
            codes = [each.terminate() for each in controllers]
            print(f"exit codes {codes}, ended by themselves {sum(each.deaths for each in controllers)} times")
            if not kept:
                print(controllers[0].log_path.read_text()[-6000:])
            return kept


def settle(api: Api, scene: Scene) -> dict[str, int]:
    """What is still left behind when nothing changes any more, or the time is over."""
    ends_s = time.monotonic() + SETTLE_S
    while any((left := left_behind(api, scene)).values()) and time.monotonic() < ends_s:
        time.sleep(1.0)
    return left


@click.command()
@click.option("--pods", default=30, show_default=True)
@click.option("--kills", default=0, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(pods: int, kills: int, seed: int) -> None:
    """Pending pods that get room because others step aside."""
    raise SystemExit(not play(pods, kills, seed))


if __name__ == "__main__":
    main()
