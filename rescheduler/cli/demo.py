"""``rescheduler demo``: the embedded cluster, an untidy workload, the controller at work, and a report.

The controller is the very same as in ``run``; it talks to the embedded cluster over HTTP. On a terminal
the cluster is shown live, elsewhere each step is one plain line.
"""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from rescheduler import logs
from rescheduler.cli.demo_report import Outcome, judge, report_text
from rescheduler.cli.demo_view import LiveView, PlainView, View, look
from rescheduler.cli.errors import EXIT_FAILED, reports_errors
from rescheduler.cli.output import emit, style, wants_colour
from rescheduler.controller.loop import Pace
from rescheduler.controller.run import Controller, Options
from rescheduler.kube.connection import connect
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.snapshot import Snapshot
from rescheduler.sim.cluster import EmbeddedCluster
from rescheduler.sim.demo.facts import observe
from rescheduler.sim.demo.scenario import build
from rescheduler.sim.installation import install

_CONFIGURATION: Final = """\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
interval: 2s
limits: {movesAtOnce: 2, movesPerHour: 600, workloadCooldown: 2s}
policies:
- name: NodeTaints
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


@click.command("demo", short_help="Watch an untidy cluster become tidy, a minute, nothing needed.")
@click.option(
    "--time-limit",
    default=90.0,
    show_default=True,
    type=click.FloatRange(min=1),
    help="Seconds after which it ends in any case.",
)
@click.option("--seed", default=1, show_default=True, help="Seed of the embedded cluster.")
@click.option("--keep", is_flag=True, help="Keep the cluster running at the end, until interrupted.")
@reports_errors
def demo_command(*, time_limit: float, seed: int, keep: bool) -> None:
    """Watch an untidy cluster become tidy, with a reservation before each eviction.

    Needs nothing but Python: API server, scheduler, controllers and kubelets run inside this process.
    """
    logs.configure("error")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with tempfile.TemporaryDirectory(prefix="rescheduler-demo-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        with EmbeddedCluster(seed=seed, clock=time.time) as cluster:
            server = cluster.start(kubeconfig=kubeconfig)
            install(cluster.transport)
            click.echo(
                "Making an untidy cluster: 9 nodes in 3 zones, workloads that no longer stand where they should ..."
            )
            build(cluster)
            click.echo(
                f"Look at it from another terminal: kubectl --kubeconfig {kubeconfig} get pods -A -o wide\n"
            )
            outcome = _tidy(cluster, kubeconfig, stop, time_limit)
            emit("\n" + report_text(outcome, style()))
            if keep and not stop.is_set():
                click.echo(f"The cluster stays at {server.url} until you interrupt.", err=True)
                stop.wait()
    if not outcome.good:
        raise SystemExit(EXIT_FAILED)


def _tidy(cluster: EmbeddedCluster, kubeconfig: Path, stop: threading.Event, time_limit_s: float) -> Outcome:
    before = observe(cluster.api)
    config = kubeconfig.with_name("config.yaml")
    config.write_text(_CONFIGURATION)
    options = Options(config_file=str(config), serve=False, pace=Pace(settle=0.3, rest=0.5, turn=0.2))
    controller = Controller(connect(str(kubeconfig)), options)
    faults: list[BaseException] = []
    thread = threading.Thread(target=_guarded(controller, faults), name="controller")
    began_s = time.monotonic()
    view: View = LiveView(before) if wants_colour() else PlainView(click.echo)
    with view:
        thread.start()
        last = _watch(cluster, controller, view, lambda: _over(stop, faults, began_s + time_limit_s))
    controller.stop.set()
    thread.join(30)
    if faults:
        raise faults[0]
    return judge(before, observe(cluster.api), last, time.monotonic() - began_s)


def _guarded(controller: Controller, faults: list[BaseException]) -> Callable[[], None]:
    def work() -> None:
        try:
            controller.run()
        except BaseException as fault:  # noqa: BLE001 - handed to the main thread, which raises it
            faults.append(fault)

    return work


def _over(stop: threading.Event, faults: list[BaseException], ends_s: float) -> bool:
    return stop.is_set() or bool(faults) or time.monotonic() > ends_s


def _watch(
    cluster: EmbeddedCluster, controller: Controller, view: View, over: Callable[[], bool]
) -> Snapshot:
    """Show what happens until nothing has happened for a while; gives the last look."""
    quiet_since_s = time.monotonic()
    while True:
        snapshot, facts = look(cluster.transport, time.time()), observe(cluster.api)
        view.show(snapshot, facts)
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
