"""What a hostile tenant does: role ``edit`` in a namespace of its own, and the role of a reserver. For ``hostile.py``.

Each attack is one thing that such a tenant may try; it is tried again and again until the run ends. What the API server
refuses is counted, not retried faster. Nothing here looks at the controller.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from harness import documents
from harness.controlplane.api import MERGE, Api, Json
from harness.controlplane.world import WORLD, World
from rescheduler.kube.transport import TransportError
from rescheduler.model.names import API_VERSION, CREATED_BY, LABEL_CREATED_BY, MOVE_SUFFIX
from rescheduler.model.records import ObjectKey
from rescheduler.reservations.template import reservation_name

RESERVATIONS: Final = f"/apis/{API_VERSION}/reservations"
OWNERS: Final = 32
LONG: Final = "x" * 60
LEFT: Final = {"example.com/left": "yes"}
"""Label of the nodes that the others' pods leave: free room elsewhere is anybody's, so taking it proves nothing."""
MARK: Final = {LABEL_CREATED_BY: CREATED_BY}


@dataclass
class Tenant:
    """The hostile tenant: its credentials, its namespace, and the namespace that it attacks."""

    api: Api
    own: World
    victim: World
    flood: int
    """So many PodMigrations of its own."""
    stop: threading.Event = field(default_factory=threading.Event)
    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    _threads: list[threading.Thread] = field(default_factory=list)

    def attack(self) -> None:
        """Begin all attacks at once."""
        attacks = (
            self._paused, self._ghosts, self._flood, self._rooms, self._steer, self._take_links,
            self._take_names, self._priority, self._growing, self._queued, self._gates,
        )  # fmt: skip
        for each in attacks:
            thread = threading.Thread(
                target=self._repeat, args=(each.__name__.lstrip("_"), each), daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def end(self) -> None:
        """Stop; the objects stay."""
        self.stop.set()
        for thread in self._threads:
            thread.join(30)

    def _repeat(self, name: str, steps: Callable[[], Iterator[tuple[str, str, Json]]]) -> None:
        while not self.stop.wait(0.2):
            try:
                for method, path, body in steps():
                    content_type = MERGE if method == "PATCH" else "application/json"
                    answer = self.api.call(method, path, body, content_type=content_type)
                    (self.accepted if answer.ok else self.refused)[name] += 1
                    if self.stop.wait(0.02):
                        return
            except (TransportError, AssertionError):
                self.refused[name] += 1

    # Moves

    def _move(
        self, name: str, pod: str, *, labels: Json | None = None, **spec: object
    ) -> tuple[str, str, Json]:
        body = documents.migration(name, pod, meta={"labels": labels or {}}, **spec)
        return "POST", self.own.path("podmigrations", group=API_VERSION), body

    def _pods(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.own.pods("own")]

    def _paused(self) -> Iterator[tuple[str, str, Json]]:
        for number, pod in enumerate(self._pods()):
            yield self._move(f"paused-{number}", pod, paused=True, ttl="168h")

    def _ghosts(self) -> Iterator[tuple[str, str, Json]]:
        for number in range(60):
            yield self._move(f"ghost-{number}", f"nobody-{number}", labels=MARK, policy="NodeTaints")

    def _flood(self) -> Iterator[tuple[str, str, Json]]:
        pods = itertools.cycle(self._pods() or ["own-0"])
        for number in range(self.flood):
            yield self._move(f"flood-{number}", next(pods), target={"nodeName": "nowhere"}, ttl="24h")
            yield self._move(f"flood-any-{number}", next(pods), ttl="24h")

    def _take_links(self) -> Iterator[tuple[str, str, Json]]:
        for room in self._rooms_of_others():
            yield self._move(
                f"link-{room}"[:60], next(iter(self._pods()), "own-0"), reservationRef={"name": room}
            )

    # Rooms

    def _room(self, name: str, owners: list[Json], cpu: str = "1m") -> tuple[str, str, Json]:
        template = {"metadata": {"namespace": self.own.namespace}, "spec": documents.pod_spec(cpu)}
        spec = {"template": template, "owners": owners, "ttl": "10m"}
        return "POST", RESERVATIONS, documents.own("Reservation", name, spec)

    def _rooms(self) -> Iterator[tuple[str, str, Json]]:
        for number in range(200):
            owners = [self._labelled(f"{number}-{index}") for index in range(OWNERS)]
            yield self._room(f"hostile-{number}", owners)
            nobody = {"object": {"namespace": self.own.namespace, "name": f"nobody-{number}"}}
            yield self._room(f"small-{number}", [nobody])

    def _labelled(self, text: str) -> Json:
        labels = {f"key-{index}-{LONG}"[:63]: f"{text}-{LONG}"[:63] for index in range(4)}
        return {"object": {"namespace": self.own.namespace}, "labelSelector": {"matchLabels": labels}}

    def _rooms_of_others(self) -> list[str]:
        items = self.victim.api.get(RESERVATIONS).expect().items
        return [r["metadata"]["name"] for r in items if r["metadata"]["name"].endswith(MOVE_SUFFIX)]

    def _steer(self) -> Iterator[tuple[str, str, Json]]:
        wishes = {"order": "--5", "mode": "Soft", "migration": "no/such"}
        annotations = {f"rescheduler.dev/{key}": value for key, value in wishes.items()}
        change: Json = {"metadata": {"annotations": annotations, "finalizers": ["example.com/stay"]}}
        for room in self._rooms_of_others():
            yield "PATCH", f"{RESERVATIONS}/{room}", change

    def _take_names(self) -> Iterator[tuple[str, str, Json]]:
        moves = self.victim.api.get(self.victim.path("podmigrations", group=API_VERSION)).expect().items
        for move in moves:
            meta = move["metadata"]
            name = reservation_name(ObjectKey(meta["namespace"], meta["name"]), meta["uid"])
            yield self._room(name, [{"controller": {"kind": "ReplicaSet", "namespace": self.own.namespace}}])

    # Pods

    def _pod(self, name: str, **spec: object) -> tuple[str, str, Json]:
        body: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {}}
        wanted = {WORLD: self.victim.namespace, **LEFT}
        body["spec"] = {**self.victim.spec("1", **spec), "nodeSelector": wanted}
        return "POST", self.own.path("pods"), body

    def _priority(self) -> Iterator[tuple[str, str, Json]]:
        for number in range(20):
            yield self._pod(f"high-{number}", priorityClassName="rescheduler-placeholder")

    def _gates(self) -> Iterator[tuple[str, str, Json]]:
        for number in range(20):
            yield self._pod(f"gated-{number}", gates=("example.com/never", "rescheduler.dev/hold"))

    def _queued(self) -> Iterator[tuple[str, str, Json]]:
        """Its own pods get a gate of its own from now on, and are moved."""
        template = {"spec": {"template": {"spec": {"schedulingGates": [{"name": "example.com/never"}]}}}}
        yield "PATCH", self.own.path("replicasets", "own", group="apps/v1"), template
        for number, pod in enumerate(self._pods()):
            yield self._move(f"queued-{number}", pod)

    def _growing(self) -> Iterator[tuple[str, str, Json]]:
        """A bare ReplicaSet of small pods whose template then asks for whole nodes, and moves of them."""
        container = {"name": "main", "image": "pause", "resources": {"limits": {"cpu": "100"}}}
        template = {"spec": {"template": {"spec": {"containers": [container]}}}}
        yield "PATCH", self.own.path("replicasets", "growing", group="apps/v1"), template
        for number, pod in enumerate(self.own.pods("growing")):
            yield self._move(f"growing-{number}", pod["metadata"]["name"], ttl="2000000h")
