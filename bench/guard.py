"""How fast the guard answers when a whole pool is drained, and what it remembers.

    python -m bench.guard [--evictions 10000] [--rate 1000] [--connections 4]

The server of the webhook with its certificates and the thread that files run in this process, on the first core; with ``--busy`` beside
a thread that decides on 5,000 nodes all the time. Another process, on the last core, asks about each pod once, at the given rate, over
connections that it has opened before and keeps, as an API server does: the times are of the server and of a client in Python,
the CPU of the server alone. An answer that comes late counts from the moment at which it was due.
"""

from __future__ import annotations

import http.client
import logging
import multiprocessing
import os
import resource
import ssl
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

import click
import msgspec
import structlog

from bench.planning import changed, make_cluster, marked, policies
from rescheduler.controller.memory import sparing
from rescheduler.guard.filer import Filer, FilerParts, GuardRules
from rescheduler.guard.guard import Guard, GuardParts
from rescheduler.guard.settings import GuardSettings
from rescheduler.kube.client import KubeApi
from rescheduler.kube.gc_pause import PROCESS_PAUSE
from rescheduler.kube.retry import NO_RETRY
from rescheduler.kube.transport import Request, Response, TransportError
from rescheduler.model.decode import Record
from rescheduler.model.kinds import Kind
from rescheduler.model.names import CONTROLLER_USER, LABEL_GUARD
from rescheduler.model.records import Namespace, ObjectKey
from rescheduler.model.replacement_rules import ReplacementRules
from rescheduler.model.selectors import LabelSet
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.planner import decide
from rescheduler.scheduling.state import SchedulingState
from rescheduler.testing import builders as b
from rescheduler.webhook.certificates import renewed
from rescheduler.webhook.https_server import WebhookServer
from rescheduler.webhook.registration import GUARD_PATH

NAMESPACES: Final = 20
ANSWERED_MS: Final = 10


class Deaf:
    """No API server: nothing that is filed is answered."""

    def send(self, request: Request) -> Response:
        """Raises TransportError."""
        raise TransportError(f"nobody is there for {request.path}")


class Caches:
    """Pods of a drained pool."""

    def __init__(self, pods: int) -> None:
        one = b.pod("web").on("node-1").owner("ReplicaSet", "web", "u-web").build()
        namespaces = [f"shop-{n}" for n in range(NAMESPACES)]
        self._objects: Mapping[Kind, dict[str | ObjectKey, Record]] = {
            Kind.NAMESPACE: {
                name: Namespace(name, LabelSet({LABEL_GUARD: "enabled"})) for name in namespaces
            },
            Kind.POD: {},
        }
        for n in range(pods):
            pod = msgspec.structs.replace(
                one, namespace=f"shop-{n % NAMESPACES}", name=f"web-{n}", uid=f"uid-{n}"
            )
            self._objects[Kind.POD][pod.key] = pod

    def look(self, kind: Kind, key: str | ObjectKey) -> Record | None:
        """One object."""
        return self._objects.get(kind, {}).get(key)

    def all_of(self, kind: Kind) -> Sequence[Record]:
        """All of a kind."""
        return list(self._objects.get(kind, {}).values())

    def complete(self) -> bool:
        """Always."""
        return True


def guard_of(pods: int) -> tuple[Guard, Filer]:
    """A guard of these pods; nothing that it files is answered."""
    rules = GuardRules(
        settings=GuardSettings(),
        replacements=ReplacementRules(),
        judges="default-scheduler".__eq__,
        own_namespace="rescheduler",
    )
    caches = Caches(pods)
    filer = Filer(
        FilerParts(
            caches=caches,
            api=KubeApi(Deaf(), NO_RETRY),  # type: ignore[arg-type]
            rules=lambda: rules,
            leads=lambda: True,
            now_s=time.time,
        )
    )
    guard = Guard(
        GuardParts(
            filer=filer,
            caches=caches,
            rules=lambda: rules,
            own_user=CONTROLLER_USER,
            now_s=time.time,
            record=lambda _: None,
        )
    )
    return guard, filer


def ask_all(port: int, evictions: int, rate: float, connections: int, found: multiprocessing.Queue) -> None:  # type: ignore[type-arg]
    """In a process of its own: milliseconds of each answer, and how many were 429."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    pin((os.cpu_count() or 1) - 1)
    taken, begins_s = iter(range(evictions)), [0.0]
    lock, times_ms, held = threading.Lock(), [], []
    connected = threading.Barrier(connections, action=lambda: begins_s.insert(0, time.monotonic() + 0.1))

    def work() -> None:
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=context)
        connection.connect()
        connected.wait()
        while True:
            with lock:
                n = next(taken, None)
            if n is None:
                return
            due_s = begins_s[0] + n / rate
            time.sleep(max(0.0, due_s - time.monotonic()))
            review = {
                "uid": str(n),
                "namespace": f"shop-{n % NAMESPACES}",
                "name": f"web-{n}",
                "userInfo": {"username": "admin"},
            }
            connection.request("POST", GUARD_PATH, msgspec.json.encode({"request": review}))
            answer = connection.getresponse().read()
            times_ms.append((time.monotonic() - due_s) * 1000)
            held.append(b'"code":429' in answer)

    threads = [threading.Thread(target=work) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.put((sorted(times_ms), sum(held)))


def pin(core: int) -> None:
    """This thread keeps to that core, with all threads that it starts."""
    os.sched_setaffinity(0, {core})


def memory_mb() -> float:
    """The peak of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def compute(ended: threading.Event, ready: threading.Event) -> None:
    """Decisions on 5,000 nodes, one after the other, as the controller makes them; a hundred pods change between two."""
    snapshot, log = marked(make_cluster(5_000))
    inputs, built, state = PlanningInputs(), policies(), SchedulingState(snapshot)
    with sparing(first=True):
        decide(snapshot, built, inputs, state)
    ready.set()
    while not ended.is_set():
        snapshot = changed(snapshot, 100, log)
        with sparing(first=False):
            decide(snapshot, built, inputs, state).end()


def decided_ms(guard: Guard, evictions: int) -> list[float]:
    """The answers alone, without HTTP."""
    times_ms = []
    for n in range(evictions):
        review = {"uid": "q", "namespace": f"shop-{n % NAMESPACES}", "name": f"web-{n}"}
        body = msgspec.json.encode({"request": review})
        begun_s = time.perf_counter()
        guard.respond(body)
        times_ms.append((time.perf_counter() - begun_s) * 1000)
    return sorted(times_ms)


def show(what: str, times_ms: Sequence[float]) -> None:
    """One line."""
    count = len(times_ms)
    late = sum(one >= ANSWERED_MS for one in times_ms) / count
    print(
        f"{what:44} p50 {times_ms[count // 2]:6.2f} ms  p99 {times_ms[int(count * 0.99)]:6.2f} ms  most {times_ms[-1]:6.2f} ms"
        f"  {late:.2%} later than {ANSWERED_MS} ms"
    )


@click.command(help=__doc__)
@click.option("--evictions", default=10_000)
@click.option("--rate", default=1_000.0, help="Evictions a second.")
@click.option("--connections", default=4)
@click.option("--busy", is_flag=True, help="While decisions are computed.")
def main(evictions: int, rate: float, connections: int, busy: bool) -> None:  # noqa: FBT001 - an option
    """Ask about every pod once, and print how long the answers took."""
    silent = structlog.make_filtering_bound_logger(logging.ERROR)
    structlog.configure(wrapper_class=silent)
    guard, filer = guard_of(evictions)
    filer.step()
    before_mb = memory_mb()
    show("the answer alone", decided_ms(guard, min(evictions, 5_000)))
    guard, filer = guard_of(evictions)
    server = WebhookServer(port=0, host="127.0.0.1", routes={GUARD_PATH: guard.respond})
    material = renewed(None, ("127.0.0.1",), time.time())
    server.use(material.certificate, material.key)
    ended, ready = threading.Event(), threading.Event()
    spawned = multiprocessing.get_context("spawn")
    found = spawned.Queue()
    client = spawned.Process(target=ask_all, args=(server.port, evictions, rate, connections, found))
    pin(0)
    with PROCESS_PAUSE.during():  # as informers do when their lists are complete
        PROCESS_PAUSE.settle()
    server.start()
    filer.start()
    deciding = threading.Thread(target=compute, args=(ended, ready))
    if busy:
        deciding.start()
        ready.wait()
    cpu_s = time.process_time()
    client.start()
    times_ms, held = found.get(timeout=600)
    client.join()
    ended.set()
    if busy:
        deciding.join()
    cpu_ms = 1000 * (time.process_time() - cpu_s) / evictions
    show(f"over HTTPS, {rate:g} a second, {connections} connections", times_ms)
    print(
        f"{held} of {evictions} wait, {len(guard.asks)} are remembered; {cpu_ms:.2f} ms of CPU each; {memory_mb() - before_mb:.1f} MB more than before"
    )
    filer.stop()
    server.stop()
    if held != evictions:
        sys.exit(1)


if __name__ == "__main__":
    main()
