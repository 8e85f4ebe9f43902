"""Moves on the real control plane while parts of it are down, and while leaders are frozen.

    python -m bench.faults turns [--moves 40] [--minutes 1] [--only metrics|webhook|server]
    python -m bench.faults leaders [--times 20] [--seed 1]

``turns``: in turn metrics-server is down (its APIService answers 503), a validating webhook of one namespace is down, and
one of two API servers behind a balancer is down. Moves of another namespace are asked for meanwhile; prints how many
landed where their room was reserved and how long a pod was gated at most. ``leaders``: two replicas with leader election;
the leader is stopped by SIGSTOP for 5, 15 or 40 s at random moments, again and again, while pods move all the time. Every
eviction is judged from the versions that watches showed (``evictions``). Both end with 1 if a promise was broken. Needs
the binaries of ``make controlplane``.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from bench.evictions import Watched, judge
from bench.hostile import build, run, show
from bench.stage import LEASE, at_work, left_behind, over, read, settled
from bench.stage import moves as moves_of
from harness.controlplane.api import Api, HttpTransport, Json
from harness.controlplane.balancer import Balancer
from harness.controlplane.outages import metrics_down
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import World, is_ready, node_of

WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
GATED_S: Final = 60.0
STOPPED_S: Final = (5, 15, 40)
SETTLE_S: Final = 150.0


class Balanced(ControlPlane):
    """Two API servers, which all components but this bench's start reach through a balancer."""

    def __init__(self, balancer: Balancer) -> None:
        super().__init__(second_apiserver=())
        self._balancer = balancer

    def _write_kubeconfig(self, name: str, token: str, server: str = "") -> Path:
        del server
        self._balancer.ports = [int(url.rpartition(":")[2]) for url in (self.url, self.second_url) if url]
        return super()._write_kubeconfig(name, token, self._balancer.url)

    def balanced_api(self) -> Api:
        """The administrator's client through the balancer."""
        return Api(HttpTransport(self._balancer.url, self.token, self.ca))


@contextmanager
def webhook_down(api: Api, world: World) -> Iterator[None]:
    """Every write of a pod of that namespace waits for a webhook at which nobody answers; its pods are to move, too."""
    app = build(world, 4)
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods", "pods/*"]}
    webhook: Json = {
        "name": "down.example.com",
        "clientConfig": {"url": "https://192.0.2.1/"},
        "rules": [rule],
        "timeoutSeconds": 10,
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}},
    }
    kind = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "down"},
    }
    api.create(WEBHOOKS, {**kind, "webhooks": [webhook]}).expect()
    try:
        for pod, target in app:
            world.migrate(pod, target, ttl="10m")
        yield
    finally:
        api.delete(f"{WEBHOOKS}/down").expect()


@contextmanager
def server_down(plane: Balanced) -> Iterator[None]:
    """One of the two API servers is killed."""
    plane.stop_apiserver()
    try:
        yield
    finally:
        plane.start_apiserver()


@click.group()
def main() -> None:
    """Moves while parts of the control plane are down."""


@main.command("turns")
@click.option("--moves", default=40, show_default=True)
@click.option(
    "--minutes", default=1.0, show_default=True, help="How long the moves of one fault are asked for."
)
@click.option("--only", type=click.Choice(["metrics", "webhook", "server"]))
def turns(moves: int, minutes: float, only: str | None) -> None:
    """Metrics-server, a webhook of one namespace, and one of two API servers down in turn."""
    kept = True
    with Balancer() as balancer, Balanced(balancer) as plane:
        api = plane.balanced_api()
        with at_work(plane, api):
            for fault in (only,) if only else ("metrics", "webhook", "server"):
                with World(api, "others") as world, World(api, "faulty") as faulty:
                    wanted = build(world, moves)
                    down = {
                        "metrics": lambda: metrics_down(api),
                        "webhook": lambda faulty=faulty: webhook_down(api, faulty),
                        "server": lambda: server_down(plane),
                    }[fault]()
                    with down:
                        figures = run(world, wanted, minutes)
                    show(f"{fault} down, load {os.getloadavg()[0]:.1f}", figures)
                    left = left_behind(world)
                    print(f"  left behind: {left}", flush=True)
                    kept &= figures.landed == moves and figures.gated_s <= GATED_S and not any(left.values())
    raise SystemExit(not kept)


class Traffic:
    """Asks for moves all the time: one pod of each workload at a time, to a node that has room."""

    def __init__(self, world: World, apps: int) -> None:
        self._world, self._stop = world, threading.Event()
        self._apps = [f"app{number}" for number in range(apps)]
        self._nodes: list[str] = []
        self.asked: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def build(self) -> None:
        """Two pods each, under a budget, and as many empty nodes as workloads."""
        world = self._world
        for app in self._apps:
            self._nodes += [world.node(f"{app}-{index}", cpu="1") for index in range(3)]
            world.workload("Deployment", app, 2)
            world.budget(app, app, maxUnavailable=1)
        for app in self._apps:
            world.wait_ready(app, 2, 120)
        settled(world)
        self._thread.start()

    def end(self) -> list[Json]:
        """Ask for no more, and wait for those under way; gives all PodMigrations."""
        self._stop.set()
        self._thread.join(60)
        ends_s = time.monotonic() + SETTLE_S
        while time.monotonic() < ends_s and not all(map(over, moves_of(self._world))):
            time.sleep(0.5)
        return moves_of(self._world)

    def _run(self) -> None:
        while not self._stop.wait(1.0):
            under_way = [m for m in moves_of(self._world) if not over(m)]
            taken = {m["spec"]["target"]["nodeName"] for m in under_way}
            moving = {m["spec"]["podRef"]["name"].rpartition("-")[0].rpartition("-")[0] for m in under_way}
            pods = read(self._world.pods)
            free = [n for n in self._nodes if n not in taken | {node_of(p) for p in pods}]
            for app in self._apps:
                ready = [p for p in pods if p["metadata"]["labels"].get("app") == app and is_ready(p)]
                if app in moving or len(ready) != 2 or not free:
                    continue
                self.asked.append(self._world.migrate(ready[0], free.pop(), ttl="5m"))


@main.command("leaders")
@click.option("--times", default=20, show_default=True)
@click.option("--apps", default=6, show_default=True)
@click.option("--seed", default=1, show_default=True)
def leaders(times: int, apps: int, seed: int) -> None:
    """The leader of two replicas is stopped by SIGSTOP at random moments."""
    rng = random.Random(seed)
    stops = [STOPPED_S[index % len(STOPPED_S)] for index in range(times)]
    rng.shuffle(stops)
    with ControlPlane() as plane:
        api = plane.api()
        with at_work(plane, api, replicas=2) as replicas, World(api, "moves") as world:
            watched = Watched()
            watched.follow(api)
            traffic = Traffic(world, apps)
            traffic.build()
            for stopped_s in stops:
                time.sleep(rng.uniform(3.0, 8.0))
                holder = read(lambda: [api.get(LEASE).expect().body])[0]["spec"]["holderIdentity"]
                leader = next((each for each in replicas if each.identity == holder), replicas[0])
                with leader.signalled(signal.SIGSTOP, signal.SIGCONT):
                    time.sleep(stopped_s)
            moves = traffic.end()
            time.sleep(5.0)
            watched.stop.set()
            verdict, left = judge(watched, world.namespace), left_behind(world)
            phases = [(m.get("status") or {}).get("phase") for m in moves]
            print(f"the leader was stopped {times} times for {sum(stops)} s, load {os.getloadavg()[0]:.1f}")
            print(f"moves: {len(traffic.asked)} asked for, {phases.count('Succeeded')} landed")
            for status in (m.get("status") or {} for m in moves):
                if status.get("phase") != "Succeeded":
                    print(f"  {status.get('phase')}: {status.get('reason')}: {status.get('message')}")
            print(f"evictions: {verdict.evicted}, without an Available room: {len(verdict.without_room)}")
            print(*verdict.without_room, sep="\n")
            print(f"left behind: {left}", flush=True)
            broken = verdict.without_room or any(left.values()) or not verdict.evicted
    raise SystemExit(bool(broken))


if __name__ == "__main__":
    main()
