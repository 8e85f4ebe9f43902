"""The real control plane with our controllers at work, for every bench: how it begins and ends, what is looked at, what may not stay.

Everything is counted from the objects and from watches, not from what the controller says of itself.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from harness.controlplane import manifests
from harness.controlplane.api import Api, Json
from harness.controlplane.controllers import QUIET, controller_process
from harness.controlplane.kubelets import KubeletThread
from harness.controlplane.processes import free_port
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import RESERVATIONS, World, gates_of
from kube_sandbox.kubelet import KubeletSettings
from rescheduler.kube.transport import TransportError
from rescheduler.model.names import API_VERSION, DEFAULT_NAMESPACE, GATE_CONFIG_MAP, GROUP

PLACEHOLDERS: Final = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/pods"
GATE_KEYS: Final = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/configmaps/{GATE_CONFIG_MAP}"
ENDED: Final = ("Succeeded", "Failed")
CONFIGURATION: Final = {
    **QUIET,
    "leaderElection": {"enabled": True},
    "reservations": {"ttl": "10m"},
    "server": {"port": 0},
}


class Controllers:
    """The controller as a process of its own; its ends are cured as a kubelet does.

    ``deaths``: how often it ended by itself.
    """

    def __init__(self, plane: ControlPlane, folder: Path, gate: str) -> None:
        port = free_port()
        mode = "Webhook" if gate == "webhook" else "Auto"
        document = {**CONFIGURATION, "gate": {"mode": mode, "port": port, "url": f"https://127.0.0.1:{port}"}}
        self._process = controller_process(
            plane, folder, "bench", document, "--log-format=json", "--identity=bench"
        )
        self.deaths, self._killed = 0, False
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)

    def start(self) -> None:
        """Start it, and again whenever it ends by itself."""
        with self._lock:
            self._run()
        if not self._supervisor.is_alive():
            self._supervisor.start()

    def kill(self) -> None:
        """SIGKILL. The next one is started by ``start``, or in a moment."""
        with self._lock:
            self._process.kill()
            self._killed = True

    def terminate(self) -> int | None:
        """SIGTERM; its exit code."""
        self._ended.set()
        with self._lock:
            return self._process.stop(30)

    def tell(self) -> None:
        """Print the end of its log."""
        print(self._process.log_tail())

    def _run(self) -> None:
        self.deaths += bool(self._process.starts and not self._process.running and not self._killed)
        self._killed = False
        self._process.start()

    def _supervise(self) -> None:
        while not self._ended.wait(0.5):
            with self._lock:
                if not self._ended.is_set():
                    self._run()


@contextmanager
def at_work(plane: ControlPlane, api: Api, *, gate: str = "policy") -> Iterator[Controllers]:
    """A controller at work on an installed control plane whose kubelets are ours; how it ended is told."""
    with tempfile.TemporaryDirectory() as folder, KubeletThread(api.transport, KubeletSettings()):
        manifests.apply(api, manifests.of(gate))
        controllers = Controllers(plane, Path(folder), gate)
        controllers.start()
        try:
            yield controllers
        except Exception:
            controllers.tell()
            raise
        finally:
            code = controllers.terminate()
            print(
                f"exit code of the controller              {code}; ended by itself {controllers.deaths} times"
            )
            if code:
                controllers.tell()


def read(look: Callable[[], list[Json]]) -> list[Json]:
    """What it finds, once there is an API server that answers."""
    ends = time.monotonic() + 60
    while True:
        try:
            return look()
        except (AssertionError, TransportError):
            if time.monotonic() > ends:
                raise
            time.sleep(0.1)


def moves(world: World) -> list[Json]:
    """The PodMigrations of a world."""
    return read(lambda: world.api.get(world.path("podmigrations", group=API_VERSION)).expect().items)


def over(item: Json) -> bool:
    """Has the move or the Reservation ended?"""
    return (item.get("status") or {}).get("phase") in ENDED


def moment(text: str) -> float:
    """Epoch seconds."""
    return datetime.fromisoformat(text).timestamp()


def settled(world: World) -> None:
    """Until the status of each Deployment says that nothing is rolled out: its pods are Ready a little earlier."""
    path = world.path("deployments", group="apps/v1")

    def all_rolled_out() -> bool:
        return all(
            d["spec"]["replicas"]
            == d.get("status", {}).get("updatedReplicas")
            == d["status"].get("availableReplicas")
            for d in world.api.get(path).expect().items
        )

    world.wait(all_rolled_out, 120)


def allowed(world: World) -> list[int]:
    """disruptionsAllowed of each budget."""
    budgets = world.api.get(world.path("poddisruptionbudgets", group="policy/v1")).expect().items
    return [b.get("status", {}).get("disruptionsAllowed", -1) for b in budgets]


def crowd(world: World, count: int, priority_class: str) -> None:
    """Pods that wait for any room, half of them of the same size as the replacements."""
    more = {"priorityClassName": priority_class} if priority_class else {}
    for number in range(count):
        world.pod(f"competitor{number}", "1" if number % 2 else "500m", **more)


def held(world: World, phase: str) -> list[Json]:
    """Reservations in that phase."""
    return [
        r for r in world.api.get(RESERVATIONS).expect().items if (r.get("status") or {}).get("phase") == phase
    ]


def left_behind(world: World) -> dict[str, int]:
    """What there is of this world's moves and rooms when all is over."""
    api, mine = world.api, f"{world.namespace}"
    rooms = [r for r in api.get(RESERVATIONS).expect().items if mine in str(r)]
    names = {r["metadata"]["name"] for r in rooms}
    holders = [
        p
        for p in api.get(PLACEHOLDERS).expect().items
        if any(owner["name"] in names for owner in p["metadata"].get("ownerReferences", ()))
    ]
    keys = api.get(GATE_KEYS).expect().body.get("data") or {}
    nodes = [n for n in api.get("/api/v1/nodes").expect().items if n["metadata"]["name"].startswith(mine)]
    return {
        "placeholders": len(holders),
        "unfinished Reservations": sum(not over(r) for r in rooms),
        "gated pods": sum(bool(gates_of(pod)) for pod in world.pods()),
        "gate keys": sum(f".{mine}." in key for key in keys),
        "hand-over taints": sum(
            t["key"].startswith(f"{GROUP}/") for n in nodes for t in n["spec"].get("taints", [])
        ),
    }
