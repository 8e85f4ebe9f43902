"""``python -m harness.day``: a day of mixed use on the real control plane, in some minutes, and what is left of it.

Two controllers with the guard serve a cluster of nine nodes and eleven workloads while somebody drains nodes by kubectl and by
``rescheduler drain``, asks for moves and evictions, scales, rolls out templates that fit nowhere, and deletes pods, moves and
Reservations; controllers are ended and killed, and so is kube-scheduler. Then everything is put right. Promises: the day is drawn from
the seed, though not its timing; exit code 1 if the cluster does not come to rest, if a pod, room or placeholder is left over, or if a
move failed after its eviction for a reason that nobody but the controller can have caused. It must not judge single moves otherwise.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import click

from harness import documents
from harness.controlplane import manifests
from harness.controlplane.api import Json
from harness.controlplane.controllers import controller_process
from harness.controlplane.kubelets import KubeletThread
from harness.controlplane.processes import free_port
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import RESERVATIONS, WORLD, World, gates_of, is_ready, node_of
from rescheduler.model.names import API_VERSION, DEFAULT_NAMESPACE, LABEL_GUARD, LABEL_PLACEHOLDER

REST_LIMIT_S: Final = 240.0
PAUSES_S: Final = (0.5, 1.0, 2.0, 4.0)
ENDED: Final = ("Succeeded", "Failed")
CAUSED_BY_OTHERS: Final = frozenset(
    {"TargetLost", "ReplacementGone", "ReservationLost", "PodGone", "ReplacementNotReady"}
)
"""Ends of moves after the eviction that a day brings about: it takes targets away, and deletes replacements and rooms."""
COMPONENTS: Final = ("webhook-server", "guard", "start-first")
CONFIGURATION: Final[Mapping[str, object]] = {
    "apiVersion": API_VERSION,
    "kind": "ReschedulerConfiguration",
    "aggressiveness": "aggressive",
    "interval": "10s",
    "limits": {"movesAtOnce": 6, "movesPerHour": 600, "workloadCooldown": "5s", "requested": {"movesPerHour": 3000}},
    "policies": [{"name": "NodeTaints", "after": "2s"}, {"name": "LowNodeUtilization"}, {"name": "PendingPods", "after": "5s"}, {"name": "TopologySpread"}],
    "leaderElection": {"enabled": True},
    "guard": {"limit": "60s"},
}  # fmt: skip
NOWHERE: Final[Json] = {"spec": {"nodeSelector": {"example.com/none": "here"}}}
FITS: Final[Json] = {"spec": {"nodeSelector": {"example.com/none": None}}}


@click.command()
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--seconds", type=float, default=200.0, show_default=True, help="How long the day lasts.")
def main(seed: int, seconds: float) -> None:
    """A day of mixed use on the real control plane."""
    with ControlPlane() as plane, KubeletThread(plane.api().transport):
        manifests.apply(plane.api(), manifests.load())
        for name in COMPONENTS:
            manifests.apply(plane.api(), manifests.load(manifests.FOLDER / "components" / name))
        with Controllers(plane) as controllers, World(plane.api(), "day") as world:
            day = Day(plane, world, controllers, random.Random(seed))  # noqa: S311 - reproducible
            day.prepare()
            day.live(seconds)
            left = day.at_rest()
            day.sum_up(left)
    sys.exit(1 if any(left.values()) or day.broken else 0)


class Controllers:
    """Two controllers as processes of their own; API servers ask the first one about evictions."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self.folder = Path(tempfile.mkdtemp(prefix="rescheduler-day-"))
        ports = free_port(), free_port()
        self._processes = [controller_process(plane, self.folder, str(number), {
            **CONFIGURATION,
            "gate": {"port": port, "url": f"https://127.0.0.1:{ports[0]}"},
            "server": {"port": free_port()},
        }) for number, port in enumerate(ports)]  # fmt: skip

    def __enter__(self) -> Self:
        self.revive()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.stop(60)

    def end(self, number: int, *, kill: bool) -> None:
        """End one, and start it again."""
        process = self._processes[number]
        if kill:
            process.kill()
        else:
            process.stop(60)
        process.start()

    def revive(self) -> None:
        """Start what has ended by itself: a leader that lost its Lease."""
        for process in self._processes:
            process.start()

    def command(self, *words: str) -> subprocess.Popen[bytes]:
        """A command of the administrator, in the background."""
        start = "from rescheduler.cli.entry import main; main()"
        line = [sys.executable, "-c", start, *words, f"--kubeconfig={self._plane.kubeconfig}"]
        with (self.folder / "commands.log").open("ab") as out:
            return subprocess.Popen(line, stdout=out, stderr=subprocess.STDOUT)  # noqa: S603 - our own program


@dataclass
class Day:
    """What happens, drawn by ``chance``."""

    plane: ControlPlane
    world: World
    controllers: Controllers
    chance: random.Random
    nodes: list[str] = field(default_factory=list)
    replicas: dict[tuple[str, str], int] = field(default_factory=dict)
    """By kind and name."""
    moves: dict[str, Json] = field(default_factory=dict)
    """Every PodMigration that was seen, by uid."""
    happened: Counter[str] = field(default_factory=Counter)
    drains: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def prepare(self) -> None:
        """Nodes and workloads."""
        self._patch(
            f"/api/v1/namespaces/{self.world.namespace}", {"metadata": {"labels": {LABEL_GUARD: "enabled"}}}
        )
        zones = [{"topology.kubernetes.io/zone": f"zone-{number % 3}"} for number in range(9)]
        self.nodes = [self.world.node(f"n{i}", cpu="8", labels=zone) for i, zone in enumerate(zones)]
        for index, (kind, replicas, more, pods) in enumerate(_workloads()):
            self.replicas[kind, f"w{index}"] = replicas
            self.world.workload(kind, f"w{index}", replicas, more=more, **pods)
        for name, rule in (
            ("w0", {"maxUnavailable": 1}),
            ("w5", {"minAvailable": 2}),
            ("w9", {"maxUnavailable": "34%"}),
        ):
            self.world.budget(name, name, **rule)
        for name in ("w4", "w10"):
            note = {"metadata": {"annotations": {"rescheduler.dev/mode": "StartFirst"}}}
            self._patch(self.world.path("deployments", name, group="apps/v1"), note)

    def live(self, seconds: float) -> None:
        """One event after the other."""
        events = self._events()
        began_s = time.monotonic()
        while (passed_s := time.monotonic() - began_s) < seconds:
            (event,) = self.chance.choices(list(events), [weight for weight, _ in events.values()])
            self.happened[event] += 1
            click.echo(f"{passed_s:6.1f} {event}: {events[event][1]()}")
            pause_s = self.chance.choice(PAUSES_S)
            while time.monotonic() - began_s - passed_s < pause_s:
                self.controllers.revive()
                self._see_moves()
                time.sleep(0.3)

    def at_rest(self) -> dict[str, list[str]]:
        """Put everything right, and wait until nothing is under way; what is, in the end."""
        for node in self.nodes:
            self._patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None, "taints": self._taints()}})
        for (kind, name), replicas in self.replicas.items():
            self._patch(self._workload(kind, name), {"spec": {"replicas": replicas, **_put_right(kind)}})
        ends_s = time.monotonic() + REST_LIMIT_S
        while any((left := self._under_way()).values()) and time.monotonic() < ends_s:
            self.controllers.revive()
            time.sleep(2)
        return left

    @property
    def broken(self) -> list[Json]:
        """Moves that failed after the eviction, and nobody else can have caused it."""
        ends = ((move, move.get("status") or {}) for move in self.moves.values())
        return [
            move
            for move, status in ends
            if status.get("phase") == "Failed"
            and status.get("evictedAt")
            and status["reason"] not in CAUSED_BY_OTHERS
        ]

    def sum_up(self, left: Mapping[str, list[str]]) -> None:
        """Print how the moves ended, and what is left."""
        states = [move.get("status") or {} for move in self.moves.values()]
        click.echo(f"{dict(self.happened)}")
        click.echo(f"drains ended with {[process.poll() for process in self.drains]}")
        click.echo(dict(Counter((s.get("phase"), s.get("reason"), bool(s.get("evictedAt"))) for s in states)))
        for move in self.broken:
            click.echo(
                f"BROKEN {move['metadata']['name']}: {move['status']['reason']}: {move['status']['message']}"
            )
        click.echo(f"LEFT {left}" if any(left.values()) else "nothing is left")
        click.echo(f"logs: {self.controllers.folder}")

    # What is there

    def _under_way(self) -> dict[str, list[str]]:
        self._see_moves()
        own = self.world.api.get(f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/pods").items
        pods = self.world.pods()
        return {
            "moves": [_name(move) for move in self._listed(self._moves_path()) if _phase(move) not in ENDED],
            "rooms": [_name(room) for room in self._listed(RESERVATIONS) if _phase(room) not in ENDED],
            "placeholders": [
                _name(pod) for pod in own if LABEL_PLACEHOLDER in pod["metadata"].get("labels", {})
            ],
            "gated": [_name(pod) for pod in pods if gates_of(pod)],
            "pending": [_name(pod) for pod in pods if not node_of(pod)],
        }

    def _listed(self, path: str) -> list[Json]:
        return self.world.api.get(path).expect().items

    def _moves_path(self) -> str:
        return self.world.path("podmigrations", group=API_VERSION)

    def _see_moves(self) -> None:
        self.moves |= {move["metadata"]["uid"]: move for move in self._listed(self._moves_path())}

    def _a_pod(self) -> Json:
        return self.chance.choice([pod for pod in self.world.pods() if is_ready(pod)])

    # What happens

    def _events(self) -> dict[str, tuple[int, Callable[[], object]]]:
        """Weight and action of each event."""
        old = self._taints("example.com/old")
        return {
            "kubectl drain": (6, self._kubectl_drain),
            "rescheduler drain": (3, self._drain),
            "move": (6, self._move),
            "evict": (6, lambda: self.world.evict(self._a_pod()).status),
            "scale": (5, self._scale),
            "roll out": (4, lambda: self._template(self._stamp())),
            "roll out to nowhere": (2, lambda: self._template(NOWHERE)),
            "roll back": (4, lambda: self._template(FITS)),
            "pause": (1, self._pause),
            "delete a pod": (3, lambda: self.world.delete_pod(self._a_pod()).status),
            "delete a move": (1, lambda: self._delete(self._moves_path())),
            "delete a room": (1, lambda: self._delete(RESERVATIONS)),
            "cordon": (2, lambda: self._node({"unschedulable": True})),
            "uncordon": (8, lambda: self._node({"unschedulable": None})),
            "taint": (2, lambda: self._node({"taints": old})),
            "untaint": (2, lambda: self._node({"taints": self._taints()})),
            "end a controller": (3, lambda: self._end(kill=False)),
            "kill a controller": (2, lambda: self._end(kill=True)),
            "kill kube-scheduler": (1, self._kill_scheduler),
        }

    def _kubectl_drain(self) -> str:
        node = self.chance.choice(self.nodes)
        line = [self.plane.kubectl, f"--kubeconfig={self.plane.kubeconfig}", "drain", node]
        with (self.controllers.folder / "commands.log").open("ab") as out:
            wishes = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=150s")
            drain = subprocess.Popen([*line, *wishes], stdout=out, stderr=subprocess.STDOUT)  # noqa: S603 - kubectl
        self.drains.append(drain)
        return node

    def _drain(self) -> str:
        node = self.chance.choice(self.nodes)
        self.drains.append(self.controllers.command("drain", node))
        return node

    def _move(self) -> str:
        pod, node = self._a_pod(), self.chance.choice(self.nodes)
        body = documents.migration(
            "", _name(pod), node, uid=pod["metadata"]["uid"], meta={"generateName": "asked-"}, ttl="90s"
        )
        return f"{_name(pod)} to {node}: {self.world.api.create(self._moves_path(), body).status}"

    def _scale(self) -> str:
        (kind, name), wanted = self.chance.choice(list(self.replicas.items()))
        replicas = max(0, wanted + self.chance.choice((-1, 0, 1, 2)))
        self._patch(self._workload(kind, name), {"spec": {"replicas": replicas}})
        return f"{name} to {replicas}"

    def _stamp(self) -> Json:
        return {"metadata": {"annotations": {"example.com/stamp": str(self.chance.random())}}}

    def _template(self, template: Json) -> str:
        kind, name = self.chance.choice([known for known in self.replicas if known[0] == "Deployment"])
        deadline = {"progressDeadlineSeconds": 20, "paused": None}
        self._patch(self._workload(kind, name), {"spec": {"template": template, **deadline}})
        return name

    def _pause(self) -> str:
        name = self.chance.choice([name for kind, name in self.replicas if kind == "Deployment"])
        self._patch(self._workload("Deployment", name), {"spec": {"paused": True}})
        return name

    def _delete(self, collection: str) -> str:
        found = sorted(_name(each) for each in self._listed(collection))
        if not found:
            return "none is there"
        name = self.chance.choice(found)
        self.world.api.delete(f"{collection}/{name}")
        return name

    def _node(self, spec: Json) -> str:
        node = self.chance.choice(self.nodes)
        self._patch(f"/api/v1/nodes/{node}", {"spec": spec})
        return node

    def _taints(self, *more: str) -> list[Json]:
        own = {"key": WORLD, "value": self.world.namespace, "effect": "NoSchedule"}
        return [own, *({"key": key, "effect": "NoSchedule"} for key in more)]

    def _end(self, *, kill: bool) -> int:
        number = self.chance.randrange(2)
        self.controllers.end(number, kill=kill)
        return number

    def _kill_scheduler(self) -> str:
        away_s = self.chance.choice((1.0, 5.0, 12.0))
        self.plane.kill_scheduler()
        threading.Timer(away_s, self.plane.start_scheduler).start()
        return f"for {away_s:.0f} s"

    def _workload(self, kind: str, name: str) -> str:
        return self.world.path(f"{kind.lower()}s", name, group="apps/v1")

    def _patch(self, path: str, body: Json) -> None:
        self.world.api.patch(path, body).expect()


def _workloads() -> Iterator[tuple[str, int, Json, Json]]:
    """Kind, replicas, more of the spec, and of the pods' spec; the first is w0."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
    }
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "w2"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    chosen = {"labelSelector": {"matchLabels": {"app": "w1"}}}
    yield "Deployment", 6, {}, {}
    yield "Deployment", 5, {}, {"topologySpreadConstraints": [{**spread, **chosen}]}
    yield "Deployment", 4, {}, {"affinity": {"podAntiAffinity": required}}
    yield "Deployment", 1, {}, {}
    yield "Deployment", 1, {}, {}
    yield "StatefulSet", 3, {"podManagementPolicy": "OrderedReady"}, {}
    yield "StatefulSet", 3, {}, {}
    yield "ReplicaSet", 2, {}, {}
    yield "Deployment", 3, {"strategy": {"type": "Recreate"}}, {"cpu": "2"}
    yield "Deployment", 3, {"minReadySeconds": 3}, {}
    yield "Deployment", 4, {}, {}


def _put_right(kind: str) -> Json:
    return {"paused": None, "template": FITS} if kind == "Deployment" else {}


def _name(obj: Json) -> str:
    return str(obj["metadata"]["name"])


def _phase(obj: Json) -> str:
    return str((obj.get("status") or {}).get("phase"))


if __name__ == "__main__":
    main()
