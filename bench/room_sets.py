"""What ReservationWindows and HeadRooms cost the controller: one look at all of them while pods change.

``python -m bench.room_sets [NODES ...]`` (default 500 1000 5000; 30 pods each, every fifth of a Job that declares how long it runs).
Twenty windows of 50 rooms and twenty HeadRooms of 10; between two looks forty pods change. Before their time the windows hold
nothing; then all of them are gathered for at once, on nodes that are full, and every room waits. No call is sent: the Reservations that
the looks ask for are put into the cluster with a nominated placeholder each. Milliseconds are CPU time of one look.
"""

from __future__ import annotations

import gc
import itertools
import json
import statistics
import sys
import time
from collections.abc import Iterator

import msgspec

from bench.planning import NOW_S, make_cluster
from rescheduler.calls.call import AnyCall, Call
from rescheduler.controller.room_sets import RoomSetKeeper
from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.kept_index import KeptIndex
from rescheduler.model.cluster import ClusterState
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import Kind
from rescheduler.model.names import LABEL_PLACEHOLDER, MAXIMUM_RUNTIME
from rescheduler.model.records import OwnerRef, Pod, PodSpec
from rescheduler.model.reservation import Reservation, ReservationOwner, ReservationPhase, ReservationStatus
from rescheduler.model.resources import Resources
from rescheduler.model.room_sets import HeadRoom, HeadRoomStatus, ReservationWindow, WindowStatus
from rescheduler.model.selectors import LabelSelector, LabelSet, Operator, Requirement
from rescheduler.model.times import format_seconds

OBJECTS = 20
ROOMS_OF_A_WINDOW, ROOMS_OF_A_HEAD_ROOM = 50, 10
EVENTS_BETWEEN = 40
LOOKS = 40
START_S = NOW_S - NOW_S % 86_400 + 86_400
"""Of all windows: the next midnight."""
AGO_S = 3600.0
ROOM = Resources(cpu_milli=250, memory_bytes=2**28)


def as_jobs(pod: Pod, number: int) -> Pod:
    """Every fifth pod is one of a Job; half of them end before the windows start."""
    if number % 5:
        return pod
    runs_s = (AGO_S if number % 10 else 86_400) + START_S - NOW_S
    job = OwnerRef("batch/v1", "Job", f"job-{number}", f"job-{number}")
    notes = LabelSet({MAXIMUM_RUNTIME: f"{runs_s - 2 * AGO_S:.0f}s"})
    return msgspec.structs.replace(
        pod, controller=job, annotations=notes, started_at_s=NOW_S, created_at_s=NOW_S
    )


def owners(app: str) -> tuple[ReservationOwner, ...]:
    """Pods of one label."""
    return (ReservationOwner(label_selector=LabelSelector((Requirement("app", Operator.IN, (app,)),))),)


class Cluster:
    """The objects, and what the looks made of them."""

    def __init__(self, nodes: int) -> None:
        cluster = make_cluster(nodes, full=True)
        self.state, self._decoder, self._kept = ClusterState(), Decoder(), KeptIndex()
        self.state.replace(Kind.NODE, cluster.nodes.values())
        self.state.replace(Kind.POD, [as_jobs(pod, n) for n, pod in enumerate(cluster.pods.values())])
        self.state.replace(Kind.REPLICA_SET, cluster.workloads.values())
        for number in range(OBJECTS):
            name = f"w{number}"
            window = ReservationWindow(
                name=name, uid=name, cron="0 0 * * *", duration_s=3600.0, start_reserve_ago_s=AGO_S, generation=1,
                pods=ROOMS_OF_A_WINDOW, resources=ROOM * ROOMS_OF_A_WINDOW, owners=owners(name), status=WindowStatus(),
            )  # fmt: skip
            self.state.apply(Kind.RESERVATION_WINDOW, window)
            name = f"h{number}"
            template = PodSpec(requests=Resources(cpu_milli=10))
            head_room = HeadRoom(
                name=name, uid=name, rooms=ROOMS_OF_A_HEAD_ROOM, owners=owners(name), template=template,
                template_raw=b'{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"10m"}}}]}}',
                status=HeadRoomStatus(),
            )  # fmt: skip
            self.state.apply(Kind.HEAD_ROOM, head_room)
        self.keeper = RoomSetKeeper()
        self._nodes = list(cluster.nodes)
        self._keys = list(cluster.pods)
        self._number = itertools.count(1)

    def look(self, now_s: float) -> tuple[float, list[AnyCall]]:
        """Seconds of one look, and what it asks for."""
        for number in itertools.islice(self._number, EVENTS_BETWEEN):
            pod = self.state.get(Kind.POD, self._keys[number * 7919 % len(self._keys)])
            if isinstance(pod, Pod):
                self.state.apply(Kind.POD, msgspec.structs.replace(pod, resource_version=str(number)))
        index = RoundIndex.of(self.state.snapshot(now_s), self._kept)
        began_s = time.process_time()
        calls = [call for step in self.keeper.steps(index, now_s) for call in step.calls()]
        return time.process_time() - began_s, calls

    def follow(self, calls: list[AnyCall], now_s: float) -> None:
        """As the API server and the machine of each Reservation would have it a moment later."""
        for call in calls:
            match call:
                case Call(does="create_reservation"):
                    self._room(call, now_s)
                case Call(does="delete_reservation", seen=Reservation() as room):
                    self._gone(room)
                case Call(does="write_status", kind=kind, seen=seen) if seen is not None:
                    self.state.apply(kind, msgspec.structs.replace(seen, status=call.status))
                case _:
                    pass

    def _room(self, call: Call, now_s: float) -> None:
        made = msgspec.json.decode(call.body)
        made["metadata"] |= {"uid": call.key.name, "creationTimestamp": format_seconds(now_s)}
        room = self._decoder.record(Kind.RESERVATION, msgspec.json.encode(made))
        if not isinstance(room, Reservation):
            raise TypeError(call.key.name)
        node = room.template_node or self._nodes[next(self._number) % len(self._nodes)]
        gathered = room.pre_allocation
        phase = ReservationPhase.WAITING if gathered else ReservationPhase.AVAILABLE
        self.state.apply(
            Kind.RESERVATION,
            msgspec.structs.replace(room, status=ReservationStatus(phase=phase, node_name=node)),
        )
        spec = PodSpec(requests=room.template.requests if room.template is not None else ROOM)
        holder = Pod(
            namespace="rescheduler", name=call.key.name, uid=f"{call.key.name}-holder", spec=spec, held=spec.requests,
            nominated_node=node if gathered else "", node="" if gathered else node, created_at_s=now_s,
            labels=LabelSet({LABEL_PLACEHOLDER: call.key.name}),
            controller=OwnerRef("rescheduler.dev/v1alpha1", "Reservation", call.key.name, call.key.name),
        )  # fmt: skip
        self.state.apply(Kind.POD, holder)

    def _gone(self, room: Reservation) -> None:
        for pod in list(self.state.snapshot(NOW_S).pods.values()):
            if pod.controller is not None and pod.controller.uid == room.uid:
                self.state.lose(Kind.POD, pod)
        self.state.lose(Kind.RESERVATION, room)


def measure(nodes: int) -> dict[str, float]:
    """Milliseconds of looks before the windows' time, of those that gather first, and of those after them."""
    cluster = Cluster(nodes)
    gc.collect()
    gc.freeze()
    found: dict[str, float] = {"nodes": nodes, "pods": cluster.state.counts()[Kind.POD]}
    for words, at_s in (("waiting", NOW_S), ("gathering", START_S - AGO_S)):
        took = list(cluster_looks(cluster, at_s))
        found[f"{words}_first_ms"] = took[0] * 1e3
        found[f"{words}_median_ms"] = statistics.median(took[LOOKS // 2 :]) * 1e3
        found[f"{words}_longest_ms"] = max(took[LOOKS // 2 :]) * 1e3
    found["reservations"] = cluster.state.counts()[Kind.RESERVATION]
    return found


def cluster_looks(cluster: Cluster, from_s: float) -> Iterator[float]:
    """One a second, as the controller takes them."""
    for number in range(LOOKS):
        spent_s, actions = cluster.look(from_s + number * 1.01)
        cluster.follow(actions, from_s + number)
        yield spent_s


def main() -> None:
    """Print one line per size."""
    for nodes in [int(a) for a in sys.argv[1:]] or [500, 1000, 5000]:
        print(json.dumps({k: round(v, 1) for k, v in measure(nodes).items()}), flush=True)


if __name__ == "__main__":
    main()
