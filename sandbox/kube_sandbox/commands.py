"""``rescheduler sandbox`` and ``rescheduler demo``: their options. The work is imported when they are called."""

from __future__ import annotations

import click

from rescheduler.cli.deferred import command
from rescheduler.cli.options import Number, PathText, number


@command("sandbox", "kube_sandbox.command:run", "Run the sandbox alone, for kubectl.")
@number(click.IntRange(1, 1000), 6, "--nodes", help="How many nodes, in three zones.")
@click.option("--cpu", default="8", show_default=True, help="CPU of each node.")
@click.option("--memory", default="32Gi", show_default=True, help="Memory of each node.")
@number(click.IntRange(0, 65535), 0, "--port", help="Port of the API server on loopback; 0 takes a free one.")
@click.option(
    "--kubeconfig-file",
    type=PathText(),
    metavar="FILE",
    help="Where to write the kubeconfig; default: a temporary file.",
)
@click.option(
    "--empty", is_flag=True, help="Do not install rescheduler's CRDs, roles and admission policies."
)
@click.option(
    "--usage",
    metavar="SHARE",
    type=Number(0, 10),
    help="Serve measured usage of nodes, as metrics-server would: pods use this share of their requests.",
)
def sandbox_command() -> None:
    """Run a sandbox until interrupted; prints the path of its kubeconfig.

    It serves the Kubernetes API for kubectl, and schedules with rescheduler's implementation of kube-scheduler's
    rules. Its pods run no containers, and nothing is kept when it ends.
    """


@command(
    "demo",
    "kube_sandbox.demo.command:run",
    "Watch badly placed pods being moved, for 15 seconds; nothing is needed.",
)
@number(Number(1), 90.0, "--time-limit", help="Seconds after which the demo ends in any case.")
@click.option("--seed", default=1, show_default=True, help="Seed of the sandbox.")
@click.option("--keep", is_flag=True, help="Keep the cluster running at the end, until interrupted.")
def demo_command() -> None:
    """Watch the controller move badly placed pods, with a Reservation before each eviction.

    It needs only Python: API server, scheduler, controllers and kubelets run inside this process. Interrupted (Ctrl-C)
    it ends without a report.
    """
