"""Reservations that people make, on the real control plane: how many pods get the room that was held for them.

    python -m bench.reservations single       [--count 50] [--disturb none|scheduler|apiserver|kill|both]
    python -m bench.reservations split        [--count 20] [--disturb ...]
    python -m bench.reservations preallocated [--count 20] [--disturb ...]
    python -m bench.reservations pending      [--count 30] [--disturb ...]
    python -m bench.reservations overtaken    [--count 30] [--disturb ...]

``single``: one Reservation per pod, then a scale-up. ``split``: one Reservation (allocateOnce: false), scaled up in
steps; one part is left and must stay held. ``returned``: the pods of such a
room are restarted, one after the other, and what they leave goes back to it. ``preallocated``: preAllocation on full nodes; the pods there leave one by one.
``pending``: each owner is a pod that kube-scheduler has refused before its Reservation is made; the pods on the full nodes leave.
``overtaken``: the same, and the pods that want every free room are of higher priority and preempt none.
Every node is full, and pods that want every free room wait all the time. ``--disturb``: the scheduler is restarted,
the API server is away for 5 s, the controller is killed, or both while it happens. Counted from the objects, not from
what the controller says. Needs the binaries of ``make controlplane``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import click

from bench.stage import (
    GATE_KEYS,
    LEASE,
    PLACEHOLDERS,
    Controllers,
    at_work,
    crowd,
    held,
    left_behind,
    patiently,
)
from harness import documents
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import World, condition, node_of
from kube_sandbox.kubelet.objects import ANNOTATION_STOP_AFTER
from rescheduler.model.names import ANNOTATION_RESERVATION, API_VERSION

DISTURBANCES = click.Choice(["none", "scheduler", "apiserver", "kill", "both"])
STOP_S = 3


@dataclass
class Stage:
    """A control plane with the controller at work."""

    plane: ControlPlane
    world: World
    controllers: Controllers
    disturb: str
    faults: list[str] = field(default_factory=list)

    def expect(self, what: str, seen: object, wanted: object) -> None:
        """Notes and prints one figure."""
        print(f"{what:<48} {seen}" + ("" if seen == wanted else f"   (wanted {wanted})"), flush=True)
        if seen != wanted:
            self.faults.append(what)

    def trouble(self) -> threading.Thread:
        """Begins the disturbance a moment from now; join it."""

        def work() -> None:
            time.sleep(0.5)
            if self.disturb == "scheduler":
                self.plane.kill_scheduler()
                time.sleep(1)
                self.plane.start_scheduler()
            elif self.disturb in ("apiserver", "both"):
                self.plane.stop_apiserver()
                if self.disturb == "both":
                    self.controllers.kill()
                time.sleep(5)
                self.plane.start_apiserver()
            elif self.disturb == "kill":
                for _ in range(4):
                    self.controllers.kill()
                    self.controllers.start()
                    time.sleep(1.5)

        thread = threading.Thread(target=work)
        thread.start()
        return thread


def reserve(world: World, name: str, node: str, cpu: str, **spec: Any) -> None:
    """Creates a Reservation for the pods of Deployment ``web``."""
    whose, wish = [documents.owner("web", world.namespace)], {"ttl": "30m", **spec}
    pod = world.spec(cpu, nodeName=node)
    body = documents.reservation(f"{world.namespace}-{name}", pod, whose, **wish)
    world.api.create(f"/apis/{API_VERSION}/reservations", body).expect()


def scale(world: World, replicas: int) -> None:
    """Changes spec.replicas of Deployment ``web``."""
    world.api.patch(
        world.path("deployments", "web", group="apps/v1"), {"spec": {"replicas": replicas}}
    ).expect()


def must(look: Callable[[], object], seconds: float) -> None:
    """The same, where nothing can be measured without it."""
    if not patiently(look, seconds):
        raise TimeoutError(f"the scene was not ready within {seconds:g} s")


def bound(world: World) -> list[str]:
    """Nodes of the pods of ``web``."""
    return [node_of(pod) for pod in world.pods("web") if node_of(pod)]


def gate_is_on(world: World) -> bool:
    """Is any controller named in ConfigMap ``gate-keys``?"""
    return bool(world.api.get(GATE_KEYS).expect().body.get("data"))


def single(stage: Stage, count: int) -> None:
    """One Reservation per pod."""
    world = stage.world
    world.workload("Deployment", "web", 0)
    nodes = []
    for number in range(count):
        nodes.append(world.node(f"to{number}", cpu="2"))
        world.pod(f"filler{number}", nodeName=nodes[-1])
        reserve(world, f"r{number}", nodes[-1], "1")
    must(lambda: len(held(world, "Available")) == count and gate_is_on(world), 120)
    crowd(world, 3 * count, "")
    begun = time.monotonic()
    trouble = stage.trouble()
    scale(world, count)
    # Pods that it believes to have made are waited for by the controller of ReplicaSets, for five minutes.
    patiently(lambda: len(bound(world)) == count, 360)
    trouble.join()
    print(f"seconds {time.monotonic() - begun:.1f}")
    stage.expect("pods on reserved nodes, one on each", len(set(bound(world)) & set(nodes)), count)
    patiently(lambda: len(held(world, "Succeeded")) == count, 60)
    stage.expect("Reservations Succeeded", len(held(world, "Succeeded")), count)
    leftovers(stage)


def split(stage: Stage, count: int) -> None:
    """One Reservation for all, with one part too many."""
    world = stage.world
    world.workload("Deployment", "web", 0)
    node = world.node("pool", cpu=str(count + 1))
    reserve(world, "pool", node, str(count + 1), allocateOnce=False)
    must(lambda: held(world, "Available") and gate_is_on(world), 60)
    crowd(world, 3 * count, "")
    begun = time.monotonic()
    trouble = stage.trouble()
    for step in (1, count // 4, count // 2, count):
        patiently(lambda size=step: scale(world, size) is None, 30)
        patiently(lambda size=step: len(bound(world)) >= size, 120)
    trouble.join()
    print(f"seconds {time.monotonic() - begun:.1f}, assigned in 4 steps")
    stage.expect("pods on the reserved node", bound(world).count(node), count)
    patiently(lambda: amounts(world) == (str(count), str(count + 1), count), 30)
    stage.expect("allocated, allocatable, owners", amounts(world), (str(count), str(count + 1), count))
    rest = [p for p in world.api.get(PLACEHOLDERS).expect().items if node_of(p) == node]
    sizes = [p["spec"]["containers"][0]["resources"]["requests"]["cpu"] for p in rest]
    stage.expect("the rest, held by placeholders of CPU", sizes, ["1"])
    stage.expect("pods of the crowd on the node", intruders(world, {node}), 0)
    scale(world, count + 1)
    full = (str(count + 1), str(count + 1), count + 1)
    patiently(lambda: amounts(world) == full, 60)
    stage.expect("allocated, allocatable, owners when all of it is assigned", amounts(world), full)
    stage.expect("Available when all of it is assigned", len(held(world, "Available")), 1)
    stage.expect("pods on the reserved node in the end", bound(world).count(node), count + 1)
    leftovers(stage)


def returned(stage: Stage, count: int) -> None:
    """Half of a room is used by several pods; each of them is deleted, and the Deployment makes another one at once.

    Their containers need a few seconds to stop: what a pod leaves that ends at once is anybody's.
    """
    world = stage.world
    world.workload("Deployment", "web", 0, annotations={ANNOTATION_STOP_AFTER: str(STOP_S)})
    node = world.node("pool", cpu=str(2 * count))
    reserve(world, "pool", node, str(2 * count), allocateOnce=False)
    must(lambda: held(world, "Available") and gate_is_on(world), 60)
    scale(world, count)
    must(lambda: bound(world).count(node) == count, 120)
    crowd(world, 3 * count, "")
    begun = time.monotonic()
    trouble = stage.trouble()
    for pod in world.pods("web"):
        old = pod["metadata"]["uid"]
        patiently(lambda pod=pod: world.delete_pod(pod, grace=STOP_S + 1).status in (200, 404), 30)
        patiently(lambda old=old: old not in uids(world) and bound(world).count(node) == count, 60)
    trouble.join()
    print(f"seconds {time.monotonic() - begun:.1f}, {count} restarts one after the other")
    whole = (str(count), str(2 * count), count)
    patiently(lambda: amounts(world) == whole, 60)
    stage.expect("pods on the reserved node", bound(world).count(node), count)
    stage.expect("allocated, allocatable, owners", amounts(world), whole)
    rest = [p for p in world.api.get(PLACEHOLDERS).expect().items if node_of(p) == node]
    cpus = [int(p["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for p in rest]
    stage.expect("the rest, held by placeholders of CPU in sum", sum(cpus), count)
    stage.expect("pods of the crowd on the node", intruders(world, {node}), 0)
    world.api.delete(f"/apis/{API_VERSION}/reservations/{world.namespace}-pool").expect()
    leftovers(stage)


def uids(world: World) -> set[str]:
    """Of the pods of ``web``."""
    return {pod["metadata"]["uid"] for pod in world.pods("web")}


def amounts(world: World) -> tuple[str, str, int]:
    """What the status of the one Reservation says."""
    status = world.api.get(f"/apis/{API_VERSION}/reservations").expect().items[0]["status"]
    return status["allocated"]["cpu"], status["allocatable"]["cpu"], len(status.get("currentOwners", ()))


def preallocated(stage: Stage, count: int) -> None:
    """Rooms on full nodes, freed in two pieces each."""
    world = stage.world
    world.workload("Deployment", "web", 0)
    nodes = [world.node(f"to{number}", cpu="2") for number in range(count)]
    running = {
        f"old{number}-{half}": world.pod(f"old{number}-{half}", nodeName=node)
        for number, node in enumerate(nodes)
        for half in "ab"
    }
    crowd(world, 3 * count, "")
    must(lambda: all(world.get_pod(n)["status"].get("phase") == "Running" for n in running), 60)
    for number, node in enumerate(nodes):
        reserve(world, f"r{number}", node, "2", preAllocation=True)
    must(lambda: len(held(world, "Waiting")) == count, 120)
    time.sleep(2)
    now = {pod["metadata"]["name"]: pod for pod in world.pods()}
    unharmed = sum(
        now[name]["metadata"]["uid"] == pod["metadata"]["uid"] and now[name]["status"]["phase"] == "Running"
        for name, pod in running.items()
    )
    stage.expect("running pods left alone while it is Waiting", unharmed, 2 * count)
    begun = time.monotonic()
    trouble = stage.trouble()
    for half in "ab":
        for number in range(count):
            pod = running[f"old{number}-{half}"]
            patiently(lambda pod=pod: world.delete_pod(pod).status in (200, 404), 30)
        time.sleep(2)
    patiently(lambda: len(held(world, "Available")) == count, 120)
    trouble.join()
    print(f"seconds {time.monotonic() - begun:.1f}")
    stage.expect("Reservations Available", len(held(world, "Available")), count)
    stage.expect("pods of the crowd on the nodes", intruders(world, set(nodes)), 0)
    scale(world, count)
    patiently(lambda: len(bound(world)) == count, 120)
    stage.expect("pods on reserved nodes, one on each", len(set(bound(world)) & set(nodes)), count)
    patiently(lambda: len(held(world, "Succeeded")) == count, 60)
    leftovers(stage)


def pending(stage: Stage, count: int, priority_class: str = "") -> None:
    """Owners that wait already, each for a room of its own on a full node."""
    world = stage.world
    nodes = [world.node(f"to{number}", cpu="1") for number in range(count)]
    running = [world.pod(f"old{number}", nodeName=node) for number, node in enumerate(nodes)]
    crowd(world, 3 * count, priority_class)
    labels = {"app": "web"}
    for number in range(count):
        world.pod(f"mine{number}", labels=labels)
    must(lambda: all(unschedulable(pod) for pod in world.pods("web")), 120)
    for number, node in enumerate(nodes):
        mine = {"object": {"namespace": world.namespace, "name": f"mine{number}"}}
        reserve(world, f"r{number}", node, "1", preAllocation=True, owners=[mine])
    must(lambda: len(held(world, "Waiting")) == count, 120)
    begun = time.monotonic()
    trouble = stage.trouble()
    for pod in running:
        patiently(lambda pod=pod: world.delete_pod(pod).status in (200, 404), 30)
    patiently(lambda: len(bound(world)) == count, 240)
    trouble.join()
    print(f"seconds {time.monotonic() - begun:.1f}")
    own = sum(node_of(world.get_pod(f"mine{number}")) == node for number, node in enumerate(nodes))
    stage.expect("pods on their reserved node", own, count)
    stage.expect("pods of the crowd on the nodes", intruders(world, set(nodes)), 0)
    patiently(lambda: len(held(world, "Succeeded")) == count, 60)
    stage.expect("Reservations Succeeded", len(held(world, "Succeeded")), count)
    leftovers(stage)


def overtaken(stage: Stage, count: int) -> None:
    """The same, with a crowd of higher priority."""
    high = {"metadata": {"name": "patient"}, "value": 1000, "preemptionPolicy": "Never"}
    stage.world.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", high).expect()
    probe = stage.world.spec(priorityClassName="patient")
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": probe}
    must(lambda: stage.world.api.create(stage.world.path("pods"), body, dryRun="All").ok, 60)
    pending(stage, count, "patient")


def unschedulable(pod: dict) -> bool:
    """Has kube-scheduler refused it?"""
    return condition(pod, "PodScheduled").get("reason") == "Unschedulable"


def intruders(world: World, nodes: set[str]) -> int:
    """Pods of the crowd that got onto the nodes."""
    return sum(node_of(p) in nodes for p in world.pods() if p["metadata"]["name"].startswith("competitor"))


def leftovers(stage: Stage) -> None:
    """What must not be left behind, and what was not held."""
    world = stage.world
    free = sum(ANNOTATION_RESERVATION not in p["metadata"].get("annotations", {}) for p in world.pods("web"))
    stage.expect("pods that came without the gate", free, 0)
    patiently(lambda: not any(left_behind(world).values()), 30)
    stage.expect("left behind", left_behind(world), dict.fromkeys(left_behind(world), 0))


def play(scene: Callable[[Stage, int], None], count: int, disturb: str) -> bool:
    """One run; True if every promise was kept."""
    with ControlPlane() as plane:
        api = plane.api()
        with at_work(plane, api) as (controllers,), World(api, "rooms") as world:
            must(lambda: api.get(LEASE).ok, 30)
            stage = Stage(plane=plane, world=world, controllers=controllers, disturb=disturb)
            scene(stage, count)
            if stage.faults:
                controllers.tell()
            return not stage.faults


SCENES = {
    "single": single,
    "split": split,
    "returned": returned,
    "preallocated": preallocated,
    "pending": pending,
    "overtaken": overtaken,
}


@click.command()
@click.argument("scene", type=click.Choice(list(SCENES)))
@click.option("--count", default=20, show_default=True)
@click.option("--disturb", type=DISTURBANCES, default="none", show_default=True)
def main(scene: str, count: int, disturb: str) -> None:
    """Reservations on the real control plane, measured."""
    raise SystemExit(not play(SCENES[scene], count, disturb))


if __name__ == "__main__":
    main()
