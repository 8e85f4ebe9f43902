"""Complete moves per second on the real control plane, and where the time goes.

    python -m bench.throughput [--moves 60] [--at-once 20] [--replicas 10] [--profile FILE] [--who]

Pods of Deployments without budgets are moved to a node each, so many at a time: as soon as one move ends, the next is
asked for. Fake kubelets start a pod at once. Prints moves per second, the median of every step from the times in
``status`` of the PodMigrations (written by the controller, one clock), the CPU seconds of each process from
``/proc``, the requests that the API server answered for each move, and the load of the machine. ``--profile`` writes
a CPU profile of the API server, for ``go tool pprof``; ``--who`` lets it keep an audit log, and prints who made which
requests (slower: for counting only). Needs the binaries of ``make controlplane``.
"""

from __future__ import annotations

import json
import os
import queue
import random
import re
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from harness.controlplane import manifests
from harness.controlplane.controllers import QUIET, controller_process
from harness.controlplane.kubelets import KubeletThread
from harness.controlplane.processes import Process
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import World, node_of
from kube_sandbox.kubelet import KubeletSettings
from rescheduler.kube.informers import Informers
from rescheduler.kube.transport import Request
from rescheduler.migrations.migration_lifecycle import FINISHED
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.migration import PodMigration
from rescheduler.model.times import parse_timestamp

STEPS: Final = (
    ("creation to the first look", "createdAt", "startedAt"),
    ("room reserved", "startedAt", "reservedAt"),
    ("checks, rehearsal and intent", "reservedAt", "evictionRequestedAt"),
    ("gate on, proven, settled; eviction accepted", "evictionRequestedAt", "evictedAt"),
    ("replacement created, room handed over, bound", "evictedAt", "landedAt"),
    ("replacement Ready", "landedAt", "readyAt"),
    ("whole move", "createdAt", "finishedAt"),
)
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
PROFILED_S: Final = 12
DISCOVERED_S: Final = 40.0
"""After it the garbage collector knows our kinds: until then it asks for each owner of a pod by itself."""
AUDIT_POLICY: Final = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""
CONFIGURATION: Final = {
    **QUIET,
    "leaderElection": {"enabled": True},
    "reservations": {"ttl": "10m"},
    "server": {"port": 0},
}
BINARIES: Final = ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager")


@contextmanager
def at_work(plane: ControlPlane, folder: Path) -> Iterator[Process]:
    """A controller at work, as a process of its own, on a control plane whose kubelets are ours."""
    api = plane.api()
    with KubeletThread(api.transport, KubeletSettings()):
        manifests.apply(api, manifests.of("policy"))
        process = controller_process(
            plane, folder, "bench", CONFIGURATION, "--log-format=json", "--identity=bench"
        )
        process.start()
        try:
            yield process
        finally:
            print(f"exit code of the controller              {process.stop(30)}")


def settled(world: World) -> bool:
    """Does the status of each Deployment say that nothing is rolled out? Its pods are Ready a little earlier."""
    deployments = world.api.get(world.path("deployments", group="apps/v1")).expect().items
    return all(
        d["spec"]["replicas"]
        == d.get("status", {}).get("updatedReplicas")
        == d["status"].get("availableReplicas")
        for d in deployments
    )


@dataclass
class Cpu:
    """CPU seconds of child processes by name, and of this one (kubelets, bench), since it was made."""

    begun: dict[int, tuple[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.begun = used()

    def since(self) -> dict[str, float]:
        """Seconds by name."""
        now = used()
        return {name: s - self.begun[pid][1] for pid, (name, s) in now.items() if pid in self.begun}


def used() -> dict[int, tuple[str, float]]:
    """Pid -> name and CPU seconds, of this process and its children."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "stat").read_text()
        except OSError:  # it has just ended
            continue
        name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        pid, parent = int(folder.name), int(rest[1])
        if pid == os.getpid():
            name = "bench and fake kubelets"
        elif parent != os.getpid():
            continue
        elif full := next((b for b in BINARIES if b.startswith(name)), None):
            name = full
        elif name.startswith("python"):
            name = "controller"
        found[pid] = (name, (int(rest[11]) + int(rest[12])) / TICKS_PER_S)
    return found


def requests(world: World) -> Counter[str]:
    """How many requests the API server has answered, by verb and resource."""
    text = world.api.transport.send(Request(method="GET", path="/metrics")).body.decode()
    found: Counter[str] = Counter()
    for line in text.splitlines():
        if line.startswith("apiserver_request_total{"):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            what = "/".join(filter(None, (labels["resource"], labels["subresource"])))
            dry = " (dry run)" if labels["dry_run"] else ""
            found[f"{labels['verb']} {what}{dry}"] += int(float(line.rpartition(" ")[2]))
    return found


def audited(log: Path, since_bytes: int) -> Counter[str]:
    """How many requests each client made since then, by verb, resource and, for ConfigMaps, name."""
    found: Counter[str] = Counter()
    with log.open("rb") as lines:
        lines.seek(since_bytes)
        for line in lines:
            event = json.loads(line)
            ref = event.get("objectRef", {})
            what = "/".join(filter(None, (ref.get("resource"), ref.get("subresource"))))
            name = f" {ref.get('name', '')}" if ref.get("resource") == "configmaps" else ""
            dry = " (dry run)" if "dryRun=All" in event["requestURI"] else ""
            who, code = event["user"]["username"].rpartition(":")[2], event["responseStatus"]["code"]
            if event["verb"] != "watch":
                found[f"{who}: {event['verb']} {what}{name}{dry} {code}"] += 1
    return found


def profile(world: World, seconds: int, file: Path) -> threading.Thread:
    """Begin to write a CPU profile of the API server."""
    request = Request(
        method="GET", path="/debug/pprof/profile", query={"seconds": str(seconds)}, timeout_s=seconds + 30.0
    )
    thread = threading.Thread(target=lambda: file.write_bytes(world.api.transport.send(request).body))
    thread.start()
    return thread


def migrations(world: World) -> dict[str, dict]:
    """Status by name, with the creation as one more time."""
    items = world.moves()
    created = {m["metadata"]["name"]: m["metadata"]["creationTimestamp"] for m in items}
    return {
        m["metadata"]["name"]: {**(m.get("status") or {}), "createdAt": created[m["metadata"]["name"]]}
        for m in items
    }


def drive(
    world: World, moves: int, at_once: int, replicas: int
) -> tuple[float, dict[str, str], dict[str, float]]:
    """Asks for the moves and waits for them: seconds, target of each, moment of asking for each."""
    waiting = []
    for number in range(-(-moves // replicas)):
        waiting += world.pods(f"app{number}")
    random.Random(1).shuffle(waiting)
    waiting = waiting[:moves]
    targets: dict[str, str] = {}
    asked: dict[str, float] = {}
    ended: set[str] = set()
    kind = Kind.POD_MIGRATION
    watched = Informers(world.api.transport, Decoder(), resources={kind: RESOURCES[kind]})
    watched.start()
    begun = time.monotonic()
    while len(ended) < moves:
        while waiting and len(targets) - len(ended) < at_once:
            target, at = f"{world.namespace}-to{len(targets)}", time.time()
            name = world.migrate(waiting.pop(), target, ttl="10m")
            targets[name], asked[name] = target, at
        with suppress(queue.Empty):
            record = watched.events.get(timeout=1.0).record
            if isinstance(record, PodMigration) and record.status.phase in FINISHED:
                ended.add(record.name)
        if time.monotonic() - begun > 240:
            raise SystemExit(f"only {len(ended)} of {moves} moves ended: {migrations(world)}")
    seconds = time.monotonic() - begun
    watched.stop()
    return seconds, targets, asked


def report(world: World, seconds: float, targets: dict[str, str], asked: dict[str, float]) -> bool:
    """Prints what the objects say; True if all moves ended well on their targets."""
    found = migrations(world)
    nodes = {p["metadata"]["name"]: node_of(p) for p in world.pods()}
    landed = sum(
        found[name].get("phase") == "Succeeded"
        and nodes.get((found[name].get("replacement") or {}).get("name", "")) == target
        for name, target in targets.items()
    )
    print(f"moves that landed on their target        {landed} of {len(targets)}")
    print(f"complete moves per second                {landed / seconds:.2f} ({seconds:.1f} s)")
    for words, start, end in STEPS:
        taken = []
        for name in targets:
            first = (
                asked[name]
                if start == "createdAt"
                else parse_timestamp(found[name].get(start, "1970-01-01T00:00:00Z"))
            )
            if found[name].get(end) and first:
                taken.append(parse_timestamp(found[name][end]) - first)
        if taken:
            print(f"  {words:<46} median {statistics.median(taken):6.2f}  most {max(taken):6.2f} s")
    return landed == len(targets)


@click.command()
@click.option("--moves", default=60, show_default=True)
@click.option("--at-once", default=20, show_default=True)
@click.option("--replicas", default=10, show_default=True, help="Of each Deployment.")
@click.option(
    "--profile", "profile_to", type=click.Path(path_type=Path), help="CPU profile of the API server."
)
@click.option("--who", is_flag=True, help="Print who made which requests, from an audit log.")
def main(moves: int, at_once: int, replicas: int, profile_to: Path | None, who: bool) -> None:  # noqa: FBT001
    """Moves per second."""
    with tempfile.TemporaryDirectory() as folder:
        policy, log = Path(folder) / "audit.yaml", Path(folder) / "audit.log"
        policy.write_text(AUDIT_POLICY)
        flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}") if who else ()
        run = Run(
            moves=moves, at_once=at_once, replicas=replicas, profile_to=profile_to, log=log if who else None
        )
        with ControlPlane(apiserver_flags=flags) as plane:
            kept = measure(plane, run)
    sys.exit(not kept)


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is measured. ``log``: the API server's audit log, if it keeps one."""

    moves: int
    at_once: int
    replicas: int
    profile_to: Path | None
    log: Path | None


def measure(plane: ControlPlane, run: Run) -> bool:
    """Build the cluster, drive the moves and print; True if all landed on their targets."""
    moves, replicas, log = run.moves, run.replicas, run.log
    with at_work(plane, plane.folder) as controller, World(plane.api(), "moves") as world:
        installed_s = time.monotonic()
        for number in range(-(-moves // replicas)):
            world.node(f"src{number}", cpu=str(replicas))
            world.workload("Deployment", f"app{number}", replicas)
        for number in range(-(-moves // replicas)):
            world.wait_ready(f"app{number}", replicas, 120)
        world.wait(lambda: settled(world), 120)
        for number in range(moves):
            world.node(f"to{number}", cpu="1")
        time.sleep(max(5.0, installed_s + DISCOVERED_S - time.monotonic()))
        cpu, load, before = Cpu(), os.getloadavg()[0], requests(world)
        logged = log.stat().st_size if log is not None else 0
        profiling = profile(world, PROFILED_S, run.profile_to) if run.profile_to else None
        seconds, targets, asked = drive(world, moves, run.at_once, replicas)
        spent, made = cpu.since(), requests(world) - before
        kept = report(world, seconds, targets, asked)
        for name, used_s in sorted(spent.items(), key=lambda item: -item[1]):
            share, each = used_s / seconds, used_s / moves * 1000
            print(f"  CPU {name:<42} {used_s:6.2f} s, {share:4.0%} of a core, {each:4.0f} ms a move")
        if log is not None:
            made = audited(log, logged)
        for what, count in made.most_common():
            if count * 10 >= moves:
                print(f"  {what:<72} {count / moves:6.2f} a move")
        if profiling is not None:
            profiling.join()
        print(f"cores {os.cpu_count()}, load before {load:.1f}, after {os.getloadavg()[0]:.1f}")
        if not kept:
            print(controller.log_tail())
    return kept


if __name__ == "__main__":
    main()
