"""``rescheduler demo``: a sandbox with badly placed pods, the controller, and a report.

The controller is that of ``run``; it talks to the sandbox over HTTP. Each step of a move is printed as one line.
"""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kube_sandbox.demo.report import DemoOutcome, in_order, measure, report_text, summarize
from kube_sandbox.demo.scenario import build
from kube_sandbox.installing import install
from kube_sandbox.sandbox import Sandbox
from rescheduler import logs
from rescheduler.cli.errors import EXIT_FAILED
from rescheduler.cli.output import emit, style, tell
from rescheduler.controller.ports import LoopTimings
from rescheduler.controller.reading import read_cluster
from rescheduler.controller.run import Controller, Options
from rescheduler.kube.client import KubeApi
from rescheduler.kube.connection import connect
from rescheduler.model.counted import verb
from rescheduler.model.decode import Decoder
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.records import ObjectKey
from rescheduler.model.snapshot import Snapshot

CONFIGURATION: Final = """\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
interval: 2s
limits: {movesAtOnce: 2, movesPerHour: 600, workloadCooldown: 2s}
policies:
- name: NodeTaints
  after: 0s
- name: NodeAffinity
  types: [required]
- name: InterPodAntiAffinity
- name: TopologySpread
- name: LowNodeUtilization
  thresholds: {cpu: 50, pods: 100}
  targetThresholds: {cpu: 80, pods: 100}
server: {port: 0}
"""
_LOOK_S: Final = 0.25
_QUIET_S: Final = 4.0
_END_S: Final = 30.0


def run(*, time_limit: float, seed: int, keep: bool) -> None:
    """Watch the controller move badly placed pods, with a Reservation before each eviction."""
    logs.configure("error")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both end it in the same way: interrupted
    with tempfile.TemporaryDirectory(prefix="rescheduler-demo-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        with Sandbox(seed=seed, clock=time.time) as cluster:
            server = cluster.start(kubeconfig=kubeconfig)
            install(cluster.transport)
            emit("Creating a cluster with 9 nodes in 3 zones, some of whose pods are badly placed ...\n")
            build(cluster)
            emit(
                f"To look at it from another terminal: kubectl --kubeconfig {kubeconfig} get pods -A -o wide\n\n"
            )
            outcome = _run_controller(cluster, kubeconfig, time_limit)
            emit("\n" + report_text(outcome, style()))
            if keep:
                tell(f"The cluster keeps running at {server.url}; interrupt (Ctrl-C) to end it.")
                threading.Event().wait()
    if not outcome.good:
        raise SystemExit(EXIT_FAILED)


def _run_controller(cluster: Sandbox, kubeconfig: Path, time_limit_s: float) -> DemoOutcome:
    before = measure(cluster.api)
    config = kubeconfig.with_name("config.yaml")
    config.write_text(CONFIGURATION)
    options = Options(
        config_file=str(config), serve=False, timings=LoopTimings(settle_s=0.3, rest_s=0.5, turn_s=0.2)
    )
    controller = Controller(connect(str(kubeconfig)), options)
    faults: list[BaseException] = []
    thread = threading.Thread(target=_guarded(controller, faults), name="controller")
    began_s = time.monotonic()
    thread.start()
    try:
        last = _watch(cluster, controller, lambda: _over(faults, began_s + time_limit_s))
    finally:
        controller.stop.set()
        thread.join(_END_S)
    if faults:
        raise faults[0]
    return summarize(before, measure(cluster.api), last, time.monotonic() - began_s)


def _guarded(controller: Controller, faults: list[BaseException]) -> Callable[[], None]:
    def work() -> None:
        try:
            controller.run()
        except BaseException as fault:  # noqa: BLE001 - handed to the main thread, which raises it
            faults.append(fault)

    return work


def _over(faults: list[BaseException], ends_s: float) -> bool:
    return bool(faults) or time.monotonic() > ends_s


def _watch(cluster: Sandbox, controller: Controller, over: Callable[[], bool]) -> Snapshot:
    """Tell each step of each move until nothing has happened for a while; returns the last snapshot."""
    quiet_since_s = time.monotonic()
    told: dict[ObjectKey, str] = {}
    while True:
        api, now_s = KubeApi(cluster.transport), time.time()
        snapshot = read_cluster(api, Decoder(), lambda *_: None, now_s=now_s).state.snapshot(now_s)
        count = measure(cluster.api).violations
        for move in in_order(snapshot):
            step = f"{move.status.phase.value:<12} {move.status.message or move.reason}"
            if told.get(move.key) != step:
                told[move.key] = step
                violations = f"{count:>2} {verb(count, 'violation ', 'violations')}"
                emit(f"  {violations}  {move.namespace + '/' + move.pod_name:<32}  {step}\n")
        if _busy(snapshot, controller):
            quiet_since_s = time.monotonic()
        if over() or time.monotonic() - quiet_since_s > _QUIET_S:
            return snapshot
        time.sleep(_LOOK_S)


def _busy(snapshot: Snapshot, controller: Controller) -> bool:
    decision = controller.decision
    finished = (MigrationPhase.SUCCEEDED, MigrationPhase.FAILED)
    if decision is None or decision.plan.moves:
        return True
    return any(m.status.phase not in finished for m in snapshot.migrations.values())
